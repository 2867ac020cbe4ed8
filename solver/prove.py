"""Claims about lengths, decided: proved, refuted with a counterexample, or honestly unknown.

    n*(n + 1) % 2 == 0                 proved
    8*s % 3 == 0                       refuted at s = 1; it holds exactly where s % 3 == 0
    h % 8 == 0   if h*t == 768         refuted at h = 1, t = 768

A proof is a theorem about all positive integers that satisfy the facts. A counterexample is put into the claim and the
facts as they were written before it is returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, assert_never

from dimsolve.ir.errors import AnnotationError, Diagnostic
from dimsolve.ir.expression import Comparison, Relation
from dimsolve.ir.read_expression import read_relation

from .claims import Claim, claim_of
from .decision import Always, Decision, Never, Sometimes, Undecided
from .dims import mod
from .evaluation import names_of, predicate_of
from .examine import Predicate, examine
from .facts import Facts, read_facts
from .poly import Dim, TooLarge, divide_exactly


@dataclass(frozen=True, slots=True)
class Proof:
    """The answer to a claim.

    verdict: proved and refuted are theorems; refuted comes with a counterexample that was evaluated. conditions: what
    is equivalent to the claim, where it was found. reason: one sentence.
    """

    verdict: Literal["proved", "refuted", "conditional", "unknown"]
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

    Raises AnnotationError for text that is no relation or has no value anywhere, ShapeError for facts that contradict
    each other.

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
        raise _no_value(relation) from None
    except TooLarge:
        return Proof("unknown", (), None, "the claim is too large to be decided")
    symbols = names_of(relation.left) | names_of(relation.right)
    return _proof(_decide(canonical, predicate_of(relation), symbols, known))


def _proof(decision: Decision) -> Proof:
    match decision:
        case Always(reason):
            return Proof("proved", (), None, reason)
        case Never(reason, counterexample):
            return Proof("refuted", (), counterexample, reason)
        case Sometimes(reason, counterexample, conditions):
            return Proof("refuted", conditions, counterexample, reason)
        case Undecided(reason, conditions):
            return Proof("unknown", conditions, None, reason)
        case _:
            assert_never(decision)


def _no_value(relation: Relation) -> AnnotationError:
    return AnnotationError(
        Diagnostic(
            code="no-value",
            title="the claim divides by zero",
            text=relation.text,
            spans=(relation.span,),
            reason=f"'{relation}' has no value, whatever the symbols are",
        )
    )


def decide(left: Dim, comparison: Comparison, right: Dim, facts: Facts) -> Decision:
    """Returns when left compares with right, for all values that satisfy the facts.

    >>> from .facts import NO_FACTS
    >>> decide(symbol("s") + 1, Comparison.GT, symbol("s"), NO_FACTS)
    Always(reason='s + 1 > s')
    """
    claim = Claim(left, comparison, right)
    return _decide(claim, claim.test, claim.symbols(), facts)


def decide_divides(divisor: Dim, dividend: Dim, facts: Facts) -> Decision:
    """Returns when divisor divides dividend without a remainder, for all values that satisfy the facts.

    >>> from .facts import NO_FACTS
    >>> decide_divides(8, 16 * symbol("s"), NO_FACTS)
    Always(reason='8 divides 16*s')
    """
    if divide_exactly(dividend, divisor) is not None:
        return Always(f"{divisor} divides {dividend}")
    return decide(mod(dividend, divisor), Comparison.EQ, 0, facts)


def _decide(claim: Claim, predicate: Predicate, symbols: Iterable[str], facts: Facts) -> Decision:
    finding = examine(claim, predicate, symbols, facts)
    if finding.proved:
        return Always(str(claim))
    if finding.fails is None:
        return Undecided(
            f"neither a proof nor a counterexample of {claim} was found", (str(claim),)
        )
    where = ", ".join(f"{name} = {value}" for name, value in finding.fails.items())
    reason = f"{claim} fails at {where}" if where else f"{claim} is false"
    if finding.disproved:
        return Never(reason, finding.fails)
    if finding.holds is not None:
        return Sometimes(reason, finding.fails, (str(claim),))
    return Undecided(reason, (str(claim),))
