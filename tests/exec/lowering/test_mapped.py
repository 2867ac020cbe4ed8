"""Law: what a model maps with torch.vmap is computed on ranks as on one device; it stays whole, and
what it takes is converted before it.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dimsolve as ds
from tests.oracles.all_ranks import compare


class Mapped(nn.Module):
    """A mapped function between two linear layers, inside of it another one."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.a(x))

        def of_row(row: Tensor) -> Tensor:
            return torch.tanh(self.b(row)) * torch.vmap(torch.sin)(row)

        result: Tensor = self.c(torch.vmap(of_row)(h))
        return result


def traced() -> tuple[nn.Module, Any, Tensor]:
    torch.manual_seed(0)
    model = Mapped().double()
    x = torch.randn(6, 4, dtype=torch.float64)
    return model, ds.trace(model, kwargs={"x": x}, dynamic={"x": {0: "batch"}}), x


@pytest.mark.parametrize(
    ("mesh", "policy"),
    [
        ({"tp": 2}, "tensor"),
        ({"dp": 2}, "data"),
        ({"dp": 2, "tp": 2}, "data+tensor"),
    ],
)
def test_a_mapped_function_is_whole_and_equal(mesh: dict[str, int], policy: Any) -> None:
    model, graph, _ = traced()
    plan = ds.plan(graph, mesh, policy)
    for batch in (2, 6):
        x = torch.randn(batch, 4, dtype=torch.float64)
        found = compare(plan, graph, dict(model.state_dict()), {"x": x}, {"batch": batch})
        assert found.ok, found


def test_what_is_mapped_is_not_cut_by_hand() -> None:
    with pytest.raises(ds.PlanError) as caught:
        ds.plan(traced()[1], {"tp": 2}, {"b": {"tp": "n"}})
    assert str(caught.value).endswith("(b): it runs inside torch.vmap")


def test_a_step_that_fails_inside_leaves_no_mapping_behind() -> None:
    model, graph, x = traced()
    part = ds.parallelize(model, ds.plan(graph, {"tp": 1}))
    part.b.weight.data = torch.zeros(4, 3, dtype=torch.float64)
    with pytest.raises(RuntimeError):
        part(x)
    assert torch._C._functorch.maybe_current_level() is None
    part.b.weight.data = model.b.weight.detach().clone()
    assert torch.equal(part(x), model(x))
