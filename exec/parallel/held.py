"""A tensor of the model as one rank holds it: its part, where that lies, and as a DTensor.

    q_proj.weight (64, 64), S(0) over tp = 2        rank 1 has rows 32 to 64
    qkv.weight (192, 64), S(0, blocks=3)            rank 1 has rows 32-64, 96-128 and 160-192

A DTensor's own placements say the first. The second is torch's ``_StridedShard``, which torch can
gather but whose checkpoint would write one run of rows; `PartTensor` writes and reads every run.
Unequal segments have no placement in torch: their DTensor is cut in one run a rank, and made by
exchanging parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dimsolve.partition.placement import Placement, Shard
from dimsolve.partition.torch_placements import layout_to_torch

from ..distributed.communicator import Communicator
from ..distributed.sharding import blocks_of, local_part

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


@dataclass(frozen=True, slots=True)
class Run:
    """One box of the whole tensor that lies in one box of the part."""

    offsets: tuple[int, ...]
    local: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Held:
    """How a tensor is cut. ``placements`` and ``ends``: one per mesh axis, outer axis first."""

    placements: tuple[Placement, ...]
    ends: tuple[Communicator, ...]

    @property
    def whole(self) -> bool:
        """Whether every rank has all of it."""
        return not self.cut_along

    @property
    def cut_along(self) -> tuple[Communicator, ...]:
        """This rank's ends of the axes along which the tensor is in parts, outer axis first."""
        return tuple(e for p, e in self._cuts() if isinstance(p, Shard) and e.size > 1)

    def _cuts(self) -> Iterator[tuple[Placement, Communicator]]:
        return zip(self.placements, self.ends, strict=True)

    def part(self, tensor: Tensor) -> Tensor:
        """Returns this rank's part of the whole tensor, in memory of its own."""
        for placement, end in self._cuts():
            tensor = local_part(tensor, placement, end.rank, end.size)
        return tensor.detach().clone(memory_format=torch.contiguous_format)

    def part_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the part."""
        local = list(shape)
        for placement, end in self._cuts():
            if isinstance(placement, Shard):
                local[placement.dim] //= end.size
        return tuple(local)

    def whole_shape(self, local: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the whole of which a part has this shape."""
        shape = list(local)
        for placement, end in self._cuts():
            if isinstance(placement, Shard):
                shape[placement.dim] *= end.size
        return tuple(shape)

    def runs(self, shape: Sequence[int]) -> list[Run]:
        """Returns the boxes of a whole of this shape that the part consists of."""
        by_dim = [self._runs_of(dim, length) for dim, length in enumerate(shape)]
        return [
            Run(
                tuple(start for start, _, _ in box),
                tuple(local for _, local, _ in box),
                tuple(size for _, _, size in box),
            )
            for box in product(*by_dim)
        ]

    def _runs_of(self, dim: int, length: int) -> list[tuple[int, int, int]]:
        """(start in the whole, start in the part, length) of every run of one dimension."""
        runs = [(0, length)]
        for placement, end in self._cuts():
            if isinstance(placement, Shard) and placement.dim == dim:
                runs = _cut(runs, placement, end.rank, end.size)
        local, found = 0, []
        for start, size in runs:
            found.append((start, local, size))
            local += size
        return found

    @property
    def segmented(self) -> bool:
        """Whether the cut is one that no placement of torch says."""
        return any(isinstance(p, Shard) and p.segments for p in self.placements)

    def dtensor(self, local: Tensor, mesh: DeviceMesh) -> Tensor:
        """Returns a DTensor that shares the part's memory. ``mesh``: of the same axes.

        Of unequal segments it is a copy, and all ranks make it together.
        """
        if self.segmented:
            return self._in_one_run(local, mesh)
        from torch.distributed.tensor import DTensor

        placements = layout_to_torch(self.placements)
        shape = torch.Size(self.whole_shape(local.shape))
        stride = torch.empty(shape, device="meta").stride()
        made: Any = DTensor.from_local(
            local, mesh, placements, run_check=False, shape=shape, stride=stride
        )
        runs = self.runs(shape)
        if len(runs) == 1:
            return made  # type: ignore[no-any-return]
        from .part_tensor import part_tensor

        return part_tensor(made, runs)

    def _in_one_run(self, local: Tensor, mesh: DeviceMesh) -> Tensor:
        """The DTensor of the same whole, cut along the same dimensions, without segments."""
        from ..distributed.conversions import convert_axes

        plain = tuple(
            Shard(p.dim) if isinstance(p, Shard) and p.segments else p for p in self.placements
        )
        with torch.no_grad():
            part = convert_axes(local.detach(), self.placements, plain, self.ends)
        return Held(plain, self.ends).dtensor(part, mesh)


def _cut(
    runs: Sequence[tuple[int, int]], shard: Shard, rank: int, size: int
) -> list[tuple[int, int]]:
    """What a rank has of runs that together are cut over ``size`` ranks."""
    blocks, segments = blocks_of(shard), shard.segments or (1,)
    unit = sum(run for _, run in runs) // (blocks * sum(segments))
    found: list[tuple[int, int]] = []
    passed = 0
    for segment in segments * blocks:
        part = segment * unit // size
        first = passed + rank * part
        found.extend(_between(runs, first, first + part))
        passed += segment * unit
    joined: list[tuple[int, int]] = []
    for start, run in found:
        if joined and sum(joined[-1]) == start:
            joined[-1] = (joined[-1][0], joined[-1][1] + run)
        else:
            joined.append((start, run))
    return joined


def _between(runs: Sequence[tuple[int, int]], first: int, last: int) -> Iterator[tuple[int, int]]:
    """The places first to last of what the runs are one after another."""
    passed = 0
    for start, run in runs:
        low, high = max(first - passed, 0), min(last - passed, run)
        if low < high:
            yield start + low, high - low
        passed += run
