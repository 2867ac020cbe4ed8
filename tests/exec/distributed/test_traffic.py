"""A plan counts what is sent: the collectives of a step are those that ranks really call, with the
gradient of an input and without.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dimsolve as ds
from dimsolve.exec.distributed.simulated import Member, SimulatedWorld
from dimsolve.exec.lowering.lower import lower
from dimsolve.exec.parallel.agreement import Agreement
from dimsolve.exec.parallel.mesh import RankMesh
from dimsolve.exec.parallel.parallelize import ParallelModule
from dimsolve.partition.rules import averages, rows
from dimsolve.partition.rules.table import RULES

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


class Meter:
    """A communicator that counts what it is asked for, and the bytes that a rank sends for it."""

    def __init__(
        self, end: Any, axis: str, sent: Counter[tuple[str, str]], phase: list[str]
    ) -> None:
        self._end, self._axis, self._sent, self._phase = end, axis, sent, phase
        self.rank, self.size = end.rank, end.size

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._end, name)
        if name != "all_reduce":
            return method

        def metered(tensor: Tensor, *more: Any) -> Tensor:
            size = tensor.numel() * tensor.element_size()
            key = (self._phase[0], self._axis)
            self._sent[key, "count"] += 1  # type: ignore[index]
            self._sent[key, "bytes"] += 2 * (self.size - 1) * size // self.size  # type: ignore[index]
            made: Tensor = method(tensor, *more)
            return made

        return metered


class Moments(nn.Module):
    """Batch norm of what has a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(8, dtype=torch.bfloat16)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x * 1)


