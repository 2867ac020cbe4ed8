"""All ranks of a mesh in one process, without torch.distributed.

    world = SimulatedWorld({"dp": 2, "tp": 2})
    world.run(lambda member: member["tp"].all_reduce(torch.tensor(member.rank)))
    # [tensor(1), tensor(1), tensor(5), tensor(5)]: ranks 0 and 1 share a dp coordinate, 2 and 3 too

Ranks are threads in lockstep: one runs until it waits for others in a collective, then the next one
that can go on does. So a run is deterministic, and a world in which nobody can go on is seen at
once: an exception on one rank, ranks that call different collectives, a rank that ends while others
wait for it are errors that name the rank, never a hang.

torch has its stack of dispatch modes for each thread, and for the process whether there is one: a
mode that ranks enter in turns, one within the other's time, would be on for ever, and torch 2.10
would compile nothing any more. So every rank is given back what it left.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any, Generic, Literal, TypeAlias, TypeVar, assert_never

import torch
from torch import Tensor
from torch.utils import _python_dispatch

from dimsolve.ir.errors import Diagnostic, DimsolveError, Problem
from dimsolve.partition.placement import Reduction

from .communicator import end_text
from .sharding import joined, reduce_parts

_DIFFERENT_CALLS = Problem(
    DimsolveError,
    "collectives-differ",
    "ranks call different collectives",
    "rank {first} calls {call} and rank {other} calls {others}",
    "all ranks of a group call the same collectives in the same order",
)
_NOT_ITS_THREAD = Problem(
    DimsolveError,
    "another-thread",
    "a collective was called outside its rank's thread",
    "rank {rank} of the simulated world runs in another thread",
    "simulate on the CPU: the gradients of a GPU are computed in a thread of torch",
)


class RankError(DimsolveError):
    """A rank failed, and with it the run; ``__cause__`` is what it raised."""

    rank: int

    def __init__(self, diagnostic: Diagnostic, rank: int) -> None:
        super().__init__(diagnostic)
        self.rank = rank


class _Stopped(BaseException):
    """Ends the other ranks; no handler of ``Exception`` may catch it."""


Asked: TypeAlias = Literal[
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "exchange", "broadcast"
]
"""The methods of a communicator that ranks call together."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a rank asks of its group: all members must ask the same. rows: of an exchange, how many
    each gives to every rank.
    """

    collective: Asked
    shape: tuple[int, ...]
    dtype: torch.dtype
    detail: str = ""
    rows: tuple[int, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        detail = f" {self.detail}" if self.detail else ""
        return f"{self.collective}{detail} of {dtype} {self.shape}"


@dataclass(eq=False)
class Group:
    """The ranks along one axis. ``given``: who waits with what; ``results``: not yet taken."""

    axis: str
    members: tuple[int, ...]
    given: dict[int, tuple[Call, Tensor]] = field(default_factory=dict)
    results: dict[int, Tensor] = field(default_factory=dict)


_IN_MODES = (
    "_is_in_torch_dispatch_mode",
    "_is_in_non_infra_torch_dispatch_mode",
    "_is_in_any_mode_without_ignore_compile_internals",
)
"""What torch notes for the process of the dispatch modes of its threads."""


def _in_modes() -> tuple[bool, ...]:
    return tuple([getattr(_python_dispatch, name, False) for name in _IN_MODES])


def _set_in_modes(noted: tuple[bool, ...]) -> None:
    for name, value in zip(_IN_MODES, noted, strict=True):
        setattr(_python_dispatch, name, value)
    note = getattr(_python_dispatch, "set_is_in_mode_without_ignore_compile_internals", None)
    if note is not None:
        note(noted[-1])


class Lockstep:
    """Runs one rank after the other, and carries out what they ask of each other."""

    def __init__(self, coordinates: list[dict[str, int]]) -> None:
        self.coordinates = coordinates
        self.groups = _groups(coordinates)
        self._running = [threading.Semaphore(0) for _ in coordinates]
        self._ready = deque(range(len(coordinates)))
        self._waiting: dict[int, Group] = {}
        self._threads: list[threading.Thread] = []
        self._failure: RankError | None = None
        self._all_done = threading.Semaphore(0)

    def run(self, programs: list[Callable[[], Any]]) -> list[Any]:
        results: list[Any] = [None] * len(programs)
        grad, noted = torch.is_grad_enabled(), _in_modes()

        def rank_main(rank: int) -> None:
            self._running[rank].acquire()
            _set_in_modes((False,) * len(_IN_MODES))
            try:
                if self._failure is None:
                    with torch.set_grad_enabled(grad):
                        results[rank] = programs[rank]()
            except _Stopped:
                pass
            except BaseException as error:
                self._fail(rank, error)
            self._next()

        for rank in range(len(programs)):
            run = copy_context().run
            thread = threading.Thread(target=run, args=(rank_main, rank), daemon=True)
            self._threads.append(thread)
            thread.start()
        try:
            self._next()
            self._all_done.acquire()
        except BaseException as error:
            self._fail(0, error)
            raise
        finally:
            for running in self._running:
                running.release()
            for thread in self._threads:
                thread.join()
            _set_in_modes(noted)
        if self._failure is not None:
            raise self._failure from self._failure.__cause__
        return results

    def ask(self, group: Group, rank: int, call: Call, tensor: Tensor) -> Tensor:
        """Waits until all members of the group ask, and returns this rank's result."""
        if self._failure is not None:
            raise _Stopped
        if threading.current_thread() is not self._threads[rank]:
            raise _NOT_ITS_THREAD(rank=rank)
        group.given[rank] = (call, tensor)
        if len(group.given) == len(group.members):
            self._complete(group)
        else:
            self._waiting[rank] = group
            noted = _in_modes()
            self._next()
            self._running[rank].acquire()
            _set_in_modes(noted)
            if self._failure is not None:
                raise _Stopped
        return group.results.pop(rank)

    def _complete(self, group: Group) -> None:
        calls = {rank: group.given[rank][0] for rank in group.members}
        if len(set(calls.values())) > 1:
            first = group.members[0]
            other = next(rank for rank in group.members if calls[rank] != calls[first])
            raise _DIFFERENT_CALLS(first=first, call=calls[first], other=other, others=calls[other])
        call = next(iter(calls.values()))
        with torch.no_grad():
            given = [group.given[rank][1] for rank in group.members]
            if call.collective == "exchange":
                results = _exchanged([calls[rank].rows for rank in group.members], given)
            else:
                results = _collective(call, given)
        group.results.update(zip(group.members, results, strict=True))
        group.given.clear()
        for rank in group.members:
            if self._waiting.pop(rank, None) is not None:
                self._ready.append(rank)

    def _next(self) -> None:
        """Lets the next rank run that can go on; the run is over when there is none."""
        if self._failure is None and self._ready:
            self._running[self._ready.popleft()].release()
            return
        if self._failure is None and self._waiting:
            self._failure = _nobody_can_go_on(self._waiting)
        self._all_done.release()

    def _fail(self, rank: int, error: BaseException) -> None:
        if self._failure is None:
            self._failure = _rank_failed(rank, self.coordinates[rank], error)
            self._failure.__cause__ = error


