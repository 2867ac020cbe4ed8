"""Law: a dtype that is refused is one that torch refuses, in every example of the catalogue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dimsolve.ir.errors import ShapeError
from dimsolve.solver.operators import find, specimens
from dimsolve.solver.operators.catalogue import entries
from dimsolve.solver.operators.declare.dtypes import NUMBERS, PRODUCTS, REALS
from dimsolve.solver.operators.declare.entry import Example, Sample
from tests.oracles.torch_calls import accepted


def converted(value: Any, dtypes: list[str]) -> Any:
    """The call with its real tensors in these dtypes, in order; the last is that of the rest."""
    if isinstance(value, Sample):
        if not value.dtype.startswith("float"):
            return value
        dtype = dtypes.pop(0) if len(dtypes) > 1 else dtypes[0]
        return replace(value, dtype=dtype, kind="normal")
    if isinstance(value, list | tuple):
        return type(value)([converted(item, dtypes) for item in value])
    if isinstance(value, dict):
        return {key: converted(item, dtypes) for key, item in value.items()}
    return value


def refuses(path: str, call: Example) -> bool:
    operator = find(path)
    assert operator is not None
    try:
        operator.declare(*call.args, **call.kwargs)
    except ShapeError:
        return True
    return False


@pytest.mark.parametrize("path", sorted(REALS | NUMBERS | PRODUCTS))
def test_a_refused_dtype_is_refused_by_torch(path: str) -> None:
    assert path in entries()
    refused = 0
    for call in specimens(path):
        for dtypes in (["bool"], ["int64"], ["float64", "int64"], ["int64", "float64"]):
            other = Example(converted(call.args, list(dtypes)), converted(call.kwargs, dtypes[-1:]))
            if refuses(path, other):
                refused += 1
                assert accepted(path, other, {}) is None, (path, dtypes)
    assert refused


@pytest.mark.parametrize("path", sorted(REALS | NUMBERS | PRODUCTS))
def test_real_tensors_are_taken(path: str) -> None:
    assert not any(refuses(path, call) for call in specimens(path))
