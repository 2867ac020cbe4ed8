"""Law: promotion by names is torch's promotion."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch

from dimsolve.solver.operators.declare.dtypes import dtype_name, promote_types, result_type

NAMES = [
    "bool", "uint8", "int8", "int16", "int32", "int64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip


@pytest.mark.parametrize("a, b", list(product(NAMES, NAMES)))
def test_two_dtypes(a: str, b: str) -> None:
    wanted = torch.promote_types(getattr(torch, a), getattr(torch, b))
    assert promote_types(a, b) == str(wanted).removeprefix("torch.")


@pytest.mark.parametrize("a, b", list(product(NAMES, NAMES)))
def test_tensors_scalar_tensors_and_numbers(a: str, b: str) -> None:
    wide = torch.ones(2, dtype=getattr(torch, a))
    others: list[Any] = [torch.ones((), dtype=getattr(torch, b)), True, 2, 2.0, 2j]
    for other in others:
        wanted = torch.result_type(wide, other)
        assert result_type([wide, other]) == str(wanted).removeprefix("torch.")
        assert result_type([other, wide]) == str(wanted).removeprefix("torch.")


def test_what_is_not_known_stays_unknown() -> None:
    assert promote_types(None, "float32") is None
    assert promote_types("uint16", "int16") is None
    assert dtype_name(torch.float16) == "float16"
    assert dtype_name(float) == "float32"
