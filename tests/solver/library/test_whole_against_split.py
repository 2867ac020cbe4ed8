"""Law: a declaration tells the truth. Its shapes and dtypes are torch's, and what it leaves open
may be cut with the same result.
"""

from __future__ import annotations

import warnings

import pytest
import torch

from dimsolve.solver.library import specimens
from dimsolve.solver.library.catalogue import entries

from .oracle import Case, compare_split, function_of, outputs_of, run, splits

CASES = [Case(path, n) for path in entries() for n in range(len(specimens(path)))]


@pytest.fixture(autouse=True)
def _quiet() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("case", CASES, ids=str)
def test_shapes_and_dtypes_are_those_of_torch(case: Case) -> None:
    call = case.call()
    declaration = call.declaration
    if declaration.returns == "value":
        result = function_of(case.path)(*call.arguments.args, **call.arguments.kwargs)
        assert result == declaration.value
        return
    solution = case.solve(call)
    torch.manual_seed(0)
    outputs = run(call, function_of(case.path))
    assert len(outputs) == len(solution.output_dims)
    for output, dims, dtype in zip(outputs, solution.output_dims, declaration.dtypes, strict=True):
        if dims is None:
            continue
        assert len(output.shape) == len(dims)
        assert all(
            length == dim
            for length, dim in zip(output.shape, dims, strict=True)
            if isinstance(dim, int)
        ), (tuple(output.shape), dims)
        assert str(output.dtype) == f"torch.{dtype}"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_open_identifier_may_be_cut(case: Case) -> None:
    call = case.call()
    declaration = call.declaration
    if declaration.returns == "value" or declaration.random or declaration.annotation.endswith("?"):
        return
    if case.path == "torch.empty" or "empty" in case.path:
        return
    for name, count, _ in splits(call, case.solve(call)):
        compare_split(case, name, count)


del outputs_of
