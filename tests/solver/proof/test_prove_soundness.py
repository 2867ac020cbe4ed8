"""Law: a verdict is a theorem, a counterexample is one, a condition is necessary and sufficient.

A claim that has no value at some values, because it divides by 0, does not hold there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from dimsolve.ir.errors import AnnotationError, ShapeError
from dimsolve.solver.proof.prove import prove
from dimsolve.solver.proof.verdict import Proof
from tests.oracles.claim_texts import claims, facts, identities
from tests.oracles.python_value import all_hold, box, says

SIZES = {0: 1, 1: 60, 2: 22, 3: 9}
MANY = settings(max_examples=300)


def answered(claim: str, given_facts: Sequence[str]) -> Proof | None:
    """The proof, checked against brute force; None where the facts contradict each other."""
    names = set(re.findall(r"\b[abc]\b", " ".join((claim, *given_facts))))
    points = [v for v in box(names, SIZES) if all_hold(given_facts, v)]
    try:
        proof = prove(claim, facts=given_facts)
    except ShapeError:
        assert not points, (claim, given_facts)
        return None
    except AnnotationError as error:
        assert error.diagnostic.code == "no-value"
        assert all(says(claim, v) is None for v in points), (claim, given_facts)
        return None
    check(proof, claim, given_facts, points)
    return proof


def check(
    proof: Proof, claim: str, given_facts: Sequence[str], points: list[dict[str, int]]
) -> None:
    about = (claim, given_facts, proof)
    values = [(v, says(claim, v) is True) for v in points]
    if proof.verdict == "proved":
        assert all(value for _, value in values), about
    if proof.verdict == "refuted":
        assert proof.counterexample is not None, about
        assert all_hold(given_facts, proof.counterexample), about
        assert says(claim, proof.counterexample) is False, about
        assert all(number >= 1 for number in proof.counterexample.values()), about
    elif proof.counterexample is not None:
        assert proof.verdict == "conditional", about
        assert all_hold(given_facts, proof.counterexample), about
        assert says(claim, proof.counterexample) is None, about
    if proof.verdict == "refuted" and not proof.conditions:
        assert not any(value for _, value in values), about
    assert proof.verdict in ("proved", "refuted") or proof.conditions, about
    if proof.conditions:
        for v, value in values:
            assert all_hold(proof.conditions, v) == value, (about, v)


@MANY
@given(claims(), st.lists(facts(), max_size=3))
def test_random_claims(claim: str, given_facts: list[str]) -> None:
    answered(claim, given_facts)


@MANY
@given(identities(), st.lists(facts(), max_size=2))
def test_true_claims_are_never_refuted(claim: str, given_facts: list[str]) -> None:
    proof = answered(claim, given_facts)
    assert proof is None or proof.verdict != "refuted", (claim, given_facts)


@settings(max_examples=200)
@given(identities())
def test_true_claims_of_these_kinds_are_proved(claim: str) -> None:
    proof = answered(claim, ())
    assert proof is not None and proof.verdict == "proved", claim


@MANY
@given(claims())
def test_without_facts(claim: str) -> None:
    answered(claim, ())
