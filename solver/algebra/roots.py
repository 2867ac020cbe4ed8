"""Exact roots: which positive length times itself is this one?

``x*x = 4*s**2`` gives ``x = 2*s``, because lengths are positive; ``x*x = 8*s`` has no polynomial
answer.
"""

from __future__ import annotations

from .integers import integer_root
from .monomials import divide_monomials
from .poly import Dim, build, terms_of


def exact_root(dim: Dim, degree: int) -> Dim | None:
    """Returns the r with r**degree == dim, positive where dim is; None where no polynomial has it.

    The terms of r are found one by one from the highest, as in long division: the next term is the
    leading term of what is left over by ``degree * lead**(degree - 1)``.

    >>> from dimsolve.solver.algebra.poly import symbol
    >>> str(exact_root((2 * symbol("s") + 3) ** 2, 2))
    '2*s + 3'
    >>> exact_root(1000, 3), exact_root(1001, 3)
    (10, None)
    """
    if degree == 1:
        return dim
    if isinstance(dim, int):
        return _integer_root(dim, degree)
    names = sorted({atom for monomial in dim.terms for atom, _ in monomial})

    def lex(monomial: tuple[tuple[str, int], ...]) -> list[int]:
        exponents = dict(monomial)
        return [exponents.get(name, 0) for name in names]

    top = max(dim.terms, key=lex)
    coefficient = _integer_root(dim.terms[top], degree)
    if coefficient is None or any(exponent % degree for _, exponent in top):
        return None
    lead = build({tuple((atom, exponent // degree) for atom, exponent in top): coefficient})
    slope = lead ** (degree - 1) * degree
    ((slope_monomial, slope_coefficient),) = terms_of(slope).items()
    root: Dim = lead
    for _ in range(len(dim.terms) + 1):
        rest = dim - root**degree
        if rest == 0:
            return root
        terms = terms_of(rest)
        high = max(terms, key=lex)
        monomial = divide_monomials(high, slope_monomial)
        quotient, remainder = divmod(terms[high], slope_coefficient)
        if monomial is None or remainder:
            return None
        root = root + build({monomial: quotient})
    return None


def _integer_root(number: int, degree: int) -> int | None:
    if number < 0:
        return None
    root = integer_root(number, degree)
    return root if root**degree == number else None
