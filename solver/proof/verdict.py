"""The answer to a claim, as a value: what was found, under which conditions, and what refutes it.

    n*(n + 1) % 2 == 0        proved
    8*s % 3 == 0              refuted, counterexample {"s": 1}, conditions ("s % 3 == 0",)
    n*(n - 3) % (n - 3) == 0  conditional, conditions ("n != 3",)

`prove` makes it; the command line, JSON and notebooks draw it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from typing import Literal as Choice


@dataclass(frozen=True, slots=True)
class Proof:
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

    def _repr_svg_(self) -> str:
        from .draw_proof import proof_svg

        return proof_svg(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def __rich__(self) -> Any:
        from ..terminal import proof_view

        return proof_view(self)
