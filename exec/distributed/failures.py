"""What ranks tell each other of failures: what failed, where, and what a rank was doing.

rank 1 (tp=1) failed in attention_kernel (node attention_kernel_3)
  RuntimeError: out of registers
  attention.py:27: out = attention_kernel(q, k, v)
  q: float32 (4, 2, 16, 8), k: float32 (4, 2, 16, 8), v: float32 (4, 2, 16, 8)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from dimsolve.ir.errors import Diagnostic, DimsolveError


@dataclass(frozen=True, slots=True)
class Failure:
    """A rank's failure. ``place``: the rank in words; ``shapes``: the step's local tensors."""

    rank: int
    place: str
    reason: str
    operator: str = ""
    node: str = ""
    source: str = ""
    shapes: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        where = f" in {self.operator}" if self.operator else ""
        node = f" (node {self.node})" if self.node and self.node != self.operator else ""
        shapes = ", ".join(f"{name}: {shape}" for name, shape in self.shapes.items())
        lines = [f"{self.place} failed{where}{node}", *self.reason.splitlines()]
        lines += [line for line in (self.source, shapes) if line]
        return "\n  ".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Returns the failure as JSON data."""
        return asdict(self)


class RankFailure(DimsolveError):
    """Another rank failed, and with it the run. ``failure``: what it told before it ended."""

    __module__ = "dimsolve"

    failure: Failure


def rank_failure(failure: Failure, here: str) -> RankFailure:
    """Returns the error that a rank raises because another one failed. ``here``: what it was at."""
    first, *rest = str(failure).splitlines()
    reason = "\n  ".join([line.strip() for line in rest] + [f"{here} could not be carried out"])
    error = RankFailure(Diagnostic(code="rank-failed", title=first, reason=reason))
    error.failure = failure
    return error


@dataclass(frozen=True, slots=True)
class Activity:
    """What a rank is at.

    waits: the collective that it waits in for others, or "". stage: of its run, in words. shapes:
    of the step's local tensors, where they were asked for.
    """

    operator: str = ""
    node: str = ""
    source: str = ""
    shapes: Mapping[str, str] = field(default_factory=dict)
    waits: str = ""
    stage: str = ""

    def __str__(self) -> str:
        node = f" (node {self.node})" if self.node and self.node != self.operator else ""
        return f"{self.operator}{node}" if self.operator else self.stage

    def to_json(self) -> str:
        """Returns it as JSON text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Activity:
        """Returns what `to_json` wrote."""
        return cls(**json.loads(text))


class Stopped(BaseException):
    """This process was told to end, because another rank has ended."""
