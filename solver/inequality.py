"""Contradictions between polynomial inequalities, found by linear algebra on monomials.

Atoms are shifted to begin at 0, so every monomial of them is a quantity of its own that is at least 0. What the chart says,
and products of what it says, are linear in these quantities; if they contradict each other there, they contradict
each other (Handelman 1988). This is sound and fast, and finds what bounds, order and broadcasting need.

    a >= 2*b,  b >= a + 1        contradictory: their sum is 0 >= b + 1, and b >= 1
    q*b <= a,  q >= a + 1        contradictory with the product (b - 1)*q >= 0
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations_with_replacement

from .budget import Budget
from .charts import Chart, shifted
from .poly import (
    UNIT,
    Dim,
    Monomial,
    Poly,
    TooLarge,
    atoms_of,
    divide_monomials,
    symbol,
    terms_of,
)
from .simplex import is_contradictory

MAX_ROWS = 70
MAX_COLUMNS = 90
MAX_CANDIDATES = 160
MAX_TERMS = 40


def is_empty(chart: Chart, budget: Budget) -> bool:
    """Whether it is proved that no values satisfy what the chart says. False proves nothing.

    >>> from .poly import symbol
    >>> a, b = symbol("a"), symbol("b")
    >>> is_empty(Chart(nonnegative=(a - 2 * b, b - a - 1)), Budget(1000))
    True
    """
    try:
        given = list(_given(chart))
    except TooLarge:
        return False
    if _contradict(given, chart.lower, budget):
        return True
    if max((_degree(dim) for dim in given), default=0) < 1:
        return False
    products = _products(given, chart, budget)
    return len(products) > 0 and _contradict(given + products, chart.lower, budget)


def _given(chart: Chart) -> Iterable[Dim]:
    """All that is known to be at least 0, in atoms that begin at 0."""
    for dim in chart.nonnegative:
        yield shifted(dim, chart.lower)
    for dim in chart.zero:
        moved = shifted(dim, chart.lower)
        yield moved
        yield -moved
    for atom, most in chart.upper.items():
        yield most - (chart.lower.get(atom, 1) or 0) - symbol(atom)


def _contradict(dims: list[Dim], lower: Mapping[str, int | None], budget: Budget) -> bool:
    """Whether the inequalities contradict each other, with every monomial as a variable of its own."""
    terms = [dict(terms_of(dim)) for dim in dims if len(terms_of(dim)) <= MAX_TERMS]
    signed = {m for dim in terms for m in dim if not _is_square_like(m, lower)}
    terms = _relevant(terms, signed)
    if not any(dim.get(UNIT, 0) < 0 for dim in terms):
        return False
    if len(terms) > MAX_ROWS:
        terms = sorted(terms, key=len)[:MAX_ROWS]
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
    return all(e % 2 == 0 or lower.get(atom, 1) is not None for atom, e in monomial)


def _relevant(terms: list[dict[Monomial, int]], signed: set[Monomial]) -> list[dict[Monomial, int]]:
    """Leaves out inequalities that no contradiction can use: a monomial in them is cancelled by no other."""
    while True:
        falling = {m for dim in terms for m, c in dim.items() if c < 0}
        rising = {m for dim in terms for m, c in dim.items() if c > 0}
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


def _products(given: list[Dim], chart: Chart, budget: Budget) -> list[Dim]:
    """Products of what is known with atoms and with each other, no higher than what occurs already (at least 2)."""
    bounded = sorted(
        {atom for dim in given for atom in atoms_of(dim) if chart.lower.get(atom, 1) is not None}
    )
    wanted = {m for dim in given for m in terms_of(dim)}
    limit = max(2, *(_degree(dim) for dim in given))
    small = [dim for dim in given if len(terms_of(dim)) <= 8 and isinstance(dim, Poly)]
    found: list[Dim] = []
    for dim in small:
        for factor in _cofactors(dim, wanted, bounded):
            if len(factor) and _degree(dim) + sum(e for _, e in factor) <= limit:
                found.append(dim * Poly({factor: 1}))
    for left, right in combinations_with_replacement(small, 2):
        if len(found) >= MAX_CANDIDATES:
            break
        if _degree(left) + _degree(right) <= limit:
            budget.spend(4)
            try:
                found.append(left * right)
            except TooLarge:
                continue
    return found[:MAX_CANDIDATES]


def _cofactors(dim: Poly, wanted: set[Monomial], bounded: list[str]) -> list[Monomial]:
    """Monomials of bounded atoms that lift a term of dim to a monomial that occurs somewhere."""
    allowed = set(bounded)
    found: set[Monomial] = set()
    for target in wanted:
        for monomial in dim.terms:
            factor = divide_monomials(target, monomial)
            if factor and all(atom in allowed for atom, _ in factor):
                found.add(factor)
    return sorted(found)


def _degree(dim: Dim) -> int:
    return max((sum(e for _, e in m) for m in terms_of(dim)), default=0)
