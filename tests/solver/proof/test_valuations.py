"""Law: what is shown prime by prime holds at every value; what follows from a product and residues
of its factors is shown.
"""

from __future__ import annotations

import random
from itertools import product

import pytest

from dimsolve.ir.errors import ShapeError
from dimsolve.ir.read_expression import read_relation
from dimsolve.solver.proof.facts import read_facts
from dimsolve.solver.proof.prove import prove
from dimsolve.solver.proof.valuations import follows_from_valuations
from dimsolve.solver.shapes import dim_of_text

PROVED = [
    ("h % 7 == 0", ["h*t == d", "d % 7 == 0", "t % 7 == 1"]),
    ("h % 4 == 0", ["h*t == d", "d % 8 == 0", "t % 4 == 2"]),
    ("h % 9 == 0", ["h*t == d", "d % 27 == 0", "t % 9 == 6"]),
    ("a % 9 == 0", ["a*b == c*d", "c % 9 == 0", "b % 3 != 0"]),
    ("h % 7 == 0", ["h*t*u == d", "d % 21 == 0", "t % 7 == 1", "u % 7 == 3"]),
    ("a % 25 == 0", ["a*b == c", "b*e == f", "c % 25 == 0", "f % 5 != 0"]),
    ("a % 12 == 0", ["a*b == c", "c % 36 == 0", "b % 4 == 1", "b % 9 == 3"]),
    ("(h + 1) % 7 == 0", ["(h + 1)*t == d", "d % 7 == 0", "t % 7 == 1"]),
    ("h % 49 == 0", ["h*(t + 3) == d", "d % 49 == 0", "t % 7 == 1"]),
    ("h*h % 49 == 0", ["h*t == 7*d", "t % 7 == 1"]),
    ("x % 11 == 0", ["x*y == 11*z", "(y*w) % 11 == 4"]),
]


@pytest.mark.parametrize(("claim", "facts"), PROVED)
def test_a_prime_that_one_factor_lacks_divides_the_others(claim: str, facts: list[str]) -> None:
    assert prove(claim, facts=facts).verdict == "proved"
    relation = read_relation(claim)
    text = str(relation.left)
    dividend, modulus = text.rsplit(" % ", 1)
    bare = dim_of_text(dividend.removeprefix("(").removesuffix(")"))
    assert follows_from_valuations(int(modulus), bare, read_facts(facts))


@pytest.mark.parametrize(
    ("claim", "facts"),
    [
        ("h % 8 == 0", ["h*t == d", "d % 8 == 0", "t % 4 == 2"]),
        ("h % 5 == 0", ["h*t == 5*d", "t % 5 == 0"]),
        ("h % 7 == 0", ["h*t == d", "d % 7 == 0", "t % 5 == 1"]),
    ],
)
def test_what_does_not_follow_is_refuted(claim: str, facts: list[str]) -> None:
    proof = prove(claim, facts=facts)
    assert proof.verdict == "refuted"
    assert proof.counterexample is not None and read_facts(facts).holds(proof.counterexample)


NAMES = "abcd"
MODULI = (2, 3, 4, 6, 8, 9)
SIDES = ["a", "b", "a*b", "a*c", "b*c", "a*a", "2*a*b", "a*(b + 1)", "(a - b)*c", "a*b*c", "6"]
RIGHT = ["d", "2*d", "c*d", "d*d", "3*d", "12", "b*d"]


def _facts(rng: random.Random) -> list[str]:
    facts = [f"{rng.choice(SIDES)} == {rng.choice(RIGHT)}"]
    if rng.random() < 0.3:
        facts.append(f"{rng.choice(SIDES)} == {rng.choice(RIGHT)}")
    for _ in range(rng.randint(1, 3)):
        modulus = rng.choice(MODULI)
        what = rng.choice([*NAMES, *NAMES, "(a*b)", "(b + 1)", "(a - b)", "(3*c)"])
        comparison = rng.choice(["==", "==", "==", "!="])
        facts.append(f"{what} % {modulus} {comparison} {rng.randrange(modulus)}")
    return facts


def test_nothing_that_is_shown_fails_at_small_values() -> None:
    rng = random.Random(7)
    points = [dict(zip(NAMES, p, strict=True)) for p in product(range(1, 13), repeat=len(NAMES))]
    shown = 0
    for _ in range(400):
        try:
            facts = read_facts(_facts(rng))
        except ShapeError:
            continue
        held = None
        for text in ("a", "b", "c", "d", "a*b", "a*c", "b + 1", "a - b"):
            for modulus in MODULI:
                if not follows_from_valuations(modulus, dim_of_text(text), facts):
                    continue
                shown += 1
                if held is None:
                    held = [point for point in points if facts.holds(point)]
                value = read_relation(f"({text}) % {modulus} == 0")
                assert all(read_facts([value]).holds(p) for p in held), (facts, text, modulus)
    assert shown > 200
