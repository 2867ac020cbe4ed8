"""Case distinctions that no goal asks for, but a proof may need.

When a chart cannot be shown to be empty as it is, it is cut into parts that together are the whole:

    p != 0                     p >= 1  or  p <= -1
    2 <= x <= 5                x = 2, 3, 4, 5
    a floor of a*a by 4        a = 4*t, 4*t + 1, 4*t + 2, 4*t + 3
    x*x + y*y - 2*x*y < 0      x = y + t  or  y = x + t + 1       (one order, then the other)

All the charts of some claims: together they cover every value that satisfies them.

h % 8 == 4, h <= 20   ->   one chart: h = 8*$1 + 4, 0 <= $1 <= 2
max(a, b) == 4        ->   two charts: a = 4, b <= 4  and  b = 4, a <= 3
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

from ..algebra.budget import Budget, OutOfBudgetError
from ..algebra.dims import Call, Function
from ..algebra.divisors import divides_everywhere, residue_table
from ..algebra.poly import Dim, Poly, TooLarge, atoms_of, replace, symbol, terms_of
from .cells import WHOLE, Chart, Draft, Empty, Goal, Split, least_of
from .claims import Sign
from .elimination import class_goals, solve, solve_products
from .floors import express
from .order import bound, exclude, is_empty, propagate, sharpened

MAX_CHARTS = 256
MAX_TERMS = 80
MAX_LINEAR = 2_000
"""Terms of a goal in general, and where each is one atom."""


@dataclass(frozen=True, slots=True)
class Atlas:
    """charts: their union contains every value that satisfies the claims; none: the claims clash.

    complete: no claim had to be ignored.
    """

    charts: tuple[Chart, ...]
    complete: bool


WORLD = Atlas((WHOLE,), True)


def atlas_of(goals: Sequence[Goal], budget: Budget, base: Chart = WHOLE) -> Atlas:
    """Returns the charts of the goals within a chart.

    A goal that would need too many cases, or too large a polynomial, is left out: the charts then
    cover more than they must, which is sound for every proof. When the budget ends, what is
    pending is left out.
    """
    if not goals and base is WHOLE:
        return WORLD
    return finished([Draft(base, goals, budget)], budget)


def finished(drafts: Sequence[Draft], budget: Budget) -> Atlas:
    """Returns the charts of drafts whose goals are still pending."""
    waiting = list(reversed(drafts))
    charts: list[Chart] = []
    complete = True
    try:
        while waiting:
            draft = waiting[-1]
            cases = _worked(draft, MAX_CHARTS - len(waiting) - len(charts))
            if cases is None and not is_empty(draft.chart(), budget):
                charts.append(draft.chart())
            complete = complete and not draft.dropped
            waiting.pop()
            waiting.extend(reversed(cases or ()))
    except OutOfBudgetError:
        complete = False
        charts.extend(draft.chart() for draft in waiting)
    return Atlas(tuple(charts), complete)


def _worked(draft: Draft, room: int) -> list[Draft] | None:
    """Works a draft off: the drafts that replace it ([] where it is empty), or None where it is
    done.
    """
    try:
        while draft.pending or propagate(draft) or draft.later or sharpened(draft):
            cases = _run(draft, room)
            if cases is not None:
                return cases
        cases = solve_products(draft)
        return cases if cases is None or len(cases) <= room else None
    except (Empty, ZeroDivisionError):
        return []
    except TooLarge:
        return None


def _run(draft: Draft, room: int) -> list[Draft] | None:
    """Takes all pending goals, and last those that ask for a case distinction; returns the cases of
    the first one.
    """
    last = not draft.pending and bool(draft.later)
    while draft.pending or last:
        goal = draft.later.pop(0) if last else draft.pending.pop()
        draft.budget.spend(10)
        try:
            _take(draft, *goal)
        except TooLarge:
            draft.dropped = True
        except Split as split:
            if not last:
                draft.later.append(goal)
            elif len(split.cases) <= room:
                return [_case(draft, goal, *case) for case in split.cases]
            else:
                draft.dropped = True
        last = False
    return None


def _case(draft: Draft, goal: Goal, goals: Sequence[Goal], calls: Mapping[str, Dim]) -> Draft:
    case = draft.copy()
    case.pending.append(goal)
    case.pending.extend(reversed(goals))
    case.calls.update(calls)
    return case


def _take(draft: Draft, dim: Dim, sign: Sign) -> None:
    """Adds one goal, solved as far as it can be."""
    written = express(draft, dim)
    terms = terms_of(written)
    if len(terms) > MAX_TERMS and (len(terms) > MAX_LINEAR or any(len(m) > 1 for m in terms)):
        raise TooLarge
    match sign:
        case Sign.ZERO:
            solve(draft, written)
        case Sign.NONNEGATIVE:
            bound(draft, written)
        case Sign.NONZERO:
            exclude(draft, written)


MAX_VALUES = 16
MAX_MODULUS = 1_024
MAX_PERIOD = 16
OBSTRUCTIONS = {4, 7, 8, 9}


def refined(chart: Chart, budget: Budget, depth: int) -> tuple[Chart, ...] | None:
    """Returns charts that together cover the chart, by the first distinction that applies; None
    where none does.
    """
    ways = (_no_residue, _with_remainders, _by_sign, _by_value, _by_residue, *_TURNS[depth % 3])
    budget.spend(10 + 2 * sum(len(terms_of(dim)) for dim in _conditions(chart)))
    for way in ways:
        try:
            drafts = way(chart, budget, depth)
        except TooLarge:
            continue
        if drafts is not None:
            charts = finished(drafts, budget).charts
            budget.spend(0)
            return charts
    return None


def _no_residue(chart: Chart, budget: Budget, depth: int) -> list[Draft] | None:
    """An equation that has no solution modulo some number has none."""
    for dim in chart.zero if depth == 0 else ():
        for modulus in sorted({abs(c) for m, c in terms_of(dim).items() if m} | OBSTRUCTIONS):
            table = residue_table(dim, modulus, budget) if modulus > 1 else None
            if table is not None and not table.classes:
                return []
    return None


def _by_sign(chart: Chart, budget: Budget, depth: int) -> list[Draft] | None:
    """A polynomial that is not zero is at least 1 or at most -1."""
    if not chart.nonzero:
        return None
    dim, *others = chart.nonzero
    rest = dataclasses.replace(chart, nonzero=tuple(others))
    return [Draft(rest, [(side, Sign.NONNEGATIVE)], budget) for side in (dim - 1, -dim - 1)]


def _by_value(chart: Chart, budget: Budget, depth: int) -> list[Draft] | None:
    """An atom with few values takes each of them."""
    used = {atom for dim in _conditions(chart) for atom in atoms_of(dim)}
    widths = sorted(
        (most - least, atom)
        for atom, most in chart.upper.items()
        if (least := least_of(atom, chart.lower)) is not None and atom in used
    )
    if not widths or widths[0][0] >= MAX_VALUES:
        return None
    width, atom = widths[0]
    least = least_of(atom, chart.lower) or 0
    return [
        Draft(chart, [(symbol(atom) - (least + i), Sign.ZERO)], budget) for i in range(width + 1)
    ]


def _by_residue(chart: Chart, budget: Budget, depth: int) -> list[Draft] | None:
    """An atom inside a product inside a floor by a constant takes each residue that makes a
    difference.
    """
    for call in chart.calls:
        assert isinstance(call, Call)
        if call.function is not Function.FLOORDIV:
            continue
        dividend, divisor = call.arguments
        if not isinstance(divisor, int) or not 1 < divisor <= MAX_MODULUS:
            continue
        for atom in _turning(dividend, divisor, linear=depth > 1):
            period = _period(dividend, atom, divisor)
            if period is None:
                continue
            drafts: list[Draft] = []
            for residue in range(period):
                draft = Draft(chart, [], budget)
                draft.set(atom, period * draft.parameter(None) + residue)
                drafts.append(draft)
            return drafts
    return None


def _turning(dim: Dim, modulus: int, *, linear: bool) -> list[str]:
    """The atoms of terms that the modulus does not divide, of degree 2 or more, or of any."""
    return sorted(
        {
            atom
            for monomial, coefficient in terms_of(dim).items()
            if (linear or sum(e for _, e in monomial) > 1) and coefficient % modulus
            for atom, _ in monomial
        }
    )


def _with_remainders(chart: Chart, budget: Budget, depth: int) -> list[Draft] | None:
    """No distinction, but another view: the remainder of a floor becomes an atom with bounds."""
    draft = Draft(chart, [], budget)
    for call, quotient in chart.calls.items() if depth == 0 else ():
        assert isinstance(call, Call)
        dividend, divisor = call.arguments[:2]
        if call.function is Function.FLOORDIV and isinstance(divisor, int):
            rest = dividend - divisor * quotient
            if rest in chart.zero or isinstance(rest, int):
                continue
            if any(side in chart.nonnegative for side in (rest, rest - 1, divisor - 1 - rest)):
                goal = rest - draft.parameter(0, divisor - 1)
                draft.pending.append((goal, Sign.ZERO))
    return [draft] if draft.pending else None


def _period(dim: Dim, atom: str, modulus: int) -> int | None:
    """The least period of dim modulo the modulus in one atom, where it is short."""
    for period in range(1, min(modulus, MAX_PERIOD) + 1):
        if modulus % period == 0:
            moved = replace(dim, {atom: symbol(atom) + period})
            if divides_everywhere(modulus, moved - dim):
                return period
    return None


def _by_order(chart: Chart, budget: Budget, depth: int) -> list[Draft] | None:
    """Of two atoms in a product or a square with mixed signs, one is the greater or equal
    (successive differences).
    """
    for left, right in _pairs(chart):
        drafts: list[Draft] = []
        for greater, smaller, gap in ((left, right, 0), (right, left, 1)):
            draft = Draft(chart, [], budget)
            draft.set(greater, symbol(smaller) + draft.parameter(gap))
            drafts.append(draft)
        return drafts
    return None


def _by_least(chart: Chart, budget: Budget, depth: int) -> list[Draft] | None:
    """An atom in a product with mixed signs takes its least value, or a greater one."""
    for dim in _conditions(chart):
        signs = {c > 0 for m, c in terms_of(dim).items() if m}
        atoms = sorted(a for m in terms_of(dim) if len(m) > 1 for a, _ in m)
        for atom in atoms if len(signs) > 1 else ():
            least = least_of(atom, chart.lower)
            if least is not None:
                here, above = symbol(atom) - least, symbol(atom) - least - 1
                return [
                    Draft(chart, [(here, Sign.ZERO)], budget),
                    Draft(chart, [(above, Sign.NONNEGATIVE)], budget),
                ]
    return None


def _by_congruence(chart: Chart, budget: Budget, depth: int) -> list[Draft] | None:
    """A constant that divides some terms of an equation divides the sum of the others; the sharpest
    one is taken.
    """
    best: tuple[float, list[list[Goal]]] | None = None
    for dim in chart.zero:
        for modulus in sorted({abs(c) for m, c in terms_of(dim).items() if m} - {1}):
            table = residue_table(dim, modulus, budget)
            if table is None or len(table.classes) > MAX_VALUES or table.is_everything:
                continue
            share = len(table.classes) / prod(table.periods)
            if best is None or share < best[0]:
                best = share, class_goals(table)
    return None if best is None else [Draft(chart, goals, budget) for goals in best[1]]


def _pairs(chart: Chart) -> Iterator[tuple[str, str]]:
    """Pairs of atoms that begin at the same value and stand in one inequality of degree 2 or more
    with mixed signs.
    """
    for dim in _conditions(chart):
        if not isinstance(dim, Poly) or len(dim.terms) > 30:
            continue
        if all(sum(e for _, e in m) < 2 for m in dim.terms):
            continue
        atoms = sorted(a for a in atoms_of(dim) if least_of(a, chart.lower) is not None)
        for left, right in combinations(atoms, 2):
            if least_of(left, chart.lower) == least_of(right, chart.lower):
                yield left, right


def _conditions(chart: Chart) -> tuple[Dim, ...]:
    return chart.nonnegative + chart.zero + chart.nonzero


_TURNS = (
    (_by_order, _by_least, _by_congruence),
    (_by_congruence, _by_least, _by_order),
    (_by_least, _by_order, _by_congruence),
)
