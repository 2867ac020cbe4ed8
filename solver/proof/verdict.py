"""The answer to a claim, as a value: what was found, under which conditions, and what refutes it.

    n*(n + 1) % 2 == 0        proved
    8*s % 3 == 0              refuted, counterexample {"s": 1}, conditions ("s % 3 == 0",)
    n*(n - 3) % (n - 3) == 0  conditional, conditions ("n != 3",)

A `Proof` is for users, and a `Legality` is made the same way; behind both is a `Decision`. *Always*
is a theorem about all positive integers that satisfy the facts. *Never* and *Sometimes* carry a
counterexample that has been evaluated. The conditions of *Sometimes* are necessary and sufficient,
given the facts. Where a proof, a counterexample or an exact condition is missing, the answer is
*Undecided*, and says what was left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal as Choice
from typing import TypeAlias

from dimsolve.ir.display import Displayed


@dataclass(frozen=True, slots=True)
class Always:
    """It holds for all values that satisfy the facts."""

    reason: str


@dataclass(frozen=True, slots=True)
class Never:
    """It holds for no value that satisfies the facts, and fails at ``counterexample``."""

    reason: str
    counterexample: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Sometimes:
    """It holds at some values and fails at ``counterexample``.

    ``conditions``: texts in the dimension language, whose conjunction holds exactly where it holds;
    empty where it is known to fail somewhere and no exact condition was found.
    """

    reason: str
    counterexample: Mapping[str, int]
    conditions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Undecided:
    """No proof and no counterexample. ``conditions``: the equivalent claim that is left."""

    reason: str
    conditions: tuple[str, ...]


Decision: TypeAlias = Always | Never | Sometimes | Undecided


@dataclass(frozen=True, slots=True)
class Proof(Displayed):
    """The answer to a claim.

    proved: it has a value and is true for all values that satisfy the facts. refuted: it is false
    at counterexample, which was evaluated. conditional: it holds exactly under conditions;
    counterexample, where there is one, is where it has no value because it divides by 0. unknown:
    neither was found.

    conditions: what is equivalent to the claim under the facts; for unknown, the obligation that
    was left. Empty for proved, and for refuted where the claim never holds. reason: one sentence.
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
