"""Whether a count may be used: the duties of choices, decided.

Duty h = 32, count 8       legal
Duty g = 8, count 16       never
Duty b = batch, count 2    only if batch % 2 == 0
Duty g = 8, count n        only if 8 % n == 0
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import gcd

from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.decision import Always, Decision, Never, Sometimes
from dimsolve.solver.proof.divisibility import fixed_divisor
from dimsolve.solver.proof.facts import Facts
from dimsolve.solver.proof.prove import decide_divides

from .choices import Choice, Duty


@dataclass(slots=True)
class Duties:
    """Decides duties for one count, each once. ``conditions``: what was relied on, with reasons."""

    count: Dim
    facts: Facts
    conditions: dict[str, str] = field(default_factory=dict)
    _decided: dict[tuple[Dim, Dim], Decision] = field(default_factory=dict)

    def decide(self, duty: Duty) -> Decision:
        """Returns whether the count, times the duty's divisor, divides its length."""
        key = (duty.length, duty.divisor)
        if key not in self._decided:
            divisor = self.count * duty.divisor
            self._decided[key] = decide_divides(divisor, duty.length, self.facts)
        return self._decided[key]

    def conditions_of(self, choice: Choice) -> tuple[str, ...] | None:
        """Returns the conditions under which a choice is legal, None where it is not, or where
        nobody can tell.
        """
        found: list[str] = []
        for duty in choice.duties:
            match self.decide(duty):
                case Always():
                    continue
                case Sometimes(_, _, conditions) if conditions:
                    found.extend(conditions)
                case _:
                    return None
        return tuple(found)

    def implied(self, choice: Choice) -> bool:
        """Whether a choice is legal for all values, or under conditions that hold anyway."""
        conditions = self.conditions_of(choice)
        return conditions is not None and all(each in self.conditions for each in conditions)

    def rely(self, choice: Choice, reason: str) -> None:
        """Takes the conditions of a choice into the plan's."""
        for condition in self.conditions_of(choice) or ():
            self.conditions.setdefault(condition, reason)

    def first_illegal(self, choice: Choice) -> Duty | None:
        """Returns the first duty that is never met, or of which nobody can tell."""
        for duty in choice.duties:
            decision = self.decide(duty)
            if isinstance(decision, Never):
                return duty
            if not isinstance(decision, Always | Sometimes):
                return duty
            if isinstance(decision, Sometimes) and not decision.conditions:
                return duty
        return None


def common_length(duties: Iterable[Duty], facts: Facts) -> int:
    """Returns the greatest count that meets all duties for all values; 0 where every count does."""
    common = 0
    for duty in duties:
        divisor = duty.divisor if isinstance(duty.divisor, int) else 1
        fixed = fixed_divisor(duty.length, facts)
        common = gcd(common, fixed // divisor if fixed % divisor == 0 else 1)
        if common == 1:
            break
    return common
