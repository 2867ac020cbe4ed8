"""Law: facts are read once, hold as they were written, and may not contradict each other."""

from __future__ import annotations

import pytest

from dimsolve.ir.errors import AnnotationError, ShapeError
from dimsolve.ir.read_expression import read_relation
from dimsolve.solver.proof.facts import NO_FACTS, read_facts
from dimsolve.solver.proof.prove import prove


def test_the_same_facts_are_the_same_object() -> None:
    known = read_facts(["k % 64 == 0", "s >= 2"])
    assert read_facts(iter(["k % 64 == 0", "s >= 2"])) is known
    spelled = read_facts(["k % 64 == 0", "s  >=  2"])  # an answer quotes what was written
    assert spelled.relations == known.relations
    assert [fact.text for fact in spelled.relations] == ["k % 64 == 0", "s  >=  2"]
    assert read_facts([read_relation("k % 64 == 0"), "s >= 2"]) is known
    assert read_facts(known) is known
    assert hash(known) == hash(read_facts(known.relations))
    assert known.symbols == {"k", "s"}
    assert read_facts(()) is NO_FACTS


def test_a_chain_is_several_facts() -> None:
    assert [str(relation) for relation in read_facts(["2 <= s < 8"]).relations] == [
        "2 <= s",
        "s < 8",
    ]


def test_facts_hold_as_written() -> None:
    known = read_facts(["n % (k - 1) == 0"])
    assert known.holds({"n": 6, "k": 3})
    assert not known.holds({"n": 7, "k": 3})
    assert not known.holds({"n": 6, "k": 1}), "it has no value there"


CONTRADICTIONS = [
    ["a == a + 1"],
    ["a <= a - 1"],
    ["a <= 0"],
    ["a*a == 2"],
    ["2*a == 2*b + 1"],
    ["a % 4 == 1", "a % 6 == 2"],
    ["a > b", "b > c", "c > a"],
    ["a1 >= a3 + 1", "a3 >= 4", "a1 <= a4 + 2", "a4 <= 2"],
    ["h*t == 7", "h >= 2", "t >= 2"],
    ["max(a, b) == 5", "min(a, b) == 6"],
    ["a % b == 2", "b <= 2"],
    ["a*b == 6", "a*c == 35", "a >= 2"],
    ["k % 8 == 0", "k % 3 == 1", "k < 16"],
    ["a*a == 3*b*b"],
]


@pytest.mark.parametrize("facts", CONTRADICTIONS, ids=", ".join)
def test_contradictions_are_found(facts: list[str]) -> None:
    with pytest.raises(ShapeError) as found:
        read_facts(facts)
    assert found.value.diagnostic.code == "contradictory-facts"


def test_one_fact_that_can_never_hold_says_so() -> None:
    with pytest.raises(ShapeError) as found:
        read_facts(["a <= a - 1"])
    assert str(found.value) == (
        "this fact can never hold\n"
        "  a <= a - 1\n"
        "  ^~~~~~~~~~\n"
        "  no positive integers satisfy 'a <= a - 1'\n"
        "  hint: every symbol is an integer of at least 1"
    )


def test_facts_that_contradict_each_other_say_so() -> None:
    with pytest.raises(ShapeError) as found:
        read_facts(["h*t == 7", "h >= 2", "t >= 2"])
    assert str(found.value) == (
        "the facts contradict each other\n"
        "  no positive integers satisfy 'h*t == 7', 'h >= 2', 't >= 2'\n"
        "  hint: every symbol is an integer of at least 1"
    )


def test_a_fact_without_a_value() -> None:
    with pytest.raises(AnnotationError) as found:
        read_facts(["n % (k - k) == 0"])
    assert str(found.value) == (
        "a fact divides by zero\n"
        "  n % (k - k) == 0\n"
        "  ^~~~~~~~~~~~~~~~\n"
        "  'n % (k - k) == 0' has no value, whatever the symbols are"
    )


def test_a_claim_without_a_value() -> None:
    with pytest.raises(AnnotationError) as found:
        prove("n//(k - k) == 1")
    assert str(found.value) == (
        "the claim divides by zero\n"
        "  n//(k - k) == 1\n"
        "  ^~~~~~~~~~~~~~~\n"
        "  'n//(k - k) == 1' has no value whatever the symbols are"
    )
    with pytest.raises(AnnotationError) as found:
        prove("n//(a - b) == 1", facts=["a == b"])
    assert str(found.value) == (
        "the claim divides by zero\n"
        "  n//(a - b) == 1\n"
        "  ^~~~~~~~~~~~~~~\n"
        "  'n//(a - b) == 1' has no value at any values that satisfy the facts"
    )


@pytest.mark.parametrize(
    ("facts", "values"),
    [
        (["c*c*b == 2*(s % 3) - 1"], {"b": 1, "c": 1, "s": 1}),
        (["s == t + 1", "c**2*b == 2*(s % 3)*(s - t)**2 - 1"], {"b": 1, "c": 1, "s": 4, "t": 3}),
        (["c*c*b == 2*(s % 3) - 1", "b == 3"], {"b": 3, "c": 1, "s": 2}),
    ],
)
def test_a_floor_of_parameters_is_replaced_with_them(
    facts: list[str], values: dict[str, int]
) -> None:
    assert read_facts(facts).holds(values)


def test_of_a_chain_the_comparison_without_a_value_is_marked() -> None:
    with pytest.raises(AnnotationError) as caught:
        prove("2 == a == b % (a % a)")
    assert str(caught.value) == (
        "the claim divides by zero\n"
        "  2 == a == b % (a % a)\n"
        "       ^~~~~~~~~~~~~~~~\n"
        "  '2 == a == b % (a % a)' has no value whatever the symbols are"
    )
