"""Where the data of a tensor lies along one mesh axis: PyTorch's words, without needing torch.

    S(0)             dimension 0 is cut into equal contiguous parts, one a rank
    S(0, blocks=3)   dimension 0 is 3 blocks, of each every rank has a part: (q h e) cut by h
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
    """Dimension ``dim`` (counted from 0) is cut; ``blocks`` says of how many interleaved blocks, 1
    is contiguous.

    >>> str(Shard(0)), str(Shard(1, blocks=3))
    ('S(0)', 'S(1, blocks=3)')
    """

    dim: int
    blocks: Dim = 1

    @property
    def contiguous(self) -> bool:
        """Whether every rank's part is one run of the dimension."""
        return self.blocks == 1

    def __str__(self) -> str:
        return f"S({self.dim})" if self.blocks == 1 else f"S({self.dim}, blocks={self.blocks})"


@dataclass(frozen=True, slots=True)
class Replicate:
    """Every rank has the whole tensor."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True, slots=True)
class Partial:
    """Every rank has a summand (or factor, or candidate) of the value.

    >>> str(Partial(Reduction.MAX))
    'P(max)'
    """

    reduction: Reduction = Reduction.SUM

    def __str__(self) -> str:
        return f"P({self.reduction.value})"


Placement: TypeAlias = Shard | Replicate | Partial
