"""Law: what is called a sum of squares is nowhere negative, and squares are found."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from dimsolve.solver.algebra.poly import Dim, symbol
from dimsolve.solver.algebra.signs import is_sum_of_squares

NAMES = ("a", "b", "c")
MONOMIALS = [1, *map(symbol, NAMES), symbol("a") ** 2, symbol("a") * symbol("b"), symbol("c") ** 2]


def combined(coefficients: list[int]) -> Dim:
    return sum(
        (c * m for c, m in zip(coefficients, MONOMIALS, strict=True)), start=0 * MONOMIALS[1]
    )


POLYNOMIALS = st.lists(st.integers(-3, 3), min_size=7, max_size=7).map(combined)


def value(dim: Dim, point: dict[str, int]) -> int:
    if isinstance(dim, int):
        return dim
    total = 0
    for monomial, coefficient in dim.terms.items():
        term = coefficient
        for atom, exponent in monomial:
            term *= point[atom] ** exponent
        total += term
    return total


@settings(max_examples=200)
@given(POLYNOMIALS, st.integers(0, 5))
def test_a_square_and_more_is_found(root: Dim, more: int) -> None:
    if not isinstance(root, int):
        assert is_sum_of_squares(root * root + more)


@settings(max_examples=300)
@given(POLYNOMIALS, POLYNOMIALS, st.integers(-4, 4))
def test_what_is_called_so_is_nowhere_negative(one: Dim, other: Dim, more: int) -> None:
    for dim in (one * one + other + more, one * one - other * other + more):
        if is_sum_of_squares(dim):
            for values in product(range(-4, 5), repeat=3):
                assert value(dim, dict(zip(NAMES, values, strict=True))) >= 0
