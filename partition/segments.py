"""How a dimension is dealt out to ranks: the lengths of its segments, fractions that add up to 1.

Every rank has one part of each segment. Equal segments are blocks:

    S(0)                      1
    S(0, blocks=3)            1/3, 1/3, 1/3
    S(0, segments=2:1:1)      1/2, 1/4, 1/4         queries, keys, values: 64, 32 and 32 of 128 rows

Fractions say which parts of two dimensions belong together where one is a window of the other, and
they do not change when an outer axis cuts every segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from math import gcd, lcm

from dimsolve.solver.algebra.poly import Dim

from .placement import Shard

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
