"""Case distinctions that no goal asks for, but a proof may need.

When a chart cannot be shown to be empty as it is, it is cut into parts that together are the whole:

    p != 0                     p >= 1  or  p <= -1
    2 <= x <= 5                x = 2, 3, 4, 5
    a floor of a*a by 4        a = 4*t, 4*t + 1, 4*t + 2, 4*t + 3
    x*x + y*y - 2*x*y < 0      x = y + t  or  y = x + t + 1       (one order, then the other)
"""

from __future__ import annotations

from collections.abc import Iterator

from .atlas import finished
from .budget import Budget
from .charts import Chart
from .claims import Sign
from .dims import Call, Function
from .drafts import Draft
from .poly import Dim, Poly, TooLarge, atoms_of, symbol, terms_of

MAX_VALUES = 16
MAX_MODULUS = 12


def refined(chart: Chart, budget: Budget, depth: int) -> tuple[Chart, ...] | None:
    """Returns charts that together cover the chart, by the first distinction that applies; None where none does."""
    for way in (_by_sign, _by_value, _by_residue, _by_order):
        try:
            drafts = way(chart, budget, depth)
        except TooLarge:
            continue
        if drafts:
            return finished(drafts, budget).charts
    return None


def _by_sign(chart: Chart, budget: Budget, depth: int) -> list[Draft]:
    """A polynomial that is not zero is at least 1 or at most -1."""
    if not chart.nonzero:
        return []
    dim = chart.nonzero[0]
    return [Draft(chart, [(side, Sign.NONNEGATIVE)], budget) for side in (dim - 1, -dim - 1)]


def _by_value(chart: Chart, budget: Budget, depth: int) -> list[Draft]:
    """An atom with few values takes each of them."""
    used = {atom for dim in _conditions(chart) for atom in atoms_of(dim)}
    widths = sorted(
        (most - least, atom)
        for atom, most in chart.upper.items()
        if (least := chart.lower.get(atom, 1)) is not None and atom in used
    )
    if not widths or widths[0][0] >= MAX_VALUES:
        return []
    width, atom = widths[0]
    least = chart.lower.get(atom, 1) or 0
    return [
        Draft(chart, [(symbol(atom) - (least + i), Sign.ZERO)], budget) for i in range(width + 1)
    ]


def _by_residue(chart: Chart, budget: Budget, depth: int) -> list[Draft]:
    """An atom inside a product inside a floor by a constant takes each residue."""
    for call in chart.calls:
        assert isinstance(call, Call)
        if call.function is not Function.FLOORDIV:
            continue
        dividend, divisor = call.arguments
        if not isinstance(divisor, int) or not 1 < divisor <= MAX_MODULUS:
            continue
        atoms = sorted(
            atom
            for monomial, c in terms_of(dividend).items()
            if (len(monomial) > 1 or (monomial and monomial[0][1] > 1)) and c % divisor
            for atom, _ in monomial
        )
        for atom in atoms:
            drafts: list[Draft] = []
            for residue in range(divisor):
                draft = Draft(chart, [], budget)
                draft.set(atom, divisor * draft.parameter(None) + residue)
                drafts.append(draft)
            return drafts
    return []


def _by_order(chart: Chart, budget: Budget, depth: int) -> list[Draft]:
    """Of two atoms in a product or a square with mixed signs, one is the greater or equal (successive differences)."""
    for left, right in _pairs(chart):
        drafts: list[Draft] = []
        for greater, smaller, gap in ((left, right, 0), (right, left, 1)):
            draft = Draft(chart, [], budget)
            draft.set(greater, symbol(smaller) + draft.parameter(gap))
            drafts.append(draft)
        return drafts
    return []


def _pairs(chart: Chart) -> Iterator[tuple[str, str]]:
    """Pairs of atoms that begin at the same value and stand in one inequality of degree 2 or more with mixed signs."""
    for dim in _conditions(chart):
        if not isinstance(dim, Poly) or len(dim.terms) > 30:
            continue
        if all(sum(e for _, e in m) < 2 for m in dim.terms):
            continue
        atoms = sorted(a for a in atoms_of(dim) if chart.lower.get(a, 1) is not None)
        for i, left in enumerate(atoms):
            for right in atoms[i + 1 :]:
                if chart.lower.get(left, 1) == chart.lower.get(right, 1):
                    yield left, right


def _conditions(chart: Chart) -> tuple[Dim, ...]:
    return chart.nonnegative + chart.zero + chart.nonzero
