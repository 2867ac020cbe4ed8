"""Law: a user's own autograd function is that of one device, and its memory is autograd's."""

from __future__ import annotations

import gc
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import dimsolve as ds
from tests.exec.peaks import Peak


class Scaled(torch.autograd.Function):
    """x * tanh(x), and its own gradient times three."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, times: float) -> Tensor:
        ctx.save_for_backward(x.tanh())
        ctx.x, ctx.times = x, times
        return x * x.tanh()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (found,) = ctx.saved_tensors
        return gradients[0] * (found + ctx.x * (1 - found**2)) * ctx.times, None


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))

    def layer(self, layer: nn.Module, x: Tensor) -> Tensor:
        made: Tensor = Scaled.apply(layer(x), 3.0)
        return made

    def forward(self, x: Tensor) -> Tensor:
        for each in self.layers:
            x = checkpoint(self.layer, each, x, use_reentrant=False)
        return x.square().sum()


def test_it_is_equal_and_leaves_nothing_behind() -> None:
    model, x = Model().double(), torch.ones(32, 16, dtype=torch.float64)
    plan = ds.plan(ds.trace(model, (x,)), {"dp": 1})
    assert "autograd_function_apply" in [each.name for each in plan.operators]
    part = ds.parallelize(model, plan)
    model(x).backward()
    part(x).backward()
    for own, whole in zip(part.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(own.grad, whole.grad, rtol=1e-12, atol=0.0)
    gc.collect()
    gc.disable()
    try:
        given = [x, *part.parameters(), *[p.grad for p in part.parameters() if p.grad is not None]]
        with Peak(*given) as peak:
            before = peak.bytes()
            part(x).backward()
            assert peak.bytes() - before < x.nbytes
    finally:
        gc.enable()
