"""Law: identifiers are positive integers; an expression is a length only where it is positive."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from dimsolve.ir.errors import ShapeError
from dimsolve.solver.infer import infer, infer_sizes, solve_quickly
from dimsolve.solver.lengths import is_length
from dimsolve.solver.shapes import to_dim
from tests.oracles.brute_force import COMPARISONS, evaluate
from tests.oracles.questions import LENGTHS, POINTS, number

CONDITIONS: list[tuple[str, list[Any], dict[str, Any], list[str], tuple[str, ...]]] = [
    # annotation, inputs, arguments, facts, conditions
    ("a -> a", ["n - 5"], {}, [], ("n >= 6",)),
    ("(h t) -> h t", ["n - 4"], {"h": 3}, [], ("n % 3 == 1", "n >= 7")),
    ("(h t) -> h t", ["3*n - 12"], {"h": 3}, [], ("n >= 5",)),
    ("(h t) -> h t", ["n - 4"], {}, [], ("(n - 4) % h == 0", "n >= 5")),
    ("b -> b", [[None]], {"b": "n - 1"}, [], ("n >= 2",)),
    ("a b -> a b", ["s, t"], {"b": "n - 1"}, [], ("n == t + 1",)),
    ("a -> a", ["n % 4"], {}, [], ("n % 4 != 0",)),
    ("a -> a", ["n//2"], {}, [], ("n >= 2",)),
    ("a -> a", ["max(0, n - 5)"], {}, [], ("n >= 6",)),
    ("a -> a", ["min(n - 1, s - 2)"], {}, [], ("n >= 2", "s >= 3")),
    ("a -> a", ["ceildiv(n - 1, 4)"], {}, [], ("n >= 2",)),
    ("a -> a", ["2*(n//3) - 1"], {}, [], ("n >= 3",)),
    ("a -> a", ["n - 5"], {}, ["n >= 6"], ()),
    ("a -> a", ["n - 5"], {}, ["a >= 3"], ()),
    ("a -> a", ["6//(n - 1)"], {}, ["n <= 4"], ("n >= 2",)),
    ("a, a -> a", ["n - 5", (8,)], {}, [], ("n == 13",)),
    ("(x x) -> x", ["n**2 - 10*n + 25"], {}, [], ("n != 5",)),
    ("* a -> * a", ["n - 1, s"], {}, [], ("n >= 2",)),
    ("a -> a", ["8*s + t"], {}, [], ()),
    ("a -> a", ["min(n, 4)"], {}, [], ()),
    ("a, ? -> a", ["s", ["n - 5"]], {}, [], ()),
]


@pytest.mark.parametrize(("annotation", "inputs", "arguments", "facts", "conditions"), CONDITIONS)
def test_conditions_make_lengths_positive(
    annotation: str,
    inputs: list[Any],
    arguments: dict[str, Any],
    facts: list[str],
    conditions: tuple[str, ...],
) -> None:
    assert infer(annotation, inputs, arguments=arguments, facts=facts).conditions == conditions


NEVER = [
    (
        "a -> a",
        ["2 - n"],
        {},
        ["n >= 3"],
        "a is no positive length\n"
        "  a -> a\n"
        "  ^\n"
        "  a = -n + 2 (input 0, dim 0) needs -n + 2 >= 1, which never holds where n >= 3\n"
        "  hint: an empty dimension is written 0, and matches an identifier that stands alone",
    ),
    (
        "(h t) -> h t",
        ["4 - n"],
        {"h": 4},
        [],
        "t is no positive length\n"
        "  (h t) -> h t\n"
        "     ^\n"
        "  h*t = -n + 4 (input 0, dim 0) needs -n + 4 >= 4, which never holds where n % 4 == 0\n"
        "  hint: an empty dimension is written 0, and matches an identifier that stands alone",
    ),
    (
        "a b -> a b",
        ["s, t"],
        {"b": "-t"},
        [],
        "b has two lengths\n  a b -> a b\n    ^\n  b = -t (argument b), but b = t (input 0, dim 1)",
    ),
    (
        "a (a a) -> a",
        ["0, n - 1"],
        {},
        [],
        "a hidden product is zero\n"
        "  a (a a) -> a\n"
        "    ^~~~~\n"
        "  a*a = 0 (input 0, dim 1) names no length of its factors\n"
        "  hint: a dimension of size 0 can only match an identifier that stands alone",
    ),
]


@pytest.mark.parametrize(("annotation", "inputs", "arguments", "facts", "text"), NEVER)
def test_what_is_never_a_length_is_an_error(
    annotation: str, inputs: list[Any], arguments: dict[str, Any], facts: list[str], text: str
) -> None:
    with pytest.raises(ShapeError) as caught:
        infer(annotation, inputs, arguments=arguments, facts=facts)
    assert str(caught.value) == text


@pytest.mark.parametrize("text", sorted(set(LENGTHS)))
def test_the_claims_of_a_length_by_brute_force(text: str) -> None:
    claims = list(is_length(to_dim(text)))
    for point in POINTS:
        size = number(text, point)
        met = all(
            COMPARISONS[claim.comparison](left, right)
            for claim in claims
            if (left := value(claim.left, point)) is not None
            and (right := value(claim.right, point)) is not None
        )
        assert met == (size is not None and size >= 1), (point, [str(claim) for claim in claims])


def value(dim: Any, point: dict[str, int]) -> int | None:
    """The value of a Dim; None where it divides by 0, which another claim forbids."""
    try:
        return evaluate(dim, point)
    except ZeroDivisionError:
        return None


def test_an_empty_dimension_is_written_0_in_any_order() -> None:
    assert infer("a b -> b a", [(0, 3)]).outputs == ((3, 0),)
    for inputs in permutations([(0,), ("n - 5",), ("s - 1",)]):
        solution = infer("a, a, a -> a", inputs)
        assert solution.values == {"a": 0}
        assert set(solution.conditions) == {"n == 5", "s == 1"}


def test_sizes_of_tensors_that_exist_ask_for_nothing() -> None:
    assert infer_sizes("a b -> b a", ["n//2, max(0, s - 5)"]).conditions == ()
    assert infer_sizes("(h t) -> h t", ["n//2*4"], arguments={"h": 4}).conditions == ()
    assert infer("a b -> b a", ["n//2, max(0, s - 5)"]).conditions == ("n >= 2", "s >= 6")


def test_only_lengths_that_are_positive_at_a_glance_are_solved_quickly() -> None:
    assert solve_quickly("a b -> a b", ["8*s + 1, 3"]) is not None
    for doubtful in ("n - 1", "n//2", "n % 4", "max(0, n - 1)", "-n"):
        assert solve_quickly("a -> a", [doubtful]) is None


def test_an_answer_that_is_kept_serves_only_the_same_types() -> None:
    """True equals 1 and 2.0 equals 2; only one of each is a dimension."""
    assert infer("a b -> a b", [(1, 2)], arguments={"a": 1}).outputs == ((1, 2),)
    for inputs, arguments in (
        ([(True, 2)], {}),
        ([(1, 2.0)], {}),
        ([(1, 2)], {"a": True}),
        ([(1, 2)], {"a": 1.0}),
    ):
        with pytest.raises(Exception, match="is not a"):
            infer("a b -> a b", inputs, arguments=arguments)
