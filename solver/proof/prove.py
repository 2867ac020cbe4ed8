"""Claims about lengths, decided: proved, refuted with a counterexample, or honestly unknown.

    n*(n + 1) % 2 == 0                 proved
    8*s % 3 == 0                       refuted at s = 1; it holds exactly where s % 3 == 0
    h % 8 == 0   if h*t == 768         refuted at h = 1, t = 768
    n*(n - 3) % (n - 3) == 0           conditional: it has no value at n = 3, and holds elsewhere
    1 <= a % 8 <= 7                    a chain asks for all its comparisons

A proof is a theorem about all positive integers that satisfy the facts: at each of them the claim
has a value and is true. A counterexample is put into the claim and the facts as they were written
before it is returned. `examine` goes from cheap to expensive:

1. Put the claim into the cells of the facts: often it is an identity there, or bounds decide it.
2. Try a few small values: most false claims fail at one of them. Where a constant does not divide
   everywhere, the binomial basis names values at which it does not.
3. Take the claim's opposite as a further fact. If that has no cell, the claim is a theorem; if it
   has, its cells say where to look for a counterexample.

Facts whose symbols are not connected with the claim's by facts only lengthen the search. Where
values satisfy these they are left out, and the values stand beside those of an example; where none
are found, the facts may contradict each other, and all are looked at together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal as Choice

from dimsolve.ir.checks import wrong_type
from dimsolve.ir.errors import AnnotationError, Problem
from dimsolve.ir.expression import Comparison, Literal, Relation, values_text
from dimsolve.ir.read_expression import read_relations

from ..algebra.budget import Budget
from ..algebra.dims import Call, mod, substitute, symbols_of
from ..algebra.evaluation import Test, names_of, predicate_of, valuation
from ..algebra.poly import Dim, TooLarge, atoms_of, divide_exactly
from .cells import Cell
from .claims import (
    Claim,
    Sign,
    claim_of,
    claims_of_value,
    difference,
    has_value,
    is_surely_positive,
    zero_divisor,
)
from .conditions import condition_of, remainder_text
from .congruences import congruence_of, follows_from_congruences
from .divisibility import always_divides, failing_points
from .facts import (
    PER_SYMBOL,
    Facts,
    assuming,
    contradiction,
    read_facts,
    refuse_slips,
    related,
)
from .floors import in_cell
from .refutation import Predicate, Seen, is_impossible
from .relaxation import is_nonnegative
from .search import points, values_apart
from .valuations import follows_from_valuations
from .verdict import Always, Decision, Never, Proof, Sometimes, Undecided

_NO_VALUE = Problem(
    AnnotationError, "no-value", "the claim divides by zero", "'{claim}' has no value {where}"
)
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
    if not facts.relations:
        return _examined(claims, predicate, symbols, facts, facts, budget)
    about = frozenset(symbols).union(*(claim.symbols() for claim in claims))
    near = related(facts, about)
    rest = None if near is facts else values_apart(facts, near)
    if rest is not None:
        found = _examined(claims, predicate, about, near, near, budget)
        return replace(found, holds=_beside(found.holds, rest), fails=_beside(found.fails, rest))
    return _examined(claims, predicate, about, facts, near, budget)


def _beside(point: Mapping[str, int] | None, rest: Mapping[str, int]) -> Mapping[str, int] | None:
    """A point together with values of the symbols that it has nothing to do with."""
    return None if point is None else dict(sorted({**point, **rest}.items()))


def _examined(
    claims: Sequence[Claim],
    predicate: Predicate,
    symbols: Iterable[str],
    facts: Facts,
    near: Facts,
    budget: Budget,
) -> Finding:
    """`examine`, with all the facts at once. near: those that have to do with the claims."""
    reasons = [shown(claim, facts) for claim in claims]
    left = [i for i, reason in enumerate(reasons) if reason is None]
    if not left:
        return Finding(proved=True, reasons=tuple(reasons))
    names = sorted(facts.symbols.union(symbols, *(claim.symbols() for claim in claims)))
    seen = Seen(predicate)
    _first_look(seen, [claims[i] for i in left], names, facts)
    under = " under the facts" if facts.relations else ""
    for i in left:
        opposite = (claims[i].negated(),)
        if seen.fails is not None:
            break
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
    """Whether the claims are impossible under the facts that have to do with them."""
    fresh = Seen(predicate)
    fresh.holds = {}  # only where it fails would end the attempt
    part = budget.part(budget.left // 2)
    shown = is_impossible(claims, near, names, fresh, part)
    if shown:
        budget.refund(part)
    return shown


def _first_look(seen: Seen, claims: Sequence[Claim], names: Sequence[str], facts: Facts) -> None:
    """Tries small values, and those at which a constant is known not to divide."""
    walk = points(facts, facts.cover.cells, names, Budget(FIRST_LOOK + 12 * len(names)))
    seen.look(islice(walk, FIRST_POINTS))
    for claim in claims if seen.fails is None else ():
        if (divides := claim.divisibility()) is not None:
            seen.look(p for p in failing_points(*divides, facts, names) if facts.holds(p))
    if seen.fails is not None:
        seen.look(walk)


def shown(claim: Claim, facts: Facts) -> str | None:
    """Returns why the claim holds in every cell by arithmetic alone, or None.

    Four reasons: an identity, the bounds of the symbols, a divisor of all values, congruences.
    """
    divides = claim.divisibility()
    if divides is not None and always_divides(*divides, facts.cover):
        return f"{divides[0]} divides {divides[1]}"
    try:
        dim, sign = difference(claim)
    except TooLarge:
        return None
    congruence = congruence_of(dim, sign) if facts.goals else None
    if congruence and congruence[0] and follows_from_congruences(*congruence, facts):
        return f"by congruences, {congruence[0]} divides {congruence[1]}"
    if congruence and congruence[0] and follows_from_valuations(*congruence, facts):
        return f"prime by prime, {congruence[0]} divides {congruence[1]}"
    if divides is not None:
        return None
    if all(_shown_in(dim, sign, cell) for cell in facts.cover.cells):
        return "both sides are the same" if sign is Sign.ZERO else "by the bounds of the symbols"
    return None


def _shown_in(dim: Dim, sign: Sign, cell: Cell) -> bool:
    try:
        written = substitute(dim, cell.values) if cell.values else dim
    except (TooLarge, ZeroDivisionError):
        return False
    match sign:
        case Sign.NONNEGATIVE:
            return is_nonnegative(written, cell)
        case Sign.NONZERO:
            return is_nonnegative(written - 1, cell) or is_nonnegative(-written - 1, cell)
        case Sign.ZERO:
            calls = any(isinstance(atom, Call) for atom in atoms_of(written))
            if calls and is_nonnegative(written, cell) and is_nonnegative(-written, cell):
                return True
            found = in_cell(dim, cell)
            return found is not None and found[0] == 0


def prove(claim: str | Relation, *, facts: Iterable[str | Relation] | Facts = ()) -> Proof:
    """Returns whether the claim holds for all positive integers that satisfy the facts.

    A claim holds where it has a value and is true; a chain holds where all its comparisons do.
    Raises AnnotationError for text that is no relation or has no value anywhere, and for a fact
    whose name looks like a slip for one of the claim (`dimsolve.solver.shapes`); ShapeError for
    facts that contradict each other.

    >>> prove("n*(n + 1) % 2 == 0").verdict
    'proved'
    >>> prove("8*s % 3 == 0").counterexample
    {'s': 1}
    >>> prove("n*(n - 3) % (n - 3) == 0").conditions
    ('n != 3',)
    """
    if not isinstance(claim, str | Relation):
        hint = "write a relation as text, such as 'n*(n + 1) % 2 == 0'"
        raise wrong_type("claim", claim, "a relation", hint)
    relations = (claim,) if isinstance(claim, Relation) else read_relations(claim)
    known = read_facts(facts)
    try:
        claims = [claim_of(relation) for relation in relations]
        values = dict.fromkeys(each for r in relations for each in claims_of_value(r))
    except ZeroDivisionError:
        raise _no_value(relations, "whatever the symbols are") from None
    except TooLarge:
        texts = tuple(str(relation) for relation in relations)
        return Proof("unknown", texts, None, f"{_shown(relations)} is too large to be decided")
    test = _when_asked(relations)
    symbols = frozenset().union(*(names_of(r.left) | names_of(r.right) for r in relations))
    if known.symbols and known is not facts:
        refuse_slips(known, symbols)
    budget = Budget(STEPS + PER_SYMBOL * len(symbols | known.symbols))
    having = _having_value(relations, tuple(values), symbols, known, budget) if values else _ALWAYS
    finding = examine(claims, test, symbols, having.facts or known, budget)
    if finding.proved and finding.disproved:
        raise contradiction(known.relations)
    return _proof(relations, claims, finding, having, known)


@dataclass(frozen=True, slots=True)
class _Having:
    """Where a claim has a value: conditions, exact under the facts, and the facts with them.
    without: values at which it has none; None where none were found.
    """

    conditions: tuple[str, ...] = ()
    facts: Facts | None = None
    without: Mapping[str, int] | None = None


_ALWAYS = _Having()


def _having_value(
    relations: Sequence[Relation],
    values: Sequence[Claim],
    symbols: Iterable[str],
    facts: Facts,
    budget: Budget,
) -> _Having:
    part = budget.part(budget.left // 2)
    finding = examine(values, has_value(relations), symbols, facts, part)
    if finding.proved:
        budget.refund(part)
        return _ALWAYS
    conditions = _open(values, finding, facts)
    within = None
    if not finding.disproved:
        written = [relation for text in conditions for relation in read_relations(text)]
        within = assuming(facts, written, values, part)
    budget.refund(part)
    if within is None:
        raise _no_value(relations, "at any values that satisfy the facts")
    return _Having(conditions, within, finding.fails)


def _when_asked(relations: Sequence[Relation]) -> Test:
    """The relations as one predicate, made when it is asked: most proofs look at no values."""
    made: list[Test] = []

    def test(values: Mapping[str, int]) -> bool | None:
        if not made:
            made.append(_together([predicate_of(relation) for relation in relations]))
        return made[0](values)

    return test


def _together(tests: Sequence[Test]) -> Test:
    """The conjunction of tests: False where one is, else None where one is."""
    if len(tests) == 1:
        return tests[0]

    def test(values: Mapping[str, int]) -> bool | None:
        answers = [each(values) for each in tests]
        return False if False in answers else None if None in answers else True

    return test


def _open(claims: Sequence[Claim], finding: Finding, facts: Facts) -> tuple[str, ...]:
    """The conditions of the claims that were not proved; () where they are impossible together."""
    if finding.disproved:
        return ()
    pairs = zip(claims, finding.reasons, strict=True)
    left = [claim for claim, reason in pairs if reason is None]
    if not left:
        return ()
    near = {claim: related(facts, claim.symbols()) for claim in left}
    return tuple(dict.fromkeys(text for claim in left for text in condition_of(claim, near[claim])))


def _proof(
    relations: Sequence[Relation],
    claims: Sequence[Claim],
    finding: Finding,
    having: _Having,
    facts: Facts,
) -> Proof:
    asked = _shown(relations)
    left = _open(claims, finding, having.facts or facts)
    plain = tuple(str(claim) for claim in claims)
    if finding.disproved and finding.fails is None:
        left = plain
    conditions = (*having.conditions, *left) if left or finding.proved else ()
    if finding.fails is not None:
        return Proof("refuted", conditions, finding.fails, _fails(relations, finding.fails))
    if finding.proved:
        why = " and ".join(dict.fromkeys(str(reason) for reason in finding.reasons))
        if not conditions:
            return Proof("proved", (), None, f"{asked} for all values: {why}")
        if having.without is None:
            reason = f"{asked} wherever it has a value: {why}; whether it always has one is open"
            return Proof("unknown", conditions, None, reason)
        reason = f"{_lacks_value(relations, having.without)}; elsewhere it holds: {why}"
        return Proof("conditional", conditions, having.without, reason)
    reason = f"neither a proof nor a counterexample of {asked} was found"
    if having.without is not None:
        reason = f"{_lacks_value(relations, having.without)}; elsewhere {reason}"
    is_simpler = having.without is not None or left != plain
    verdict: Choice["conditional", "unknown"] = "conditional" if is_simpler else "unknown"
    return Proof(verdict, conditions, having.without, reason)


def _shown(relations: Sequence[Relation]) -> str:
    """A relation, or a chain as it stood."""
    text = str(relations[0])
    for relation in relations[1:]:
        text += f" {relation.comparison.value} {relation.right}"
    return text


def _fails(relations: Sequence[Relation], point: Mapping[str, int]) -> str:
    """``8*s % 3 == 0 fails at s = 1, where 8*s % 3 is 2``"""
    relation = next(r for r in relations if predicate_of(r)(point) is False)
    sides = [
        f"{side} is {valuation(side)(point)}"
        for side in (relation.left, relation.right)
        if not isinstance(side, Literal)
    ]
    where = f" at {values_text(point)}" if point else ""
    return f"{relation} fails{where}" + (f", where {' and '.join(sides)}" if sides else "")


def _lacks_value(relations: Sequence[Relation], point: Mapping[str, int]) -> str:
    """``a % (n - 3) == 0 has no value at n = 3: it divides by n - 3, which is 0``"""
    divisor = next(d for r in relations if (d := zero_divisor(r, point)) is not None)
    where = f"at {values_text(point)}"
    return f"{_shown(relations)} has no value {where}: it divides by {divisor}, which is 0"


def _no_value(relations: Sequence[Relation], where: str) -> AnnotationError:
    relation = next((r for r in relations if _has_no_value(r)), relations[0])
    return _NO_VALUE(relation.text, relation.span, claim=_shown(relations), where=where)


def _has_no_value(relation: Relation) -> bool:
    """Whether a comparison divides by the number 0."""
    try:
        claim_of(relation)
    except (ZeroDivisionError, TooLarge):
        return True
    return False


def decide(left: Dim, comparison: Comparison, right: Dim, facts: Facts) -> Decision:
    """Returns when left compares with right, for all values that satisfy the facts.

    Lengths are given, so they exist: nothing is asked where a divisor within one is 0.

    >>> from dimsolve.solver.proof.facts import NO_FACTS
    >>> from dimsolve.solver.algebra.poly import symbol
    >>> decide(symbol("s") + 1, Comparison.GT, symbol("s"), NO_FACTS)
    Always(reason='s + 1 > s for all values: by the bounds of the symbols')
    """
    claim = Claim(left, comparison, right)
    return _decision(str(claim), (claim,), claim.symbols(), facts)


def decide_divides(divisor: Dim, dividend: Dim, facts: Facts) -> Decision:
    """Returns when divisor is not 0 and divides dividend, for all values under the facts.

    Raises ZeroDivisionError where the divisor is the constant 0.

    >>> from dimsolve.solver.proof.facts import NO_FACTS
    >>> from dimsolve.solver.algebra.poly import symbol
    >>> n = symbol("n")
    >>> decide_divides(8, 16 * n, NO_FACTS)
    Always(reason='8 divides 16*n')
    >>> decide_divides(n - 3, n * (n - 3), NO_FACTS).conditions
    ('n != 3',)
    """
    exact = divide_exactly(dividend, divisor) is not None
    claims: list[Claim] = []
    if not is_surely_positive(divisor):
        claims.append(Claim(divisor, Comparison.NE, 0))
        exact = exact and shown(claims[0], facts) is not None
    if exact:
        return Always(f"{divisor} divides {dividend}")
    claims.append(Claim(mod(dividend, divisor), Comparison.EQ, 0))
    symbols = symbols_of(dividend) | symbols_of(divisor)
    return _decision(f"{remainder_text(dividend, divisor)} == 0", claims, symbols, facts)


def _decision(text: str, claims: Sequence[Claim], symbols: Iterable[str], facts: Facts) -> Decision:
    test = _together([claim.test for claim in claims])
    finding = examine(claims, test, symbols, facts, Budget(STEPS))
    if finding.proved:
        return Always(f"{text} for all values: {finding.reasons[-1]}")
    conditions = _open(claims, finding, facts)
    if finding.fails is None:
        return Undecided(f"neither a proof nor a counterexample of {text} was found", conditions)
    where = f" at {values_text(finding.fails)}" if finding.fails else ""
    if finding.disproved:
        everywhere = f"{text} fails{where}, and everywhere else" if where else f"{text} is false"
        return Never(everywhere, finding.fails)
    if finding.holds is None:
        return Undecided(f"{text} fails{where}", conditions)
    return Sometimes(f"{text} fails{where}", finding.fails, conditions)
