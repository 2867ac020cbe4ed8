"""What `verify` answers: whether the promise holds, and which identifier is to blame, by how much.

    ops.matmul_bias: does not hold (k)
      m split into 2, 3, 4: equal to the whole
      'k' split into 2 parts: output 0 is off by 0.94 of its largest element
        hint: input 2 ('bias') is a summand: write value_split=("bias",)

``str()`` of a Verification is this text; its fields are the same as data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dimsolve.ir.display import Displayed


@dataclass(frozen=True, slots=True)
class Culprit:
    """One broken promise. ``subject``: the identifier, or the input, that is to blame."""

    subject: str
    reason: str
    hint: str = ""
    amount: float = float("inf")

    def __str__(self) -> str:
        return f"{self.reason}\n  hint: {self.hint}" if self.hint else self.reason


class Refuted(Exception):
    """The annotation does not fit what the function does on one device."""

    def __init__(self, subject: str, reason: str, hint: str = "") -> None:
        self.culprit = Culprit(subject, reason, hint)
        super().__init__(str(self.culprit))


@dataclass(frozen=True)
class Verification(Displayed):
    """Made by `dimsolve.verify`.

    differences: the largest relative difference of ``outputs``, ``gradients`` and ``inputs`` (those
    that the call writes to) in all splits that hold, 0.0 where they are equal. culprits: what does
    not hold. splits: the counts that each identifier was split into, and hold. frozen: identifiers
    that cannot be split, with the reason. notes: what was not compared, and why.
    """

    target: str
    differences: Mapping[str, float]
    culprits: tuple[Culprit, ...] = ()
    splits: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    frozen: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether everything holds that was run."""
        return not self.culprits

    def __str__(self) -> str:
        blamed = ", ".join(dict.fromkeys(culprit.subject for culprit in self.culprits))
        lines = [f"{self.target}: {f'does not hold ({blamed})' if blamed else 'holds'}"]
        for name, counts in self.splits.items():
            lines.append(f"  {name} split into {', '.join(map(str, counts))}: equal to the whole")
        for name, reason in self.frozen.items():
            lines.append(f"  {name} not split: {reason}")
        lines += [f"  {note}" for note in self.notes]
        for culprit in self.culprits:
            lines += [f"  {line}" for line in str(culprit).splitlines()]
        if self.splits:
            apart = ", ".join(f"{kind} {amount:.1e}" for kind, amount in self.differences.items())
            lines.append(f"  largest relative difference: {apart}")
        return "\n".join(lines)

    _repr_pretty_ = Displayed._repr_pretty_  # the whole text, not the __repr__

    def __repr__(self) -> str:
        return f"<Verification {self.target}: {'ok' if self.ok else 'not ok'}>"