def _groups(coordinates: list[dict[str, int]]) -> list[Group]:
    """The group of all ranks, named "", and along each axis one per place on the other axes."""
    ranks: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for rank, where in enumerate(coordinates):
        ranks.setdefault(("", ()), []).append(rank)
        for axis in where:
            others = tuple(value for name, value in where.items() if name != axis)
            ranks.setdefault((axis, others), []).append(rank)
    return [Group(axis, tuple(members)) for (axis, _), members in ranks.items()]


def _collective(call: Call, given: list[Tensor]) -> list[Tensor]:
    """Returns what every member gets; each its own memory."""
    stacked = joined([tensor.unsqueeze(0) for tensor in given], 0)
    match call.collective:
        case "all_reduce":
            reduced = reduce_parts(stacked, Reduction(call.detail))
            return [reduced.clone() for _ in given]
        case "all_gather":
            return [stacked.clone() for _ in given]
        case "reduce_scatter":
            return [row.clone() for row in reduce_parts(stacked, Reduction(call.detail)).unbind(0)]
        case "all_to_all":
            return [rows.clone() for rows in stacked.unbind(1)]
        case "broadcast":
            root = int(call.detail.removeprefix("from "))
            return [given[root].clone() for _ in given]
        case "exchange":
            raise AssertionError("rows are exchanged by _exchanged")
        case _:
            assert_never(call.collective)


