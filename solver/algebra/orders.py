"""Polynomials that are nowhere negative for atoms from 0 upwards, shown order by order.

In each order of the atoms, ``x >= y >= z``, the differences are atoms from 0 upwards themselves: z,
y - z and x - y. Where no coefficient is negative when it is written in them, the polynomial is not
(successive differences).

    a**3 + b**3 + c**3 - 3*a*b*c    in the order a >= b >= c, with a = c + u + v, b = c + u:
                                    3*c*(u**2 + u*v + v**2) + (u + v)**3 + u**3
"""

from __future__ import annotations

from itertools import permutations

from .poly import Dim, Poly, TooLarge, atoms_of, replace, symbol, terms_of

MAX_ATOMS = 3
MAX_TERMS = 16


def is_nonnegative_in_every_order(dim: Dim) -> bool:
    """Whether this shows that dim is at least 0 for atoms of at least 0. False proves nothing.

    >>> a, b, c = symbol("a"), symbol("b"), symbol("c")
    >>> is_nonnegative_in_every_order(a**3 + b**3 + c**3 - 3 * a * b * c)
    True
    >>> is_nonnegative_in_every_order(a**2 - b**2)
    False
    """
    if isinstance(dim, int) or len(dim.terms) > MAX_TERMS:
        return isinstance(dim, int) and dim >= 0
    names = sorted(atoms_of(dim))
    if not 2 <= len(names) <= MAX_ATOMS:
        return False
    try:
        return all(_has_no_minus(dim, order) for order in permutations(names))
    except TooLarge:
        return False


def _has_no_minus(dim: Poly, order: tuple[str, ...]) -> bool:
    """Whether no coefficient is negative with each atom written as the next smaller one plus a
    difference, which takes the atom's name.
    """
    values: dict[str, Dim] = {}
    total: Dim = 0
    for name in order:
        total = total + symbol(name)
        values[name] = total
    return all(c >= 0 for c in terms_of(replace(dim, values)).values())
