"""Parameters that are stored in parts: gathered for their use, freed, and gathered again.

    block_1 = begin_block([q, k, v, o], after=block_0)     one all-gather of all four begins
    q_1 = gathered(q, block_1, 0)                          waits for it
    linear = torch.nn.functional.linear(x, q_1)            saves no (64, 64), but where it is from
    ...
    backward of linear     block_1 is gathered again, and the block before it begins to be
    backward of q_1        the gradient (64, 64) is put beside those of its block
    backward of the block before it    they are scattered together: q.grad (16, 64), ...

Autograd saves for the backward pass what operators used, views of it included. While a program runs
with `regathering`, what lies in the memory of a gathered parameter is saved as its place there, and
is found again after the block has been gathered again; everything else is saved as ever, also by
hooks that somebody else has set. So a gathered parameter lives as long as the forward pass needs
it, and in the backward pass two blocks are in memory at most: the one in use and the next. All
ranks run one program, so all gather the same in one order.

Parts that change between the forward pass and the backward pass are an error, as on one device.

A block that is kept (``state="optimizer"``) is gathered when a part has changed, on whichever rank
and by whomever: each rank compares its part with what it has gathered, bit by bit, and the ranks
tell each other one number a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.graph import saved_tensors_hooks
from torch.compiler import is_compiling
from torch.utils.weak import WeakTensorKeyDictionary

from dimsolve.ir.errors import DimsolveError, Problem
from dimsolve.partition.placement import Shard, read_placement

from .collectives import AllReduce, Gather, ReduceScatter, ShareGradient, Slice
from .communicator import Communicator
from .gradients import add_to_gradient, is_ours, is_unwatched
from .sharding import cut_off, cut_rows, filled_up, join_parts, slice_part, units_of

_CHANGED = Problem(
    DimsolveError,
    "changed-parameter",
    "a parameter that the backward pass needs has been changed since the forward pass",
    "number {number} of {count} that are gathered together, the part {shape}, is at version "
    "{version}; expected version {expected} instead",
    "run the backward pass before the optimiser's step",
)


@dataclass(frozen=True)
class Cut:
    """How one parameter is stored along one axis, and whether its gradient is a sum over it."""

    shard: Shard
    end: Communicator
    shared: bool = True
    axis: str = ""


@dataclass(frozen=True)
class Block:
    """Parameters that are gathered together. ``cuts``: of every one, in the order in which they are
    undone. again: whether a region gathers it again. keeps: whether it stays gathered. used: the
    dtype in which parameters are gathered; reduced: that in which their gradients are summed; None:
    that of the parts. sums: along which the scattered gradients are summed.
    """

    cuts: tuple[tuple[Cut, ...], ...]
    again: bool = False
    keeps: bool = False
    used: torch.dtype | None = None
    reduced: torch.dtype | None = None
    sums: tuple[Communicator, ...] = ()


@dataclass(eq=False)
class _Whole:
    """One gathered parameter while its memory is known. ``memory``: a weak reference, which also
    keeps the address from being used anew.
    """

    gathered: Gathered
    index: int
    memory: Any


_wholes: WeakValueDictionary[int, _Whole] = WeakValueDictionary()
"""What lies at an address, as long as it does."""


class Pass:
    """The blocks of one call. ``live``: those that are in memory for the backward pass, the one in
    use first.
    """

    def __init__(self) -> None:
        self.live: list[Gathered] = []
        # The engine holds what scatters until its pass has ended, or failed: then nothing waits
        # for it. A reentrant region has a pass of its own within the other.
        self._scatters: WeakValueDictionary[int, Scatters] = WeakValueDictionary()

    def use(self, block: Gathered) -> None:
        """Says that a block is needed now: all others are freed but the one before it, which comes
        next; gradients that have come together are sent, and the block is gathered.
        """
        scatters = self._backward()
        before = None if scatters is None else block.before
        for other in self.live:
            if other is not block and other is not before:
                other.free()
        if scatters is not None and (not self.live or self.live[0] is not block):
            scatters.leave()
        self.live = [block]
        block.gather()
        if before is not None and (before.saved or before.block.again):
            before.begin()
            self.live.append(before)

    def scatter(self, block: Gathered, index: int, part: Tensor, gradient: Tensor) -> None:
        """Takes the gradient of a whole parameter; its part is added to ``part.grad`` later on."""
        scatters = self._backward()
        assert scatters is not None
        scatters.add(block, index, part, gradient)

    def _backward(self) -> Scatters | None:
        """What scatters in the backward pass that goes on, whose end is waited for."""
        task = torch._C._current_graph_task_id()
        found = self._scatters.get(task)
        if found is None and task != -1:
            found = self._scatters[task] = Scatters(self)
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(found.end)
        return found

    def end(self) -> None:
        """Frees what has been used; what has begun is for a pass around this one."""
        for block in self.live[:1]:
            block.free()
        del self.live[:1]


class Scatters:
    """The gradients of one backward pass: those that come together, and those that were sent."""

    def __init__(self, turn: Pass) -> None:
        self.turn = turn
        self._shares: Shares | None = None
        self._sent: Shares | None = None

    def add(self, block: Gathered, index: int, part: Tensor, gradient: Tensor) -> None:
        """Takes the gradient of a whole parameter."""
        shares = self._shares
        if shares is not None and (shares.block is not block or index in shares.members):
            self._send()
            shares = None
        if shares is None:
            shares = self._shares = Shares(block)
        shares.add(index, part, gradient)

    def leave(self) -> None:
        """Another block is used now: what has come together is all that there is."""
        if self._shares is not None:
            self._send()

    def _send(self) -> None:
        """Begins to scatter what has come together, when what was sent before has arrived."""
        if self._sent is not None:
            self._sent.arrive()
        self._sent, self._shares = self._shares, None
        if self._sent is not None:
            self._sent.send()

    def end(self) -> None:
        """The backward pass has ended: waits for the gradients."""
        self._send()
        self._send()
        self.turn.end()


class Shares:
    """The gradients of one block's parameters as they come: one row a rank. members: the parts that
    have one, by their number in the block.
    """

    def __init__(self, block: Gathered) -> None:
        self.block = block
        self.members: dict[int, Tensor] = {}
        self._rows: list[Tensor] = []
        self._finish: Callable[[], Tensor] | None = None

    def add(self, index: int, part: Tensor, gradient: Tensor) -> None:
        """Takes a gradient."""
        (cut,) = self.block.block.cuts[index]
        self.members[index] = part
        rows = cut_rows(gradient, cut.shard, cut.end.size).flatten(1)
        self._rows.append(rows.to(self.block.block.reduced or rows.dtype))

    def send(self) -> None:
        """Begins to scatter them."""
        end: Any = self.block.block.cuts[0][0].end
        rows = self._rows[0] if len(self._rows) == 1 else torch.cat(self._rows, 1)
        self._rows = []
        self._finish = end.begin_scatter(rows)

    def arrive(self) -> None:
        """Waits for this rank's row and adds its pieces to the gradients of the parts."""
        assert self._finish is not None
        row, start = self._finish().view(-1), 0
        self._finish = None
        for end in self.block.block.sums:
            row = end.all_reduce(row)
        with torch.no_grad():
            for index, part in self.members.items():
                (cut,) = self.block.block.cuts[index]
                shape = _most(part, cut)
                own = row[start : start + prod(shape)].view(shape)
                start += prod(shape)
                own = cut_off(own, cut.shard, cut.end.rank, cut.end.size)
                add_to_gradient(part, own.to(part.dtype))