def _exchanged(rows: list[tuple[int, ...]], given: list[Tensor]) -> list[Tensor]:
    """What every member gets: its rows of all."""
    parts = [tensor.split(list(each)) for tensor, each in zip(given, rows, strict=True)]
    return [joined([part[number] for part in parts], 0) for number in range(len(given))]


def _place(rank: int, coordinates: Mapping[str, int]) -> str:
    where = ", ".join(f"{axis}={value}" for axis, value in coordinates.items())
    return f"rank {rank} ({where})"


def _rank_failed(rank: int, coordinates: Mapping[str, int], error: BaseException) -> RankError:
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return RankError(
        Diagnostic(
            code="rank-failed",
            title=f"{_place(rank, coordinates)} failed",
            reason=f"{type(error).__name__}: {text}",
        ),
        rank,
    )


def _nobody_can_go_on(waiting: Mapping[int, Group]) -> RankError:
    rank = min(waiting)
    calls = [f"rank {r} in {waiting[r].given[r][0]}" for r in sorted(waiting)]
    group = waiting[rank]
    absent = [str(r) for r in group.members if r not in group.given]
    return RankError(
        Diagnostic(
            code="ranks-stuck",
            title="ranks wait for each other and none can go on",
            reason=f"{'; '.join(calls)}; rank {', '.join(absent)} never called that of rank {rank}",
            hint="all ranks of a group call the same collectives in the same order",
        ),
        rank,
    )


T = TypeVar("T")
U = TypeVar("U")


class Member:
    """One rank of a `SimulatedWorld`: its number, its coordinates, a communicator for each axis."""

    def __init__(self, lockstep: Lockstep, rank: int, coordinates: Mapping[str, int]) -> None:
        self.rank = rank
        self.coordinates = dict(coordinates)
        self._communicators = {
            group.axis: SimulatedCommunicator(lockstep, group, rank)
            for group in lockstep.groups
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

    def __init__(self, lockstep: Lockstep, group: Group, rank: int) -> None:
        self._lockstep = lockstep
        self._group = group
        self._member = rank
        self.axis = group.axis
        self.rank = group.members.index(rank)
        self.size = len(group.members)

    def __repr__(self) -> str:
        return end_text(self)

    def all_reduce(self, tensor: Tensor, reduction: Reduction = Reduction.SUM) -> Tensor:
        return self._ask("all_reduce", tensor, reduction.value)

    def all_gather(self, tensor: Tensor) -> Tensor:
        return self._ask("all_gather", tensor)

    def reduce_scatter(self, tensor: Tensor, reduction: Reduction = Reduction.SUM) -> Tensor:
        return self._ask("reduce_scatter", tensor, reduction.value)

    def all_to_all(self, tensor: Tensor) -> Tensor:
        return self._ask("all_to_all", tensor)

    def exchange(self, rows: Tensor, given: Sequence[int], got: Sequence[int]) -> Tensor:
        call = Call("exchange", tuple(rows.shape[1:]), rows.dtype, rows=tuple(given))
        made = self._lockstep.ask(self._group, self._member, call, rows.detach())
        assert len(made) == sum(got), "what one gives another the other gets"
        return made

    def broadcast(self, tensor: Tensor, root: int) -> Tensor:
        return self._ask("broadcast", tensor, f"from {root}")

    def _ask(self, collective: Asked, tensor: Tensor, detail: str = "") -> Tensor:
        call = Call(collective, tuple(tensor.shape), tensor.dtype, detail)
        return self._lockstep.ask(self._group, self._member, call, tensor.detach())


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
        lockstep = Lockstep(self.coordinates)
        members = [Member(lockstep, rank, where) for rank, where in enumerate(self.coordinates)]
        return lockstep.run([partial(program, member) for member in members])

    def each(self, program: Callable[[Member], U]) -> list[U]:
        """Runs a program that asks nothing of the other ranks, one rank after the other, without
        threads. Raises RankError for the first rank that fails.
        """
        lockstep = Lockstep(self.coordinates)
        results: list[U] = []
        for rank, where in enumerate(self.coordinates):
            try:
                results.append(program(Member(lockstep, rank, where)))
            except Exception as error:
                raise _rank_failed(rank, where, error) from error
        return results
