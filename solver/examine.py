"""Where does a claim hold? The question behind every verdict, in the order from cheap to dear.

1. Put the claim into the charts of the facts: often it is an identity there, or bounds decide it.
2. Try a few small values: most false claims fail at one of them.
3. Take the claim's opposite as a further fact. If that has no chart, the claim is a theorem; if it
has, its charts say
   where to look for a counterexample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .atlas import atlas_of
from .budget import Budget, OutOfBudgetError
from .charts import WHOLE, Chart, range_of
from .claims import Claim, Sign, difference
from .dims import Call, Function
from .divisibility import always_divides, in_chart
from .drafts import Goal
from .facts import Facts
from .poly import Dim, Poly, TooLarge
from .refine import refined
from .search import points

FIRST_LOOK = 80
SEARCH = 5_000
STEPS = 30_000
MAX_DEPTH = 7

Predicate: TypeAlias = Callable[[Mapping[str, int]], "bool | None"]


@dataclass(frozen=True, slots=True)
class Finding:
    """proved: it holds everywhere. disproved: it holds nowhere; both where it has no value
    anywhere.

    holds, fails: values at which it was seen to. reason: why, in words.
    """

    proved: bool = False
    disproved: bool = False
    holds: Mapping[str, int] | None = None
    fails: Mapping[str, int] | None = None
    reason: str = ""


def examine(claim: Claim, predicate: Predicate, symbols: Iterable[str], facts: Facts) -> Finding:
    """Returns what could be found out about a claim under facts.

    predicate says what the claim, as it was written, is at given values; symbols are those that it
    needs.
    """
    reason = shown(claim, facts)
    if reason is not None:
        return Finding(proved=True, reason=reason)
    names = sorted(facts.symbols.union(symbols))
    seen = _Seen(predicate)
    seen.look(points(facts, facts.atlas.charts, names, Budget(FIRST_LOOK)))
    budget = Budget(STEPS)
    proved = seen.fails is None and _refuted(claim.negated(), facts, names, seen, budget)
    disproved = seen.holds is None and _refuted(claim, facts, names, seen, budget)
    under = " under the facts" if facts.relations else ""
    reason = f"its opposite is impossible{under}" if proved else f"it is impossible{under}"
    return Finding(proved, disproved, seen.holds, seen.fails, reason)


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

    @property
    def missing(self) -> tuple[bool, bool]:
        """Whether no value was seen yet at which it holds, and none at which it fails."""
        return self.holds is None, self.fails is None

    def look_at(
        self, charts: Sequence[Chart], facts: Facts, names: Sequence[str], budget: Budget
    ) -> None:
        """Searches charts, with a part of the budget."""
        part = budget.part(SEARCH)
        self.look(points(facts, charts, names, part))
        budget.refund(part)


def _refuted(claim: Claim, facts: Facts, names: Sequence[str], seen: _Seen, budget: Budget) -> bool:
    """Whether no values satisfy facts and claim. Looks for such values on the way, and stops when
    one is seen.

    Perhaps the claim is impossible without any facts. Else it is added to the charts of the facts,
    and the facts to the charts of the claim: which of them gives simpler equations is not known
    before. What is left is cut finer and finer.
    """
    before = seen.missing
    try:
        sides = _sides(claim)
        if facts.goals and _is_impossible(sides, budget.part(budget.left // 4)):
            return True
        best: tuple[Chart, ...] | None = None
        for goals, bases in _starts(sides, facts):
            part = budget.part(budget.left // 2)
            charts = _charts(goals, bases, part)
            if not charts:
                return True
            budget.refund(part)
            seen.look_at(charts, facts, names, budget)
            if seen.missing != before:
                return False
            best = charts if best is None or len(charts) < len(best) else best
        for depth in range(MAX_DEPTH):
            best = _finer(best or (), budget, depth)
            if not best:
                return True
            seen.look_at(best, facts, names, budget)
            if seen.missing != before:
                return False
    except (OutOfBudgetError, TooLarge):
        pass
    return False


def _is_impossible(sides: list[tuple[Goal, ...]], budget: Budget) -> bool:
    """Whether a claim can be shown to hold nowhere, without any facts."""
    try:
        charts = _charts(sides, (WHOLE,), budget)
        for depth in range(MAX_DEPTH):
            if not charts:
                return True
            charts = _finer(charts, budget, depth)
    except (OutOfBudgetError, TooLarge):
        pass
    return False


def _starts(
    sides: list[tuple[Goal, ...]], facts: Facts
) -> list[tuple[list[tuple[Goal, ...]], tuple[Chart, ...]]]:
    """(alternatives of goals, charts to add them to): the claim to the facts, and the facts to the
    claim.
    """
    given = sides, facts.atlas.charts
    if not facts.goals:
        return [given]
    turned = [(*side, *facts.goals) for side in sides], (WHOLE,)
    return [given, turned] if len(facts.atlas.charts) == 1 else [turned, given]


def _sides(claim: Claim) -> list[tuple[Goal, ...]]:
    """The claim as alternatives of goals: what is not zero is at least 1 or at most -1."""
    dim, sign = difference(claim)
    if sign is not Sign.NONZERO or divisibility(claim.negated()) is not None:
        return [((dim, sign),)]
    return [((dim - 1, Sign.NONNEGATIVE),), ((-dim - 1, Sign.NONNEGATIVE),)]


def _charts(
    alternatives: Sequence[tuple[Goal, ...]], bases: Sequence[Chart], budget: Budget
) -> tuple[Chart, ...]:
    found: tuple[Chart, ...] = ()
    for base in bases:
        for goals in alternatives:
            found += atlas_of(goals, budget, base).charts
    return found


def _finer(charts: Sequence[Chart], budget: Budget, depth: int) -> tuple[Chart, ...]:
    """The charts cut into parts. Raises OutOfBudgetError where one cannot be cut."""
    found: tuple[Chart, ...] = ()
    for chart in charts:
        parts = refined(chart, budget, depth)
        if parts is None:
            raise OutOfBudgetError
        found += parts
    return found


def shown(claim: Claim, facts: Facts) -> str | None:
    """Returns why the claim holds in every chart of the facts by arithmetic alone; None where it
    takes more.

    Three reasons: an identity, the bounds of the symbols, a divisor of all values.
    """
    divides = divisibility(claim)
    if divides is not None and always_divides(*divides, facts.atlas):
        return f"{divides[0]} divides {divides[1]}"
    try:
        dim, sign = difference(claim)
    except TooLarge:
        return None
    if all(_shown_in(dim, sign, chart) for chart in facts.atlas.charts):
        return "both sides are the same" if sign is Sign.ZERO else "by the bounds of the symbols"
    return None


def _shown_in(dim: Dim, sign: Sign, chart: Chart) -> bool:
    found = in_chart(dim, chart)
    if found is None:
        return False
    written, bounds = found
    if sign is Sign.ZERO:
        return written == 0
    low, high = range_of(written, bounds.lower, bounds.upper)
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
