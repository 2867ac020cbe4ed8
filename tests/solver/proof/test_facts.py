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


UNRELATED = [
    ["h*w == n*k", "h >= 70"],
    ["h*w == 16*(h//4)*(w//4)", "h >= 20", "w >= 20"],
    ["h*w == n*k", "h >= 70", "u % 11 == 4", "u % 7 == 3", "v == 2*u + h"],
    ["1 == 1", "((h - 1)//2 + 1)*((w - 1)//2 + 1) == 4*(((h - 1)//4 + 1)*((w - 1)//4 + 1))"],
]
QUESTIONS = ["b % 2 == 0", "b*(b + 1) % 2 == 0", "b*c % 6 == 0", "b >= 4", "b*b*b != 5*c*c*c + 7"]


@pytest.mark.parametrize("claim", QUESTIONS)
@pytest.mark.parametrize("own", [[], ["b % 3 == 0"], ["b*c == 12*d", "d >= 2"]])
@pytest.mark.parametrize("unrelated", UNRELATED)
def test_facts_that_share_no_symbol_with_the_question_change_no_verdict(
    unrelated: list[str], own: list[str], claim: str
) -> None:
    alone, beside = prove(claim, facts=own), prove(claim, facts=own + unrelated)
    assert (beside.verdict, beside.conditions) == (alone.verdict, alone.conditions)
    assert (beside.counterexample is None) == (alone.counterexample is None)
    if beside.counterexample is not None:
        assert alone.counterexample is not None
        assert beside.counterexample.items() >= alone.counterexample.items()
        assert read_facts(own + unrelated).holds(beside.counterexample)


def test_unrelated_facts_that_contradict_each_other_are_an_error() -> None:
    for facts in (["x == 2*y", "x % 2 == 1"], ["x < y", "y < z", "z < x"]):
        with pytest.raises(ShapeError, match="contradict each other"):
            prove("b % 2 == 0", facts=facts)


def test_of_facts_without_known_values_there_is_no_counterexample() -> None:
    proof = prove("b % 2 == 0", facts=["x*x*x + y*y*y == z*z*z"])
    assert (proof.verdict, proof.counterexample) == ("unknown", None)
