"""Law: variances, norms, places of extremes and triangles of cut dimensions are those of the whole,
forward and backward, over several mesh axes too.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dimsolve as ds

X = torch.randn(12, 24, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
TIES = torch.tensor([[0.0, 3, 1, 3] * 3, [2, 2, 0, 2] * 3] * 6, dtype=torch.float64)
BOTH = {"a": (2, 3, 4), "b": (2, 3, 4)}


@pytest.mark.parametrize("path", ["torch.var", "torch.std", "torch.Tensor.var"])
@pytest.mark.parametrize(
    "arguments",
    [
        ((0,), {}),
        ((-1,), {"keepdim": True}),
        ((), {}),
        ((), {"correction": 0}),
        ((1, False), {}),
        ((False,), {}),
        (((0, 1),), {"correction": 2}),
    ],
)
def test_what_varies_is_seen_whole(path: str, arguments: tuple[Any, Any]) -> None:
    verification = ds.verify(path, args=(X, *arguments[0]), kwargs=arguments[1])
    assert verification.ok and verification.splits == BOTH, verification


def test_of_equal_and_of_complex_numbers() -> None:
    assert ds.verify("torch.std", args=(torch.ones(12, 6), 0)).ok
    assert ds.verify("torch.var", args=(torch.complex(X, X.flip(0)), 0)).splits == BOTH


@pytest.mark.parametrize("path", ["torch.norm", "torch.linalg.vector_norm", "torch.Tensor.norm"])
@pytest.mark.parametrize("order", [2, 3, 2.5, -1, 0.5])
@pytest.mark.parametrize("options", [{}, {"dim": 0}, {"dim": (0, 1), "keepdim": True}])
def test_norms(path: str, order: float, options: dict[str, Any]) -> None:
    verification = ds.verify(path, args=(X, order), kwargs=options)
    assert verification.ok and verification.splits == BOTH, verification


def test_the_norm_of_zeros_has_the_gradient_zero() -> None:
    assert ds.verify("torch.norm", args=(torch.zeros(12, 4),)).ok


def test_norms_of_matrices_stay_whole() -> None:
    assert not ds.verify("torch.linalg.norm", args=(X, 1, (0, 1))).splits


@pytest.mark.parametrize("path", ["torch.argmax", "torch.argmin", "torch.Tensor.argmax"])
@pytest.mark.parametrize("tensor", [X, TIES, TIES.long()], ids=["distinct", "ties", "whole"])
@pytest.mark.parametrize("options", [{}, {"dim": 0}, {"dim": -1, "keepdim": True}, {"dim": 1}])
def test_the_first_place_of_an_extreme(
    path: str, tensor: torch.Tensor, options: dict[str, Any]
) -> None:
    verification = ds.verify(path, args=(tensor,), kwargs=options)
    assert verification.ok and verification.splits == BOTH, verification


@pytest.mark.parametrize("path", ["torch.tril", "torch.triu", "torch.Tensor.tril"])
@pytest.mark.parametrize("diagonal", [0, 3, -5])
def test_triangles_by_rows_and_columns(path: str, diagonal: int) -> None:
    verification = ds.verify(path, args=(X, diagonal))
    assert verification.ok and verification.splits == BOTH, verification
    batch = X.reshape(2, 12, 12)
    assert set(ds.verify(path, args=(batch, diagonal)).splits) == {"a", "b", "c"}


def test_what_is_written_in_place_has_no_rule() -> None:
    """A rule's function gives a result and writes to nothing."""
    verification = ds.verify("torch.Tensor.tril_", args=(X.reshape(2, 12, 12),))
    assert verification.ok and set(verification.splits) == {"a"}
