"""Along which dimensions a value may be cut on its way, and what that relies on.

A way from one layout to another may go through a cut that no operator asks for (`path_aside` in
`dimsolve.partition.layout`). Like every cut it is legal where the count is proved to divide the
length: for all values, or under conditions that the plan relies on anyway.

    8 axes of a length 4096    known
    8 axes of a length seq     where seq % 8 == 0 is a fact, or a condition of the plan
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from math import prod
from typing import TypeAlias

from dimsolve.ir.errors import DimsolveError
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.proof.facts import Facts, read_facts
from dimsolve.solver.proof.prove import decide_divides, prove
from dimsolve.solver.proof.verdict import Always, Sometimes

from ..layout import Room

Holds: TypeAlias = Callable[[Dim, int], bool]
"""Whether a length may be taken to divide into so many parts, where that is so under conditions."""


def never(length: Dim, parts: int) -> bool:
    """Nothing is taken to hold."""
    return False


class Rooms:
    """The `Room` of every shape on axes of these counts; one that is a symbol cuts nothing. holds:
    what is taken to hold, of lengths of which it is known under which conditions.
    """

    def __init__(self, facts: Facts, counts: Sequence[Dim], holds: Holds = never) -> None:
        self.facts, self.holds = facts, holds
        self.counts = counts
        numbers = [n for n, count in enumerate(counts) if isinstance(count, int)]
        self.sets = [s for size in range(len(numbers)) for s in combinations(numbers, size + 1)]
        self._of: dict[tuple[Dim | None, ...] | None, Room] = {None: ()}
        self._conditions: dict[tuple[Dim, int], tuple[str, ...] | None] = {}

    def of(self, dims: tuple[Dim | None, ...] | None) -> Room:
        """Returns the room of a value of this shape.

        >>> from dimsolve.solver.algebra.poly import symbol
        >>> from dimsolve.solver.proof.facts import NO_FACTS
        >>> [sorted(each) for each in Rooms(NO_FACTS, (2, 4)).of((symbol("batch"), 8, 4))]
        [[], [1, 2, 3], [1, 2]]
        """
        if dims not in self._of:
            assert dims is not None
            self._of[dims] = tuple([self._sets_of(dim) for dim in dims])
        return self._of[dims]

    def _sets_of(self, dim: Dim | None) -> frozenset[int]:
        if dim is None:
            return frozenset()
        return frozenset(
            sum(1 << axis for axis in axes)
            for axes in self.sets
            if self.divides(dim, prod(n for a in axes if isinstance(n := self.counts[a], int)))
        )

    def parts(self, axes: int) -> int:
        """Returns into how many parts these axes, as bits, cut together."""
        return prod(n for a, n in enumerate(self.counts) if axes >> a & 1 and isinstance(n, int))

    def divides(self, length: Dim, parts: int) -> bool:
        """Whether a length is known, or taken, to be a multiple."""
        if isinstance(length, int):
            return length % parts == 0
        conditions = self.conditions(length, parts)
        return conditions == () or (conditions is not None and self.holds(length, parts))

    def conditions(self, length: Dim, parts: int) -> tuple[str, ...] | None:
        """Returns the conditions under which the parts divide the length; None where it is not
        known when, or where they never do.
        """
        key = length, parts
        if key not in self._conditions:
            match decide_divides(parts, length, self.facts):
                case Always():
                    self._conditions[key] = ()
                case Sometimes(_, _, conditions) if conditions:
                    self._conditions[key] = conditions
                case _:
                    self._conditions[key] = None
        return self._conditions[key]

    def under(self, conditions: Iterable[str]) -> Rooms:
        """Returns the rooms where these conditions hold."""
        within = _with(self.facts, conditions)

        def holds(length: Dim, parts: int) -> bool:
            return isinstance(decide_divides(parts, length, within), Always)

        return Rooms(self.facts, self.counts, holds)


def _with(facts: Facts, conditions: Iterable[str]) -> Facts:
    """The facts, and conditions beside them; the facts alone where they contradict each other."""
    texts = list(conditions)
    try:
        return read_facts([*facts.relations, *texts]) if texts else facts
    except DimsolveError:
        return facts


def implied(claims: Iterable[str], facts: Facts, conditions: Iterable[str]) -> bool:
    """Returns whether all claims follow from facts and conditions.

    >>> from dimsolve.solver.proof.facts import NO_FACTS
    >>> implied(["seq % 8 == 0"], NO_FACTS, ["seq % 64 == 0"])
    True
    """
    texts = list(conditions)
    left = [claim for claim in claims if claim not in texts]
    if not left:
        return True
    within = _with(facts, texts)
    return all(prove(claim, facts=within).verdict == "proved" for claim in left)
