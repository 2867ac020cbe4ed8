"""A polynomial, seen as one of a single atom; everything else is a coefficient.

a*b + 2*b - c   is a line in b: slope a + 2, rest -c
3*n**2 - m      is a power of n: exponent 2, slope 3, rest -m
"""

from __future__ import annotations

from typing import NamedTuple

from ..algebra.monomials import Monomial
from ..algebra.poly import Dim, Poly, build, terms_of


def coefficients_of(dim: Poly) -> list[int]:
    """Returns the coefficients of a polynomial in one atom, the constant first."""
    degree = max(m[0][1] if m else 0 for m in dim.terms)
    coefficients = [0] * (degree + 1)
    for monomial, coefficient in dim.terms.items():
        coefficients[monomial[0][1] if monomial else 0] = coefficient
    return coefficients


def line_in(dim: Dim, name: str) -> tuple[Dim, Dim]:
    """Returns (slope, rest) of dim == slope*name + rest; slope 0 where name occurs with a higher
    power.
    """
    slope: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in terms_of(dim).items():
        exponent = dict(monomial).get(name, 0)
        if exponent > 1:
            return 0, dim
        if exponent:
            slope[tuple(power for power in monomial if power[0] != name)] = coefficient
        else:
            rest[monomial] = coefficient
    return build(slope), build(rest)


class Power(NamedTuple):
    """slope * atom**exponent + rest == 0, with the atom nowhere else."""

    atom: str
    exponent: int
    slope: Dim
    rest: Dim


def power_of(dim: Dim, name: str) -> Power:
    """Returns the equation as one of a power of the name; exponent 0 where there are several."""
    slope: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    exponents: set[int] = set()
    for monomial, coefficient in terms_of(dim).items():
        exponent = dict(monomial).get(name, 0)
        if exponent:
            exponents.add(exponent)
            slope[tuple(power for power in monomial if power[0] != name)] = coefficient
        else:
            rest[monomial] = coefficient
    exponent = exponents.pop() if len(exponents) == 1 else 0
    return Power(name, exponent, build(slope), build(rest))
