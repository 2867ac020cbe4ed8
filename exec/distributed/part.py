"""What a rank's own implementation of an operator knows of the other parts.

    part.index, part.count         this part's place among all parts of the operator
    part["n"].count                the same for the split of one identifier; 1 where it is not split
    part.all_reduce(kept)          how many targets are kept on all ranks together

See `dimsolve.partition.transform` for the rules that use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from dimsolve.ir.errors import Diagnostic, DimsolveError
from dimsolve.partition.placement import Partial, Reduction, Replicate

from .communicator import Communicator
from .conversions import convert


@dataclass(frozen=True, slots=True)
class MeshPart:
    """A `Part`: the splits of one operator, (identifier, communicator) each, outer axis first."""

    splits: tuple[tuple[str, Communicator], ...] = ()

    @property
    def index(self) -> int:
        """This rank's part, counted from 0; the last split counts fastest."""
        index = 0
        for _, communicator in self.splits:
            index = index * communicator.size + communicator.rank
        return index

    @property
    def count(self) -> int:
        """How many parts there are."""
        count = 1
        for _, communicator in self.splits:
            count *= communicator.size
        return count

    def __getitem__(self, name: str) -> MeshPart:
        return MeshPart(tuple(split for split in self.splits if split[0] == name))

    def all_reduce(self, tensor: Tensor, reduction: str = "sum") -> Tensor:
        """Returns the sum, max or min over all parts; see `dimsolve.partition.transform.Part`."""
        if reduction not in ("sum", "max", "min"):
            raise _unknown_reduction(reduction)
        source = Partial(Reduction(reduction))
        for _, communicator in self.splits:
            tensor = convert(tensor, source, Replicate(), communicator, shared_gradient=True)
        return tensor


def part_of(splits: Sequence[tuple[str, Communicator]]) -> MeshPart:
    """Returns the part of a rank whose operator is split so."""
    return MeshPart(tuple(splits))


def _unknown_reduction(reduction: str) -> DimsolveError:
    return DimsolveError(
        Diagnostic(
            code="reduction",
            title="parts cannot be reduced so",
            reason=f"all_reduce was asked for {reduction!r}",
            hint='write "sum", "max" or "min"',
        )
    )
