"""Law: a condition is exact, and written as people write it."""

from __future__ import annotations

import re

import pytest

from dimsolve.solver.proof.prove import prove
from tests.oracles.python_value import all_hold, box, says

SIZES = {1: 80, 2: 26, 3: 12, 4: 6}

WRITTEN = [
    ("8*s % 3 == 0", (), ("s % 3 == 0",)),
    ("8*s % 12 == 0", (), ("s % 3 == 0",)),
    ("(6*s + 2) % 8 == 0", (), ("s % 4 == 1",)),
    ("s*s % 8 == 0", (), ("s % 4 == 0",)),
    ("s % 8 == 3", (), ("s % 8 == 3",)),
    ("(s + 5) % 8 == 0", (), ("s % 8 == 3",)),
    ("s % 7 != 0", (), ("s % 7 != 0",)),
    ("n*(n + 1) % 3 == 0", (), ("n % 3 != 1",)),
    ("(2*n + 1)*n % 6 == 0", (), ("n % 2 == 0", "n % 3 != 2")),
    ("3*a*b % 6 == 0", (), ("a*b % 2 == 0",)),
    ("(a + b) % 4 == 0", (), ("(a + b) % 4 == 0",)),
    ("(9*a + b) % 8 == 0", (), ("(a + b) % 8 == 0",)),
    ("(3*a + 3*b) % 8 == 0", (), ("(a + b) % 8 == 0",)),
    ("a*b % 2 == 0", ("a % 2 == 1",), ("b % 2 == 0",)),
    ("s % 8 == 0", ("s % 4 == 0",), ("s % 8 == 0",)),
    ("a*b*c % 30 == 0", ("a % 2 == 0", "b % 3 == 0"), ("a*b*c % 5 == 0",)),
    ("8*s % n == 0", (), ("8*s % n == 0",)),
    ("6*a*b % (4*a*c) == 0", (), ("3*b % (2*c) == 0",)),
    ("(a*b + b) % a == 0", (), ("b % a == 0",)),
    ("2*n == 2*m", (), ("n == m",)),
    ("a*b == a*c", (), ("b == c",)),
    ("s//4*4 == s", (), ("s % 4 == 0",)),
    ("ceildiv(s, 4)*4 == s", (), ("s % 4 == 0",)),
    ("n*n - 4 >= 5", (), ("n >= 3",)),
    ("n*n <= 50", (), ("n <= 7",)),
    ("n*n == 49", (), ("n == 7",)),
    ("n*n - 10*n + 40 >= 20", (), ("n**2 + 20 >= 10*n",)),
    ("n*n + 21 <= 10*n", (), ("n >= 3", "n <= 7")),
    ("a < b", (), ("a < b",)),
    ("2*a >= 2*b + 3", (), ("a >= b + 2",)),
    ("a*b - 7 >= c", (), ("a*b >= c + 7",)),
    (f"n % {10**50} == 3", (), (f"n % {10**50} == 3",)),
]


@pytest.mark.parametrize(("claim", "facts", "conditions"), WRITTEN)
def test_as_people_write_it(
    claim: str, facts: tuple[str, ...], conditions: tuple[str, ...]
) -> None:
    proof = prove(claim, facts=facts)
    assert (proof.verdict, proof.conditions) == ("refuted", conditions)
    names = set(re.findall(r"\b[abcnms]\b", " ".join((claim, *facts))))
    for values in box(names, SIZES):
        if all_hold(facts, values):
            assert all_hold(conditions, values) == says(claim, values)


NEVER = [
    ("(2*s + 1) % 2 == 0", ()),
    ("7 % 2 == 0", ()),
    ("s % 4 == 0", ("s % 8 == 3",)),
    ("(4*a + 6*b + 1) % 2 == 0", ()),
    ("(n*n + 1) % 4 == 0", ()),
    ("(a*a + b*b) % 4 == 3", ()),
    ("(a*b + 1) % a == 0", ("a >= 2",)),
    ("a == b", ("a > b",)),
    ("max(a, b) < a", ()),
    ("h*h == 8*t*t + 3", ()),
]


@pytest.mark.parametrize(("claim", "facts"), NEVER)
def test_what_never_holds_has_no_condition(claim: str, facts: tuple[str, ...]) -> None:
    proof = prove(claim, facts=facts)
    assert (proof.verdict, proof.conditions) == ("refuted", ())
    assert proof.counterexample is not None
    assert says(claim, proof.counterexample) is False


def test_an_answer_explains_itself() -> None:
    assert str(prove("8*s % 3 == 0")) == (
        "refuted: 8*s % 3 == 0 fails at s = 1, where 8*s % 3 is 2\n"
        "it holds exactly where s % 3 == 0"
    )
    assert str(prove("n*(n + 1) % 2 == 0")) == (
        "proved: n*(n + 1) % 2 == 0 for all values: 2 divides n**2 + n"
    )
    assert str(prove("7 % 2 == 0")) == "refuted: 7 % 2 == 0 fails, where 7 % 2 is 1"
