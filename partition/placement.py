"""Where the data of a tensor lies along one mesh axis: PyTorch's words, without needing torch.

    S(0)             dimension 0 is cut into equal contiguous parts, one a rank
    S(0, blocks=3)   dimension 0 is 3 blocks, of each every rank has a part: (q h e) cut by h
    S(0, segments=4:1:1)   dimension 0 is three segments, the first 4 times as long as the others,
                     of each every rank has a part: queries, keys and values of grouped heads
    S(0, of=5)       dimension 0, of length 5, is cut into parts as equal as torch's ``chunk`` makes
                     them: over 4 ranks 2, 2, 1 and 0
    S(0, of=112, unit=16)   7 heads of 16 are dealt out whole: over 3 ranks 48, 48 and 16
    R                every rank has the whole tensor
    P(sum)           every rank has a tensor of full size; their sum is the value
    G(0)             every rank has a tensor of full size, right in the rows of dimension 0 that are
                     of its groups: the tokens of its experts; which they are is known when it runs

A value has one placement per mesh axis. Segments are also fractions of a dimension (`fractions_of`,
`shard_of`): those of ``S(0, segments=2:1:1)`` are 1/2, 1/4, 1/4. Fractions say which parts of two
dimensions belong together where one is a window of the other, and they do not change when an outer
axis cuts every segment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from itertools import accumulate
from math import gcd, lcm
from typing import TypeAlias

from dimsolve.ir.characters import shown
from dimsolve.ir.display import Displayed
from dimsolve.ir.errors import AnnotationError, Problem
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.shapes import dim_of_text


class Reduction(Enum):
    """How the parts of a partial value are joined."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    PROD = "prod"
    AVG = "avg"


