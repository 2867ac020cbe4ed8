"""Law: joins, subtypes and boundaries are Relax's or more precise, per dimension; proofs contradict
none of its own.

The rows were recorded from TVM Relax (tests/data/relax_types.json). DIFFERENT lists the rows that
differ, each with its reason.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import dimsolve as ds
from dimsolve.ir.types import FunctionType, Type
from dimsolve.solver.algebra.poly import symbol
from dimsolve.solver.graphs.functions import call_type, definable, erase
from dimsolve.solver.graphs.join import is_a, join
from dimsolve.solver.graphs.reading import read_dim, read_type

DATA = Path(__file__).parents[2] / "data" / "relax_types.json"
ROWS: list[list[Any]] = json.loads(DATA.read_text())["rows"]

DIFFERENT = {
    "relax-2655": "recorded with the two devices of the row left out: both types read the same",
    "relax-2656": "recorded with the two devices of the row left out: both types read the same",
    "relax-2662": "a result of unknown lengths fits or not when it runs, under no condition",
    "relax-2666": "the wrong number of arguments: the row does not record their types",
    "relax-2667": "the wrong type of argument: the row does not record it",
}
VERDICTS = {"PASS": "yes", "FAIL_L0": "no", "FAIL_L1": "unknown", "FAIL_L2": "conditional"}


def rows(kind: str) -> list[Any]:
    chosen = [row for row in ROWS if row[1] == kind and row[0] not in DIFFERENT]
    return [pytest.param(*row[2:], id=row[0]) for row in chosen]


def as_precise(found: Type, wanted: str) -> bool:
    return _as_precise(found, read_type(wanted))


def _as_precise(found: Type, wanted: Type) -> bool:
    """Of functions, each parameter and the result is compared: how much is said, not what may
    be passed.
    """
    if not isinstance(wanted, FunctionType) or not isinstance(found, FunctionType):
        return is_a(found, wanted).verdict == "yes"
    pairs = zip(found.parameters or (), wanted.parameters or (), strict=True)
    return all(_as_precise(a, b) for a, b in pairs) and _as_precise(found.result, wanted.result)


@pytest.mark.parametrize(("types", "wanted"), rows("join"))
def test_a_join_keeps_at_least_what_relax_keeps(types: list[str], wanted: str) -> None:
    a, b = map(read_type, types)
    found = join(a, b)
    assert as_precise(found, wanted)
    assert is_a(a, found).verdict == "yes" or isinstance(found, FunctionType)
    assert is_a(b, found).verdict == "yes" or isinstance(found, FunctionType)
    assert join(b, a) == found


@pytest.mark.parametrize(("types", "wanted"), rows("is_a"))
def test_a_type_is_another_always_never_or_under_a_condition(types: list[str], wanted: str) -> None:
    base, derived = map(read_type, types)
    assert is_a(derived, base).verdict == VERDICTS[wanted]


def test_the_condition_of_a_subtype_is_said() -> None:
    found = is_a(read_type("shape(1, n, 3)"), read_type("shape(1, 2, 3)"))
    assert found.conditions == ("n == 2",)


@pytest.mark.parametrize(("types", "wanted"), rows("erase"))
def test_what_leaves_a_scope_is_known_where_its_symbols_are(types: list[str], wanted: str) -> None:
    if "shape:" in "".join(types[1:]):
        pytest.skip("a variable that stands for a whole shape, which our shapes do not have")
    text = "".join(types[1:2]).replace("None", "").strip("{}")
    pairs = (pair.split(":") for pair in text.split(",") if pair.strip())
    names = {key.strip(): read_dim(value.strip()) for key, value in pairs}
    found = erase(read_type(types[0]), names)
    assert as_precise(found, wanted)


@pytest.mark.parametrize(("types", "wanted"), rows("definable"))
def test_symbols_that_stand_alone_are_defined(types: list[str], wanted: str) -> None:
    expected = tuple(re.findall(r"\w+", wanted))
    assert definable(read_type(types[0])) == expected


@pytest.mark.parametrize(("parts", "wanted"), rows("call"))
def test_a_call_of_a_function_type(parts: list[Any], wanted: str) -> None:
    function = read_type(parts[0])
    assert isinstance(function, FunctionType)
    found, _ = call_type(function, [read_type(text) for text in parts[1]])
    assert as_precise(found, wanted)


def _function(parameters: list[Any], result: Any) -> FunctionType:
    def one(shape: Any) -> str:
        return shape if isinstance(shape, str) else f"float32[{', '.join(shape)}]"

    found = read_type(f"({', '.join(map(one, parameters))}) -> {one(result)}")
    assert isinstance(found, FunctionType)
    return found


@pytest.mark.parametrize(("row", "_"), rows("boundary"))
def test_boundaries(row: dict[str, Any], _: None) -> None:
    if row["rule"] == "call":
        function = _function(row["params"], row["ret"])
        arguments = _function(row["args"], row["result"])
        assert arguments.parameters is not None
        assert call_type(function, arguments.parameters)[0] == arguments.result
    elif row["rule"] == "definable_vars":
        found = definable(read_type(f"float32[{', '.join(row['shape'])}]"))
        # a symbol of 2*n is solved for when it is matched, so more is defined than stands alone
        assert set(row["definable"]) <= set(found) | set(row["used"])
        assert set(found) <= set(row["definable"])
    else:
        names = {name: symbol(name) for name in row["defined"]}
        kept = erase(read_type(f"float32[{', '.join(row['call_output'])}]"), names)
        assert str(kept) == "float32[?, ?]"


def _readable(text: str, scope: list[str]) -> bool:
    words = set(re.findall(r"[A-Za-z_]\w*", text))
    strange = {"cast", "where", "shr", "shl", "truncmod", "truncdiv", "not", "and", "or", "EqualOp"}
    return not words & strange and "Range" not in " ".join(scope) and not scope


@pytest.mark.parametrize(
    ("claim", "provable"),
    [
        pytest.param(row[2][0], row[3], id=row[0])
        for row in ROWS
        if row[1] in ("prove", "prove_equal") and _readable(row[2][0], row[2][1])
    ],
)
def test_what_relax_proves_of_all_integers_is_not_refuted(claim: str, provable: bool) -> None:
    found = ds.prove(claim.replace("Max(", "max(").replace("Min(", "min("))
    if provable:
        assert found.verdict == "proved"
    elif found.verdict == "refuted":
        assert found.counterexample is not None
