"""Law: a float32 run that differs from one device by rounding alone is equal to it, whatever the
size; a run that is wrong is never called equal, whatever the size of the error.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dimsolve.exec.distributed.collectives import AllReduce
from dimsolve.exec.running import compare as check_run
from dimsolve.exec.running.compare import CheckedRun, CheckedStep, batch_of, sizes_for
from tests.oracles.one_device import parts, plan_of


class Cancelling(nn.Module):
    """A shift has no effect on what batch norm gives: its gradient is a sum that cancels, and what
    float32 leaves of it, 1000-fold, is rounding.
    """

    def __init__(self, state: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.shift = nn.Parameter(torch.zeros(8))
        self.norm = nn.BatchNorm1d(8, track_running_stats=state)
        self.linear = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.norm(x + 1000 * self.shift).relu())


EXAMPLE = {"x": torch.randn(64, 8, generator=torch.Generator().manual_seed(1))}
DYNAMIC = {"x": {0: "b"}}


def trained(
    model: nn.Module, change: Any = None, example: dict[str, Any] = EXAMPLE
) -> list[CheckedStep]:
    """Three steps of the first rank. change: of every rank's part, before them."""
    plan = plan_of(model, example, DYNAMIC, {"dp": 2}, "data")

    def work(part: Any) -> list[CheckedStep]:
        if change is not None:
            change(part)
        run = CheckedRun(part, deepcopy(model))
        sizes = sizes_for(plan, example, DYNAMIC, 3)
        return [run.step(batch_of(example, DYNAMIC, s, seed=i)) for i, s in enumerate(sizes)]

    return parts(model, plan, {"dp": 2}, work)[0]


def test_a_gradient_of_rounding_alone_is_equal() -> None:
    steps = trained(Cancelling())
    for step in steps:
        assert step.ok
        assert step.differences is not None
        found = step.differences
        assert found.excess > 1.0, "the case has to be beyond the tolerance"
        assert found.distances is not None
        assert found.distances.explained
        assert found.distances.exact <= 1e-9
        assert found.distances.ranks <= 4 * found.distances.one_device


class Remembering(Cancelling):
    """Leaves in a list what it has made, and counts in place."""

    def forward(self, x: Tensor, memory: list[Tensor]) -> Tensor:  # type: ignore[override]
        memory[0].add_(1)
        memory.append(super().forward(x) * memory[0])
        return memory[-1]


def test_what_is_left_of_arguments_is_judged_too() -> None:
    """Every run that it is judged by has arguments of its own."""
    for step in trained(Remembering(), example={**EXAMPLE, "memory": [torch.zeros(4)]}):
        assert step.ok
        assert step.differences is not None
        assert step.differences.distances is not None
        assert step.differences.distances.explained


@pytest.mark.parametrize("size", [1e-3, 1e-2, 1e-1, 1.0, 100.0])
@pytest.mark.parametrize("name", ["linear.weight", "linear.bias", "norm.weight"])
def test_an_error_of_float32_alone_is_found(name: str, size: float) -> None:
    def change(part: Any) -> None:
        part.get_parameter(name).register_hook(lambda gradient: gradient * (1 + size))

    assert not trained(Cancelling(), change)[0].ok


@pytest.mark.parametrize("size", [1e-8, 1e-6, 1e-4, 1e-2, 1.0])
def test_an_error_of_the_program_is_found_at_any_size(
    monkeypatch: pytest.MonkeyPatch, size: float
) -> None:
    """Also in a gradient that is rounding alone."""
    right = AllReduce.compute

    def wrong(tensor: Tensor, *rest: Any) -> Tensor:
        return right(tensor, *rest) * (1 + size)

    monkeypatch.setattr(AllReduce, "compute", staticmethod(wrong))
    step = trained(Cancelling())[0]
    assert not step.ok
    assert step.differences is not None
    assert step.differences.distances is not None
    assert not step.differences.distances.explained


def test_a_missing_gradient_is_found() -> None:
    def change(part: Any) -> None:
        part.get_parameter("shift").requires_grad_(False)

    assert not trained(Cancelling(), change)[0].ok


def test_a_model_that_does_otherwise_in_float64_is_not_judged_by_it() -> None:
    class Otherwise(Cancelling):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            return y * 3 if y.dtype is torch.float64 else y

    step = trained(Otherwise())[0]
    assert not step.ok
    assert step.differences is not None
    assert step.differences.distances is not None


def test_a_model_that_fails_in_float64_is_not_judged_by_it() -> None:
    class Fails(Cancelling):
        def forward(self, x: Tensor) -> Tensor:
            if x.dtype is torch.float64:
                raise TypeError("float32 only")
            return super().forward(x)

    assert not trained(Fails())[0].ok


def test_a_run_within_its_tolerance_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: Any) -> Any:
        raise AssertionError("float64 is for what is beyond the tolerance")

    monkeypatch.setattr(check_run, "measure", never)
    model = Cancelling()
    model.shift.requires_grad_(False)
    assert all(step.ok for step in trained(model))


def test_nothing_of_the_model_or_the_part_is_changed_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers, gradients and weights are those of a run that was not judged."""
    kept: list[Any] = []
    measure = check_run.measure

    def state(part: Any, model: nn.Module) -> list[Tensor]:
        tensors = [*part.parameters(), *part.buffers(), *model.parameters(), *model.buffers()]
        gradients = [p.grad for p in (*part.parameters(), *model.parameters())]
        return [t.detach().clone() for t in (*tensors, *gradients)]

    def watched(part: Any, model: nn.Module, *rest: Any) -> Any:
        before = state(part, model)
        found = measure(part, model, *rest)
        kept.append(all(map(torch.equal, before, state(part, model))))
        return found

    monkeypatch.setattr(check_run, "measure", watched)
    trained(Cancelling())
    assert kept
    assert all(kept)
