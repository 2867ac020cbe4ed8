"""Losses and reductions of a linear's whole result: those on which DTensor's gradients are wrong,
and their kin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

F64 = torch.float64


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=F64, generator=torch.Generator().manual_seed(seed))


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mse_loss": functional.mse_loss,
    "l1_loss": functional.l1_loss,
    "smooth_l1_loss": functional.smooth_l1_loss,
    "huber_loss": functional.huber_loss,
    "binary_cross_entropy": lambda x, y: functional.binary_cross_entropy(
        x.sigmoid(), y.sigmoid().detach()
    ),
    "binary_cross_entropy_with_logits": lambda x, y: functional.binary_cross_entropy_with_logits(
        x, y.sigmoid()
    ),
    "soft_margin_loss": lambda x, y: functional.soft_margin_loss(x, y.sign()),
    "kl_div, batch mean": lambda x, y: functional.kl_div(
        x.log_softmax(1), y.softmax(1), reduction="batchmean"
    ),
    "poisson_nll_loss": lambda x, y: functional.poisson_nll_loss(x, y.exp()),
    "cross_entropy": lambda x, y: functional.cross_entropy(x, y.softmax(1)),
    "cross_entropy, classes": lambda x, y: functional.cross_entropy(x, y.argmax(1)),
    "cross_entropy, some ignored": lambda x, y: functional.cross_entropy(
        x, y.argmax(1), ignore_index=1
    ),
    "nll_loss": lambda x, y: functional.nll_loss(x.log_softmax(1), y.argmax(1)),
    "cosine_embedding_loss": lambda x, y: functional.cosine_embedding_loss(x, y, y[:, 0].sign()),
    "mean": lambda x, y: (x * y).mean(),
    "sum": lambda x, y: (x * y).sum(),
    "var": lambda x, y: (x * y).var(),
    "std over rows": lambda x, y: (x * y).std(0).sum(),
    "amax": lambda x, y: (x * y).amax(0).sum() + (x * y).amin(1).sum(),
    "max": lambda x, y: (x * y).max(),
    "prod": lambda x, y: (x * y).prod(0).sum(),
    "logsumexp": lambda x, y: (x * y).logsumexp((0, 1)),
    "norm": lambda x, y: (x * y).norm(),
}


class Loss(nn.Module):
    """A linear and a loss over its whole result, (batch, 6)."""

    def __init__(self, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 6, dtype=F64)
        self.loss = loss

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.loss(self.linear(x), y)


def of(name: str) -> tuple[nn.Module, dict[str, Any], dict[str, Any]]:
    """Returns the model of a loss, an example and its dynamic names."""
    example = {"x": noise(6, 4), "y": noise(6, 6, seed=1)}
    return Loss(LOSSES[name]), example, {"x": {0: "batch"}, "y": {0: "batch"}}
