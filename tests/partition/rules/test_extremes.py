"""Law: where elements tie for the largest, their gradients are those of one device."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dimsolve as ds

TIES = torch.randint(0, 3, (12, 12), generator=torch.Generator().manual_seed(0)).double()


@pytest.mark.parametrize("path", ["torch.amax", "torch.amin"])
@pytest.mark.parametrize("options", [{"dim": 0}, {"dim": (0, 1)}, {"dim": -1, "keepdim": True}, {}])
def test_over_dimensions(path: str, options: dict[str, Any]) -> None:
    verification = ds.verify(path, args=(TIES,), kwargs=options)
    assert verification.ok, verification
    assert verification.splits == {"a": (2, 3, 4), "b": (2, 3, 4)}


@pytest.mark.parametrize("path", ["torch.max", "torch.min", "torch.Tensor.max"])
def test_of_all_elements(path: str) -> None:
    verification = ds.verify(path, args=(TIES,))
    assert verification.ok, verification
    assert verification.splits == {"a": (2, 3, 4), "b": (2, 3, 4)}


def test_infinite_and_whole_numbers() -> None:
    infinite = TIES.clone()
    infinite[3] = float("inf")
    infinite[:, 5] = float("-inf")
    assert ds.verify("torch.amax", args=(infinite, 1)).ok
    assert ds.verify("torch.amax", args=(TIES.long(), 0)).splits["a"] == (2, 3, 4)


def test_with_indices_what_is_searched_stays_whole() -> None:
    verification = ds.verify("torch.max", args=(TIES, 0))
    assert verification.ok and set(verification.splits) == {"b"}
