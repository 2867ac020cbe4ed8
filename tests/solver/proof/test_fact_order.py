"""Law: the order of facts changes no answer, and an answer under facts is true at every point that
satisfies them.

A goal that is still to be written in atoms may hold floors and remainders, which can be 0.
"""

from __future__ import annotations

from itertools import permutations, product

import pytest

import dimsolve as ds
from tests.oracles.python_value import all_hold, says

QUESTIONS = [
    ("a > 1", ("a % 2 == 1", "b//2 < a")),
    ("a > 1", ("a % 2 == 1", "b % 3 < a")),
    ("a > 1", ("a % 2 == 1", "4 % a < a")),
    ("a > 1", ("a % 2 == 1", "b % c < a")),
    ("a > 1", ("a % 2 == 1", "(b % 3)*c < a")),
    ("a > 1", ("a % 2 == 1", "b % 3 <= a - 1")),
    ("a > 2", ("a % 3 == 2", "b % 3 + c % 2 < a")),
    ("a == 1", ("a % 2 == 1", "b//2 < a")),
    ("a >= 1", ("a % 2 == 1", "b//2 < a", "a == 1")),
    ("c > 1", ("c % 3 == 1", "max(a - 3, b//3) < c", "a < 4")),
]


@pytest.mark.parametrize(("claim", "facts"), QUESTIONS)
def test_every_order_of_the_facts_gives_a_true_answer(claim: str, facts: tuple[str, ...]) -> None:
    points = [dict(zip("abc", values, strict=True)) for values in product(range(1, 9), repeat=3)]
    admitted = [point for point in points if all_hold(facts, point)]
    truth = {says(claim, point) for point in admitted}
    verdicts = set()
    for ordered in permutations(facts):
        proof = ds.prove(claim, facts=ordered)
        verdicts.add(proof.verdict)
        assert (proof.verdict == "proved") is (truth == {True})
        for condition in proof.conditions if proof.verdict == "refuted" else ():
            for point in admitted:
                assert says(condition, point) is says(claim, point)
    assert len(verdicts) == 1


def test_a_length_that_can_be_zero_is_not_legal() -> None:
    facts = ["a % 2 == 1", "b//2 < a"]
    assert ds.infer("x -> x", ["a - 1"], facts=facts).conditions == ("a >= 2",)
    assert ds.check("x -> x", ["a - 1"], "x", 2, facts=facts).conditions == ("a >= 2",)
    assert ds.legal_parts("x -> x", ["a - 1"], "x", facts=facts).always == ()


@pytest.mark.parametrize(
    ("claim", "other"),
    [
        ("a//3 + (a + 1)//3 + (a + 2)//3 == a", "c >= 3"),
        ("(a % 3)**2 % 4 <= 1", "b == 2*c"),
        ("a <= a + b - 1 <= a*b", "c % 2 == 0"),
    ],
)
def test_facts_about_other_symbols_take_no_proof_away(claim: str, other: str) -> None:
    assert ds.prove(claim).verdict == ds.prove(claim, facts=[other]).verdict == "proved"