@dataclass(frozen=True, slots=True)
class Shard(Displayed):
    """Dimension ``dim`` (counted from 0) is cut.

    blocks: of how many equal blocks, one after the other, every rank has a part; 1 is contiguous.
    segments: what a block is made of, as proportions (``(4, 1, 1)``): every rank has a part of each
    segment; () is one segment. They have no common divisor and do not repeat: a repeated one is
    blocks (`dimsolve.partition.placement.shard_of` sees to it).
    of: the length of the dimension, where the parts are not all equal; 0 where they are. unit: what
    the parts are multiples of then; a segment of proportion 4 has units four times as long.

    >>> str(Shard(0)), str(Shard(1, blocks=3)), str(Shard(0, segments=(4, 1, 1)))
    ('S(0)', 'S(1, blocks=3)', 'S(0, segments=4:1:1)')
    """

    dim: int
    blocks: Dim = 1
    segments: tuple[int, ...] = ()
    of: Dim = 0
    unit: Dim = 1

    @property
    def even(self) -> Shard:
        """The cut of the same units, in parts that are all equal."""
        return Shard(self.dim, self.blocks, self.segments) if self.of else self

    @property
    def as_torch(self) -> bool:
        """Whether unequal parts are those of torch's ``chunk``, and of DTensor's ``Shard``."""
        return self.contiguous and self.unit == 1

    @property
    def contiguous(self) -> bool:
        """Whether every rank's part is one run of the dimension."""
        return self.blocks == 1 and not self.segments

    @property
    def units(self) -> Dim:
        """What the dimension must divide by, besides the number of ranks: the count of its blocks
        and, in each, of the units that its segments are multiples of.
        """
        return self.blocks * sum(self.segments) if self.segments else self.blocks

    def __str__(self) -> str:
        parts = [str(self.dim)]
        if self.blocks != 1:
            parts.append(f"blocks={self.blocks}")
        if self.segments:
            parts.append(f"segments={':'.join(map(str, self.segments))}")
        if self.of:
            parts.append(f"of={self.of}")
        if self.unit != 1:
            parts.append(f"unit={self.unit}")
        return f"S({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class Replicate(Displayed):
    """Every rank has the whole tensor."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True, slots=True)
class Partial(Displayed):
    """Every rank has a summand (or factor, or candidate) of the value.

    >>> str(Partial(Reduction.MAX))
    'P(max)'
    """

    reduction: Reduction = Reduction.SUM

    def __str__(self) -> str:
        return f"P({self.reduction.value})"


@dataclass(frozen=True, slots=True)
class Grouped(Displayed):
    """The rows of dimension ``dim`` are in groups, one after the other, and a rank has its part of
    the groups: its tensor is of full size, and nothing is said of what stands in other rows. Their
    gradient is zero.

    >>> str(Grouped(0))
    'G(0)'
    """

    dim: int

    def __str__(self) -> str:
        return f"G({self.dim})"


Placement: TypeAlias = Shard | Replicate | Partial | Grouped

MOST = 4096
"""A dimension of more segments is not taken apart."""
MOST_WRITTEN = 256
"""A placement names no more segments than these: longer texts are not read."""


def fractions_of(shard: Shard) -> tuple[Fraction, ...] | None:
    """Returns the lengths of all segments; None where their number is a symbol, or too large.

    >>> [str(each) for each in fractions_of(Shard(0, blocks=2, segments=(2, 1)))]
    ['1/3', '1/6', '1/3', '1/6']
    """
    segments = shard.segments or (1,)
    if not isinstance(shard.blocks, int) or not 0 < shard.blocks * len(segments) <= MOST:
        return None
    whole = shard.blocks * sum(segments)
    return tuple(Fraction(each, whole) for each in segments) * shard.blocks


def shard_of(dim: int, lengths: Sequence[Fraction]) -> Shard:
    """Returns the placement whose segments have these lengths, or lengths in these proportions.

    >>> print(shard_of(0, [Fraction(1, 2), Fraction(1, 4)]), shard_of(1, [Fraction(1, 4)] * 2))
    S(0, segments=2:1) S(1, blocks=2)
    """
    common = lcm(*(each.denominator for each in lengths))
    return segmented(dim, 1, tuple(int(each * common) for each in lengths))


def segmented(dim: int, blocks: Dim, segments: tuple[int, ...]) -> Shard:
    """Returns the placement in its one form: segments that repeat are blocks.

    >>> print(segmented(0, 3, (2, 2)), segmented(0, 1, (6, 3, 6, 3)))
    S(0, blocks=6) S(0, blocks=2, segments=2:1)
    """
    if not segments:
        return Shard(dim, blocks)
    times, least = _repeated(segments)
    common = gcd(*least)
    least = tuple(each // common for each in least)
    return Shard(dim, blocks * times, least if len(least) > 1 else ())


def _repeated(segments: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """The shortest beginning that the segments repeat, and how many times."""
    count = len(segments)
    for length in range(1, count + 1):
        if count % length == 0 and segments == segments[:length] * (count // length):
            return count // length, segments[:length]
    raise AssertionError("segments repeat themselves once at least")


def ends_of(lengths: Sequence[Fraction]) -> list[Fraction]:
    """Returns where the segments end, and 0 where the first begins.

    >>> [str(each) for each in ends_of([Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)])]
    ['0', '1/2', '3/4', '1']
    """
    return [Fraction(0), *accumulate(lengths)]


_SHARD = re.compile(
    r"S\(\s*(\d{1,3})\s*(?:,\s*blocks\s*=\s*([^:]{1,1000}?)\s*)?"
    r"(?:,\s*segments\s*=\s*(\d{1,9}(?:\s*:\s*\d{1,9}){1,255})\s*)?"
    r"(?:,\s*of\s*=\s*([^:=]{1,1000}?)\s*(?:,\s*unit\s*=\s*([^:=]{1,1000}?)\s*)?)?\)",
    re.ASCII,
)
_GROUPED = re.compile(r"G\(\s*(\d{1,3})\s*\)", re.ASCII)
_PARTIAL = re.compile(r"P(?:\(\s*(sum|max|min|prod|avg)\s*\))?", re.ASCII)


def _below_one(dim: Dim | None) -> bool:
    return isinstance(dim, int) and dim < 1


NOT_A_PLACEMENT = Problem(
    AnnotationError,
    "not-a-placement",
    "this is not a placement",
    "'{given}' cannot be read",
    "write S(0), S(0, blocks=3), S(0, segments=4:1:1), R, or P(sum): sum, max, min, prod or avg",
)


def read_placement(text: str) -> Placement:
    """Returns the placement that prints as ``text``; ``P`` is ``P(sum)``. Raises AnnotationError.

    >>> print(read_placement("S(0, blocks=3)"), read_placement("P(max)"))
    S(0, blocks=3) P(max)
    >>> print(read_placement("S(0, segments=8:2:2)"), read_placement("S(0, segments=2:2)"))
    S(0, segments=4:1:1) S(0, blocks=2)
    """
    stripped = text.strip()
    if stripped == "R":
        return Replicate()
    if shard := _SHARD.fullmatch(stripped):
        blocks = dim_of_text(shard[2].strip()) if shard[2] else 1
        segments = tuple(map(int, shard[3].split(":"))) if shard[3] else ()
        if 0 not in segments:
            found = segmented(int(shard[1]), blocks, segments)
            of, unit = (dim_of_text(each.strip()) if each else None for each in shard.group(4, 5))
            if of is None:
                return found
            if not _below_one(of) and not _below_one(unit):
                return replace(found, of=of, unit=1 if unit is None else unit)
    if partial := _PARTIAL.fullmatch(stripped):
        return Partial(Reduction(partial[1] or "sum"))
    if grouped := _GROUPED.fullmatch(stripped):
        return Grouped(int(grouped[1]))
    raise NOT_A_PLACEMENT(given=shown(text))
