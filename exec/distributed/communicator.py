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

No gradient is recorded here (`dimsolve.exec.distributed.collectives` knows them), no argument is
changed, and what is returned shares no memory with what another rank has. All ranks of a group call
the same collectives in the same order with tensors of one shape and dtype.

What a backend cannot move or reduce as it is goes as something that it can:

    bool (4, 8)         bytes (32,) on the way, bool (4, 8) again
    int16 (4,)          is reduced as int32
    float32 (4,)        its maximum is that of int32: gloo's of floats loses the NaN of all but one

`TorchCommunicator` calls the process group directly, since the wrappers in ``torch.distributed``
cost as much again as the call. A group that fails (a peer died, time ran out) raises
`CollectiveError` with the rank, the call and the shape.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import lru_cache
from itertools import count
from math import prod
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

import torch
import torch.distributed as dist
from torch import Tensor
from torch.compiler import is_compiling
from torch.library import custom_op

from dimsolve.ir.errors import Diagnostic, DimsolveError
from dimsolve.partition.placement import Reduction

from .failures import Failure, Stopped, rank_failure
from .sharding import reduce_parts
from .watch import Watch, inherit_timeout, watch

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


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

    def exchange(self, rows: Tensor, given: Sequence[int], got: Sequence[int]) -> Tensor:
        """(sum of given, ...) -> (sum of got, ...): so many rows to each rank, one rank's after
        another's, and so many from each. What one gives another the other gets.
        """

    def broadcast(self, tensor: Tensor, root: int) -> Tensor:
        """(...) -> (...), equal on all ranks; all but the root give a tensor for its shape only."""


def end_text(end: Communicator) -> str:
    """Returns an end in words: ``tp = 2, rank 1``, or ``2 ranks, rank 1`` without an axis."""
    axis = getattr(end, "axis", "")
    ranks = f"{end.size} rank{'s' * (end.size != 1)}"
    return f"{axis} = {end.size}, rank {end.rank}" if axis else f"{ranks}, rank {end.rank}"


def common_number(ends: Iterable[Communicator], device: torch.device) -> int:
    """Returns a number that the first rank draws from torch's generator, the same on all ranks."""
    number = torch.randint(2**62, (1,))
    for end in ends:
        if end.size > 1:
            number = end.broadcast(number.to(device), 0)
    return int(number)


PLAIN = frozenset(
    {torch.float64, torch.float32, torch.float16, torch.bfloat16}
    | {torch.int64, torch.int32, torch.int8, torch.uint8}
)
"""The dtypes that every backend moves and reduces as they are."""

WIDER = {torch.int16: torch.int32, torch.uint16: torch.int32, torch.uint32: torch.int64}
"""The integers that are reduced as wider ones."""


def carried(tensor: Tensor) -> Tensor:
    """The tensor in one piece, as bytes where its dtype is not moved everywhere."""
    given = tensor.detach().contiguous()
    return given if given.dtype in PLAIN else given.view(-1).view(torch.uint8)


def restored(moved: Tensor, like: Tensor, shape: Any) -> Tensor:
    """The tensor that was carried, with the dtype of `like` and this shape."""
    if moved.dtype is like.dtype:
        return moved
    return moved.view(-1).view(like.dtype).view(shape)


def in_order(tensor: Tensor, reduction: Reduction) -> Tensor:
    """Returns integers in the order of floating numbers, in memory of their own; NaN is what the
    maximum, or the minimum, takes before all others, as torch does.

    The bits of positive numbers are in order; those of negative ones are turned around.

    >>> in_order(torch.tensor([1.0, float("nan"), -2.0]), Reduction.MAX).argsort().tolist()
    [2, 0, 1]
    """
    wide = tensor if tensor.dtype is torch.float64 else tensor.float()
    bits = wide.contiguous().view(torch.int64 if wide.dtype is torch.float64 else torch.int32)
    limits = torch.iinfo(bits.dtype)
    first = limits.max if reduction is Reduction.MAX else limits.min
    return _turned(bits).masked_fill(wide.isnan(), first)


