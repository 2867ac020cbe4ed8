"""Showing that a claim holds nowhere: its charts under the facts are all empty.

While the charts are made they also say where to look for values at which the claim does hold; the
first one ends the attempt.

    a < b  under  a >= 2*b      one chart, and it is empty: 2*b <= a < b with b >= 1
    h == 2 under  h*t == 12     one chart, h = 2 and t = 6: seen
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..algebra.budget import Budget, OutOfBudgetError
from ..algebra.dims import substitute
from ..algebra.poly import Dim, Poly, TooLarge
from .case_splits import atlas_of, refined
from .cells import WHOLE, Chart, Goal
from .claims import Claim, Sign, difference, is_surely_positive
from .facts import Facts
from .relaxation import cleared, is_nonnegative
from .search import points

SEARCH = 5_000
MAX_DEPTH = 7

Predicate: TypeAlias = Callable[[Mapping[str, int]], "bool | None"]
Charts: TypeAlias = tuple[Chart, ...]


class Seen:
    """The first values at which a predicate was seen to hold, and to fail."""

    __slots__ = ("fails", "holds", "predicate")

    def __init__(self, predicate: Predicate) -> None:
        self.predicate = predicate
        self.holds: Mapping[str, int] | None = None
        self.fails: Mapping[str, int] | None = None

    def look(self, walk: Iterable[Mapping[str, int]]) -> bool:
        """Evaluates the predicate at points until both were seen; returns whether one is new."""
        new = False
        for point in walk:
            answer = self.predicate(point)
            if answer is True and self.holds is None:
                self.holds, new = point, True
            elif answer is False and self.fails is None:
                self.fails, new = point, True
            if self.holds is not None and self.fails is not None:
                break
        return new


class _Answered(Exception):
    """Values were seen that end the attempt."""


def is_impossible(
    claims: Sequence[Claim], facts: Facts, names: Sequence[str], seen: Seen, budget: Budget
) -> bool:
    """Whether it is proved that no values satisfy the facts and all the claims.

    Stops when values are seen at which the predicate holds or fails as was not seen before. Which
    way gives simpler equations is not known before: the claims are added to the charts of the
    facts, taken without any facts, and the facts are added to their own charts. What is left is cut
    finer and finer.
    """
    try:
        attempt = _Attempt(_all_sides(claims, facts), facts, names, seen, budget)
        if len(facts.atlas.charts) == 1:
            ways = attempt.under_facts, attempt.alone, attempt.facts_under, attempt.finer
        else:
            ways = attempt.alone, attempt.facts_under, attempt.under_facts, attempt.finer
        return any(way() for way in ways)
    except (_Answered, OutOfBudgetError, TooLarge, ZeroDivisionError):
        return False


def _all_sides(claims: Sequence[Claim], facts: Facts) -> list[tuple[Goal, ...]]:
    """The claims together as alternatives of goals; only the last one is cut into two."""
    *others, last = claims
    shared = tuple(difference(claim) for claim in others)
    return [(*shared, side) for side in _sides(last, facts)]


def _sides(claim: Claim, facts: Facts) -> list[Goal]:
    """The claim as alternatives of goals: what is not zero is at least 1 or at most -1."""
    dim, sign = difference(claim)
    if sign is Sign.ZERO or (sign is Sign.NONZERO and claim.negated().divisibility() is not None):
        return [(dim, sign)]
    sides = [dim] if sign is Sign.NONNEGATIVE else [dim - 1, -dim - 1]
    return [(cleared(side, lambda n: _is_positive(n, facts)), Sign.NONNEGATIVE) for side in sides]


def _is_positive(dim: Dim, facts: Facts) -> bool:
    if is_surely_positive(dim):
        return isinstance(dim, Poly) or dim > 0
    return all(
        is_nonnegative(substitute(dim, chart.values) - 1, chart) for chart in facts.atlas.charts
    )


@dataclass(slots=True)
class _Attempt:
    """Each way returns whether it showed that the alternatives are impossible under the facts."""

    sides: list[tuple[Goal, ...]]
    facts: Facts
    names: Sequence[str]
    seen: Seen
    budget: Budget
    left: Charts | None = None

    def under_facts(self) -> bool:
        return self._empty(self.sides, self.facts.atlas.charts)

    def facts_under(self) -> bool:
        turned = [(*side, *self.facts.goals) for side in self.sides]
        return bool(self.facts.goals) and self._empty(turned, (WHOLE,))

    def alone(self) -> bool:
        if not self.facts.goals:
            return False
        part = self.budget.part(self.budget.left // 4)
        try:
            charts = _charts(self.sides, (WHOLE,), part)
            for depth in range(MAX_DEPTH):
                if not charts:
                    return True
                charts = _finer(charts, part, depth)
        except (OutOfBudgetError, TooLarge):
            pass
        return False

    def finer(self) -> bool:
        charts = self.left or ()
        for depth in range(MAX_DEPTH):
            if not charts:
                return True
            charts = _finer(charts, self.budget, depth)
            self._look(charts)
        return False

    def _empty(self, sides: list[tuple[Goal, ...]], bases: Charts) -> bool:
        part = self.budget.part(self.budget.left // 2)
        charts = _charts(sides, bases, part)
        self.budget.refund(part)
        if not charts:
            return True
        self._look(charts)
        if self.left is None or len(charts) < len(self.left):
            self.left = charts
        return False

    def _look(self, charts: Charts) -> None:
        """Searches charts, with a part of the budget."""
        part = self.budget.part(SEARCH)
        new = self.seen.look(points(self.facts, charts, self.names, part))
        self.budget.refund(part)
        if new:
            raise _Answered


def _charts(sides: Sequence[tuple[Goal, ...]], bases: Charts, budget: Budget) -> Charts:
    found: Charts = ()
    for base in bases:
        for goals in sides:
            found += atlas_of(goals, budget, base).charts
    return found


def _finer(charts: Charts, budget: Budget, depth: int) -> Charts:
    """The charts cut into parts. Raises OutOfBudgetError where one cannot be cut."""
    found: Charts = ()
    for chart in charts:
        parts = refined(chart, budget, depth)
        if parts is None:
            raise OutOfBudgetError
        found += parts
    return found
