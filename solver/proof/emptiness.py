"""Cells without values: contradictions between polynomial inequalities, by linear programming.

Atoms are shifted to begin at 0, so every monomial of them is a quantity of its own that is at least
0. What the cell says, and products of what it says, are linear in these quantities; if they
contradict each other there, they contradict each other (Handelman 1988). This is sound and fast,
and finds what bounds, order and broadcasting need.

    a >= 2*b,  b >= a + 1        contradictory: their sum is 0 >= b + 1, and b >= 1
    q*b <= a,  q >= a + 1        contradictory with the product (b - 1)*q >= 0
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations_with_replacement

from ..algebra.budget import Budget
from ..algebra.linear import has_no_whole_solution, is_contradictory
from ..algebra.poly import (
    UNIT,
    Dim,
    Monomial,
    Poly,
    TooLarge,
    atoms_of,
    degree_of,
    divide_monomials,
    symbol,
    terms_of,
)
from ..algebra.signs import (
    is_nonnegative_in_every_order,
    is_sum_of_squares,
)
from .cells import Cell, least_of, shifted

MAX_ROWS = 70
MAX_COLUMNS = 90
MAX_CANDIDATES = 160
MAX_TERMS_INEQUALITY = 40
MAX_FACTORS = 16
MAX_EQUATIONS = 12


def is_empty(cell: Cell, budget: Budget) -> bool:
    """Whether it is proved that no values satisfy what the cell says. False proves nothing.

    >>> a, b = symbol("a"), symbol("b")
    >>> is_empty(Cell(nonnegative=(a - 2 * b, b - a - 1)), Budget(1000))
    True
    """
    budget.spend(4 * sum(len(terms_of(dim)) for dim in cell.nonnegative + cell.zero))
    try:
        given = list(_given(cell))
    except TooLarge:
        return False
    if _contradict(given, cell.lower, budget) or _clash(cell.zero, budget):
        return True
    if any(degree_of(dim) > 1 and _is_below_zero(dim, cell, budget) for dim in cell.nonnegative):
        return True
    if max((degree_of(dim) for dim in given), default=0) < 2:
        return False
    for more in (_lifted, _products):
        found = more(given, cell, budget)
        given += found
        if found and _contradict(given, cell.lower, budget):
            return True
    return False


def _is_below_zero(dim: Dim, cell: Cell, budget: Budget) -> bool:
    """Whether squares, or orders of the atoms, show that dim is never 0 or more."""
    if is_sum_of_squares(-64 * dim - 1):
        return True
    least = [least_of(atom, cell.lower) for atom in atoms_of(dim)]
    from_zero = all(low is not None and low >= 0 for low in least)
    budget.spend(20 * len(terms_of(dim)))
    return from_zero and is_nonnegative_in_every_order(-dim - 1)


def _clash(zero: Sequence[Dim], budget: Budget) -> bool:
    """Whether equations have no whole solution, with every monomial as an unknown of its own."""
    if len(zero) < 2 or len(zero) > MAX_EQUATIONS:
        return False
    monomials = sorted({m for dim in zero for m in terms_of(dim) if m}, key=lambda m: (len(m), m))
    if len(monomials) > MAX_COLUMNS:
        return False
    budget.spend(len(zero) * len(monomials))
    columns: list[Monomial] = [UNIT, *monomials]
    return has_no_whole_solution(
        [[terms_of(dim).get(m, 0) for m in columns] for dim in zero], budget
    )


def _given(cell: Cell) -> Iterable[Dim]:
    """All that is known to be at least 0, in atoms that begin at 0; the newest inequality last."""
    for dim in cell.zero:
        moved = shifted(dim, cell.lower)
        yield moved
        yield -moved
    for atom, most in cell.upper.items():
        yield most - (least_of(atom, cell.lower) or 0) - symbol(atom)
    for dim in cell.nonnegative:
        yield shifted(dim, cell.lower)


def _contradict(dims: list[Dim], lower: Mapping[str, int | None], budget: Budget) -> bool:
    """Whether they contradict each other, with every monomial as a variable of its own."""
    budget.spend(10 + 2 * sum(len(terms_of(dim)) for dim in dims))
    terms = [dict(terms_of(dim)) for dim in dims if len(terms_of(dim)) <= MAX_TERMS_INEQUALITY]
    signed = {m for dim in terms for m in dim if not _is_square_like(m, lower)}
    terms = _relevant(terms, signed, budget)
    if not any(dim.get(UNIT, 0) < 0 for dim in terms):
        return False
    if len(terms) > MAX_ROWS:
        terms = _nearest(terms, budget)
    monomials = sorted({m for dim in terms for m in dim if m}, key=lambda m: (len(m), m))
    if len(monomials) > MAX_COLUMNS:
        return False
    budget.spend(len(terms) * len(monomials) // 2)
    both = [m for m in monomials if m in signed]
    rows = [
        [dim.get(UNIT, 0), *(dim.get(m, 0) for m in monomials), *(-dim.get(m, 0) for m in both)]
        for dim in terms
    ]
    return is_contradictory(rows, budget)


def _is_square_like(monomial: Monomial, lower: Mapping[str, int | None]) -> bool:
    """Whether the monomial is never negative: atoms without a lower bound have even exponents."""
    return all(e % 2 == 0 or least_of(atom, lower) is not None for atom, e in monomial)


def _relevant(
    terms: list[dict[Monomial, int]], signed: set[Monomial], budget: Budget
) -> list[dict[Monomial, int]]:
    """Leaves out inequalities with a monomial that no other cancels."""
    while True:
        falling = {m for dim in terms for m, c in dim.items() if c < 0}
        rising = {m for dim in terms for m, c in dim.items() if c > 0}
        budget.spend(sum(len(dim) for dim in terms))
        kept = [
            dim
            for dim in terms
            if all(
                not m or (m in falling if c > 0 else m not in signed or m in rising)
                for m, c in dim.items()
            )
        ]
        if len(kept) == len(terms):
            return kept
        terms = kept


def _nearest(terms: list[dict[Monomial, int]], budget: Budget) -> list[dict[Monomial, int]]:
    """The inequalities closest to the last one, by monomials: it is mostly in question."""
    waiting = sorted(terms[:-1], key=len)
    chosen = [terms[-1]]
    met = set(terms[-1])
    while waiting and len(chosen) < MAX_ROWS:
        budget.spend(len(waiting))
        near = [dim for dim in waiting if not met.isdisjoint(m for m in dim if m)]
        if not near:
            break
        chosen += near[: MAX_ROWS - len(chosen)]
        met.update(m for dim in near for m in dim)
        waiting = [dim for dim in waiting if dim not in near]
    return chosen


def _factors(given: list[Dim], budget: Budget) -> tuple[list[Poly], int]:
    """The short inequalities, and the degree that products of them may have."""
    short = [dim for dim in given if isinstance(dim, Poly) and len(dim.terms) <= 8]
    budget.spend(4 * len(short))
    return short[-MAX_FACTORS:], max(2, *(degree_of(dim) for dim in given))


def _lifted(given: list[Dim], cell: Cell, budget: Budget) -> list[Dim]:
    """Inequalities times monomials, where that turns a term of them into a monomial that occurs."""
    short, limit = _factors(given, budget)
    bounded = {a for dim in given for a in atoms_of(dim) if least_of(a, cell.lower) is not None}
    wanted = {m for dim in given for m in terms_of(dim)}
    found: list[Dim] = []
    for dim in short:
        budget.spend(len(dim.terms) * len(wanted))
        for factor in _cofactors(dim, wanted, bounded):
            if degree_of(dim) + sum(e for _, e in factor) <= limit:
                budget.spend(2 * len(dim.terms))
                found.append(dim * Poly({factor: 1}))
    return found[:MAX_CANDIDATES]


def _products(given: list[Dim], cell: Cell, budget: Budget) -> list[Dim]:
    """Inequalities times each other."""
    short, limit = _factors(given, budget)
    found: list[Dim] = []
    for left, right in combinations_with_replacement(short, 2):
        if degree_of(left) + degree_of(right) <= limit:
            budget.spend(2 * len(left.terms) * len(right.terms))
            found.append(left * right)
    return found[:MAX_CANDIDATES]


def _cofactors(dim: Poly, wanted: set[Monomial], bounded: set[str]) -> list[Monomial]:
    """Monomials of bounded atoms that lift a term of dim to a monomial that occurs somewhere."""
    found: set[Monomial] = set()
    for target in wanted:
        for monomial in dim.terms:
            factor = divide_monomials(target, monomial)
            if factor and all(atom in bounded for atom, _ in factor):
                found.add(factor)
    return sorted(found)