def _most(part: Tensor, cut: Cut) -> list[int]:
    """The shape of the largest part."""
    shape = list(part.shape)
    if cut.shard.of:
        units, length = units_of(cut.shard)
        shape[cut.shard.dim] = -(-units // cut.end.size) * length
    return shape


class Gathered:
    """A block in one call. ``parts``: of its parameters. before: the block that is gathered before
    it. saved: whether something is to be found in it on the way back.
    """

    def __init__(
        self, block: Block, parts: Sequence[Tensor], before: Gathered | None, changed: bool
    ) -> None:
        self.block = block
        self.given = parts
        self.parts = [part.detach() for part in parts]
        self.versions = [part._version for part in parts]
        self.before = before
        self.turn: Pass = Pass() if before is None else before.turn
        self.saved = False
        self.known: list[_Whole] = []
        self._wholes: list[Tensor] | None = None
        self._finish: Callable[[], Tensor] | None = None
        if block.keeps and not changed:
            self._wholes = [_kept[part][0] for part in parts]

    def begin(self) -> None:
        """Begins to gather, where the ranks can begin."""
        if self._wholes is not None or self._finish is not None:
            return
        first = self.block.cuts[0]
        begin = getattr(first[0].end, "begin_gather_into", None)
        if len(first) == 1 and begin is not None:
            self._finish = begin(self._rows(first[0].end))

    def gather(self) -> list[Tensor]:
        """Returns the gathered parameters."""
        if self._wholes is None:
            self._wholes = self._gathered()
            if self.block.keeps:
                found = zip(self.given, self._wholes, self.block.cuts, strict=True)
                _kept.update({part: (whole, cuts) for part, whole, cuts in found})
            else:
                self.known = [_known(whole, self, n) for n, whole in enumerate(self._wholes)]
        return self._wholes

    def whole(self, index: int) -> Tensor:
        """Returns a gathered parameter, which is needed now."""
        self.turn.use(self)
        return self.gather()[index]

    def again(self, index: int) -> Tensor:
        """Returns a gathered parameter to the backward pass."""
        for number, (part, expected) in enumerate(zip(self.parts, self.versions, strict=True)):
            if part._version != expected:
                raise _CHANGED(
                    number=number + 1,
                    count=len(self.parts),
                    shape=tuple(part.shape),
                    version=part._version,
                    expected=expected,
                )
        return self.whole(index)

    def free(self) -> None:
        """Lets go of the memory, unless it stays gathered; who still uses it keeps it."""
        if self.block.keeps:
            return
        if self._finish is not None:  # what has begun is waited for: the ranks stay in step
            self._finish()
        self._wholes = self._finish = None

    def _gathered(self) -> list[Tensor]:
        with torch.no_grad():
            if len(self.block.cuts[0]) > 1:
                return [
                    _whole(self._used(part), cuts)
                    for part, cuts in zip(self.parts, self.block.cuts, strict=True)
                ]
            self.begin()
            finish, self._finish = self._finish, None
            end = self.block.cuts[0][0].end
            rows = end.all_gather(self._packed()) if finish is None else finish()
            return list(self._unpacked(rows))

    def _alike(self) -> list[Tensor]:
        """The parts, as long as the longest of them."""
        return [
            filled_up(self._used(part), cut.shard, cut.end.size)
            for part, (cut,) in zip(self.parts, self.block.cuts, strict=True)
        ]

    def _used(self, part: Tensor) -> Tensor:
        return part if self.block.used is None else part.to(self.block.used)

    def _packed(self) -> Tensor:
        with torch.no_grad():
            parts = self._alike()
            if len(parts) == 1:
                return parts[0].contiguous()
            return torch.cat([part.reshape(-1) for part in parts])

    def _rows(self, end: Communicator) -> Tensor:
        """Memory for the rows of all ranks, with this rank's in its place."""
        with torch.no_grad():
            parts = self._alike()
            one = parts[0].shape if len(parts) == 1 else (sum(part.numel() for part in parts),)
            rows = parts[0].new_empty((end.size, *one))
            if len(parts) == 1:
                rows[end.rank].copy_(parts[0])
            else:
                torch.cat([part.reshape(-1) for part in parts], out=rows[end.rank])
            return rows

    def _unpacked(self, rows: Tensor) -> Iterator[Tensor]:
        if len(self.parts) == 1:
            yield join_parts(rows, self.block.cuts[0][0].shard)
            return
        start = 0
        for part, (cut,) in zip(self._alike(), self.block.cuts, strict=True):
            own = rows[:, start : start + part.numel()]
            yield join_parts(own.reshape(rows.shape[0], *part.shape), cut.shard)
            start += part.numel()


def _whole(part: Tensor, cuts: Sequence[Cut]) -> Tensor:
    for cut in cuts:
        part = Gather.compute(part, cut.shard, cut.end)
    return part


def _known(whole: Tensor, gathered: Gathered, index: int) -> _Whole:
    from torch.multiprocessing.reductions import StorageWeakRef

    memory = whole.untyped_storage()
    found = _Whole(gathered, index, StorageWeakRef(memory))
    _wholes[memory._cdata] = found
    return found


_kept: Any = WeakTensorKeyDictionary()
"""What has been gathered of a part, and stays; and how the part is cut of it."""


def have_changed(parts: Sequence[Tensor], *ends: Communicator) -> bool:
    """Returns whether a part is another one than what was gathered of it, on any rank of these
    axes.
    """
    if is_compiling():
        return True
    found = torch.tensor([float(any(map(_has_changed, parts)))], device=parts[0].device)
    for end in ends:
        found = end.all_reduce(found)
    return bool(found.item())


def _has_changed(part: Tensor) -> bool:
    if part not in _kept:
        return True
    own, cuts = _kept[part]
    part = part.detach().to(own.dtype)
    for cut in reversed(cuts):
        own = slice_part(own, cut.shard, cut.end.rank, cut.end.size)
    bits = _BITS[part.element_size()]
    return not torch.equal(part.view(bits), own.contiguous().view(bits))


_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.int64}


