"""Law: a claim holds where it has a value and is true; so does a fact. Oracle: brute force.

Proved: it has a value and is true everywhere. Conditional: it is true wherever it has a value, and
counterexample is where it has none. Refuted: it is false where it has a value.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dimsolve.api.results import model_of
from dimsolve.ir.errors import ShapeError
from dimsolve.solver.proof.facts import read_facts
from dimsolve.solver.proof.prove import prove
from tests.oracles.claim_texts import polynomials
from tests.oracles.python_value import all_hold, box, says

SIZES = {0: 1, 1: 60, 2: 22, 3: 9}

ZERO_SOMEWHERE = [
    ("a % (n - 3) == a % (n - 3)", (), ("n != 3",)),
    ("n*(n - 3) % (n - 3) == 0", (), ("n != 3",)),
    ("(n*n - 4)//(n - 2) == n + 2", (), ("n != 2",)),
    ("(a - b)//(a - b) == 1", (), ("a != b",)),
    ("0*(x//(a - b)) == 0", (), ("a != b",)),
    ("x//(a - b) >= 0", ("a >= b",), ("a != b",)),
    ("c//(a//b) >= 0", (), ("a//b != 0",)),
    ("c % (a % b) < b", ("b >= 2",), ("a % b != 0",)),
    ("(a//(b - 1))*0 + c >= 1", (), ("b >= 2",)),
    ("x//(a - b)//(b - a) <= 0", (), ("a != b",)),
    ("min(n, 5//(n - 2)) <= n", (), ("n != 2",)),
    ("ceildiv(n, n - 4) == ceildiv(n, n - 4)", (), ("n != 4",)),
]


@pytest.mark.parametrize(("claim", "facts", "conditions"), ZERO_SOMEWHERE)
def test_a_divisor_that_can_be_0_makes_a_claim_conditional(
    claim: str, facts: tuple[str, ...], conditions: tuple[str, ...]
) -> None:
    proof = prove(claim, facts=facts)
    assert proof.verdict == "conditional"
    assert proof.counterexample is not None
    assert all_hold(facts, proof.counterexample)
    assert says(claim, proof.counterexample) is None
    names = set(re.findall(r"\b[abcnx]\b", " ".join((claim, *facts))))
    for values in box(names, SIZES):
        if all_hold(facts, values):
            assert all_hold(proof.conditions, values) == (says(claim, values) is True), values
    assert proof.conditions == conditions


DEFINED = [
    ("a % (n - 3) >= 0", ("n >= 4",)),
    ("n*(n - 3) % (n - 3) == 0", ("n != 3",)),
    ("n*(n - 3) % (n - 3) == 0", ("n % 2 == 0",)),
    ("x//(a - b) >= 0", ("a > b",)),
    ("c//(a//b) >= 0", ("a >= b",)),
    ("c % (a % b) < b", ("a % b >= 1",)),
    ("x % (2*a - 2*b + 1) == x % (1 - 2*b + 2*a)", ()),
    ("x // (a*a + b*b - 2*a*b + 1) >= 0", ()),
    ("x % (n % 2 + 1) <= 1", ()),
    ("n*(k - 1) % (k - 1) == 0", ("n % (k - 1) == 0",)),
    ("k >= 2", ("0*(n//(k - 1)) == 0",)),
    ("a != b", ("x//(a - b) == x//(a - b)",)),
]


@pytest.mark.parametrize(("claim", "facts"), DEFINED)
def test_a_divisor_that_is_never_0_under_the_facts(claim: str, facts: tuple[str, ...]) -> None:
    assert prove(claim, facts=facts).verdict == "proved"
    names = set(re.findall(r"\b[abcnkx]\b", " ".join((claim, *facts))))
    for values in box(names, SIZES):
        assert says(claim, values) is True or not all_hold(facts, values)


FALSE_SOMEWHERE = [
    ("7//(a - 1) == 7", (), ("a >= 2", "7//(a - 1) == 7")),
    ("a % (n - 3) == 0", (), ("n != 3", "a % (n - 3) == 0")),
    ("c//(a - b) >= 1", ("a >= b",), None),
    ("a//(b//c) >= 1", ("b <= 9",), None),
]


@pytest.mark.parametrize(("claim", "facts", "conditions"), FALSE_SOMEWHERE)
def test_a_counterexample_has_a_value(
    claim: str, facts: tuple[str, ...], conditions: tuple[str, ...] | None
) -> None:
    proof = prove(claim, facts=facts)
    assert proof.verdict == "refuted"
    assert conditions is None or proof.conditions == conditions
    assert proof.counterexample is not None
    assert all_hold(facts, proof.counterexample)
    assert says(claim, proof.counterexample) is False
    names = set(re.findall(r"\b[abcn]\b", " ".join((claim, *facts))))
    for values in box(names, SIZES):
        if all_hold(facts, values):
            assert all_hold(proof.conditions, values) == (says(claim, values) is True), values


def test_the_answer_says_where_it_has_no_value() -> None:
    proof = prove("n*(n - 3) % (n - 3) == 0")
    assert str(proof) == (
        "conditional: n*(n - 3) % (n - 3) == 0 has no value at n = 3: it divides by n - 3, which "
        "is 0; elsewhere it holds: both sides are the same\n"
        "it holds exactly where n != 3"
    )
    assert model_of(proof).model_dump(mode="json") == {
        "verdict": "conditional",
        "reason": "n*(n - 3) % (n - 3) == 0 has no value at n = 3: it divides by n - 3, which is "
        "0; elsewhere it holds: both sides are the same",
        "conditions": ["n != 3"],
        "counterexample": {"n": 3},
    }


NEGATIVE = [
    "7//(-2) == -4",
    "7 % (-2) == -1",
    "ceildiv(7, -2) == -3",
    "a % (-b) <= 0",
    "a % (-b) > -b",
    "a//(-b) == -ceildiv(a, b)",
    "(-a)//(-b) == a//b",
    "(-a) % (-b) == -(a % b)",
    "ceildiv(a, -b) == -(a//b)",
    "a == (a//(-b))*(-b) + a % (-b)",
]


@pytest.mark.parametrize("claim", NEGATIVE)
def test_a_negative_divisor_rounds_as_python_does(claim: str) -> None:
    names = set(re.findall(r"\b[ab]\b", claim))
    wrong = [values for values in box(names, SIZES) if says(claim, values) is not True]
    proof = prove(claim)
    assert wrong == []
    assert proof.verdict == "proved"


@settings(max_examples=200)
@given(polynomials(2, 2), polynomials(1, 2), polynomials(1, 2), st.sampled_from(("//", "%")))
def test_random_divisors(p: str, d: str, e: str, sign: str) -> None:
    claim = f"({p}) {sign} (({d}) - ({e})) == ({p}) {sign} (({d}) - ({e}))"
    names = set(re.findall(r"\b[abc]\b", claim))
    try:
        proof = prove(claim)
    except Exception as error:
        assert getattr(error, "diagnostic", None) is not None
        assert all(says(claim, values) is None for values in box(names, SIZES))
        return
    answers = [(values, says(claim, values) is True) for values in box(names, SIZES)]
    if proof.verdict == "proved":
        assert all(answer for _, answer in answers)
    else:
        assert proof.verdict == "conditional"
        assert proof.counterexample is not None
        assert says(claim, proof.counterexample) is None
    for values, answer in answers if proof.conditions else ():
        assert all_hold(proof.conditions, values) == answer


def test_a_fact_without_a_value_is_not_satisfied() -> None:
    known = read_facts(["n % (k - 1) == 0"])
    assert not known.holds({"n": 4, "k": 1})
    with pytest.raises(ShapeError):
        read_facts(["(k - 1)//(k - 1) == 1", "k == 1"])
    assert prove("k == 2", facts=["0*(n//(k - 1)) == 0", "k <= 2"]).verdict == "proved"


CHAINS = [
    ("1 <= s <= 8", ("s < 9",), "proved", ()),
    ("1 <= s <= 8", (), "refuted", ("s <= 8",)),
    ("2 <= s <= 8", (), "refuted", ("s >= 2", "s <= 8")),
    ("0 <= a % b < b", (), "proved", ()),
    ("0 <= a - a//b*b < b <= a + b", (), "proved", ()),
    ("a == b == c", ("a == b", "b == c"), "proved", ()),
    ("5 <= s <= 3", (), "refuted", ()),
    ("a % 4 == b % 4 == 2", ("a % 4 == 2", "b == a + 8"), "proved", ()),
    ("n//2 <= n//(n - 2) <= n", ("n >= 2",), "refuted", None),
    ("0 <= n//(n - 2) <= n", ("n >= 2",), "conditional", ("n != 2",)),
]


@pytest.mark.parametrize(("claim", "facts", "verdict", "conditions"), CHAINS)
def test_a_chain_asks_for_all_its_comparisons(
    claim: str, facts: tuple[str, ...], verdict: str, conditions: tuple[str, ...] | None
) -> None:
    proof = prove(claim, facts=facts)
    assert proof.verdict == verdict
    assert conditions is None or proof.conditions == conditions
    words = re.split(r"(==|<=|<)", claim)
    parts = ["".join(words[i : i + 3]).strip() for i in range(0, len(words) - 2, 2)]
    names = set(re.findall(r"\b[abcns]\b", " ".join((claim, *facts))))
    for values in box(names, SIZES):
        if all_hold(facts, values):
            held = all_hold(parts, values)
            assert held or verdict != "proved"
            if verdict != "proved":
                assert held == (bool(proof.conditions) and all_hold(proof.conditions, values))


def test_a_chain_explains_itself() -> None:
    assert str(prove("2 <= s <= 8", facts=["s >= 2"])) == (
        "refuted: s <= 8 fails at s = 9, where s is 9\nit holds exactly where s <= 8"
    )
    assert str(prove("2 <= s <= 8", facts=["2 <= s <= 8"])) == (
        "proved: 2 <= s <= 8 for all values: by the bounds of the symbols"
    )


def test_what_is_too_large_is_left_with_its_obligation() -> None:
    proof = prove("(a + b + c + d + e)**12 == 1")
    assert (proof.verdict, proof.conditions) == ("unknown", ("(a + b + c + d + e)**12 == 1",))
