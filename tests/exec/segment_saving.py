"""What the tests' ranks do with a model whose projection is held in unequal segments."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

import dimsolve as ds


class Grouped(nn.Module):
    """8 query heads, 4 key and 4 value heads from one projection."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 64)
        self.o = nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        b, s, _ = x.shape
        parts = self.qkv(x).split([32, 16, 16], -1)
        q, k, v = (part.view(b, s, -1, 4).transpose(1, 2) for part in parts)
        out = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return self.o(out.transpose(1, 2).reshape(b, s, 32))


def model_and_input() -> tuple[Grouped, dict[str, Tensor]]:
    torch.manual_seed(0)
    return Grouped().double(), {"x": torch.randn(2, 6, 16, dtype=torch.float64)}


def parallel(mesh: dict[str, int]) -> tuple[Any, dict[str, Tensor]]:
    model, example = model_and_input()
    return ds.parallelize(model, ds.plan(ds.trace(model, kwargs=example), mesh)), example


def saved(folder: str) -> dict[str, Any]:
    """Saves at tp = 2; returns the placements, the whole tensors of the state, and the output."""
    import torch.distributed.checkpoint as dcp

    part, example = parallel({"tp": 2})
    state = part.state_dict()
    dcp.save(state, checkpoint_id=folder)
    return {
        "held": tuple(part.qkv.weight.shape),
        "placements": str(tuple(state["qkv.weight"].placements)),
        "whole": {name: tensor.full_tensor() for name, tensor in state.items()},
        "output": part(**example).detach(),
    }


def loaded(folder: str, mesh: dict[str, int]) -> Tensor:
    """Loads into zeros at another mesh; returns the output."""
    import torch.distributed.checkpoint as dcp

    part, example = parallel(mesh)
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.zero_()
    state = part.state_dict()
    dcp.load(state, checkpoint_id=folder)
    part.load_state_dict(state)
    return part(**example).detach()  # type: ignore[no-any-return]
