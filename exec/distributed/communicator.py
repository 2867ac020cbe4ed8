"""What ranks can do together: five collectives on plain tensors.

A `Communicator` is one rank's end of a group, usually the ranks along one mesh axis. Conversions,
transform rules and programs know only this protocol: `SimulatedWorld` gives it to threads of one
process, the executor to the processes of torch.distributed.

                     this rank gives     and gets
    all_reduce       (...)               (...)           the reduction over all ranks
    all_gather       (...)               (size, ...)     row i comes from rank i
    reduce_scatter   (size, ...)         (...)           row `rank` of the reduction
    all_to_all       (size, ...)         (size, ...)     row j goes to rank j, row i is from rank i
    broadcast        (...)               (...)           what rank `root` gave

No gradient is recorded here (`dimsolve.exec.distributed.conversions` knows them), no argument is
changed, and what is returned shares no memory with what another rank has. All ranks of a group call
the same collectives in the same order with tensors of one shape and dtype.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dimsolve.partition.placement import Reduction

if TYPE_CHECKING:
    from torch import Tensor


class Communicator(Protocol):
    """One rank's end of a group of ``size`` ranks."""

    @property
    def rank(self) -> int:
        """This rank's number in the group, from 0."""

    @property
    def size(self) -> int:
        """How many ranks the group has."""

    def all_reduce(self, tensor: Tensor, reduction: Reduction = Reduction.SUM) -> Tensor:
        """(...) -> (...), equal on all ranks."""

    def all_gather(self, tensor: Tensor) -> Tensor:
        """(...) -> (size, ...), equal on all ranks."""

    def reduce_scatter(self, tensor: Tensor, reduction: Reduction = Reduction.SUM) -> Tensor:
        """(size, ...) -> (...)."""

    def all_to_all(self, tensor: Tensor) -> Tensor:
        """(size, ...) -> (size, ...)."""

    def broadcast(self, tensor: Tensor, root: int) -> Tensor:
        """(...) -> (...), equal on all ranks; all but the root give a tensor for its shape only."""
