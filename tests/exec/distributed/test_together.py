"""Law: tensors that are sent together arrive as each does alone, gradients of every order too, and
a program sends together what goes the same way.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dimsolve as ds
from dimsolve.exec.distributed.collectives import convert
from dimsolve.exec.distributed.sharding import local_part
from dimsolve.exec.distributed.simulated import Member, SimulatedWorld
from dimsolve.exec.distributed.together import convert_together, goes_together
from dimsolve.exec.lowering.emit import emit
from dimsolve.exec.lowering.lower import lower
from dimsolve.exec.parallel.agreement import Agreement
from dimsolve.exec.parallel.mesh import RankMesh
from dimsolve.exec.parallel.parallelize import ParallelModule
from dimsolve.partition.placement import Partial, Placement, Replicate, Shard
from tests.exec.distributed.test_traffic import Counting

UNEQUAL = Shard(0, of=4, unit=1)
WAYS: list[tuple[Placement, Placement, bool]] = [
    (Shard(0), Shard(1), False),
    (Shard(1), Shard(0), False),
    (Shard(1, blocks=2), Shard(0), False),
    (Shard(1), UNEQUAL, False),
    (UNEQUAL, Shard(1), False),
    (Shard(0), Replicate(), False),
    (Shard(0), Replicate(), True),
    (Shard(1, segments=(2, 1)), Replicate(), True),
    (UNEQUAL, Replicate(), True),
    (Partial(), Shard(0), False),
    (Partial(), Shard(1), False),
    (Partial(), UNEQUAL, False),
]


def derivatives(outputs: Any, inputs: list[Tensor]) -> list[Tensor]:
    """The values, first derivatives, and those of their squares."""
    total = sum([output.pow(3).sum() for output in outputs])
    first = torch.autograd.grad(total, inputs, create_graph=True)
    second = torch.autograd.grad(sum([each.square().sum() for each in first]), inputs)
    return [*outputs, *first, *second]


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize(("source", "target", "shared"), WAYS, ids=str)
def test_together_as_alone(source: Placement, target: Placement, shared: bool, count: int) -> None:
    torch.manual_seed(0)
    length = 4 if UNEQUAL in (source, target) else 12
    shapes = [(length, 36), (length, 72, 3), (length, 36, 1)]
    wholes = [torch.randn(*shape, dtype=torch.float64) for shape in shapes]

    def both(member: Member) -> tuple[list[Tensor], list[Tensor]]:
        end = member["a"]
        assert goes_together(source, target, end, shared_gradient=shared)

        def given() -> list[Tensor]:
            parts = [local_part(whole, source, end.rank, count) for whole in wholes]
            return [part.clone().requires_grad_() for part in parts]

        one, other = given(), given()
        made = [convert(x, source, target, end, shared_gradient=shared) for x in one]
        together = convert_together(other, source, target, end, shared_gradient=shared)
        assert not any(x._is_view() for x in together)
        return derivatives(made, one), derivatives(together, other)

    for alone, together in SimulatedWorld[Any]({"a": count}).run(both):
        torch.testing.assert_close(together, alone, rtol=0, atol=0)


def test_other_dtypes_go_alone() -> None:
    def both(member: Member) -> Any:
        given = [torch.ones(2, 2), torch.ones(2, 2, dtype=torch.float64)]
        return convert_together(given, Shard(0), Replicate(), member["a"])

    for made in SimulatedWorld[Any]({"a": 2}).run(both):
        assert [(x.dtype, x.shape) for x in made] == [
            (torch.float32, (4, 2)),
            (torch.float64, (4, 2)),
        ]


@pytest.mark.parametrize(
    ("source", "target", "shared", "back"),
    [
        (Shard(0), Shard(1), False, "all-to-all"),
        (Shard(0), Replicate(), True, "reduce-scatter"),
        (Partial(), Shard(1), False, "all-gather"),
    ],
    ids=str,
)
def test_only_what_needs_a_gradient_has_one_and_is_sent_back(
    source: Placement, target: Placement, shared: bool, back: str
) -> None:
    """All go there in one collective; the way back is sent once, for the others alone, also where
    gradients are recorded, and not at all where nothing needs one or none is asked for.
    """

    def both(member: Member) -> None:
        calls: Counter[str] = Counter()
        end = Counting(member["a"], calls)
        given = [torch.randn(4, 4, n) for n in (1, 2, 3)]
        made = convert_together(given, source, target, end, shared_gradient=shared)
        assert not any(each.requires_grad for each in made)
        for each in given[1:]:
            each.requires_grad_()
        calls.clear()
        made = convert_together(given, source, target, end, shared_gradient=shared)
        assert [each.requires_grad for each in made] == [False, True, True]
        assert calls.total() == 1
        total = sum([each.square().sum() for each in made])
        for create in (False, True):
            for asked in (given[1:], given[2:]):
                calls.clear()
                found = torch.autograd.grad(total, asked, retain_graph=True, create_graph=create)
                assert calls == {back: 1}
                alone = [
                    convert(x, source, target, member["a"], shared_gradient=shared) for x in asked
                ]
                wanted = torch.autograd.grad(sum([x.square().sum() for x in alone]), asked)
                torch.testing.assert_close(found, wanted, rtol=0, atol=0)

    SimulatedWorld[Any]({"a": 2}).run(both)


def test_results_have_memory_of_their_own_in_inference_mode() -> None:
    def both(member: Member) -> None:
        with torch.inference_mode():
            given = [torch.ones(4, 4), torch.ones(4, 2)]
            for made in convert_together(given, Shard(0), Shard(1), member["a"]):
                assert made.untyped_storage().nbytes() == made.nbytes

    SimulatedWorld[Any]({"a": 2}).run(both)


class Mixing(nn.Module):
    """(batch, seq, 16) -> the same, four heads."""

    def __init__(self, again: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.again = again
        self.qkv = nn.ModuleList([nn.Linear(16, 16) for _ in range(3)])

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (each(x).unflatten(-1, (4, 4)).transpose(1, 2) for each in self.qkv)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + mixed.transpose(1, 2).flatten(2)

    def forward(self, x: Tensor) -> Tensor:
        if self.again:
            made: Tensor = torch.utils.checkpoint.checkpoint(self.attend, x, use_reentrant=False)
            return made
        return self.attend(x)


@pytest.mark.parametrize("again", [False, True])
def test_attention_exchanges_its_three_inputs_at_once(again: bool) -> None:
    model = Mixing(again).double()
    x = torch.randn(2, 8, 16, dtype=torch.float64)
    graph = ds.trace(model, (x,), dynamic={"x": {0: "batch", 1: "seq"}})
    plan = ds.plan(graph, {"cp": 2})
    model(x).square().sum().backward()

    def step(member: Member) -> tuple[Counter[str], Counter[str], Tensor, Any, str]:
        calls: Counter[str] = Counter()
        ends = RankMesh({"cp": Counting(member["cp"], calls)}, torch.device("cpu"))
        program = lower(graph, plan, ends.communicators)
        part = ParallelModule(model, plan, program, ends, Agreement(plan, None))
        calls.clear()
        made = part(x)
        forward = calls.copy()
        made.square().sum().backward()
        grads = {name: each.grad for name, each in part.named_parameters()}
        return forward, calls - forward, made.detach(), grads, emit(program)

    grads = {name: each.grad for name, each in model.named_parameters()}
    for forward, backward, made, found, text in SimulatedWorld[Any]({"cp": 2}).run(step):
        assert forward["all-to-all"] == 2
        assert backward["all-to-all"] == 2 + again  # q, k and v once more; the rest is known
        torch.testing.assert_close(made, model(x).detach(), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(found, grads, rtol=1e-10, atol=1e-10)
        assert 'placed("S(2)"), placed("S(1)"), cp)' in text
        assert text.count("= convert_together(") == 1
