"""Where does a claim hold? The question behind every verdict, in the order from cheap to dear.

1. Put the claim into the charts of the facts: often it is an identity there, or bounds decide it.
2. Try a few small values: most false claims fail at one of them. Where a constant does not divide
   everywhere, the binomial basis names values at which it does not.
3. Take the claim's opposite as a further fact. If that has no chart, the claim is a theorem; if it
   has, its charts say where to look for a counterexample.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from ..algebra.budget import Budget
from ..algebra.dims import Call, substitute
from ..algebra.poly import Dim, TooLarge, atoms_of
from .charts import Chart
from .claims import Claim, Sign, difference
from .congruences import congruence_of, follows_from_congruences
from .divisibility import always_divides, failing_points, in_chart
from .facts import Facts, related
from .refutation import Predicate, Seen, is_impossible
from .relaxation import is_nonnegative
from .search import points

FIRST_POINTS = 10
FIRST_LOOK = 400
STEPS = 18_000


@dataclass(frozen=True, slots=True)
class Finding:
    """proved: they hold everywhere, together. disproved: they hold nowhere.

    holds, fails: values at which the predicate was seen to. reasons: why each claim holds, in
    words; None where that was not found.
    """

    proved: bool = False
    disproved: bool = False
    holds: Mapping[str, int] | None = None
    fails: Mapping[str, int] | None = None
    reasons: tuple[str | None, ...] = ()


def examine(
    claims: Sequence[Claim],
    predicate: Predicate,
    symbols: Iterable[str],
    facts: Facts,
    budget: Budget,
) -> Finding:
    """Returns what could be found out about claims that are asked together under facts.

    predicate says what they, as they were written, are at given values; symbols are those that it
    needs.
    """
    reasons = [shown(claim, facts) for claim in claims]
    left = [i for i, reason in enumerate(reasons) if reason is None]
    if not left:
        return Finding(proved=True, reasons=tuple(reasons))
    names_of_claim = frozenset(symbols)
    names = sorted(facts.symbols | names_of_claim)
    seen = Seen(predicate)
    _first_look(seen, [claims[i] for i in left], names, facts)
    under = " under the facts" if facts.relations else ""
    for i in left:
        opposite = (claims[i].negated(),)
        if seen.fails is not None:
            break
        near = related(facts, names_of_claim)
        if (
            near is not facts and _is_impossible_near(opposite, predicate, near, names, budget)
        ) or (is_impossible(opposite, facts, names, seen, budget)):
            reasons[i] = f"its opposite is impossible{under}"
        else:
            break
    disproved = seen.holds is None and is_impossible(claims, facts, names, seen, budget)
    return Finding(None not in reasons, disproved, seen.holds, seen.fails, tuple(reasons))


def _is_impossible_near(
    claims: Sequence[Claim],
    predicate: Predicate,
    near: Facts,
    names: Sequence[str],
    budget: Budget,
) -> bool:
    """Whether the claims are impossible under those facts that have to do with them: others only
    lengthen the search.
    """
    fresh = Seen(predicate)
    fresh.holds = {}  # only where it fails would end the attempt
    part = budget.part(budget.left // 2)
    shown = is_impossible(claims, near, names, fresh, part)
    if shown:
        budget.refund(part)
    return shown


def _first_look(seen: Seen, claims: Sequence[Claim], names: Sequence[str], facts: Facts) -> None:
    """Tries small values, and those at which a constant is known not to divide."""
    walk = points(facts, facts.atlas.charts, names, Budget(FIRST_LOOK + 12 * len(names)))
    seen.look(islice(walk, FIRST_POINTS))
    for claim in claims if seen.fails is None else ():
        if (divides := claim.divisibility()) is not None:
            seen.look(p for p in failing_points(*divides, facts, names) if facts.holds(p))
    if seen.fails is not None:
        seen.look(walk)


def shown(claim: Claim, facts: Facts) -> str | None:
    """Returns why the claim holds in every chart of the facts by arithmetic alone; None where it
    takes more.

    Four reasons: an identity, the bounds of the symbols, a divisor of all values, congruences.
    """
    divides = claim.divisibility()
    if divides is not None and always_divides(*divides, facts.atlas):
        return f"{divides[0]} divides {divides[1]}"
    try:
        dim, sign = difference(claim)
    except TooLarge:
        return None
    congruence = congruence_of(dim, sign) if facts.goals else None
    if congruence and congruence[0] and follows_from_congruences(*congruence, facts):
        return f"by congruences, {congruence[0]} divides {congruence[1]}"
    if divides is not None:
        return None
    if all(_shown_in(dim, sign, chart) for chart in facts.atlas.charts):
        return "both sides are the same" if sign is Sign.ZERO else "by the bounds of the symbols"
    return None


def _shown_in(dim: Dim, sign: Sign, chart: Chart) -> bool:
    try:
        written = substitute(dim, chart.values) if chart.values else dim
    except (TooLarge, ZeroDivisionError):
        return False
    match sign:
        case Sign.NONNEGATIVE:
            return is_nonnegative(written, chart)
        case Sign.NONZERO:
            return is_nonnegative(written - 1, chart) or is_nonnegative(-written - 1, chart)
        case Sign.ZERO:
            calls = any(isinstance(atom, Call) for atom in atoms_of(written))
            if calls and is_nonnegative(written, chart) and is_nonnegative(-written, chart):
                return True
            found = in_chart(dim, chart)
            return found is not None and found[0] == 0
