"""Equal to one device: derivatives of second order, through every conversion and through plans."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dimsolve.exec.distributed.communicator import Communicator
from dimsolve.exec.distributed.conversions import convert, made_by_shards
from dimsolve.exec.distributed.sharding import slice_part
from dimsolve.exec.distributed.simulated_world import SimulatedWorld
from dimsolve.exec.parallel.parallelize import ParallelModule
from dimsolve.partition.placement import Partial, Placement, Reduction, Replicate, Shard

from . import simulated

SHARDS: list[Placement] = [Shard(0), Shard(1), Shard(0, blocks=2), Shard(0, segments=(2, 1))]
PARTIALS: list[Placement] = [Partial(reduction) for reduction in Reduction]
ALL: list[Placement] = [Replicate(), *SHARDS, *PARTIALS]
SHAPE = (12, 6)


def penalty(function: Any, z: Tensor) -> list[Tensor]:
    """The value, its gradient, the gradient of the gradient's norm, and the next after that."""
    value = function(z)
    (first,) = torch.autograd.grad(value, z, create_graph=True)
    (second,) = torch.autograd.grad(first.pow(3).sum() + value, z, create_graph=True)
    (third,) = torch.autograd.grad(second.square().sum(), z)
    return [value.detach(), first.detach(), second.detach(), third]


def conversions(
    z: Tensor, source: Placement, target: Placement, shared: bool, end: Communicator
) -> Tensor:
    """A loss whose value passes from R to the source, to the target, and back to R."""
    x = convert(z.pow(3) * 0.1 + z, Replicate(), source, end)
    x = convert(x, source, target, end, shared_gradient=shared)
    if isinstance(target, Replicate) and shared:
        part = slice_part(x, Shard(0), end.rank, end.size)
        x = convert(part.sin() * part, Shard(0), Replicate(), end)
    else:
        if not isinstance(target, Partial):
            x = x.sin() * x
        x = convert(x, target, Replicate(), end)
    return x.pow(4).sum()


def alone(z: Tensor, target: Placement) -> Tensor:
    x = z.pow(3) * 0.1 + z
    x = x if isinstance(target, Partial) else x.sin() * x
    return x.pow(4).sum()


@pytest.mark.parametrize(
    ("source", "target", "shared"),
    [
        *((source, target, False) for source in ALL for target in ALL),
        *((source, Replicate(), True) for source in ALL),
    ],
    ids=str,
)
def test_every_conversion(source: Placement, target: Placement, shared: bool) -> None:
    data = torch.randn(SHAPE, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def leaf() -> Tensor:
        return data.clone().requires_grad_()

    wanted = penalty(lambda z: alone(z, target), leaf())
    found = SimulatedWorld[list[Tensor]](2).run(
        lambda member: penalty(
            lambda z: conversions(z, source, target, shared, member["ranks"]), leaf()
        )
    )
    for rank in found:
        for mine, whole in zip(rank, wanted, strict=True):
            assert torch.allclose(mine, whole, rtol=1e-10, atol=1e-10)


def test_what_shards_make_alike() -> None:
    """A replicated result of sharded work: its making is shared on the way back."""
    data = torch.randn(8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def split(z: Tensor, end: Communicator) -> Tensor:
        part = convert(z, Replicate(), Shard(0), end)
        whole = convert(part.sin(), Shard(0), Replicate(), end, shared_gradient=True)
        return made_by_shards(whole.pow(3), end).pow(2).sum()

    def leaf() -> Tensor:
        return data.clone().requires_grad_()

    wanted = penalty(lambda z: z.sin().pow(6).sum(), leaf())
    found = SimulatedWorld[list[Tensor]](2).run(
        lambda member: penalty(lambda z: split(z, member["ranks"]), leaf())
    )
    for rank in found:
        for mine, whole in zip(rank, wanted, strict=True):
            assert torch.allclose(mine, whole, rtol=1e-10, atol=1e-10)


class Block(nn.Module):
    """A linear, a normalisation over what tp cuts, and one back, with a scale that both use."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Linear(8, 12)
        self.norm = nn.LayerNorm(12)
        self.b = nn.Linear(12, 8)
        self.scale = nn.Parameter(torch.rand(8))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(torch.tanh(self.a(x * self.scale))).softmax(-1)
        return self.b(h) * self.scale + x


def trained(module: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Gradients of a loss with a gradient penalty, by the parameters' names and the input."""
    z = x.clone().requires_grad_()
    loss = module(z).square().mean() + module(0.5 * z).sin().sum()
    (first,) = torch.autograd.grad(loss, z, create_graph=True)
    ((first.norm(dim=-1) - 1).square().mean() + loss).backward()
    found = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    assert z.grad is not None
    return {**found, "input": z.grad}


@pytest.mark.parametrize(
    ("mesh", "policy"),
    [
        ({"tp": 2}, "tensor"),
        ({"dp": 2}, "data"),
        ({"dp": 3}, "data"),
        ({"dp": 2, "tp": 2}, "data+tensor"),
    ],
    ids=str,
)
def test_gradient_penalty(mesh: Mapping[str, int], policy: str) -> None:
    model = Block().double()
    x = torch.randn(6, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    plan = simulated.plan_of(model, {"x": x}, None, mesh, policy)
    wanted = trained(copy.deepcopy(model), x)

    def work(part: ParallelModule) -> list[bool]:
        found = trained(part, x)
        cut = {n: g if n == "input" else part.held(n).part(g) for n, g in wanted.items()}
        return [torch.allclose(found[n], cut[n], rtol=1e-9, atol=1e-12) for n in wanted]

    for rank in simulated.parts(model, plan, mesh, work):
        assert all(rank), rank
