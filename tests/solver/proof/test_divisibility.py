"""Law: fixed divisors, quotients and decisions of divisibility are what brute force says."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dimsolve.ir.errors import ShapeError
from dimsolve.ir.expression import Comparison
from dimsolve.ir.read_expression import read_dimension
from dimsolve.solver.algebra.dims import evaluate, from_expression
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.proof.divisibility import (
    FixedDivisor,
    exact_quotient,
    fixed_divisor,
    greatest_divisor,
    simplify,
)
from dimsolve.solver.proof.facts import NO_FACTS, Facts, read_facts
from dimsolve.solver.proof.prove import decide, decide_divides
from dimsolve.solver.proof.verdict import Always, Never, Sometimes, Undecided
from tests.oracles.claim_texts import facts, polynomials
from tests.oracles.python_value import all_hold, box

POINTS = list(box(("a", "b", "c"), {3: 8}))


def dim(text: str) -> Dim:
    return from_expression(read_dimension(text))


def read(texts: list[str]) -> Facts | None:
    try:
        return read_facts(texts)
    except ShapeError:
        return None


@settings(max_examples=200)
@given(polynomials())
def test_the_fixed_divisor_is_the_greatest_of_all(text: str) -> None:
    length = dim(text)
    assert fixed_divisor(length, NO_FACTS) == gcd(*(evaluate(length, v) for v in POINTS))


@settings(max_examples=150)
@given(polynomials(), st.lists(facts(), min_size=1, max_size=2))
def test_the_fixed_divisor_under_facts_divides(text: str, texts: list[str]) -> None:
    known = read(texts)
    assume(known is not None)
    assert known is not None
    divisor = fixed_divisor(dim(text), known)
    for v in POINTS:
        if all_hold(texts, v):
            value = evaluate(dim(text), v)
            assert value % divisor == 0 if divisor else value == 0


@settings(max_examples=200)
@given(polynomials(), polynomials(2, 2), st.lists(facts(), max_size=2))
def test_decisions_are_theorems(dividend: str, divisor: str, texts: list[str]) -> None:
    known = read(texts)
    assume(known is not None)
    assert known is not None
    p, d = dim(dividend), dim(divisor)
    assume(d != 0)

    def divides(v: Mapping[str, int]) -> bool:
        return evaluate(d, v) != 0 and evaluate(p, v) % evaluate(d, v) == 0

    answers = [(v, divides(v)) for v in POINTS if all_hold(texts, v)]
    match decide_divides(d, p, known):
        case Always():
            assert all(answer for _, answer in answers)
        case Never(_, counterexample):
            assert not any(answer for _, answer in answers)
            assert not divides(counterexample)
        case Sometimes(_, counterexample, conditions):
            assert not divides(counterexample)
            for v, answer in answers:
                assert all_hold(conditions, v) == answer, (v, conditions)
        case Undecided(_, conditions):
            for v, answer in answers:
                assert all_hold(conditions, v) == answer, (v, conditions)


@settings(max_examples=150)
@given(polynomials(), polynomials(2, 2), st.lists(facts(), max_size=2))
def test_quotients_are_exact(dividend: str, divisor: str, texts: list[str]) -> None:
    known = read(texts)
    assume(known is not None)
    assert known is not None
    p, d = dim(dividend), dim(divisor)
    assume(d != 0)
    quotient = exact_quotient(p, d, known)
    for v in POINTS:
        if all_hold(texts, v) and evaluate(d, v):
            assert evaluate(simplify(p, known), v) == evaluate(p, v)
            if quotient is not None:
                assert evaluate(quotient, v) * evaluate(d, v) == evaluate(p, v)


@pytest.mark.parametrize(
    ("dividend", "divisor", "texts", "quotient"),
    [
        ("8*s", "8", (), "s"),
        ("n", "8", ("n % 8 == 0",), "n//8"),
        ("n", "8", ("n == 8*m",), "m"),
        ("n*m", "8", ("n % 8 == 0",), "(n//8)*m"),
        ("12*s*t", "4*t", (), "3*s"),
        ("d", "h", ("h*t == d",), "t"),
        ("n", "k", ("n % k == 0",), "n//k"),
        ("n*(n + 1)", "2", (), "(n**2 + n)//2"),
        ("n", "4", (), None),
        ("n", "4", ("n % 8 == 3",), None),
    ],
)
def test_quotients_in_the_symbols_of_the_caller(
    dividend: str, divisor: str, texts: tuple[str, ...], quotient: str | None
) -> None:
    found = exact_quotient(dim(dividend), dim(divisor), read_facts(texts))
    assert (None if found is None else str(found)) == quotient


def test_decisions_of_partition_counts() -> None:
    assert decide_divides(4, dim("8*s"), NO_FACTS) == Always("4 divides 8*s")
    assert decide_divides(2, 7, NO_FACTS) == Never("7 % 2 == 0 is false", {})
    assert decide_divides(2, dim("2*s + 1"), NO_FACTS) == Never(
        "(2*s + 1) % 2 == 0 fails at s = 1, and everywhere else", {"s": 1}
    )
    assert decide_divides(3, dim("8*s"), NO_FACTS) == Sometimes(
        "8*s % 3 == 0 fails at s = 1", {"s": 1}, ("s % 3 == 0",)
    )
    assert decide_divides(dim("n"), dim("8*s"), NO_FACTS) == Sometimes(
        "8*s % n == 0 fails at n = 3, s = 1", {"n": 3, "s": 1}, ("8*s % n == 0",)
    )
    assert isinstance(decide_divides(4, dim("s"), read_facts(["s % 8 == 3"])), Never)
    assert isinstance(decide(dim("n"), Comparison.EQ, dim("m"), NO_FACTS), Sometimes)


FEW = ["a <= 6", "a % 3 == 1", "b <= 4", "a*b == 12", "a + b <= 7", "b % 2 == 0", "a != b"]


@settings(max_examples=60)
@given(polynomials(), st.lists(st.sampled_from(FEW), max_size=3, unique=True))
def test_where_values_are_few_the_fixed_divisor_is_the_greatest(text: str, more: list[str]) -> None:
    texts = ["a <= 9", "b <= 8", "c <= 3", *more]
    known = read(texts)
    assume(known is not None)
    assert known is not None
    values = [evaluate(dim(text), v) for v in box("abc", {3: 9}) if all_hold(texts, v)]
    assert greatest_divisor(dim(text), known) == FixedDivisor(gcd(*values), True)


@settings(max_examples=60)
@given(polynomials(), st.lists(facts(), max_size=3))
def test_what_is_found_under_facts_divides(text: str, texts: list[str]) -> None:
    known = read(texts)
    assume(known is not None)
    assert known is not None
    found = greatest_divisor(dim(text), known)
    values = [evaluate(dim(text), v) for v in POINTS if all_hold(texts, v)]
    assert all(value % found.value == 0 if found.value else value == 0 for value in values)


@pytest.mark.parametrize(
    ("text", "texts", "expected"),
    [
        ("n", ["n % 4 == 0", "9 <= n <= 12"], FixedDivisor(12, True)),
        ("n", ["n*k == 12", "k <= 2"], FixedDivisor(6, True)),
        ("n", ["n % 4 == 0", "n % 6 == 0"], FixedDivisor(12, True)),
        ("n*n", ["n*n % 8 == 0"], FixedDivisor(16, True)),
        ("2*a*b - 6*a*a", ["a*b % 5 == a*a*3 % 5"], FixedDivisor(10, True)),
        ("a - b", ["a % 12 == b % 12"], FixedDivisor(12, True)),
        ("n*n - 1", ["n % 2 == 1", "n % 3 != 0"], FixedDivisor(24, True)),
    ],
)
def test_greatest_divisors_under_facts(text: str, texts: list[str], expected: FixedDivisor) -> None:
    assert greatest_divisor(dim(text), read_facts(texts)) == expected
