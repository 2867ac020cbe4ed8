"""What leaves a call early is told to other ranks where it is an error, and only there."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import dimsolve as ds
from dimsolve.exec.parallel import programs


class Scaled(nn.Module):
    """A recomputation has all it needs before the last product."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.arange(1.0, 5.0))

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.scale).tanh() * self.scale


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    found: list[BaseException] = []
    monkeypatch.setattr(programs, "explain", lambda error, *_: found.append(error))
    return found


def made() -> nn.Module:
    graph = ds.trace(Scaled(), kwargs={"x": torch.ones(3, 4)})
    return ds.parallelize(Scaled(), ds.plan(graph, {"tp": 1}, "replicate"))


def test_a_recomputation_that_ends_early_is_no_failure(told: list[BaseException]) -> None:
    x, model = torch.ones(3, 4), Scaled()
    part = made()
    for module in (part, model):
        checkpoint(module, x, use_reentrant=False).sum().backward()
    assert told == []
    assert torch.equal(part.get_parameter("scale").grad, model.scale.grad)  # type: ignore[arg-type]


def test_an_error_is_one(told: list[BaseException]) -> None:
    part = made()
    part.get_parameter("scale").data = torch.ones(5)
    with pytest.raises(RuntimeError, match="must match"):
        part(x=torch.ones(3, 4))
    assert [type(error) for error in told] == [RuntimeError]
