"""Monomials, and their exact arithmetic: what a polynomial is a sum of.

A monomial is a sorted tuple of (atom, exponent), with positive exponents; the empty one is 1:

    k*s**2   is   (("k", 1), ("s", 2))

>>> multiply_monomials((("k", 1),), (("k", 1), ("s", 2)))
(('k', 2), ('s', 2))
>>> divide_monomials((("k", 2), ("s", 2)), (("s", 1),))
(('k', 2), ('s', 1))
>>> divide_monomials((("k", 2),), (("s", 1),)) is None
True
"""

from __future__ import annotations

from typing import TypeAlias

Monomial: TypeAlias = tuple[tuple[str, int], ...]


UNIT: Monomial = ()


def multiply_monomials(a: Monomial, b: Monomial) -> Monomial:
    """Returns the product of two monomials: exponents of equal atoms add up."""
    if not a:
        return b
    if not b:
        return a
    if a[-1][0] < b[0][0]:
        return a + b
    exponents = dict(a)
    for atom, exponent in b:
        exponents[atom] = exponents.get(atom, 0) + exponent
    return tuple(sorted(exponents.items()))


def divide_monomials(a: Monomial, b: Monomial) -> Monomial | None:
    """Returns a / b, or None where b does not divide a."""
    if not b:
        return a
    exponents = dict(a)
    for atom, exponent in b:
        left = exponents.get(atom, 0) - exponent
        if left < 0:
            return None
        if left:
            exponents[atom] = left
        else:
            del exponents[atom]
    return tuple(exponents.items())
