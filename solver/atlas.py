"""All the charts of some claims: together they cover every value that satisfies them.

h % 8 == 4, h <= 20   ->   one chart: h = 8*$1 + 4, 0 <= $1 <= 2
max(a, b) == 4        ->   two charts: a = 4, b <= 4  and  b = 4, a <= 3
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .budget import Budget, OutOfBudget
from .charts import WHOLE, Chart
from .drafts import Draft, Empty, Goal, Split

MAX_CHARTS = 64


@dataclass(frozen=True, slots=True)
class Atlas:
    """charts: their union contains every value that satisfies the claims. complete: no claim had to be ignored.

    No charts: the claims contradict each other.
    """

    charts: tuple[Chart, ...]
    complete: bool


WORLD = Atlas((WHOLE,), True)


def atlas_of(goals: Sequence[Goal], budget: Budget, base: Chart = WHOLE) -> Atlas:
    """Returns the charts of the goals within a chart.

    A goal that would need too many cases, or too large a polynomial, is left out: the charts then cover more than they
    must, which is sound for every proof. When the budget ends, what is pending is left out.
    """
    if not goals and base is WHOLE:
        return WORLD
    waiting = [Draft(base, list(goals), budget)]
    charts: list[Chart] = []
    complete = True
    while waiting:
        draft = waiting.pop()
        try:
            draft.run()
        except Empty:
            continue
        except Split as split:
            if len(waiting) + len(charts) + len(split.cases) > MAX_CHARTS:
                draft.pending.pop()
                complete = False
                waiting.append(draft)
                continue
            for goals_first, calls in reversed(split.cases):
                case = draft.copy()
                case.pending.extend(reversed(goals_first))
                case.calls.update(calls)
                waiting.append(case)
            continue
        except OutOfBudget:
            complete = False
        complete = complete and not draft.dropped
        charts.append(draft.chart())
    return Atlas(tuple(charts), complete)
