"""Sums of squares: polynomials that are nowhere negative, whatever the signs of their atoms.

A polynomial is a quadratic form in the square roots of its square terms where every other term is a
product of two of them. Completing the square, one root after the other, shows whether the form is
ever negative; all arithmetic is exact.

    25*a**2 - 20*a*b + 4*b**2  =  (5*a - 2*b)**2
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import isqrt

from .monomials import Monomial, divide_monomials, multiply_monomials
from .poly import Dim, build, terms_of

MAX_ROOTS = 8


def is_sum_of_squares(dim: Dim) -> bool:
    """Whether dim is shown to be at least 0 everywhere as a sum of squares. False proves nothing.

    >>> from dimsolve.solver.algebra.poly import symbol
    >>> a, b = symbol("a"), symbol("b")
    >>> is_sum_of_squares((5 * a - 2 * b) ** 2 + 1), is_sum_of_squares(a**2 - b**2)
    (True, False)
    """
    if _is_square_and_more(dim):
        return True
    terms = terms_of(dim)
    roots = [
        tuple((atom, exponent // 2) for atom, exponent in monomial)
        for monomial, coefficient in terms.items()
        if coefficient > 0 and all(exponent % 2 == 0 for _, exponent in monomial)
    ]
    if not roots or len(roots) > MAX_ROOTS:
        return False
    products = {multiply_monomials(a, b) for a in roots for b in roots if a != b}
    outer = [root for root in roots if multiply_monomials(root, root) not in products]
    return any(
        form is not None and _is_positive(form)
        for form in (_quadratic_form(terms, outer), _quadratic_form(terms, roots))
    )


def _is_square_and_more(dim: Dim) -> bool:
    """Whether dim is the square of a polynomial, and a constant that is not negative besides.

    The root is found as by hand, its greatest term first. Cross terms may take squares away:
    ``(a**2 - a - 1)**2`` has no ``+ a**2``.
    """
    atoms = sorted({atom for monomial in terms_of(dim) for atom, _ in monomial})

    def greatest(terms: Mapping[Monomial, int]) -> Monomial:
        return max(terms, key=lambda m: (sum(e for _, e in m), [dict(m).get(a, 0) for a in atoms]))

    terms = terms_of(dim)
    if not terms or len(terms) > MAX_ROOTS * (MAX_ROOTS + 1) // 2:
        return False
    lead = greatest(terms)
    first = isqrt(max(terms[lead], 0))
    if first * first != terms[lead] or any(exponent % 2 for _, exponent in lead) or not lead:
        return False
    lead = tuple((atom, exponent // 2) for atom, exponent in lead)
    root: Dim = build({lead: first})
    rest = dim - root * root
    for _ in range(MAX_ROOTS):
        terms = terms_of(rest)
        if not terms or greatest(terms) == ():
            break
        monomial = divide_monomials(greatest(terms), lead)
        coefficient, odd = divmod(terms[greatest(terms)], 2 * first)
        if monomial is None or odd:
            return False
        step = build({monomial: coefficient})
        rest = rest - step * (root + root + step)
        root = root + step
    return isinstance(rest, int) and rest >= 0


def _quadratic_form(
    terms: Mapping[Monomial, int], roots: list[Monomial]
) -> list[list[Fraction]] | None:
    """The symmetric matrix of dim over the roots; None where a term is no product of two roots."""
    matrix = [[Fraction(0)] * len(roots) for _ in roots]
    left = dict(terms)
    for i, root in enumerate(roots):
        matrix[i][i] = Fraction(left.pop(multiply_monomials(root, root)))
    for i, one in enumerate(roots):
        for j in range(i):
            coefficient = left.pop(multiply_monomials(one, roots[j]), 0)
            matrix[i][j] = matrix[j][i] = Fraction(coefficient, 2)
    return None if left else matrix


def _is_positive(matrix: list[list[Fraction]]) -> bool:
    """Whether a symmetric matrix is positive semidefinite, by completing squares."""
    size = len(matrix)
    for k in range(size):
        pivot = matrix[k][k]
        if pivot < 0 or (pivot == 0 and any(matrix[k][j] for j in range(k + 1, size))):
            return False
        if pivot == 0:
            continue
        for i in range(k + 1, size):
            factor = matrix[i][k] / pivot
            for j in range(k + 1, size):
                matrix[i][j] -= factor * matrix[k][j]
    return True
