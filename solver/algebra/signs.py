"""Where polynomials are negative, zero and positive.

One unknown is decided completely (`sign_runs`). The difference ``p(x + 1) - p(x)`` has a lower
degree; where it keeps one sign, p is monotone, and bisection finds the at most two places where the
sign of p changes. The answer is exact for coefficients of any size.

    n*n - 10 from n = 1                negative up to 3, positive from 4

Several unknowns are shown to be nowhere negative in two ways. As a sum of squares, whatever the
signs of the atoms: a quadratic form in the roots of its square terms, completed to squares. Order
by order, for atoms from 0 upwards: in ``x >= y >= z`` the differences z, y - z and x - y are atoms
from 0 upwards too, and no coefficient is negative in them (successive differences).

    25*a**2 - 20*a*b + 4*b**2          (5*a - 2*b)**2
    a**3 + b**3 + c**3 - 3*a*b*c       for a = c + u + v, b = c + u:
                                       3*c*(u**2 + u*v + v**2) + (u + v)**3 + u**3
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import permutations
from math import isqrt
from typing import NamedTuple

from .budget import Budget
from .poly import (
    Dim,
    Monomial,
    Poly,
    TooLarge,
    atoms_of,
    build,
    divide_monomials,
    multiply_monomials,
    replace,
    symbol,
    terms_of,
)

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
    """Whether no coefficient is negative in the differences of atoms in this order."""
    values: dict[str, Dim] = {}
    total: Dim = 0
    for name in order:
        total = total + symbol(name)
        values[name] = total
    return all(c >= 0 for c in terms_of(replace(dim, values)).values())


MAX_ROOTS = 8


def is_sum_of_squares(dim: Dim) -> bool:
    """Whether dim is shown to be at least 0 everywhere as a sum of squares. False proves nothing.

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


class Run(NamedTuple):
    """All integers from start to stop (None: no end) with one sign: -1, 0 or 1."""

    start: int
    stop: int | None
    sign: int


def value_at(coefficients: Sequence[int], x: int) -> int:
    """Returns the value at x; coefficients[i] belongs to x**i."""
    total = 0
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def sign_runs(
    coefficients: Sequence[int], start: int, stop: int | None, budget: Budget
) -> list[Run]:
    """Returns the runs of equal sign from start to stop, in order and without gaps.

    >>> sign_runs([-10, 0, 1], 1, None, Budget(1000))
    [Run(start=1, stop=3, sign=-1), Run(start=4, stop=None, sign=1)]
    """
    budget.spend(20 + len(coefficients) ** 2)
    coefficients = _trimmed(coefficients)
    if len(coefficients) <= 1:
        constant = coefficients[0] if coefficients else 0
        return [Run(start, stop, _sign(constant))]
    found: list[Run] = []
    for run in sign_runs(_difference(coefficients), start, stop, budget):
        end = run.stop
        if end is not None and (stop is None or end < stop):
            end += 1
        for piece in _monotone_runs(coefficients, run.start, end, budget):
            _join(found, piece)
    return found


def _monotone_runs(
    coefficients: Sequence[int], start: int, stop: int | None, budget: Budget
) -> list[Run]:
    """The runs on a stretch where p is monotone: at most three signs, each found by bisection."""
    found: list[Run] = []
    position = start
    while stop is None or position <= stop:
        sign = _sign(value_at(coefficients, position))
        last = _last_with(coefficients, sign, position, stop, budget)
        found.append(Run(position, last, sign))
        if last is None:
            break
        position = last + 1
    return found


def _last_with(
    coefficients: Sequence[int], sign: int, start: int, stop: int | None, budget: Budget
) -> int | None:
    """The last position with this sign on a monotone stretch; None where it keeps it for ever."""
    if stop is None:
        if sign == _sign(coefficients[-1]):
            return None
        step = 1
        while _sign(value_at(coefficients, start + step)) == sign:
            budget.spend(2 + step.bit_length() // 32)
            step *= 2
        low, high = start, start + step
    elif _sign(value_at(coefficients, stop)) == sign:
        return stop
    else:
        low, high = start, stop
    while high - low > 1:
        budget.spend(2 + high.bit_length() // 32)
        middle = (low + high) // 2
        if _sign(value_at(coefficients, middle)) == sign:
            low = middle
        else:
            high = middle
    return low


def _join(found: list[Run], piece: Run) -> None:
    """Appends a run that begins at the last one's end or right after it."""
    if found and found[-1].stop is not None and piece.start <= found[-1].stop:
        if piece.stop is not None and piece.stop <= found[-1].stop:
            return
        piece = Run(found[-1].stop + 1, piece.stop, piece.sign)
    if found and found[-1].sign == piece.sign:
        found[-1] = Run(found[-1].start, piece.stop, piece.sign)
    else:
        found.append(piece)


def _difference(coefficients: Sequence[int]) -> list[int]:
    """The coefficients of p(x + 1) - p(x)."""
    moved = list(coefficients)
    for i in range(len(moved) - 1):
        for j in range(len(moved) - 2, i - 1, -1):
            moved[j] += moved[j + 1]
    return [m - c for m, c in zip(moved, coefficients, strict=True)]


def _trimmed(coefficients: Sequence[int]) -> list[int]:
    kept = list(coefficients)
    while kept and kept[-1] == 0:
        kept.pop()
    return kept


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