class Calls(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.function = function

    def forward(self, x: Tensor, **more: Tensor) -> Any:
        return self.function(x * self.scale.to(x.dtype), **more)


def _classes() -> dict[str, Tensor]:
    return {"x": torch.randn(4, 8), "y": torch.randint(8, (4,))}


def _rows(dtype: torch.dtype = torch.float32, rows: int = 4) -> dict[str, Tensor]:
    return {"x": torch.randn(rows, 8).to(dtype)}


BOTH = {"dp": "n", "tp": "c"}
CASES: dict[str, tuple[Any, dict[str, Tensor], dict[str, str]]] = {
    "cross_entropy": (Calls(lambda x, y: functional.cross_entropy(x, y)), _classes(), BOTH),
    "cross_entropy weighted": (
        Calls(lambda x, y: functional.cross_entropy(x, y, weight=torch.arange(1.0, 9))),
        _classes(),
        BOTH,
    ),
    "cross_entropy summed": (
        Calls(lambda x, y: functional.cross_entropy(x, y, reduction="sum")),
        _classes(),
        {"tp": "c"},
    ),
    "nll_loss": (Calls(lambda x, y: functional.nll_loss(x, y)), _classes(), BOTH),
    "mse_loss": (
        Calls(lambda x, y: functional.mse_loss(x, y * 0, weight=y)),
        {"x": torch.randn(4, 8), "y": torch.rand(4, 8)},
        {"dp": "a", "tp": "b"},
    ),
    "l1_loss": (
        Calls(lambda x, y: functional.l1_loss(y, y + 1, weight=x * x)),
        {"x": torch.randn(4, 8), "y": torch.rand(4, 8)},
        {"dp": "a", "tp": "b"},
    ),
    "batch_norm": (Moments(), _rows(torch.bfloat16), {"dp": "n"}),
    "amax": (Calls(lambda x: x.amax(1)), _rows(), {"tp": "b"}),
    "amin": (Calls(lambda x: x.amin(0, keepdim=True)), _rows(), {"dp": "a"}),
    "max": (Calls(lambda x: x.max()), _rows(), {"dp": "a", "tp": "b"}),
    "min": (Calls(lambda x: x.min()), _rows(), {"tp": "b"}),
    "var": (Calls(lambda x: x.var(1)), _rows(torch.bfloat16), {"tp": "b"}),
    "std": (Calls(lambda x: x.std()), _rows(), {"dp": "a", "tp": "b"}),
    "norm": (Calls(lambda x: x.norm()), _rows(torch.bfloat16), {"dp": "a", "tp": "b"}),
    "vector_norm": (
        Calls(lambda x: torch.linalg.vector_norm(x, 3, 0, dtype=torch.float64)),
        _rows(),
        {"dp": "a"},
    ),
    "vector_norm of largest": (
        Calls(lambda x: torch.linalg.vector_norm(x, float("inf"), 0)),
        _rows(),
        {"dp": "a"},
    ),
    "linalg_norm": (Calls(lambda x: torch.linalg.norm(x, float("inf"), 1)), _rows(), {"tp": "b"}),
    "dist": (
        Calls(lambda x, y: torch.dist(y, x, float("inf"))),
        {"x": torch.randn(4, 8), "y": torch.rand(4, 8)},
        {"tp": "b"},
    ),
    "matrix_norm": (Calls(lambda x: torch.linalg.matrix_norm(x, 1)), _rows(), {"tp": "b"}),
    "scatter_reduce": (
        Calls(lambda x, y: (x * 2).scatter_reduce(1, y, x, "amax")),
        {"x": torch.randn(4, 8), "y": torch.randint(8, (4, 8))},
        {"tp": "c"},
    ),
    "index_reduce": (
        Calls(lambda x, y: (x * 2).index_reduce(0, y, x, "amin", include_self=False)),
        {"x": torch.randn(4, 8), "y": torch.randint(4, (4,))},
        {"dp": "c"},
    ),
    "argmax": (Calls(lambda x: x.argmax(1)), _rows(), {"tp": "b"}),
    "argmin": (Calls(lambda x: x.argmin()), _rows(), {"dp": "a", "tp": "b"}),
}

UNEQUAL: dict[str, tuple[Any, dict[str, Tensor], dict[str, str]]] = {
    "mean": (Calls(lambda x: x.mean()), _rows(rows=5), {"dp": "a", "tp": "b"}),
    "mse_loss": (
        Calls(lambda x, y: functional.mse_loss(x, y)),
        {"x": torch.randn(5, 8), "y": torch.rand(5, 8)},
        {"dp": "a"},
    ),
    "batch_norm": (Moments(), _rows(torch.bfloat16, 5), {"dp": "n"}),
    "var": (Calls(lambda x: x.var()), _rows(rows=5), {"dp": "a"}),
    "std": (Calls(lambda x: x.std(0)), _rows(rows=5), {"dp": "a"}),
    "ctc_loss": (
        Calls(
            lambda x, y: functional.ctc_loss(
                x.log_softmax(2), y, torch.full((5,), 8), torch.full((5,), 3)
            )
        ),
        {"x": torch.randn(8, 5, 6), "y": torch.randint(1, 6, (5, 3))},
        {"dp": "n"},
    ),
}
"""Five rows over two ranks, which have three and two."""


@pytest.mark.parametrize(
    ("cases", "name"), [*((CASES, name) for name in CASES), *((UNEQUAL, name) for name in UNEQUAL)]
)
def test_what_rules_communicate_themselves_is_counted(cases: Any, name: str) -> None:
    model, inputs, cut = cases[name]
    torch.manual_seed(0)
    graph = ds.trace(model, kwargs=inputs, dynamic={"x": {0: "rows"}} if len(inputs) == 1 else None)
    operator = next(
        n
        for n in graph.nodes()
        if n.signature.rsplit(".", 1)[1].removeprefix("linalg_")
        == name.split()[0].removeprefix("linalg_")
    )
    mesh = dict.fromkeys(cut, 2)
    plan = ds.plan(
        graph, mesh, {operator.name: cut}, uneven="allow" if cases is UNEQUAL else "parameters"
    )
    assert plan.uneven is (cases is UNEQUAL)
    assert any(entry.sends for entry in plan.operators)
    assert type(plan).from_json(plan.to_json()).for_graph(graph) == plan

    def step(member: Member) -> Counter[Any]:
        sent: Counter[Any] = Counter()
        phase = ["forward"]
        ends = RankMesh(
            {axis: Meter(member[axis], axis, sent, phase) for axis in mesh}, torch.device("cpu")
        )
        part = ParallelModule(
            model, plan, lower(graph, plan, ends.communicators), ends, Agreement(plan, None)
        )
        sent.clear()
        result = part(**inputs)
        phase[0] = "backward"
        if result.is_floating_point():
            result.sum().backward()
        return sent

    counted: Counter[Any] = Counter()
    count = len(inputs["x"])
    for traffic in plan.communication({"rows": count} if len(inputs) == 1 else None):
        has_way = traffic.direction == "forward" or not name.startswith("arg")
        if traffic.collective == "all-reduce" and has_way:
            counted[(traffic.direction, traffic.axis), "count"] += traffic.count
            counted[(traffic.direction, traffic.axis), "bytes"] += traffic.bytes
    for sent in SimulatedWorld[Counter[Any]](mesh).run(step):
        assert sent == counted


def test_every_rule_that_communicates_is_among_the_cases() -> None:
    silent = {"embedding", "index_select", "gather", "group_norm", "tril", "triu"}
    silent |= {"grouped_mm", "grouped_mm_fallback", *rows.LOCAL}
    silent |= {path.rsplit(".", 1)[1] for path in rows.ALONE}
    silent |= {"any", "all", "isin", "bilinear", "native_batch_norm"}
    silent |= {"kl_div", "triangular_solve", "solve_ex"}
    silent |= {path.rsplit(".", 1)[1] for path in rows.LOSSES} - _named(UNEQUAL)
    # All means of unequal parts are one function, of which two stand for all.
    silent |= {path.rsplit(".", 1)[1] for path in averages.LOCAL} - _named(CASES) - _named(UNEQUAL)
    assert {path.rsplit(".", 1)[1] for path in RULES} - silent == {
        *_named(CASES),
        *_named(UNEQUAL),
    }


def _named(cases: Any) -> set[str]:
    return {name.split()[0].removeprefix("linalg_") for name in cases}
