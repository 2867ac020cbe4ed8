"""A DTensor whose part is several runs of the whole, for torch.distributed.checkpoint.

    (192, 64) in 3 blocks over 2 ranks: rank 0 writes rows 0-32, 64-96 and 128-160, each on its own

In all else it is the DTensor that it was made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
)
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType
from torch.distributed.tensor import DTensor

from .held import Run


class PartTensor(DTensor):
    """Made by `part_tensor`. ``runs``: where the part lies."""

    runs: tuple[Run, ...]

    def __create_write_items__(self, fqn: str, object: Any) -> list[WriteItem]:
        properties = TensorProperties.create_from_tensor(self._local_tensor)
        return [
            WriteItem(
                index=MetadataIndex(fqn, chunk.offsets),
                type=WriteItemType.SHARD,
                tensor_data=TensorWriteData(chunk=chunk, properties=properties, size=self.size()),
            )
            for chunk in self.__create_chunk_list__()
        ]

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        return [
            ChunkStorageMetadata(torch.Size(run.offsets), torch.Size(run.sizes))
            for run in self.runs
        ]

    def __get_tensor_shard__(self, index: MetadataIndex) -> Tensor:
        part: Tensor = self._local_tensor
        run = next(run for run in self.runs if torch.Size(run.offsets) == index.offset)
        for dim, (start, size) in enumerate(zip(run.local, run.sizes, strict=True)):
            part = part.narrow(dim, start, size)
        return part


def part_tensor(made: DTensor, runs: Sequence[Run]) -> Tensor:
    """Returns a DTensor that is written and read run by run."""
    make: Any = PartTensor
    part: PartTensor = make(made._local_tensor, made._spec, requires_grad=made.requires_grad)
    part.runs = tuple(runs)
    return part
