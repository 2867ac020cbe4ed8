"""Claims about lengths, decided: proved, refuted with a counterexample, or honestly unknown.

    n*(n + 1) % 2 == 0                 proved
    8*s % 3 == 0                       refuted at s = 1; it holds exactly where s % 3 == 0
    h % 8 == 0   if h*t == 768         refuted at h = 1, t = 768

A proof is a theorem about all positive integers that satisfy the facts. A counterexample is put
into the claim and the facts as they were written before it is returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal as Choice

from dimsolve.ir.errors import AnnotationError, Diagnostic
from dimsolve.ir.expression import Comparison, Literal, Relation
from dimsolve.ir.read_expression import read_relation

from ..algebra.dims import mod, symbols_of
from ..algebra.evaluation import always_has_value, names_of, predicate_of, valuation
from ..algebra.poly import Dim, TooLarge, divide_exactly
from ..decision import Always, Decision, Never, Sometimes, Undecided
from .claims import Claim, claim_of
from .conditions import condition_of
from .congruence_conditions import remainder_text
from .examine import Finding, examine
from .facts import Facts, contradiction, read_facts


@dataclass(frozen=True, slots=True)
class Proof:
    """The answer to a claim.

    verdict: proved and refuted are theorems; refuted comes with a counterexample that was
    evaluated. conditions: what is equivalent to the claim, where it was found. reason: one
    sentence.
    """

    verdict: Choice["proved", "refuted", "conditional", "unknown"]
    conditions: tuple[str, ...]
    counterexample: Mapping[str, int] | None
    reason: str

    def __str__(self) -> str:
        return self.explain()

    def explain(self) -> str:
        """Returns the verdict, its reason, and the condition under which the claim holds."""
        lines = [f"{self.verdict}: {self.reason}"]
        if self.verdict != "proved" and self.conditions:
            lines.append(f"it holds exactly where {' and '.join(self.conditions)}")
        return "\n".join(lines)


def prove(claim: str | Relation, *, facts: Iterable[str | Relation] | Facts = ()) -> Proof:
    """Returns whether the claim holds for all positive integers that satisfy the facts.

    Raises AnnotationError for text that is no relation or has no value anywhere, ShapeError for
    facts that contradict each other.

    >>> prove("n*(n + 1) % 2 == 0").verdict
    'proved'
    >>> prove("8*s % 3 == 0").counterexample
    {'s': 1}
    """
    relation = read_relation(claim) if isinstance(claim, str) else claim
    known = read_facts(facts)
    try:
        canonical = claim_of(relation)
    except ZeroDivisionError:
        raise _no_value(relation, "whatever the symbols are") from None
    except TooLarge:
        return Proof("unknown", (), None, f"{relation} is too large to be decided")
    symbols = names_of(relation.left) | names_of(relation.right)
    finding = examine(canonical, predicate_of(relation), symbols, known)
    if finding.proved and finding.disproved:
        if always_has_value(relation.left) and always_has_value(relation.right):
            raise contradiction(known.relations)
        raise _no_value(relation, "at any values that satisfy the facts")
    return _proof(relation, canonical, finding, known)


def _proof(relation: Relation, claim: Claim, finding: Finding, facts: Facts) -> Proof:
    if finding.proved:
        return Proof("proved", (), None, f"{relation} for all values: {finding.reason}")
    if finding.fails is not None:
        conditions = () if finding.disproved else condition_of(claim, facts)
        reason = f"{relation} {_fails(relation, finding.fails)}"
        return Proof("refuted", conditions, finding.fails, reason)
    conditions = condition_of(claim, facts)
    reason = f"neither a proof nor a counterexample of {relation} was found"
    if conditions == (str(claim),):
        return Proof("unknown", conditions, None, reason)
    return Proof("conditional", conditions, None, reason)


def _fails(relation: Relation, point: Mapping[str, int]) -> str:
    """``fails at s = 1, where 8*s % 3 is 2``"""
    sides = [
        f"{side} is {valuation(side)(point)}"
        for side in (relation.left, relation.right)
        if not isinstance(side, Literal)
    ]
    where = f" at {shown_point(point)}" if point else ""
    return f"fails{where}, where {' and '.join(sides)}" if sides else f"fails{where}"


def shown_point(point: Mapping[str, int]) -> str:
    """Returns ``n = 3, s = 1``."""
    return ", ".join(f"{name} = {value}" for name, value in point.items())


def _no_value(relation: Relation, where: str) -> AnnotationError:
    return AnnotationError(
        Diagnostic(
            code="no-value",
            title="the claim divides by zero",
            text=relation.text,
            spans=(relation.span,),
            reason=f"'{relation}' has no value {where}",
        )
    )


def decide(left: Dim, comparison: Comparison, right: Dim, facts: Facts) -> Decision:
    """Returns when left compares with right, for all values that satisfy the facts.

    >>> from dimsolve.solver.proof.facts import NO_FACTS
    >>> from dimsolve.solver.algebra.poly import symbol
    >>> decide(symbol("s") + 1, Comparison.GT, symbol("s"), NO_FACTS)
    Always(reason='s + 1 > s for all values: by the bounds of the symbols')
    """
    claim = Claim(left, comparison, right)
    return _decision(str(claim), claim, claim.symbols(), facts)


def decide_divides(divisor: Dim, dividend: Dim, facts: Facts) -> Decision:
    """Returns when divisor divides dividend without a remainder, for all values that satisfy the
    facts.

    Raises ZeroDivisionError where the divisor is the constant 0.

    >>> from dimsolve.solver.proof.facts import NO_FACTS
    >>> from dimsolve.solver.algebra.poly import symbol
    >>> decide_divides(8, 16 * symbol("s"), NO_FACTS)
    Always(reason='8 divides 16*s')
    """
    if divide_exactly(dividend, divisor) is not None:
        return Always(f"{divisor} divides {dividend}")
    claim = Claim(mod(dividend, divisor), Comparison.EQ, 0)
    symbols = symbols_of(dividend) | symbols_of(divisor)
    return _decision(f"{remainder_text(dividend, divisor)} == 0", claim, symbols, facts)


def _decision(text: str, claim: Claim, symbols: Iterable[str], facts: Facts) -> Decision:
    finding = examine(claim, claim.test, symbols, facts)
    if finding.proved:
        return Always(f"{text} for all values: {finding.reason}")
    if finding.fails is None:
        reason = f"neither a proof nor a counterexample of {text} was found"
        return Undecided(reason, condition_of(claim, facts))
    where = f" at {shown_point(finding.fails)}" if finding.fails else ""
    if finding.disproved:
        everywhere = f"{text} fails{where}, and everywhere else" if where else f"{text} is false"
        return Never(everywhere, finding.fails)
    reason = f"{text} fails{where}"
    if finding.holds is None:
        return Undecided(reason, condition_of(claim, facts))
    return Sometimes(reason, finding.fails, condition_of(claim, facts))
