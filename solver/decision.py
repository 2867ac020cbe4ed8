"""What a question about symbols can be answered with: the four cases behind every verdict.

A `Proof` and a `Legality` are made from one of these. *Always* is a theorem about all positive
integers that satisfy the facts. *Never* and *Sometimes* carry a counterexample that has been
evaluated. The conditions of *Sometimes* are necessary and sufficient, given the facts. Where a
proof, a counterexample or an exact condition is missing, the answer is *Undecided*, and says what
was left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Always:
    """It holds for all values that satisfy the facts."""

    reason: str


@dataclass(frozen=True, slots=True)
class Never:
    """It holds for no value that satisfies the facts; ``counterexample`` is one at which it
    fails.
    """

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
    """Neither proof nor counterexample was found. ``conditions``: the equivalent obligation that
    was left.
    """

    reason: str
    conditions: tuple[str, ...]


Decision: TypeAlias = Always | Never | Sometimes | Undecided