def block_of(*cuts: Sequence[tuple[str, Communicator, bool]], **settings: Any) -> Block:
    """Returns a block; ``cuts``: for each parameter the placements that are undone, each with its
    axis' end, and whether the gradient is a sum over it. It is how a program's text says it.
    """
    found = [[(read_placement(text), end, shared) for text, end, shared in each] for each in cuts]
    return Block(tuple([tuple([Cut(*cut) for cut in each]) for each in found]), **settings)  # type: ignore[arg-type]


def begin_block(
    parts: Sequence[Tensor],
    block: Block,
    after: Gathered | Block | None = None,
    changed: bool = True,
) -> Gathered | Block:
    """Returns a block that is being gathered. after: the block that is gathered before it. changed:
    whether one that is kept must be gathered. Compiled code gathers each parameter when it is asked
    for.
    """
    if is_compiling():
        return block
    begun = Gathered(block, parts, after if isinstance(after, Gathered) else None, changed)
    begun.begin()
    return begun


def gathered(part: Tensor, block: Gathered | Block, index: int) -> Tensor:
    """Returns a parameter of a block by its number, whole; its gradient is scattered."""
    if isinstance(block, Block):
        part = part if block.used is None else part.to(block.used)
        for end in block.sums:
            part = ShareGradient.apply(part, end)
        for cut in block.cuts[index]:
            part = Gather.apply(part, cut.shard, cut.end, cut.shared)
        return part
    whole: Tensor = _Take.apply(part, block, index)
    return whole


