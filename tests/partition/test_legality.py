"""Laws: a count is positive, a length is positive, and an unknown answer says what is left."""

from __future__ import annotations

from typing import Any

import pytest

from dimsolve.ir.errors import ShapeError
from dimsolve.partition.legality import check, legal_parts
from dimsolve.solver.algebra.dims import evaluate
from tests.oracles.brute_force import holds

CONDITIONS: list[tuple[str, list[Any], str, Any, list[str], tuple[str, ...]]] = [
    # annotation, inputs, split, parts, facts, conditions
    ("a -> a", ["n - 5"], "a", 2, [], ("n >= 6", "n % 2 == 1")),
    ("a -> a", ["n//2"], "a", 1, [], ("n >= 2",)),
    ("a -> a", ["max(0, n - 5)"], "a", 1, [], ("n >= 6",)),
    ("a -> a", ["n - 5"], "a", 2, ["n % 2 == 1"], ("n >= 6",)),
    ("a -> a", ["n - 5"], "a", 2, ["n >= 6"], ("n % 2 == 1",)),
    ("a -> a", ["12"], "a", "n - 5", [], ("n >= 6", "12 % (n - 5) == 0")),
    ("a -> a", ["12*s"], "a", "n//2", ["n <= 3"], ("n >= 2",)),
    ("a -> a", ["12*s"], "a", "6//(n - 1)", ["n <= 3"], ("n >= 2",)),
]


@pytest.mark.parametrize(
    ("annotation", "inputs", "split", "parts", "facts", "conditions"), CONDITIONS
)
def test_lengths_and_counts_are_positive(
    annotation: str,
    inputs: list[Any],
    split: str,
    parts: Any,
    facts: list[str],
    conditions: tuple[str, ...],
) -> None:
    legality = check(annotation, inputs, split, parts, facts=facts)
    assert legality.verdict == "conditional"
    assert legality.conditions == conditions
    assert legality.counterexample is not None
    assert holds(facts, legality.counterexample)
    at = {"s": 1, **legality.counterexample}
    assert not holds(conditions, at)


def test_a_count_that_is_never_positive_is_illegal() -> None:
    legality = check("a -> a", ["12"], "a", "3 - n", facts=["n >= 3"])
    assert legality.verdict == "illegal"
    assert legality.reason == "the count -n + 3 is never positive; at n = 3 it is 0"
    assert check("a -> a", ["12"], "a", -2).reason == "-2 parts: a count is a positive integer"
    assert check("a -> a", ["12"], "a", "-2").reason == "-2 parts: a count is a positive integer"
    with pytest.raises(ShapeError):
        check("a -> a", ["2 - n"], "a", 2, facts=["n >= 2"])


def test_legal_parts_of_a_length_that_may_be_empty() -> None:
    counts = legal_parts("a -> a", ["8*s - 8"], "a", up_to=3)
    assert counts.always == ()
    assert counts.fixed_divisor == 1
    assert counts.conditional == {1: "s >= 2", 2: "s >= 2", 3: "s >= 2 and s % 3 == 1"}
    sure = legal_parts("a -> a", ["8*s - 8"], "a", up_to=3, facts=["s >= 2"])
    assert sure.always == (1, 2, 4, 8)


@pytest.mark.parametrize("up_to", [1, 2, 3, 64])
def test_the_fixed_divisor_does_not_depend_on_the_bound(up_to: int) -> None:
    assert legal_parts("a -> a", ["35*s"], "a", up_to=up_to).always == (1, 5, 7, 35)
    assert legal_parts("a^ -> a^", ["35*s"], "a", up_to=up_to).always == (1,)
    interleaved = legal_parts("(q h) -> (q h)", ["8*s"], "h", arguments={"q": 2}, up_to=up_to)
    assert interleaved.always == (1, 2, 4)
    run = legal_parts(
        "(q h) -> (q h)", ["8*s"], "h", arguments={"q": 2}, up_to=up_to, contiguous=True
    )
    assert run.always == (1,)


UNKNOWN = [
    (["x**16*y**16*z**16 + x**15*w**16 + 7"], 2**61 - 1),
    (["x**16*y**16*z**16 + x**15*w**16 + 7"], 30030 * 1024),
    (["x**5 + y**5"], "z**5 + w**5 + 2"),
    (["x**16 + y**16 + z**16"], "x**15 + y**15*z + 1"),
]


@pytest.mark.parametrize(("inputs", "parts"), UNKNOWN)
def test_what_is_not_decided_says_what_is_left(inputs: list[str], parts: Any) -> None:
    """Whatever the verdict: its conditions hold exactly where the count divides."""
    legality = check("a -> a", inputs, "a", parts)
    assert legality.verdict in ("unknown", "conditional")
    assert legality.conditions
    length = legality.solution.values["a"]
    for x, y, z, w in ((1, 1, 1, 1), (2, 1, 1, 1), (1, 2, 3, 1), (2, 2, 2, 2), (3, 1, 2, 5)):
        at = {"x": x, "y": y, "z": z, "w": w}
        count = evaluate(legality.parts, at)
        assert holds(legality.conditions, at) == (evaluate(length, at) % count == 0)


def test_expressions_past_the_limits_are_unknown_with_their_obligation() -> None:
    large = "(" + " + ".join(f"x{i}" for i in range(60)) + ")**2"
    legality = check("a -> a", [large], "a", f"{large} + 1")
    assert legality.verdict in ("unknown", "conditional", "illegal")
    assert legality.verdict == "illegal" or legality.conditions