def out_of_order(ordered: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns the floating numbers that stand for such integers."""
    wide = torch.float64 if ordered.dtype is torch.int64 else torch.float32
    return _turned(ordered).view(wide).to(dtype)


def _turned(bits: Tensor) -> Tensor:
    return torch.where(bits < 0, bits ^ torch.iinfo(bits.dtype).max, bits)


_ends: WeakValueDictionary[str, TorchCommunicator] = WeakValueDictionary()
_numbers = count()


@custom_op("dimsolve::collective", mutates_args=())
def collective(tensor: Tensor, end: str, name: str, argument: str) -> Tensor:
    """What torch.compile sees of a collective: a compiler cannot look into a process group, and has
    to know the shapes only. An operator takes tensors, numbers and texts. An end is its text: where
    a frame is run for another end, dynamo would take a number for a size, and make it symbolic.
    """
    call = getattr(_ends[end], name)
    made: Tensor = call(tensor, _ARGUMENTS[name](argument)) if name in _ARGUMENTS else call(tensor)
    return made


_ARGUMENTS: dict[str, Callable[[str], Any]] = {
    "all_reduce": Reduction,
    "reduce_scatter": Reduction,
    "broadcast": int,
}


@collective.register_fake
def _shaped(tensor: Tensor, end: str, name: str, argument: str) -> Tensor:
    shapes = {
        "all_gather": (_ends[end].size, *tensor.shape),
        "reduce_scatter": tensor.shape[1:],
    }
    return tensor.new_empty(shapes.get(name, tensor.shape))


_OPERATIONS: dict[Reduction, Any] = {
    Reduction.SUM: dist.ReduceOp.SUM,
    Reduction.AVG: dist.ReduceOp.SUM,
    Reduction.MAX: dist.ReduceOp.MAX,
    Reduction.MIN: dist.ReduceOp.MIN,
    Reduction.PROD: dist.ReduceOp.PRODUCT,
}
_OF_BOOLS: dict[Reduction, Any] = {
    Reduction.SUM: dist.ReduceOp.MAX,
    Reduction.MAX: dist.ReduceOp.MAX,
    Reduction.MIN: dist.ReduceOp.MIN,
    Reduction.PROD: dist.ReduceOp.MIN,
}
"""Truth values are summed as ``or`` and multiplied as ``and``."""

MOMENT = timedelta(milliseconds=500)
"""How long a rank waits for others before it looks whether one of them has failed."""

TIMED_OUT = "Timed out waiting"
"""How gloo begins when a rank has not come; the same where this file's own limit is reached."""


class CollectiveError(DimsolveError):
    """A collective that could not be carried out, on this rank."""


class TorchCommunicator:
    """One rank's end of a process group. ``axis`` names the mesh axis, ``label`` who is calling."""

    __slots__ = ("__weakref__", "_key", "_queues", "axis", "group", "label", "rank", "size")

    def __init__(self, group: Any, axis: str = "", label: str = "") -> None:
        self.group = group
        self.axis = axis
        self.label = label
        self.rank: int = group.rank()
        self.size: int = group.size()
        self._key = f"end {next(_numbers)}"
        _ends[self._key] = self
        self._queues = "nccl" in dist.get_backend(group)

    def __repr__(self) -> str:
        return end_text(self)

    def labelled(self, label: str) -> TorchCommunicator:
        """Returns the same end under a name that errors tell: the conversion that it serves."""
        return TorchCommunicator(self.group, self.axis, label)

    def all_reduce(self, tensor: Tensor, reduction: Reduction = Reduction.SUM) -> Tensor:
        """(...) -> (...), equal on all ranks."""
        if is_compiling():
            return self._compiled("all_reduce", tensor, reduction.value)
        if reduction in (Reduction.MAX, Reduction.MIN) and tensor.is_floating_point():
            ordered = in_order(tensor.detach(), reduction)
            self._reduce(ordered, _OPERATIONS[reduction])
            return out_of_order(ordered, tensor.dtype)
        if tensor.dtype in PLAIN:
            joined = tensor.detach().clone(memory_format=torch.contiguous_format)
            self._reduce(joined, _OPERATIONS[reduction])
            return joined / self.size if reduction is Reduction.AVG else joined
        return self._reduce_carried(tensor.detach(), reduction)

    def all_gather(self, tensor: Tensor) -> Tensor:
        """(...) -> (size, ...), equal on all ranks."""
        if is_compiling():
            return self._compiled("all_gather", tensor)
        given = carried(tensor)
        rows = given.new_empty((self.size, *given.shape))
        self._do("all-gather", tensor, self.group._allgather_base, rows.view(-1), given.view(-1))
        return restored(rows, tensor, (self.size, *tensor.shape))

    def reduce_scatter(self, tensor: Tensor, reduction: Reduction = Reduction.SUM) -> Tensor:
        """(size, ...) -> (...)."""
        if is_compiling():
            return self._compiled("reduce_scatter", tensor, reduction.value)
        if tensor.dtype not in PLAIN or reduction in (Reduction.MAX, Reduction.MIN):
            return self.all_reduce(tensor, reduction)[self.rank].clone()
        given = tensor.detach().contiguous()
        mine = given.new_empty(given.shape[1:])
        options = dist.ReduceScatterOptions()
        options.reduceOp = _OPERATIONS[reduction]
        call = self.group._reduce_scatter_base
        self._do("reduce-scatter", tensor, call, mine.view(-1), given.view(-1), options)
        return mine / self.size if reduction is Reduction.AVG else mine

    def all_to_all(self, tensor: Tensor) -> Tensor:
        """(size, ...) -> (size, ...)."""
        if is_compiling():
            return self._compiled("all_to_all", tensor)
        given = carried(tensor)
        rows = torch.empty_like(given)
        call = self.group.alltoall_base
        self._do("all-to-all", tensor, call, rows.view(-1), given.view(-1), [], [])
        return restored(rows, tensor, tensor.shape)

    def exchange(self, rows: Tensor, given: Sequence[int], got: Sequence[int]) -> Tensor:
        """(sum of given, ...) -> (sum of got, ...). torch.compile takes no length that depends on
        data: what calls this is not compiled.
        """
        width = rows.shape[1:]
        sent = rows.detach().reshape(len(rows), prod(width)).contiguous()
        sent = sent if sent.dtype in PLAIN else sent.view(torch.uint8)
        made = sent.new_empty((sum(got), sent.shape[1]))
        call = self.group.alltoall_base
        self._do("all-to-all", rows, call, made, sent, list(got), list(given))
        return made.view(rows.dtype).view(sum(got), *width)

    def broadcast(self, tensor: Tensor, root: int) -> Tensor:
        """(...) -> (...), equal on all ranks."""
        if is_compiling():
            return self._compiled("broadcast", tensor, str(root))
        joined = carried(tensor).clone()
        options = dist.BroadcastOptions()
        options.rootRank = root
        self._do("broadcast", tensor, self.group.broadcast, [joined], options)
        return restored(joined, tensor, tensor.shape)

    def _compiled(self, name: str, tensor: Tensor, argument: str = "") -> Tensor:
        made: Tensor = collective(tensor, self._key, name, argument)
        return made

    def begin_sum(self, tensor: Tensor) -> Callable[[], None]:
        """Begins to sum a tensor over all ranks in its own memory; returns what waits for it."""
        operation = _options(dist.ReduceOp.SUM)
        work = self._begun("all-reduce", tensor, self.group.allreduce, [tensor], operation)
        return lambda: self._finish("all-reduce", tensor, work)

    def begin_gather(self, tensor: Tensor) -> Callable[[], Tensor]:
        """Begins an all-gather; returns what waits for its rows. The tensor must not change
        meanwhile.
        """
        given = carried(tensor)
        rows = given.new_empty((self.size, *given.shape))
        flat = rows.view(-1), given.view(-1)
        work = self._begun("all-gather", tensor, self.group._allgather_base, *flat)

        def finish() -> Tensor:
            self._finish("all-gather", tensor, work)
            return restored(rows, tensor, (self.size, *tensor.shape))

        return finish

    def begin_gather_into(self, rows: Tensor) -> Callable[[], Tensor]:
        """Begins an all-gather in its own memory: this rank's row is there. Returns what waits for
        the rows.
        """
        own = rows[self.rank]
        if rows.dtype not in PLAIN:
            return self.begin_gather(own)
        flat = rows.view(-1), own.view(-1)
        work = self._begun("all-gather", own, self.group._allgather_base, *flat)

        def finish() -> Tensor:
            self._finish("all-gather", own, work)
            return rows

        return finish

    def begin_scatter(self, tensor: Tensor) -> Callable[[], Tensor]:
        """Begins a reduce-scatter of a sum; returns what waits for this rank's row. The tensor must
        not change meanwhile.
        """
        given = tensor.detach().contiguous()
        mine = given.new_empty(given.shape[1:])
        options = dist.ReduceScatterOptions()
        call, flat = self.group._reduce_scatter_base, (mine.view(-1), given.view(-1))
        work = self._begun("reduce-scatter", tensor, call, *flat, options)

        def finish() -> Tensor:
            self._finish("reduce-scatter", given, work)
            return mine

        return finish

    def _reduce(self, tensor: Tensor, operation: Any) -> None:
        self._do("all-reduce", tensor, self.group.allreduce, [tensor], _options(operation))

    def _do(
        self, collective: str, tensor: Tensor, call: Callable[..., Any], *arguments: Any
    ) -> None:
        """Calls the process group and waits."""
        self._finish(collective, tensor, self._begun(collective, tensor, call, *arguments))

    def _begun(
        self, collective: str, tensor: Tensor, call: Callable[..., Any], *arguments: Any
    ) -> Any:
        try:
            return call(*arguments)
        except (RuntimeError, Stopped) as error:
            raise self._failed(collective, tensor, _plain_words(str(error))) from error

    def _finish(self, collective: str, tensor: Tensor, work: Any) -> None:
        """Waits; a GPU's queue waits by itself."""
        try:
            if self._queues and tensor.is_cuda:
                work.wait()
            elif not _ended(work):
                self._wait(collective, tensor, work)
        except (RuntimeError, Stopped) as error:
            raise self._failed(collective, tensor, _plain_words(str(error))) from error

    def _wait(self, collective: str, tensor: Tensor, work: Any) -> None:
        """Waits for long: says so, and looks whether another rank has failed meanwhile."""
        guard = watch()
        if guard is None:
            work.wait()
            return
        since = time.monotonic() - MOMENT.total_seconds()
        guard.wait_in(f"the {self._what(collective, tensor)}", since)
        while not _ended(work):
            if guard.failure is not None:
                raise self._failed(collective, tensor, "another rank failed")
            if guard.timeout is not None and time.monotonic() - since > guard.timeout:
                raise self._failed(collective, tensor, f"{TIMED_OUT} {guard.timeout:g} s")
        guard.waits = ""

    def _reduce_carried(self, tensor: Tensor, reduction: Reduction) -> Tensor:
        """The reduction of what the backend cannot reduce as it is."""
        if tensor.dtype is torch.bool:
            joined = tensor.to(torch.uint8, copy=True)
            self._reduce(joined, _OF_BOOLS[reduction])
            return joined.bool()
        if tensor.dtype in WIDER:
            joined = tensor.to(WIDER[tensor.dtype])
            self._reduce(joined, _OPERATIONS[reduction])
            return joined.to(tensor.dtype)
        if tensor.is_complex() and reduction in (Reduction.SUM, Reduction.AVG):
            joined = torch.view_as_real(tensor).clone(memory_format=torch.contiguous_format)
            self._reduce(joined, dist.ReduceOp.SUM)
            total = torch.view_as_complex(joined)
            return total / self.size if reduction is Reduction.AVG else total
        return reduce_parts(self.all_gather(tensor), reduction)

    def _failed(self, collective: str, tensor: Tensor, reason: str) -> DimsolveError:
        """What this rank raises: the failure of the rank that is to blame, where one is known."""
        rank = dist.get_rank()
        what = self._what(collective, tensor)
        guard = watch()
        waited = None
        if guard is not None and reason.startswith(TIMED_OUT):
            waited = guard.waited()
        blamed = None if guard is None else _blamed(guard, f"the {what}", waited)
        if blamed is not None and blamed.rank != rank:
            return rank_failure(blamed, f"rank {rank}: the {what}")
        if guard is not None and waited is not None and blamed is None:
            others = [f"rank {other} in {call}" for other, call in guard.waiting().items()]
            reason = "; ".join([reason, *others])
        return CollectiveError(
            Diagnostic("collective-failed", f"rank {rank}: the {what} failed", reason=reason)
        )

    def _what(self, collective: str, tensor: Tensor) -> str:
        dtype = str(tensor.dtype).removeprefix("torch.")
        along = f" along {self.axis}" if self.axis else ""
        caller = f" for {self.label}" if self.label else ""
        return f"{collective} of {dtype} {tuple(tensor.shape)}{along}{caller}"


def _blamed(guard: Watch, here: str, waited: float | None) -> Failure | None:
    """The failure behind a failed collective; being told to end meanwhile is no reason not to
    find out.
    """
    try:
        return guard.blame(here, waited)
    except Stopped:
        return guard.blame(here, waited)


@lru_cache(maxsize=8)
def _options(operation: Any) -> Any:
    options = dist.AllreduceOptions()
    options.reduceOp = operation
    return options


def _ended(work: Any) -> bool:
    """Waits for a moment; whether the work has ended."""
    try:
        work.wait(MOMENT)
    except RuntimeError as error:
        if str(error).startswith("Operation timed out"):
            return False
        raise
    return True


def communicators_of(mesh: DeviceMesh) -> dict[str, TorchCommunicator]:
    """Returns this rank's end of every axis of a mesh, by the axis' name. Their groups wait as long
    as the world does, where nobody has told them otherwise.
    """
    names = mesh.mesh_dim_names or ()
    for name in names:
        inherit_timeout(mesh.get_group(name))
    return {name: TorchCommunicator(mesh.get_group(name), name) for name in names}


def _plain_words(text: str) -> str:
    """torch's message without the place in its own source, and without its stack."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    return line[line.index("] ") + 2 :] if line.startswith("[") and "] " in line else line
