"""Law: every question ends within its budget of steps, whatever is asked."""

from __future__ import annotations

import random

import pytest

from dimsolve.ir.errors import DimsolveError
from dimsolve.solver.algebra.budget import Budget
from dimsolve.solver.algebra.dims import READ_STEPS as READ_STEPS
from dimsolve.solver.proof import facts
from dimsolve.solver.proof import prove as examine
from dimsolve.solver.proof.prove import prove

LARGE = 10**50
SLACK = 40_000
"""Budgets beside the question's own: conditions, single expressions, the step over the edge."""


def nested(template: str, depth: int) -> str:
    text = "a"
    for i in range(depth):
        text = template.format(text, i=i)
    return text


CLAIMS: list[tuple[str, list[str]]] = [
    ("(a + b + c + d + e)**8 >= 0", []),
    ("a**16*b**16*c**16 % 1000 == 0", []),
    (f"a*b % {LARGE} == 7", []),
    (f"a*a % {LARGE} == 7", [f"a % {LARGE} == 1"]),
    (f"{LARGE}*a + {LARGE + 1}*b == {LARGE + 7}*c", []),
    (nested("(({0})//2 + b)", 20) + " >= 0", []),
    (nested("(({0})//b + c)", 15) + " >= 0", []),
    (nested("({0}) % (b + {i})", 12) + " >= 0", []),
    (nested("max({0}, b + {i})", 30) + " == min(a, b)", []),
    (" + ".join(f"x{i}" for i in range(400)) + " >= 400", []),
    ("*".join(f"x{i}" for i in range(60)) + " % 64 == 0", []),
    (" + ".join(f"x{i}%{i + 2}" for i in range(60)) + " >= 0", []),
    (" + ".join(f"(x{i}//{i + 2})*x{i + 1}" for i in range(60)) + " >= 0", []),
    ("a % 2 == 0", [f"x{i} % {i + 2} == 0" for i in range(300)]),
    ("a <= x299", ["a <= x0", *(f"x{i} <= x{i + 1}" for i in range(299))]),
    ("x0 % 2 == 0", [f"x{i} == 2*x{i + 1}" for i in range(200)]),
    ("a % 3 == 0", [f"max(x{i}, y{i}) == z{i}" for i in range(40)]),
    ("a*b % 7 == 0", [f"x{i}*y{i} == 720720" for i in range(20)]),
    ("a == b", ["a*b*c*d*e*f == 720720"]),
    ("a**3 + b**3 + c**3 == 42", []),
    ("a*a - 61*b*b == 1", []),
    ("((a + b)**10)//((a + c)**10) >= 0", []),
    ("min(a, b, c, d, e, f, g, h) <= max(a, b, c, d, e, f, g, h)", []),
    ("a*a != b*b + 1", [f"a*a != b*b + {i}" for i in range(100)]),
    ("a*b*c*d % 12 == 0", [f"(a*b + {i}*c*d) % {i + 3} == {i % 3}" for i in range(12)]),
]


def expression(draw: random.Random, depth: int) -> str:
    if depth == 0:
        if draw.random() < 0.3:
            return str(draw.randint(1, 10 ** draw.randint(1, 6)))
        return draw.choice("abcdefgh") + draw.choice(("", "", "**2", "**3"))
    left, right = expression(draw, depth - 1), expression(draw, depth - 1)
    form = draw.choice(
        (
            "({0} + {1})",
            "({0} - {1})",
            "({0})*({1})",
            "({0})//({1})",
            "({0})%({1})",
            "max({0}, {1})",
        )
    )
    return form.format(left, right)


def random_claims(count: int) -> list[tuple[str, list[str]]]:
    draw = random.Random(count)

    def relation(left: int, right: int) -> str:
        comparison = draw.choice(("==", "!=", "<=", ">="))
        return f"{expression(draw, left)} {comparison} {expression(draw, right)}"

    return [
        (relation(draw.randint(2, 6), 2), [relation(3, 2) for _ in range(draw.randint(0, 3))])
        for _ in range(count)
    ]


@pytest.mark.parametrize(("claim", "given"), CLAIMS, ids=lambda part: str(part)[:40])
def test_hostile_claims_end(claim: str, given: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert steps_of(claim, given, monkeypatch) <= allowed(given)


def test_random_claims_of_any_depth_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for claim, given in random_claims(60):
        assert steps_of(claim, given, monkeypatch) <= allowed(given), (claim, given)


def allowed(given: list[str]) -> int:
    """The budgets of reading each relation, of the facts, and of the claim, for 500 symbols."""
    more = 2 * 500 * facts.PER_SYMBOL
    return READ_STEPS * (len(given) + 1) + facts.STEPS + examine.STEPS + more + SLACK


def steps_of(claim: str, given: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """How many steps all budgets together spend on a question; only our own errors may come out."""
    spent = 0
    spend = Budget.spend

    def counted(self: Budget, steps: int = 1) -> None:
        nonlocal spent
        spent += min(steps, max(self.left, 0))
        spend(self, steps)

    with monkeypatch.context() as patch:
        patch.setattr(Budget, "spend", counted)
        try:
            assert prove(claim, facts=given).verdict in (
                "proved",
                "refuted",
                "conditional",
                "unknown",
            )
        except DimsolveError as error:
            assert error.diagnostic.code
    return spent
