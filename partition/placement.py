"""Where the data of a tensor lies along one mesh axis: PyTorch's words, without needing torch.

    S(0)             dimension 0 is cut into equal contiguous parts, one a rank
    S(0, blocks=3)   dimension 0 is 3 blocks, of each every rank has a part: (q h e) cut by h
    S(0, segments=4:1:1)   dimension 0 is three segments, the first 4 times as long as the others,
                     of each every rank has a part: queries, keys and values of grouped heads
    R                every rank has the whole tensor
    P(sum)           every rank has a tensor of full size; their sum is the value

A value has one placement per mesh axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from dimsolve.solver.algebra.poly import Dim


class Reduction(Enum):
    """How the parts of a partial value are joined."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    PROD = "prod"
    AVG = "avg"


@dataclass(frozen=True, slots=True)
class Shard:
    """Dimension ``dim`` (counted from 0) is cut.

    blocks: of how many equal blocks, one after the other, every rank has a part; 1 is contiguous.
    segments: what a block is made of, as proportions (``(4, 1, 1)``): every rank has a part of each
    segment; () is one segment. They have no common divisor and do not repeat: a repeated one is
    blocks (`dimsolve.partition.segments.shard_of` sees to it).

    >>> str(Shard(0)), str(Shard(1, blocks=3)), str(Shard(0, segments=(4, 1, 1)))
    ('S(0)', 'S(1, blocks=3)', 'S(0, segments=4:1:1)')
    """

    dim: int
    blocks: Dim = 1
    segments: tuple[int, ...] = ()

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
        return f"S({', '.join(parts)})"

    def _repr_svg_(self) -> str:
        return _svg(self)


@dataclass(frozen=True, slots=True)
class Replicate:
    """Every rank has the whole tensor."""

    def __str__(self) -> str:
        return "R"

    def _repr_svg_(self) -> str:
        return _svg(self)


@dataclass(frozen=True, slots=True)
class Partial:
    """Every rank has a summand (or factor, or candidate) of the value.

    >>> str(Partial(Reduction.MAX))
    'P(max)'
    """

    reduction: Reduction = Reduction.SUM

    def __str__(self) -> str:
        return f"P({self.reduction.value})"

    def _repr_svg_(self) -> str:
        return _svg(self)


def _svg(placement: Placement) -> str:
    """What a notebook shows: the placement of a matrix on three ranks."""
    from .draw_placement import placement_svg

    return placement_svg(placement)


Placement: TypeAlias = Shard | Replicate | Partial
