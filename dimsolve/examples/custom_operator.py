"""An operator of one's own: registered with one annotation, and cut by it."""

from __future__ import annotations

from typing import Any

import torch

import dimsolve as ds


@ds.register_op("m k+, k+ n -> m n", name="matmul_custom")
def matmul_custom(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Returns x @ w, (m, k) and (k, n) to (m, n)."""
    return torch.matmul(x, w)


class Model(torch.nn.Module):
    """(batch, 64) -> (batch, 64) through a hidden width of 128, by the operator above."""

    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Parameter(torch.randn(64, 128) / 8)
        self.down = torch.nn.Parameter(torch.randn(128, 64) / 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the result, (batch, 64)."""
        return matmul_custom(matmul_custom(x, self.up).relu(), self.down)


def tiny() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Returns the model with a batch of 4."""
    x = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
    return Model(), {"x": x}, {"x": {0: "batch"}}
