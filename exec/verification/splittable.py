"""Calls of one form that can be split: one that is given, or as many as are wanted.

    verify(target, args=...)       a GivenCall: its lengths are cut into counts that divide them
    verify(target)                 sampled calls: lengths are chosen anew for each split

`check_splits` asks both the same questions, and cuts what it gets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from .lengths import PLAIN, Parts
from .unusual_values import Values
from .whole_run import Whole

Splits = tuple[tuple[str, int], ...]


class Calls(Protocol):
    """Calls of one form that can be split: one that is given, or as many as are wanted."""

    @property
    def base(self) -> Whole:
        """A run on one device."""

    def tries(self, name: str, counts: Sequence[int]) -> list[tuple[int, Parts]]:
        """Into how many parts an identifier is cut, and how long they are, in order."""

    def whole_for(self, splits: Splits, parts: Parts = ...) -> Whole | None:
        """A run whose lengths can be split so; None where the function does not run."""

    def unusual(self, splits: Splits) -> Iterator[tuple[Values, Whole]]:
        """Runs on unusual values."""


@dataclass(frozen=True)
class GivenCall:
    """One call, on the lengths and the values that it has.

    shortest: the lengths that parts must have too, where more counts than the wanted ones give
    them.
    """

    base: Whole
    shortest: tuple[int, ...] = ()

    def tries(self, name: str, counts: Sequence[int]) -> list[tuple[int, Parts]]:
        """The wanted counts, and those that leave the shortest parts."""
        length = self.base.solution.values.get(name)
        more = []
        if isinstance(length, int):
            more = [length // n for n in self.shortest if length % n == 0 and 1 < length // n <= 12]
        return [(count, PLAIN) for count in dict.fromkeys((*counts, *more))]

    def whole_for(self, splits: Splits, parts: Parts = PLAIN) -> Whole | None:
        """The run of the call."""
        return self.base

    def unusual(self, splits: Splits) -> Iterator[tuple[Values, Whole]]:
        """None: the values are given."""
        return iter(())