class _Take(Function):
    """S -> R, of a parameter in a block."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, block: Gathered, index: int) -> Tensor:
        ctx.given = (part if is_ours(part) else None), block, index
        whole = block.whole(index)
        return whole.view(whole.shape)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        part, block, index = ctx.given
        cuts, recorded = block.block.cuts[index], torch.is_grad_enabled()
        waits = part is not None and not recorded and _may_wait(gradient, cuts)
        if waits and is_unwatched(part, part, ctx.next_functions[0][0]):
            if part.requires_grad:
                block.turn.scatter(block, index, part, gradient)
            return None, None, None
        gradient = gradient.to(block.block.reduced or gradient.dtype)
        for cut in reversed(cuts):
            function = ReduceScatter if cut.shared else Slice
            run = function.apply if recorded else function.compute
            gradient = run(gradient, cut.shard, cut.end)
        for end in block.block.sums:
            gradient = (AllReduce.apply if recorded else AllReduce.compute)(gradient, end, False)
        return gradient.to(block.parts[index].dtype), None, None


def _may_wait(gradient: Tensor, cuts: Sequence[Cut]) -> bool:
    """Whether a gradient may be scattered with others of its block."""
    return (
        gradient.layout is torch.strided
        and len(cuts) == 1
        and cuts[0].shared
        and hasattr(cuts[0].end, "begin_scatter")
    )


@dataclass(frozen=True)
class _Place:
    """A tensor in the memory of a gathered parameter."""

    gathered: Gathered
    index: int
    size: torch.Size
    stride: tuple[int, ...]
    offset: int

    def tensor(self) -> Tensor:
        return self.gathered.again(self.index).as_strided(self.size, self.stride, self.offset)


def _modified(tensor: Tensor, version: int) -> RuntimeError:
    """torch's own error."""
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [{tensor.type()} {list(tensor.shape)}] is at version {tensor._version}; "
        f"expected version {version} instead."
    )


@contextmanager
def regathering() -> Iterator[None]:
    """Within it autograd saves of gathered parameters where they are from."""
    if is_compiling() or not torch.is_grad_enabled():
        yield
        return
    outer: Any = torch._C._autograd._top_saved_tensors_default_hooks(False)

    def pack(tensor: Tensor) -> Any:
        if type(tensor) is Tensor and not tensor.is_conj() and not tensor.is_neg():
            found = _wholes.get(tensor.untyped_storage()._cdata)
            if found is not None and not found.memory.expired():
                kept = found.gathered
                if tensor.dtype is (kept.block.used or kept.parts[found.index].dtype):
                    kept.saved = True
                    layout: Any = (tensor.size(), tensor.stride(), tensor.storage_offset())
                    return _Place(kept, found.index, *layout)
        return (tensor, tensor._version) if outer is None else outer[0](tensor)

    def unpack(saved: Any) -> Tensor:
        if isinstance(saved, _Place):
            return saved.tensor()
        if outer is not None:
            found: Tensor = outer[1](saved)
            return found
        tensor, version = saved
        if tensor._version != version:  # torch does not look where there are hooks
            raise _modified(tensor, version)
        handed: Tensor = tensor
        return handed

    with saved_tensors_hooks(pack, unpack):
        yield
