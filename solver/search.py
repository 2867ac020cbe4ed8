"""Values that satisfy the facts, small ones first.

A chart turns the search for values under facts into a walk over small parameters: under ``k % 64 == 0`` the first
values are 64, 128, 192. Every point is put into the facts as written before it is handed out, so a chart that covers too
much costs time and never an answer. The order is fixed: the same question has the same counterexample.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .budget import Budget, OutOfBudgetError
from .charts import Chart
from .dims import evaluate
from .facts import Facts
from .poly import atoms_of

MAX_SUM = 40


def points(
    facts: Facts, charts: Sequence[Chart], symbols: Sequence[str], budget: Budget
) -> Iterator[dict[str, int]]:
    """Yields values of the symbols that satisfy the facts, until the budget is spent. Charts take turns.

    symbols must contain those of the facts.

    >>> from .facts import read_facts
    >>> facts = read_facts(["k % 64 == 0"])
    >>> next(points(facts, facts.atlas.charts, ["k"], Budget(1000)))
    {'k': 64}
    """
    walks = [_walk(chart, symbols) for chart in charts]
    cost = 2 + len(symbols) + 2 * len(facts.relations)
    try:
        while walks:
            for walk in list(walks):
                budget.spend(cost)
                point = next(walk, None)
                if point is None:
                    walks.remove(walk)
                elif all(value >= 1 for value in point.values()) and facts.holds(point):
                    yield point
    except OutOfBudgetError:
        return


def _walk(chart: Chart, symbols: Sequence[str]) -> Iterator[dict[str, int]]:
    """The symbols' values at the chart's parameters, which grow from their bounds in all directions."""
    values = [chart.values.get(name) for name in symbols]
    names = sorted(
        {
            atom
            for name, value in zip(symbols, values, strict=True)
            for atom in ((name,) if value is None else atoms_of(value))
        }
    )
    for steps in _graded(len(names)):
        point: dict[str, int] = {}
        for name, step in zip(names, steps, strict=True):
            value = _at(chart, name, step)
            if value is None:
                break
            point[name] = value
        else:
            yield {
                name: point[name] if value is None else evaluate(value, point)
                for name, value in zip(symbols, values, strict=True)
            }


def _at(chart: Chart, name: str, step: int) -> int | None:
    """The step-th value of a parameter: upwards from its bound, or 0, 1, -1, 2, -2 where it has none."""
    least, most = chart.lower.get(name, 1), chart.upper.get(name)
    if least is not None:
        value = least + step
    elif most is not None:
        return most - step
    else:
        value = (step + 1) // 2 * (1 if step % 2 else -1)
    return value if most is None or value <= most else None


def _graded(count: int) -> Iterator[tuple[int, ...]]:
    """All tuples of that many numbers, small sums first, up to MAX_SUM."""
    for total in range(MAX_SUM + 1 if count else 1):
        yield from _with_sum(count, total)


def _with_sum(count: int, total: int) -> Iterator[tuple[int, ...]]:
    if count <= 1:
        yield (total,) * count
        return
    for first in range(total + 1):
        for rest in _with_sum(count - 1, total - first):
            yield (first, *rest)
