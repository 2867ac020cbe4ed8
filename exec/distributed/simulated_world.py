"""All ranks of a mesh in one process, without torch.distributed.

    world = SimulatedWorld({"dp": 2, "tp": 2})
    world.run(lambda member: member["tp"].all_reduce(torch.tensor(member.rank)))
    # [tensor(1), tensor(1), tensor(5), tensor(5)]: ranks 0 and 1 share a dp coordinate, 2 and 3 too

Ranks are threads that take turns: one runs until it waits for others in a collective, then the
next does. So a run is deterministic, and a world in which nobody can go on is seen at once: an
exception on one rank, ranks that call different collectives, a rank that ends while others wait
for it are errors that name the rank, never a hang.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Generic, TypeVar

from torch import Tensor

from dimsolve.partition.placement import Reduction

from .turns import Call, Group, RankError, Turns

__all__ = ["Member", "RankError", "SimulatedCommunicator", "SimulatedWorld"]

T = TypeVar("T")


class Member:
    """One rank of a `SimulatedWorld`: its number, its coordinates, a communicator for each axis."""

    def __init__(self, turns: Turns, rank: int, coordinates: Mapping[str, int]) -> None:
        self.rank = rank
        self.coordinates = dict(coordinates)
        self._communicators = {
            group.axis: SimulatedCommunicator(turns, group, rank)
            for group in turns.groups
            if rank in group.members
        }

    def __getitem__(self, axis: str) -> SimulatedCommunicator:
        return self._communicators[axis]

    @property
    def world(self) -> SimulatedCommunicator:
        """The communicator of all ranks."""
        return self._communicators[""]


class SimulatedCommunicator:
    """A `Communicator` between threads. See `dimsolve.exec.distributed.communicator`."""

    def __init__(self, turns: Turns, group: Group, rank: int) -> None:
        self._turns = turns
        self._group = group
        self._member = rank
        self.rank = group.members.index(rank)
        self.size = len(group.members)

    def all_reduce(self, tensor: Tensor, reduction: Reduction = Reduction.SUM) -> Tensor:
        return self._ask("all_reduce", tensor, reduction.value)

    def all_gather(self, tensor: Tensor) -> Tensor:
        return self._ask("all_gather", tensor)

    def reduce_scatter(self, tensor: Tensor, reduction: Reduction = Reduction.SUM) -> Tensor:
        return self._ask("reduce_scatter", tensor, reduction.value)

    def all_to_all(self, tensor: Tensor) -> Tensor:
        return self._ask("all_to_all", tensor)

    def broadcast(self, tensor: Tensor, root: int) -> Tensor:
        return self._ask("broadcast", tensor, f"from {root}")

    def _ask(self, collective: str, tensor: Tensor, detail: str = "") -> Tensor:
        call = Call(collective, tuple(tensor.shape), tensor.dtype, detail)
        return self._turns.ask(self._group, self._member, call, tensor.detach())


class SimulatedWorld(Generic[T]):
    """The ranks of a mesh as threads of this process. ``mesh``: axis sizes by name, or one size."""

    def __init__(self, mesh: Mapping[str, int] | int) -> None:
        self.mesh = {"ranks": mesh} if isinstance(mesh, int) else dict(mesh)
        sizes = self.mesh.values()
        self.coordinates = [
            dict(zip(self.mesh, each, strict=True)) for each in product(*map(range, sizes))
        ]

    def __len__(self) -> int:
        return len(self.coordinates)

    def run(self, program: Callable[[Member], T]) -> list[T]:
        """Runs ``program(member)`` on every rank; returns the results in rank order.

        Raises RankError for the first rank that fails, after all have ended.
        """
        turns = Turns(self.coordinates)
        members = [Member(turns, rank, where) for rank, where in enumerate(self.coordinates)]
        return turns.run([lambda member=member: program(member) for member in members])  # type: ignore[misc]
