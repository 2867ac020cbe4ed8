"""Equal to one device: derivatives of second order, through every conversion and through plans."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dimsolve as ds
from dimsolve.exec.distributed.collectives import convert, made_by_shards
from dimsolve.exec.distributed.communicator import Communicator
from dimsolve.exec.distributed.sharding import slice_part
from dimsolve.exec.distributed.simulated import SimulatedWorld
from dimsolve.exec.parallel.parallelize import ParallelModule
from dimsolve.partition.placement import Partial, Placement, Reduction, Replicate, Shard
from tests.oracles import one_device as simulated

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


DATA = torch.rand(4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) + 0.5
PLACES = torch.tensor([1, 7, 3, 0])
OPERATORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "softmax": lambda x, w: x.softmax(-1),
    "log_softmax": lambda x, w: x.log_softmax(-1),
    "logsumexp": lambda x, w: x.logsumexp(-1),
    "layer_norm": lambda x, w: nn.functional.layer_norm(x, (8,), w),
    "rms_norm": lambda x, w: nn.functional.rms_norm(x, (8,), w),
    "batch_norm": lambda x, w: nn.functional.batch_norm(x, None, None, w, training=True),
    "var": lambda x, w: x.var(-1),
    "norm": lambda x, w: x.norm(dim=-1),
    "mean": lambda x, w: x.mean(-1),
    "prod": lambda x, w: x.prod(-1),
    "amax": lambda x, w: x.amax(-1),
    "amax of ties": lambda x, w: (x * 0 + w).amax((0, 1)),
    "amin": lambda x, w: x.amin((0, 1)),
    "cross_entropy": lambda x, w: nn.functional.cross_entropy(x, PLACES),
    "cumsum": lambda x, w: x.cumsum(-1),
    "gather": lambda x, w: x.gather(-1, PLACES[:, None]),
    "matmul": lambda x, w: x @ x.t(),
}


class Operator(nn.Module):
    """(4, 8) -> what one operator makes of it; the operator is not linear in the input."""

    def __init__(self, name: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.w = nn.Parameter(torch.rand(8, dtype=torch.float64))
        self.name = name

    def forward(self, x: Tensor) -> Tensor:
        return OPERATORS[self.name]((x * self.w).square(), self.w)


def both_orders(module: nn.Module) -> list[Tensor]:
    z = DATA.clone().requires_grad_()
    wanted = [z, *module.parameters()]
    loss = module(z).pow(3).sum()
    first = torch.autograd.grad(loss, wanted, create_graph=True)
    second = torch.autograd.grad(sum(g.square().sum() for g in first) + loss, wanted)
    return [g.detach() for g in (*first, *second)]


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_over_what_is_cut(name: str, dim: int) -> None:
    """Every node is cut along one dimension of its first operand where that is legal."""
    model = Operator(name)
    graph = ds.trace(model, kwargs={"x": DATA})
    policy: dict[str, Any] = {}
    for node in graph.nodes():
        wider = {**policy, node.id: {"tp": (0, dim)}}
        with contextlib.suppress(ds.DimsolveError):
            ds.plan(graph, {"tp": 2}, wider)
            policy = wider
    assert policy
    wanted = both_orders(copy.deepcopy(model))

    def work(part: ParallelModule) -> list[bool]:
        cut = [g if g.ndim == 2 else part.held("w").part(g) for g in wanted]
        pairs = zip(both_orders(part), cut, strict=True)
        return [torch.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in pairs]

    for rank in simulated.parts(model, ds.plan(graph, {"tp": 2}, policy), {"tp": 2}, work):
        assert all(rank), rank
