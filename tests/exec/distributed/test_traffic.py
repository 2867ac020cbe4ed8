"""A plan counts what is sent: the collectives of a step are those that ranks really call, with the
gradient of an input and without.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dimsolve as ds
from dimsolve.exec.distributed.simulated import Member, SimulatedWorld
from dimsolve.exec.lowering.lower import lower
from dimsolve.exec.parallel.agreement import Agreement
from dimsolve.exec.parallel.mesh import RankMesh
from dimsolve.exec.parallel.parallelize import ParallelModule

SENT: dict[str, str] = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "all_to_all": "all-to-all",
    "broadcast": "broadcast",
}


class Blocks(nn.Module):
    """(batch, 8) -> (batch, 8), twice through 16; what comes in goes past both."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.ModuleList([nn.Linear(8, 16) for _ in range(2)])
        self.down = nn.ModuleList([nn.Linear(16, 8) for _ in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        x = x * 2
        for up, down in zip(self.up, self.down, strict=True):
            x = x + down(torch.relu(up(x)))
        return x


class Counting:
    """A communicator that counts what it is asked for."""

    def __init__(self, end: Any, calls: Counter[str]) -> None:
        self._end, self._calls = end, calls
        self.rank, self.size = end.rank, end.size

    def __getattr__(self, name: str) -> Any:
        if name in SENT:
            self._calls[SENT[name]] += 1
        return getattr(self._end, name)


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("policy", ["tensor", {"linear": {"tp": "n"}}, {"linear_2": {"tp": "k"}}])
def test_ranks_call_what_the_plan_counts(policy: Any, asked: bool) -> None:
    model, x = Blocks(), torch.randn(4, 8)
    graph = ds.trace(model, kwargs={"x": x}, dynamic={"x": {0: "batch"}})
    plan = ds.plan(graph, {"tp": 2}, policy)

    def step(member: Member) -> Counter[str]:
        calls: Counter[str] = Counter()
        ends = RankMesh({"tp": Counting(member["tp"], calls)}, torch.device("cpu"))
        program = lower(graph, plan, ends.communicators)
        part = ParallelModule(model, plan, program, ends, Agreement(plan, None))
        calls.clear()
        given = x.clone().requires_grad_(asked)
        part(x=given).square().sum().backward()
        if asked:
            whole = x.clone().requires_grad_()
            model(whole).square().sum().backward()
            torch.testing.assert_close(given.grad, whole.grad)
        return calls

    counted: Counter[str] = Counter()
    for traffic in plan.communication({"batch": 4}, input_gradients=asked):
        counted[traffic.collective] += traffic.count
    for calls in SimulatedWorld[Counter[str]]({"tp": 2}).run(step):
        assert calls == counted


def test_the_table_says_what_only_an_input_needs() -> None:
    graph = ds.trace(Blocks(), kwargs={"x": torch.randn(4, 8)}, dynamic={"x": {0: "batch"}})
    plan = ds.plan(graph, {"tp": 2}, "tensor")
    (row,) = [" ".join(line.split()) for line in plan.explain().splitlines() if "requires" in line]
    assert row == (
        "x_1@1 tp: R -> R identity | all-reduce if an input requires a gradient "
        "0 + 32*batch bytes for linear:0"
    )
    left, all_ = (
        {(t.direction, t.collective): t.count for t in plan.communication(batch=4, **more)}
        for more in ({}, {"input_gradients": True})
    )
    assert left == {("forward", "all-reduce"): 2, ("backward", "all-reduce"): 1}
    assert all_ == {("forward", "all-reduce"): 2, ("backward", "all-reduce"): 2}
