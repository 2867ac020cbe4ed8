"""All the charts of some claims: together they cover every value that satisfies them.

h % 8 == 4, h <= 20   ->   one chart: h = 8*$1 + 4, 0 <= $1 <= 2
max(a, b) == 4        ->   two charts: a = 4, b <= 4  and  b = 4, a <= 3
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..algebra.budget import Budget, OutOfBudgetError
from ..algebra.poly import Dim, TooLarge, terms_of
from .bounds import bound, exclude, propagate, sharpened
from .charts import WHOLE, Chart
from .claims import Sign
from .drafts import Draft, Empty, Goal, Split
from .elimination import solve
from .floors import express
from .inequality import is_empty
from .product_equations import solve_products

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
