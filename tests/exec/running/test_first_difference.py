"""Law: of a run that differs, the first value, conversion, gradient or parameter that does is
named, with its line, its layout and its rank; and nothing is named of a run that is equal.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dimsolve.cli.models import _first
from dimsolve.exec.distributed.collectives import AllReduce
from dimsolve.exec.running.compare import CheckedRun, CheckedStep
from dimsolve.exec.running.first_difference import FirstDifference, first_difference
from dimsolve.exec.running.report import FirstReport
from tests.exec.lies import rolled, wrong_in_float32, wrong_only_in_backward
from tests.oracles.one_device import parts, plan_of


class Model(nn.Module):
    """Two layers with something in between, and regions that run again."""

    def __init__(self, between: Any, dtype: torch.dtype, again: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.between = between
        self.again = again
        self.up = nn.Linear(8, 16, dtype=dtype)
        self.down = nn.Linear(16, 8, dtype=dtype)

    def inner(self, x: Tensor) -> Tensor:
        y: Tensor = self.between(self.up(x).relu())
        return y

    def forward(self, x: Tensor) -> Tensor:
        h = self.inner(x)
        if self.again:
            h = torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False)
        y: Tensor = self.down(h)
        return y.square().mean()


def step_of(model: nn.Module, mesh: dict[str, int], change: Any = None) -> CheckedStep:
    """One step of the last rank. change: of every rank's part, before it."""
    dtype = next(model.parameters()).dtype
    x = torch.randn(4, 8, dtype=dtype, generator=torch.Generator().manual_seed(1))
    plan = plan_of(model, {"x": x}, {"x": {0: "n"}}, mesh, None)

    def work(part: Any) -> CheckedStep:
        if change is not None:
            change(part)
        return CheckedRun(part, deepcopy(model), look=True).step({"x": x})

    return parts(model, plan, mesh, work)[-1]


def first_of(model: nn.Module, mesh: dict[str, int], change: Any = None) -> FirstDifference:
    step = step_of(model, mesh, change)
    assert step.differences is not None
    assert not step.ok
    assert step.differences.first is not None
    return step.differences.first


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("again", [False, True])
def test_the_first_operator_that_differs(dtype: torch.dtype, again: bool) -> None:
    found = first_of(Model(rolled, dtype, again), {"tp": 2})
    assert found.kind == "operator"
    assert found.operator == "tests.exec.lies.rolled"
    assert found.line == "y: Tensor = self.between(self.up(x).relu())"
    assert found.dtype == "float64"
    assert found.off > 0.1
    named = str(dtype).removeprefix("torch.")
    assert list(found.values.values()) == [f"{named}[n, 16] S(1)"] * 2
    assert found.rank == 0


def test_the_first_backward_that_differs() -> None:
    found = first_of(Model(wrong_only_in_backward, torch.float64), {"dp": 2})
    assert found.kind == "gradient"
    assert found.operator == "tests.exec.lies.wrong_only_in_backward"
    assert found.line == "y: Tensor = self.between(self.up(x).relu())"


@pytest.mark.parametrize("size", [1e-6, 1.0])
def test_the_first_conversion_that_differs(monkeypatch: pytest.MonkeyPatch, size: float) -> None:
    """A wrong collective, not the operator before it, nor the one after it."""
    right = AllReduce.compute

    def wrong(tensor: Tensor, *rest: Any) -> Tensor:
        return right(tensor, *rest) * (1 + size)

    monkeypatch.setattr(AllReduce, "compute", staticmethod(wrong))
    found = first_of(Model(torch.tanh, torch.float64), {"tp": 2})
    assert found.kind == "conversion"
    assert list(found.values.values()) == ["P(sum) -> R along tp"]
    assert found.off == pytest.approx(size, rel=1e-6)


def test_a_parameter_that_is_not_its_part() -> None:
    def change(part: Any) -> None:
        if part.ends.rank == 1:
            part.get_parameter("up.bias").data.add_(1e-3)

    found = first_of(Model(torch.tanh, torch.float64), {"tp": 2}, change)
    assert (found.kind, found.name, found.rank) == ("parameter", "up.bias", 1)


def test_what_differs_in_float32_only() -> None:
    """Judged by how far one device is from its own float64."""
    graph = Model(wrong_in_float32, torch.float32)
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))
    plan = plan_of(graph, {"x": x}, {"x": {0: "n"}}, {"dp": 2}, None)

    def work(part: Any) -> FirstDifference:
        return first_difference(part, deepcopy(graph), {}, {"x": x}, 1e-4)

    found = parts(graph, plan, {"dp": 2}, work)[0]
    assert (found.kind, found.dtype) == ("operator", "float32")
    assert found.operator.endswith("wrong_in_float32")
    assert found.off > 4 * found.one_device


def test_a_run_that_is_equal_has_no_first_difference() -> None:
    def change(part: Any) -> None:
        part.get_parameter("up.weight").register_hook(lambda gradient: gradient * 2)

    found = first_of(Model(torch.tanh, torch.float64), {"tp": 2}, change)
    assert found.kind == "none"
    assert found.reason == (
        "a second run of the same batch has no value that differs by more than rounding"
    )


def test_it_is_said_in_words() -> None:
    found = FirstReport(
        kind="operator",
        name="h_1",
        operator="ops.rolled",
        module="mlp",
        source="model.py:3",
        line="h = rolled(h)",
        values={"h": "float32[n, 16] S(1)"},
        off=0.55,
        one_device=7.5e-8,
        dtype="float64",
        rank=1,
    )
    assert ["  ".join(cell.text for cell in row if cell.text) for row in _first(found)] == [
        "first  h_1 = ops.rolled",
        "mlp, model.py:3: h = rolled(h)",
        "h: float32[n, 16] S(1)",
        "off by 5.5e-01 on rank 1 in float64; rounding takes one device 7.5e-08 from its own "
        "float64",
    ]
