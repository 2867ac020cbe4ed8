"""Law: residue tables, fixed divisors and failing points are what counting says."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from dimsolve.ir.read_expression import read_dimension
from dimsolve.solver.algebra.budget import Budget
from dimsolve.solver.algebra.dims import evaluate, from_expression
from dimsolve.solver.algebra.divisors import divides_everywhere, failing_point, residue_table
from dimsolve.solver.algebra.integers import divisors, factors, join_congruences, solve_congruence
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.proof.floors import divided, divides_over_rationals, known_remainder
from tests.oracles.claim_texts import polynomials

POINTS = [dict(zip("abc", p, strict=True)) for p in product(range(-3, 6), repeat=3)]


def dim(text: str) -> Dim:
    return from_expression(read_dimension(text))


@settings(max_examples=120)
@given(polynomials(), st.integers(2, 9))
def test_tables_say_where_it_divides(text: str, modulus: int) -> None:
    table = residue_table(dim(text), modulus, Budget(10**6))
    if table is None:
        return
    for point in POINTS:
        place = tuple(point[a] % p for a, p in zip(table.atoms, table.periods, strict=True))
        assert (place in table.classes) == (evaluate(dim(text), point) % modulus == 0)


@settings(max_examples=120)
@given(polynomials(), st.integers(2, 60), st.integers(1, 9))
def test_a_failing_point_fails(text: str, divisor: int, least: int) -> None:
    length = dim(text)
    point = failing_point(divisor, length, {"a": least})
    everywhere = all(evaluate(length, p) % divisor == 0 for p in POINTS)
    assert (point is None) == divides_everywhere(divisor, length) == everywhere
    if point is not None:
        assert all(value >= (least if name == "a" else 1) for name, value in point.items())
        assert evaluate(length, point) % divisor != 0


@settings(max_examples=120)
@given(polynomials(), polynomials(2, 2))
def test_division_with_a_rest(dividend: str, divisor: str) -> None:
    a, b = dim(dividend), dim(divisor)
    if b == 0:
        return
    quotient, rest = divided(a, b)
    assert quotient * b + rest == a
    remainder = known_remainder(a, b)
    for point in POINTS:
        below = evaluate(b, point)
        if remainder is not None and below:
            assert evaluate(a, point) % below == remainder
        if not isinstance(b, int) and below and divides_over_rationals(b, a):
            assert evaluate(a, point) % below == 0


@settings(max_examples=120)
@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 30), st.integers(1, 30))
def test_congruences(a: int, b: int, m: int, n: int) -> None:
    solution = solve_congruence(a, b, m)
    holds = [x for x in range(60) if (a * x - b) % m == 0]
    assert holds == (
        [] if solution is None else [x for x in range(60) if x % solution[1] == solution[0]]
    )
    joined = join_congruences((a % m, m), (b % n, n))
    both = [x for x in range(1000) if x % m == a % m and x % n == b % n]
    assert both == (
        [] if joined is None else [x for x in range(1000) if x % joined[1] == joined[0]]
    )


@given(st.integers(1, 5000))
def test_factors_and_divisors(number: int) -> None:
    found = factors(number)
    assert found is not None
    total = 1
    for prime, exponent in found.items():
        assert all(prime % d for d in range(2, prime))
        total *= prime**exponent
    assert total == number
    assert divisors(number) == [d for d in range(1, number + 1) if number % d == 0]
