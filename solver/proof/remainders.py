"""Floors that are not open: quotients and remainders that polynomial arithmetic already knows.

(a*b + b)//a        b + b//a              long division
(n*n + n)//2        its remainder is 0    the fixed divisor of n*n + n is 2
r//b                0                     where 0 <= r < b
"""

from __future__ import annotations

from ..algebra.binomial import divides_everywhere
from ..algebra.monomials import UNIT, Monomial, divide_monomials
from ..algebra.poly import Dim, Poly, atoms_of, build, content, divide_exactly, terms_of

MAX_STEPS = 24


def divided(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    """Returns (quotient, rest) with a == quotient*b + rest, where no term of rest holds b's leading
    term.

    A constant b leaves coefficients from 0 to b - 1.

    >>> from dimsolve.solver.algebra.poly import symbol
    >>> x = symbol("x")
    >>> [str(part) for part in divided(x**2 + 3 * x + 5, x + 1)]
    ['x + 2', '3']
    """
    if isinstance(b, int):
        quotient = build({m: c // b for m, c in terms_of(a).items() if c // b})
        return quotient, a - quotient * b
    names = sorted(atoms_of(b))

    def order(monomial: Monomial) -> tuple[int, list[int]]:
        exponents = dict(monomial)
        return sum(exponents.values()), [exponents.get(name, 0) for name in names]

    lead = max(b.terms, key=order)
    coefficient = b.terms[lead]
    quotient, rest = 0, a
    for _ in range(MAX_STEPS):
        step: dict[Monomial, int] = {}
        for monomial, c in terms_of(rest).items():
            shift = divide_monomials(monomial, lead)
            if shift is not None and c // coefficient and (c > 0 or c % coefficient == 0):
                step[shift] = c // coefficient
        if not step:
            break
        part = build(step)
        quotient, rest = quotient + part, rest - part * b
    return quotient, rest


def known_remainder(a: Dim, b: Dim) -> int | None:
    """Returns the r with a % b == r at all integers where b is not 0, if there is such a constant
    and it is found.

    >>> from dimsolve.solver.algebra.poly import symbol
    >>> n = symbol("n")
    >>> known_remainder(n * (n + 1), 2), known_remainder(n, 2)
    (0, None)
    >>> known_remainder(4 * n * (n + 1) + 1, 8)
    1
    """
    if isinstance(b, int):
        remainder = terms_of(a).get(UNIT, 0) % b
        return remainder if divides_everywhere(b, a - remainder) else None
    return 0 if divides_over_rationals(b, a) else None


def divides_over_rationals(divisor: Poly, dividend: Dim) -> bool:
    """Whether dividend/divisor is a polynomial that is whole at all integers: then it divides
    wherever it is not 0.

    By Gauss's lemma the divisor without its content c divides with integer coefficients, and c
    must divide the quotient everywhere.
    """
    common = content(divisor)
    primitive = divide_exactly(divisor, common)
    assert primitive is not None
    quotient = divide_exactly(dividend, primitive)
    return quotient is not None and divides_everywhere(common, quotient)
