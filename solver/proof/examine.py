"""Where does a claim hold? The question behind every verdict, in the order from cheap to dear.

1. Put the claim into the charts of the facts: often it is an identity there, or bounds decide it.
2. Try a few small values: most false claims fail at one of them. Where a constant does not divide
   everywhere, the binomial basis names values at which it does not.
3. Take the claim's opposite as a further fact. If that has no chart, the claim is a theorem; if it
   has, its charts say where to look for a counterexample.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from ..algebra.budget import Budget
from ..algebra.dims import substitute
from ..algebra.poly import Dim, TooLarge
from .charts import Chart
from .claims import Claim, Sign, difference
from .divisibility import always_divides, failing_points, in_chart
from .facts import Facts
from .refutation import Predicate, Seen, is_impossible
from .relaxation import is_nonnegative
from .search import points

FIRST_POINTS = 10
FIRST_LOOK = 400
STEPS = 24_000


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
    seen = Seen(predicate)
    walk = points(facts, facts.atlas.charts, names, Budget(FIRST_LOOK))
    seen.look(islice(walk, FIRST_POINTS))
    if seen.fails is None and (divides := claim.divisibility()) is not None:
        seen.look(p for p in failing_points(*divides, facts, names) if facts.holds(p))
    if seen.fails is not None:
        seen.look(walk)
    budget = Budget(STEPS)
    proved = seen.fails is None and is_impossible(claim.negated(), facts, names, seen, budget)
    disproved = seen.holds is None and is_impossible(claim, facts, names, seen, budget)
    under = " under the facts" if facts.relations else ""
    reason = f"its opposite is impossible{under}" if proved else f"it is impossible{under}"
    return Finding(proved, disproved, seen.holds, seen.fails, reason)


def shown(claim: Claim, facts: Facts) -> str | None:
    """Returns why the claim holds in every chart of the facts by arithmetic alone; None where it
    takes more.

    Three reasons: an identity, the bounds of the symbols, a divisor of all values.
    """
    divides = claim.divisibility()
    if divides is not None:
        always = always_divides(*divides, facts.atlas)
        return f"{divides[0]} divides {divides[1]}" if always else None
    try:
        dim, sign = difference(claim)
    except TooLarge:
        return None
    if all(_shown_in(dim, sign, chart) for chart in facts.atlas.charts):
        return "both sides are the same" if sign is Sign.ZERO else "by the bounds of the symbols"
    return None


def _shown_in(dim: Dim, sign: Sign, chart: Chart) -> bool:
    if sign is Sign.ZERO:
        found = in_chart(dim, chart)
        return found is not None and found[0] == 0
    try:
        written = substitute(dim, chart.values) if chart.values else dim
    except (TooLarge, ZeroDivisionError):
        return False
    if sign is Sign.NONNEGATIVE:
        return is_nonnegative(written, chart)
    return is_nonnegative(written - 1, chart) or is_nonnegative(-written - 1, chart)
