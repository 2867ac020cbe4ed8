"""Whether a count may be used: what choices require of it, decided.

Requirement h = 32, count 8       legal
Requirement g = 8, count 16       never
Requirement b = batch, count 2    only if batch % 2 == 0
Requirement g = 8, count n        only if 8 % n == 0
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Literal, TypeAlias

from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.proof.divisibility import exact_quotient, fixed_divisor
from dimsolve.solver.proof.facts import Facts
from dimsolve.solver.proof.prove import decide_divides
from dimsolve.solver.proof.verdict import Always, Decision, Never, Sometimes, Undecided

from ..mesh import has_empty_part
from .choices import Choice, Requirement

Uneven: TypeAlias = Literal["allow", "parameters", "refuse"]
"""What may be cut into unequal parts: all, lengths that are fixed by the model, nothing."""


@dataclass(slots=True)
class Requirements:
    """Decides requirements for one count. ``conditions``: what was relied on, and why. uneven: what
    may be cut into unequal parts. holds: whether the axis is one of those that a given one is seen
    as, and not the first: what the first has cut is held by all its ranks.
    """

    count: Dim
    facts: Facts
    conditions: dict[str, str] = field(default_factory=dict)
    uneven: Uneven = "refuse"
    holds: bool = False
    _decided: dict[tuple[Dim, Dim], Decision] = field(default_factory=dict)

    def decide(self, requirement: Requirement) -> Decision:
        """Returns whether the count, times the requirement's divisor, divides its length."""
        key = (requirement.length, requirement.divisor)
        if key not in self._decided:
            divisor = self.count * requirement.divisor
            self._decided[key] = decide_divides(divisor, requirement.length, self.facts)
        return self._decided[key]

    def lacks_units(self, choice: Choice) -> bool:
        """Returns whether a choice of unequal parts leaves a rank with nothing, where its rule does
        not hold for that.
        """
        return choice.parts != "any" and has_empty_part(choice.units, self.count)

    def conditions_of(self, choice: Choice) -> tuple[str, ...] | None:
        """Returns the conditions under which a choice is legal, None where it is not, or where
        that is undecided.
        """
        if choice.units:
            return None if self.lacks_units(choice) else ()
        found: list[str] = []
        for requirement in choice.requirements:
            match self.decide(requirement):
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

    def is_undecided(self, requirement: Requirement) -> bool:
        """Whether it is unknown when a requirement is met."""
        match self.decide(requirement):
            case Undecided():
                return True
            case Sometimes(_, _, conditions):
                return not conditions
            case _:
                return False

    def first_illegal(self, choice: Choice) -> Requirement | None:
        """Returns the first that is never met, else the first that is undecided."""
        if choice.units:
            return choice.requirements[0] if self.lacks_units(choice) else None
        never = (each for each in choice.requirements if isinstance(self.decide(each), Never))
        unknown = (each for each in choice.requirements if self.is_undecided(each))
        return next(never, None) or next(unknown, None)


def units_of(requirements: Sequence[Requirement], uneven: Uneven, facts: Facts) -> Dim:
    """Returns how many units may be dealt out of what all of these divide; 1 where that is not
    allowed. Of lengths of the data those of the first.
    """
    if uneven == "refuse" or not requirements:
        return 1
    if all(isinstance(need.length, int) for need in requirements):
        return common_length(requirements, facts)
    if uneven == "parameters":
        return 1
    need = requirements[0]
    return exact_quotient(need.length, need.divisor, facts) or 1


def share_text(units: int, count: int) -> str:
    """Returns what the longest of unequal parts has.

    >>> share_text(7, 3)
    'of 7 units a rank has 3 at most, 1.286 times an equal share'
    """
    most = -(-units // count)
    return (
        f"of {units} units a rank has {most} at most, {most * count / units:.4g} times an equal "
        "share"
    )


def common_length(requirements: Iterable[Requirement], facts: Facts) -> int:
    """Returns the greatest count that meets them for all values; 0 where every count does."""
    common = 0
    for requirement in requirements:
        divisor = requirement.divisor if isinstance(requirement.divisor, int) else 1
        fixed = fixed_divisor(requirement.length, facts)
        common = gcd(common, fixed // divisor if fixed % divisor == 0 else 1)
        if common == 1:
            break
    return common
