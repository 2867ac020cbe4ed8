"""What must hold for a split to be legal, decided one by one and joined into one answer.

    m k+, k+ n -> m n, k = 12*s into 8      k is a multiple of 8: only if s % 2 == 0
    contiguous, (q h e) cut at h            its parts are contiguous, that is q == 1

One *never* decides, doubt outweighs a condition, a condition outweighs a yes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import lcm
from typing import Any

from dimsolve.ir.errors import ShapeError
from dimsolve.ir.expression import Comparison
from dimsolve.solver.algebra.dims import evaluate, surely_positive
from dimsolve.solver.algebra.poly import Dim, product
from dimsolve.solver.decision import Always, Decision, Never, Sometimes, Undecided
from dimsolve.solver.lengths import is_length
from dimsolve.solver.proof.facts import Facts, read_facts
from dimsolve.solver.proof.prove import decide, decide_divides, prove
from dimsolve.solver.solution import Solution

from .legality import Legality, Verdict
from .placement import Shard
from .rules import Rule


@dataclass(frozen=True)
class _Obligation:
    """One thing that must hold: the decision, the words for it, a Dim whose value at a
    counterexample tells the most, and the obligation as a text of the dimension language.
    """

    decision: Decision
    claim: str
    never: str
    witness: Dim
    left: str


@dataclass(frozen=True)
class Obligations:
    """What must hold for a rule to be used: the inputs match, the count divides, the layout is
    contiguous if asked.
    """

    solution: Solution
    rule: Rule
    parts: Dim
    contiguous: bool

    def answer(self, arguments: tuple[tuple[str, Any], ...]) -> Legality:
        """Joins the decisions: one *never* decides, doubt outweighs a condition, a condition
        outweighs a yes.
        """
        conditions = list(self.solution.conditions)
        facts = _assume(self.solution.facts, conditions)
        verdict: Verdict = "conditional" if conditions else "legal"
        reasons = [f"the inputs match only if {' and '.join(conditions)}"] if conditions else []
        counterexample: Mapping[str, int] | None = None
        for obligation in self._obligations(facts):
            match obligation.decision:
                case Always():
                    reasons.append(f"{obligation.claim} for all values")
                case Never(_, found):
                    reasons.append(obligation.never + _at(obligation.witness, found))
                    reason = "; ".join(reasons)
                    return self._legality("illegal", reason, (), found, None, arguments)
                case Sometimes(reason, found, needed):
                    verdict = "conditional" if needed and verdict != "unknown" else "unknown"
                    needs = needed or (obligation.left,)
                    conditions.extend(c for c in needs if c not in conditions)
                    counterexample = counterexample or found
                    only = f"only if {' and '.join(needed)}" if needed else f"not always ({reason})"
                    reasons.append(f"{obligation.claim} {only}{_at(obligation.witness, found)}")
                case Undecided(reason, left):
                    verdict = "unknown"
                    needs = left or (obligation.left,)
                    conditions.extend(c for c in needs if c not in conditions)
                    reasons.append(f"it is not decided whether {obligation.claim}: {reason}")
        if verdict == "conditional" and counterexample is None:
            counterexample = _failing(conditions, self.solution.facts)
        return self._legality(
            verdict, "; ".join(reasons), tuple(conditions), counterexample, self.rule, arguments
        )

    def undecided(self, arguments: tuple[tuple[str, Any], ...]) -> Legality:
        """The answer where the expressions are too large to be worked with."""
        length = self.solution.values[self.rule.name]
        left = (*self.solution.conditions, _divides_text(self.parts, length))
        reason = f"the lengths are too large to decide whether {self.rule.name} can be cut"
        return self._legality("unknown", reason, left, None, self.rule, arguments)

    def _legality(
        self,
        verdict: Verdict,
        reason: str,
        conditions: tuple[str, ...],
        counterexample: Mapping[str, int] | None,
        rule: Rule | None,
        arguments: tuple[tuple[str, Any], ...],
    ) -> Legality:
        return Legality(
            solution=self.solution,
            split=self.rule.name,
            parts=self.parts,
            verdict=verdict,
            reason=reason,
            conditions=conditions,
            counterexample=counterexample,
            rule=rule,
            given_arguments=arguments,
        )

    def _obligations(self, facts: Facts) -> Iterator[_Obligation]:
        name, length = self.rule.name, self.solution.values[self.rule.name]
        text = name if str(length) == name else f"{name} = {length}"
        if not surely_positive(self.parts):
            yield from self._count_is_positive(facts)
            with suppress(ShapeError):  # then it is never positive, and that was said
                facts = _assume(facts, [f"{self.parts} >= 1"])
        shards = [p for p in (*self.rule.inputs, *self.rule.outputs) if isinstance(p, Shard)]
        divisor = self.parts * lcm(*[sum(shard.segments or (1,)) for shard in shards])
        yield _Obligation(
            decide_divides(divisor, length, facts),
            f"{text} is a multiple of {divisor}",
            f"{text} is never a multiple of {divisor}",
            length,
            _divides_text(divisor, length),
        )
        yield from self._other_obligations(facts)
        if self.contiguous and self.parts != 1:
            for count in sorted({shard.units for shard in shards} - {1}, key=str):
                yield _Obligation(
                    decide(count, Comparison.EQ, 1, facts),
                    f"the parts of {name} are contiguous, that is {count} == 1",
                    f"the parts of {name} are not contiguous: it is cut in each of {count} blocks",
                    count,
                    f"{count} == 1",
                )

    def _count_is_positive(self, facts: Facts) -> Iterator[_Obligation]:
        for claim in is_length(self.parts):
            yield _Obligation(
                decide(claim.left, claim.comparison, claim.right, facts),
                f"the count {self.parts} is positive",
                f"the count {self.parts} is never positive",
                self.parts,
                str(claim),
            )

    def _other_obligations(self, facts: Facts) -> Iterator[_Obligation]:
        """A transform rule may cut other identifiers too: the count must divide them as well."""
        if self.rule.transform is None:
            return
        layout = self.solution.layout
        seen: set[str] = set()
        placements = (*self.rule.inputs, *self.rule.outputs)
        for placement, patterns in zip(placements, (*layout.inputs, *layout.outputs), strict=True):
            if not isinstance(placement, Shard) or patterns is None:
                continue
            pattern = patterns[placement.dim]
            if self.rule.name in pattern.names or str(pattern) in seen:
                continue
            seen.add(str(pattern))
            lengths = [self.solution.values[name] for name in pattern.names]
            length = product([pattern.constant, *lengths])
            parts = product([self.parts, placement.units])
            yield _Obligation(
                decide_divides(parts, length, facts),
                f"{pattern} = {length} is a multiple of {self.parts}",
                f"{pattern} = {length} is never a multiple of {self.parts}",
                length,
                _divides_text(parts, length),
            )


def _divides_text(parts: Dim, length: Dim) -> str:
    """Returns the obligation that the parts divide the length, as a condition reads."""
    return f"({length}) % ({parts}) == 0"


def _failing(conditions: list[str], facts: Facts) -> Mapping[str, int] | None:
    """Returns values, which satisfy the facts, at which one of the conditions is false."""
    found = (prove(condition, facts=facts).counterexample for condition in conditions)
    return next((values for values in found if values is not None), None)


def _at(witness: Dim, values: Mapping[str, int]) -> str:
    """Returns ``; at s = 1 it is 8``, or nothing where there is no symbol."""
    if isinstance(witness, int) or not values:
        return ""
    shown = ", ".join(f"{name} = {value}" for name, value in values.items())
    try:
        return f"; at {shown} it is {evaluate(witness, values)}"
    except ZeroDivisionError:
        return f"; at {shown} it has no value"


def _assume(facts: Facts, conditions: list[str]) -> Facts:
    return read_facts([*facts.relations, *conditions]) if conditions else facts
