"""Where does a claim hold? The question behind every verdict, in the order from cheap to dear.

1. Put the claim into the charts of the facts: often it is an identity there, or bounds decide it.
2. Try a few small values: most false claims fail at one of them.
3. Take the claim's opposite as a further fact. If that has no chart, the claim is a theorem; if it has, its charts say
   where to look for a counterexample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .atlas import atlas_of
from .budget import Budget, OutOfBudgetError
from .charts import Chart, range_of
from .claims import Claim, Sign, difference
from .dims import Call, Function
from .divisibility import always_divides, in_chart
from .facts import Facts
from .poly import Dim, Poly, TooLarge
from .refine import refined
from .search import points

FIRST_LOOK = 600
SEARCH = 8_000
STEPS = 60_000
MAX_DEPTH = 6

Predicate: TypeAlias = Callable[[Mapping[str, int]], "bool | None"]


@dataclass(frozen=True, slots=True)
class Finding:
    """proved: it holds everywhere. disproved: it holds nowhere. holds, fails: values at which it was seen to."""

    proved: bool = False
    disproved: bool = False
    holds: Mapping[str, int] | None = None
    fails: Mapping[str, int] | None = None


def examine(claim: Claim, predicate: Predicate, symbols: Iterable[str], facts: Facts) -> Finding:
    """Returns what could be found out about a claim under facts.

    predicate says what the claim, as it was written, is at given values; symbols are those that it needs.
    """
    if shown(claim, facts):
        return Finding(proved=True)
    names = sorted(facts.symbols.union(symbols))
    seen = _Seen(predicate)
    seen.look(points(facts, facts.atlas.charts, names, Budget(FIRST_LOOK)))
    budget = Budget(STEPS)
    if seen.fails is None:
        if _refuted(claim.negated(), facts, names, seen, budget):
            return Finding(proved=True)
    if seen.holds is None:
        if _refuted(claim, facts, names, seen, budget):
            return Finding(disproved=True, fails=seen.fails)
    return Finding(holds=seen.holds, fails=seen.fails)


class _Seen:
    """The first values at which a predicate was seen to hold, and to fail."""

    __slots__ = ("fails", "holds", "predicate")

    def __init__(self, predicate: Predicate) -> None:
        self.predicate = predicate
        self.holds: Mapping[str, int] | None = None
        self.fails: Mapping[str, int] | None = None

    def look(self, walk: Iterable[Mapping[str, int]]) -> None:
        """Evaluates the predicate at the points until both have been seen."""
        for point in walk:
            answer = self.predicate(point)
            if answer is True and self.holds is None:
                self.holds = point
            elif answer is False and self.fails is None:
                self.fails = point
            if self.holds is not None and self.fails is not None:
                return

    def is_new(self, before: tuple[object, object]) -> bool:
        """Whether something was seen that was not before."""
        return (self.holds is None, self.fails is None) != before


def _refuted(claim: Claim, facts: Facts, names: Sequence[str], seen: _Seen, budget: Budget) -> bool:
    """Whether no values satisfy facts and claim. Looks for such values on the way, and stops when one is seen."""
    before = seen.holds is None, seen.fails is None
    try:
        goal = difference(claim)
        charts: tuple[Chart, ...] = ()
        for base in facts.atlas.charts:
            charts += atlas_of([goal], budget, base).charts
        for depth in range(MAX_DEPTH):
            if not charts:
                return True
            seen.look(points(facts, charts, names, Budget(min(SEARCH, max(budget.left, 0)))))
            budget.spend(SEARCH // 4)
            if seen.is_new(before):
                return False
            finer: tuple[Chart, ...] = ()
            for chart in charts:
                parts = refined(chart, budget, depth)
                if parts is None:
                    return False
                finer += parts
            charts = finer
    except (OutOfBudgetError, TooLarge):
        pass
    return False


def shown(claim: Claim, facts: Facts) -> bool:
    """Whether the claim holds in every chart of the facts by arithmetic alone: an identity, bounds, a fixed divisor."""
    divides = divisibility(claim)
    if divides is not None and always_divides(*divides, facts.atlas):
        return True
    try:
        dim, sign = difference(claim)
    except TooLarge:
        return False
    return all(_shown_in(dim, sign, chart) for chart in facts.atlas.charts)


def _shown_in(dim: Dim, sign: Sign, chart: Chart) -> bool:
    written = in_chart(dim, chart)
    if written is None:
        return False
    if sign is Sign.ZERO:
        return written == 0
    low, high = range_of(written, chart.lower, chart.upper)
    if sign is Sign.NONNEGATIVE:
        return low is not None and low >= 0
    return (low is not None and low > 0) or (high is not None and high < 0)


def divisibility(claim: Claim) -> tuple[Dim, Dim] | None:
    """Returns (divisor, dividend) where the claim is ``dividend % divisor == 0``."""
    left = claim.left
    if claim.right != 0 or not isinstance(left, Poly) or claim.comparison.value != "==":
        return None
    (monomial, coefficient), *more = left.terms.items()
    if more or len(monomial) != 1 or abs(coefficient) != 1 or monomial[0][1] != 1:
        return None
    call = monomial[0][0]
    if not isinstance(call, Call) or call.function is not Function.MOD:
        return None
    return call.arguments[1], call.arguments[0]
