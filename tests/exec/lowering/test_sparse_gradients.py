"""Law: an embedding's sparse gradient is that of one device, or the plan is refused in words."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dimsolve as ds
from tests.oracles.one_device import parts, plan_of

IDS = torch.tensor([[0, 1, 2], [1, 1, 5], [3, 4, 0], [2, 2, 2]])


class Sparse(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(6, 4, sparse=True)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.table(x))
        return result


@pytest.mark.parametrize("mesh, policy", [({"tp": 1}, "replicate"), ({"tp": 2}, "tensor")])
def test_a_sparse_gradient_is_that_of_one_device(mesh: dict[str, int], policy: str) -> None:
    model = Sparse()
    whole = copy.deepcopy(model)
    whole(IDS).square().sum().backward()
    gradient: Any = whole.table.weight.grad

    def work(part: Any) -> None:
        part(IDS).square().sum().backward()
        found = part.get_parameter("table.weight").grad
        assert found.is_sparse
        wanted = part.held("table.weight").part(gradient.to_dense())
        torch.testing.assert_close(found.to_dense(), wanted)

    parts(model, plan_of(model, {"x": IDS}, None, mesh, policy), mesh, work)


def test_a_sum_of_sparse_gradients_is_refused() -> None:
    model = Sparse()
    plan = plan_of(model, {"x": IDS}, {"x": {0: "b"}}, {"dp": 2}, "data")
    with pytest.raises(ds.DimsolveError) as caught:
        parts(model, plan, {"dp": 2}, lambda part: None)
    assert (
        "embedding: a sparse gradient cannot be summed over 'dp'\n"
        "  %table_weight has the rows that a rank looked up as its gradient, and ranks send dense "
        "tensors\n"
        "  hint: sparse=False, or cut the table by its columns"
    ) in str(caught.value.__cause__ or caught.value)
