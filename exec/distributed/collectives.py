"""What a rank's own implementation of an operator knows of the other parts.

    part.index, part.count         this part's place among all parts of the operator
    part["n"].count                the same for the split of one identifier; 1 where it is not split
    part.all_reduce(kept)          how many targets are kept on all ranks together

See `dimsolve.partition.rules.rule` for the rules that use it.

The collectives as differentiable functions: one class per pair of forward and backward.

Along one mesh axis, with one logical loss. A replicated value has its whole gradient on every rank,
unless its users are sharded: then each rank has a share of it, and the shares are summed.

    class             forward           backward
    AllReduce         all-reduce        identity         its result is used alike on all ranks
                                        all-reduce       its result is used by sharded work
    ShareGradient     identity          all-reduce       R, to be used by sharded work
    DivideGradient    identity          divided by size  R, made by sharded work
    Gather            all-gather        slice            its result is used alike on all ranks
                                        reduce-scatter   its result is used by sharded work
    Slice             slice             all-gather
    ReduceScatter     reduce-scatter    all-gather
    Exchange          all-to-all        all-to-all
    Divide            divided by size   identity         the backward of DivideGradient

Those of partial values are in `dimsolve.exec.distributed.collectives`. Each backward is the
forward of another row, so where gradients are themselves recorded (``create_graph=True``) it goes
through that row's class, and derivatives of every order are right.

The differentiable functions of partial values: made of whole ones or parts, and joined.

    class             forward           backward
    Keep              rank 0 keeps it   identity         R -> P(sum); for P(max) all keep it
    Insert            into zeros        slice            S -> P(sum)
    JoinExtreme       max or min        to the winners, evenly shared
    JoinProduct       product           times the product of the others

Of what only goes back there are

    Scale             times size        identity         of Keep, of an average
    TakePart          slice             into zeros       of Insert
    TakeFirst         broadcast         rank 0 keeps it  of Keep, of a product
    KeepFirst         rank 0 keeps it   broadcast        of TakeFirst

The conventions are those of `dimsolve.exec.distributed.collectives`.

From one placement to another, along one mesh axis or several, with gradients.

    from \\ to    R                  S(j)             P(sum)
    R            nothing            slice            rank 0 keeps it, zeros elsewhere
    S(i)         all-gather         all-to-all       into zeros
    P(sum)       all-reduce         reduce-scatter   nothing

P(max), P(min) and P(prod) go through R; S(i) -> S(i) with other blocks gathers and cuts anew. The
gradient goes the way back, by the pairs of `dimsolve.exec.distributed.collectives`: a loss
that every rank computes is one loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.compiler import is_compiling

from dimsolve.ir.errors import DimsolveError, Problem
from dimsolve.partition.placement import Partial, Placement, Reduction, Replicate, Shard

from .communicator import Communicator
from .sharding import cut_rows, join_parts, neutral, products_of_others, slice_part

_UNKNOWN_REDUCTION = Problem(
    DimsolveError,
    "reduction",
    "parts cannot be reduced so",
    "all_reduce was asked for {reduction!r}",
    'write "sum", "max" or "min"',
)


def split_rows(tensor: Tensor, shard: Shard, count: int) -> Tensor:
    """Returns (count, ...) whose row i is part i, in one piece of memory."""
    return cut_rows(tensor, shard, count).contiguous()


def backward_step(function: Any, at_once: Callable[..., Tensor], *arguments: Any) -> Tensor:
    """One step of a backward pass: recorded where gradients are, else without autograd's cost."""
    if torch.is_grad_enabled() and not is_compiling():
        recorded: Tensor = function.apply(*arguments)
        return recorded
    return at_once(*arguments)


def same(tensor: Tensor, *_: Any) -> Tensor:
    return tensor


def summed(tensor: Tensor, communicator: Communicator, shared: bool) -> Tensor:
    return communicator.all_reduce(tensor.contiguous())


def sliced(tensor: Tensor, shard: Shard, communicator: Communicator) -> Tensor:
    part = slice_part(tensor, shard, communicator.rank, communicator.size)
    # Never a view of the argument: what comes next may write to it.
    return part.clone(memory_format=torch.contiguous_format)


def _gathered(tensor: Tensor, shard: Shard, communicator: Communicator, *_: Any) -> Tensor:
    return join_parts(communicator.all_gather(tensor.contiguous()), shard)


def _scattered(tensor: Tensor, shard: Shard, communicator: Communicator) -> Tensor:
    return communicator.reduce_scatter(split_rows(tensor, shard, communicator.size))


class AllReduce(Function):
    """P(sum) -> R."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, communicator: Communicator, shared: bool) -> Tensor:
        ctx.given = communicator, shared
        return summed(tensor, communicator, shared)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        communicator, shared = ctx.given
        if shared:
            return backward_step(AllReduce, summed, gradient, communicator, True), None, None
        return backward_step(ShareGradient, same, gradient, communicator), None, None


class ShareGradient(Function):
    """R -> R, used by sharded work: each rank computes a share of the gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, communicator: Communicator) -> Tensor:
        ctx.communicator = communicator
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return backward_step(AllReduce, summed, gradient, ctx.communicator, False), None


class DivideGradient(Function):
    """R -> R, made by sharded work: each rank's making of it has a share of the gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, communicator: Communicator) -> Tensor:
        ctx.communicator = communicator
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return backward_step(Divide, _divided, gradient, ctx.communicator), None


def _divided(tensor: Tensor, communicator: Communicator) -> Tensor:
    return tensor / communicator.size


class Divide(Function):
    """R -> P(sum), an equal summand on every rank."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, communicator: Communicator) -> Tensor:
        ctx.communicator = communicator
        return _divided(tensor, communicator)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return backward_step(DivideGradient, same, gradient, ctx.communicator), None


class Gather(Function):
    """S -> R."""

    @staticmethod
    def forward(
        ctx: Any, tensor: Tensor, shard: Shard, communicator: Communicator, shared: bool
    ) -> Tensor:
        ctx.given = shard, communicator, shared
        return _gathered(tensor, shard, communicator)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        shard, communicator, shared = ctx.given
        back = (ReduceScatter, _scattered) if shared else (Slice, sliced)
        return backward_step(*back, gradient, shard, communicator), None, None, None


class GatherBegun(Function):
    """S -> R, where the gathering has begun already; ``begun`` waits for the rows."""

    @staticmethod
    def forward(
        ctx: Any,
        tensor: Tensor,
        begun: Callable[[], Tensor],
        shard: Shard,
        communicator: Communicator,
    ) -> Tensor:
        ctx.given = shard, communicator
        return join_parts(begun(), shard)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return backward_step(Slice, sliced, gradient, *ctx.given), None, None, None


class Slice(Function):
    """R -> S."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, shard: Shard, communicator: Communicator) -> Tensor:
        ctx.given = shard, communicator
        return sliced(tensor, shard, communicator)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return backward_step(Gather, _gathered, gradient, *ctx.given, False), None, None


class ReduceScatter(Function):
    """P(sum) -> S."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, shard: Shard, communicator: Communicator) -> Tensor:
        ctx.given = shard, communicator
        return _scattered(tensor, shard, communicator)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return backward_step(Gather, _gathered, gradient, *ctx.given, True), None, None


def _exchanged(tensor: Tensor, source: Shard, target: Shard, communicator: Communicator) -> Tensor:
    rows = communicator.all_to_all(split_rows(tensor, target, communicator.size))
    return join_parts(rows, source)


class Exchange(Function):
    """S(i) -> S(j): every rank sends every other the part of its part."""

    @staticmethod
    def forward(
        ctx: Any, tensor: Tensor, source: Shard, target: Shard, communicator: Communicator
    ) -> Tensor:
        ctx.given = target, source, communicator
        return _exchanged(tensor, source, target, communicator)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return backward_step(Exchange, _exchanged, gradient, *ctx.given), None, None, None


class Keep(Function):
    """R -> P: rank 0 keeps a summand or a factor, the others the neutral element.

    Of a maximum, a minimum or an average all ranks keep it.
    """

    @staticmethod
    def forward(
        ctx: Any, tensor: Tensor, reduction: Reduction, communicator: Communicator
    ) -> Tensor:
        ctx.given = reduction, communicator
        if communicator.rank and reduction in (Reduction.SUM, Reduction.PROD):
            return torch.full_like(tensor, neutral(reduction, tensor.dtype))
        return tensor.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        reduction, communicator = ctx.given
        match reduction:
            case Reduction.SUM:
                whole = backward_step(DivideGradient, same, gradient, communicator)
            case Reduction.AVG:
                whole = backward_step(Scale, _scaled, gradient, communicator)
            case Reduction.PROD:
                whole = backward_step(TakeFirst, _first, gradient, communicator)
            case _:
                whole = backward_step(AllReduce, summed, gradient, communicator, False)
        return whole, None, None


def _scaled(tensor: Tensor, communicator: Communicator) -> Tensor:
    return tensor * communicator.size


class Scale(Function):
    """The gradient of the parts of an average, as the gradient of the average."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, communicator: Communicator) -> Tensor:
        ctx.communicator = communicator
        return _scaled(tensor, communicator)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        keep: Any = Keep.apply
        return keep(gradient, Reduction.AVG, ctx.communicator), None


def _first(tensor: Tensor, communicator: Communicator) -> Tensor:
    return communicator.broadcast(tensor.contiguous(), 0)


class TakeFirst(Function):
    """What rank 0 has, on every rank."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, communicator: Communicator) -> Tensor:
        ctx.communicator = communicator
        return _first(tensor, communicator)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return backward_step(KeepFirst, _kept_first, gradient, ctx.communicator), None


def _kept_first(tensor: Tensor, communicator: Communicator) -> Tensor:
    return torch.zeros_like(tensor) if communicator.rank else tensor.clone()


class KeepFirst(Function):
    """The way back of `TakeFirst`: only rank 0's part counts."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, communicator: Communicator) -> Tensor:
        ctx.communicator = communicator
        return _kept_first(tensor, communicator)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return backward_step(TakeFirst, _first, gradient, ctx.communicator), None


class Insert(Function):
    """S -> P: each rank's part in its place among neutral elements. Not for averages."""

    @staticmethod
    def forward(
        ctx: Any, tensor: Tensor, shard: Shard, reduction: Reduction, communicator: Communicator
    ) -> Tensor:
        ctx.given = shard, communicator
        count = communicator.size
        rows = tensor.new_full((count, *tensor.shape), neutral(reduction, tensor.dtype))
        rows[communicator.rank] = tensor
        return join_parts(rows, shard)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return backward_step(TakePart, sliced, gradient, *ctx.given), None, None, None


class TakePart(Function):
    """Each rank's part of a value that ranks have shares of: the part is whole on its own rank."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, shard: Shard, communicator: Communicator) -> Tensor:
        ctx.given = shard, communicator
        return sliced(tensor, shard, communicator)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        shard, communicator = ctx.given
        insert: Any = Insert.apply
        return insert(gradient, shard, Reduction.SUM, communicator), None, None


class JoinExtreme(Function):
    """P(max) or P(min) -> R: ranks that tie share the gradient evenly."""

    @staticmethod
    def forward(
        ctx: Any, tensor: Tensor, reduction: Reduction, communicator: Communicator, shared: bool
    ) -> Tensor:
        joined = communicator.all_reduce(tensor.contiguous(), reduction)
        ctx.given = communicator, shared
        ctx.save_for_backward(tensor, joined)
        return joined

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        communicator, shared = ctx.given
        tensor, joined = ctx.saved_tensors
        gradient = _for_own_work(gradient, communicator, shared)
        wins = (tensor == joined).to(gradient.dtype)
        return gradient * wins / communicator.all_reduce(wins), None, None, None


def _for_own_work(gradient: Tensor, communicator: Communicator, shared: bool) -> Tensor:
    """A joined value's gradient on every rank, for each to go on with in its own way."""
    if shared:
        return backward_step(AllReduce, summed, gradient, communicator, True)
    return backward_step(ShareGradient, same, gradient, communicator)


class JoinProduct(Function):
    """P(prod) -> R: the gradient of a factor is the product of the others, zeros included."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, communicator: Communicator, shared: bool) -> Tensor:
        factors = communicator.all_gather(tensor.contiguous())
        ctx.given = communicator, shared
        ctx.save_for_backward(tensor, products_of_others(factors)[communicator.rank])
        return factors.prod(0, dtype=tensor.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        communicator, shared = ctx.given
        tensor, others = ctx.saved_tensors
        if torch.is_grad_enabled() and not is_compiling():
            gather: Any = Gather.apply
            factors = gather(tensor.unsqueeze(0), Shard(0), communicator, True)
            others = products_of_others(factors)[communicator.rank]
        gradient = _for_own_work(gradient, communicator, shared)
        return gradient * others.conj(), None, None


def convert(
    tensor: Tensor,
    source: Placement,
    target: Placement,
    communicator: Communicator,
    *,
    shared_gradient: bool = False,
) -> Tensor:
    """Returns this rank's part under ``target`` of the value whose part under ``source`` is given.

    shared_gradient: the result is replicated and used by sharded work, so that each rank computes a
    share of its gradient, and the shares are summed on the way back. For other targets it means
    nothing. Raises ShapeError where a dimension cannot be cut into equal parts.
    """
    match source, target:
        case Replicate(), Replicate():
            return _call(ShareGradient, tensor, communicator) if shared_gradient else tensor
        case Replicate(), Shard():
            return _call(Slice, tensor, target, communicator)
        case Replicate(), Partial():
            return _call(Keep, tensor, target.reduction, communicator)
        case Shard(), Replicate():
            return _call(Gather, tensor, source, communicator, shared_gradient)
        case Shard(), Shard():
            return _reshard(tensor, source, target, communicator)
        case Shard(), Partial(Reduction.AVG):
            gathered = _call(Gather, tensor, source, communicator, False)
            return _call(Keep, gathered, target.reduction, communicator)
        case Shard(), Partial():
            return _call(Insert, tensor, source, target.reduction, communicator)
        case Partial(), Replicate():
            return _join(tensor, source.reduction, communicator, shared_gradient)
        case Partial(Reduction.SUM), Shard():
            return _call(ReduceScatter, tensor, target, communicator)
        case Partial(Reduction.AVG), Shard():
            return _averaged(ReduceScatter, tensor, communicator.size, target, communicator)
        case Partial(), Partial() if source == target:
            return tensor
        case _:
            whole = _join(tensor, source.reduction, communicator, False)  # type: ignore[union-attr]
            return convert(whole, Replicate(), target, communicator)


def made_by_shards(tensor: Tensor, communicator: Communicator) -> Tensor:
    """Returns a replicated output of sharded work as a value whose gradient is whole.

    The shares of the gradient that the ranks' programs send back for their inputs add up.
    """
    return _call(DivideGradient, tensor, communicator)


def convert_axes(
    tensor: Tensor,
    sources: Sequence[Placement],
    targets: Sequence[Placement],
    communicators: Sequence[Communicator],
    *,
    shared_gradient: Sequence[bool] | None = None,
) -> Tensor:
    """Returns the part under ``targets`` on a mesh: one placement per axis, outer axis first.

    An inner axis that cuts the same dimension as an outer one that changes is gathered first and
    cut again at last: its parts are parts of what the outer axis leaves.
    """
    shared = shared_gradient or [False] * len(targets)
    current = list(sources)
    for inner in reversed(range(len(targets))):
        outer = range(inner)
        if any(_in_the_way(current[inner], sources[o], targets[o]) for o in outer):
            tensor = convert(tensor, current[inner], Replicate(), communicators[inner])
            current[inner] = Replicate()
    for axis, target in enumerate(targets):
        tensor = convert(
            tensor, current[axis], target, communicators[axis], shared_gradient=shared[axis]
        )
    return tensor


def _in_the_way(inner: Placement, source: Placement, target: Placement) -> bool:
    """Whether an inner placement must be undone before an outer axis goes from source to target."""
    if source == target:
        return False
    match inner:
        case Shard(dim):
            return any(isinstance(p, Shard) and p.dim == dim for p in (source, target))
        case Partial(reduction):
            sums = (Reduction.SUM, Reduction.AVG)
            return any(
                isinstance(p, Partial)
                and p.reduction is not reduction
                and not (p.reduction in sums and reduction in sums)
                for p in (source, target)
            )
        case _:
            return False


def _reshard(tensor: Tensor, source: Shard, target: Shard, communicator: Communicator) -> Tensor:
    if source == target:
        return tensor
    if source.dim == target.dim:
        whole = _call(Gather, tensor, source, communicator, False)
        return _call(Slice, whole, target, communicator)
    return _call(Exchange, tensor, source, target, communicator)


def _join(tensor: Tensor, reduction: Reduction, communicator: Communicator, shared: bool) -> Tensor:
    match reduction:
        case Reduction.SUM:
            return _call(AllReduce, tensor, communicator, shared)
        case Reduction.AVG:
            return _averaged(AllReduce, tensor, communicator.size, communicator, shared)
        case Reduction.MAX | Reduction.MIN:
            return _call(JoinExtreme, tensor, reduction, communicator, shared)
        case Reduction.PROD:
            return _call(JoinProduct, tensor, communicator, shared)


def _averaged(function: Any, tensor: Tensor, size: int, *arguments: Any) -> Tensor:
    """An average of what a function sums: in float16 the sum may not fit where the average does."""
    if tensor.dtype is torch.float16:
        return _call(function, tensor / size, *arguments)
    return _call(function, tensor, *arguments) / size


def _call(function: Any, *arguments: Any) -> Tensor:
    apply: Callable[..., Tensor] = function.apply
    return apply(*arguments)


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
        """Returns the sum, max or min over all parts; see `dimsolve.partition.rules.rule.Part`."""
        if reduction not in ("sum", "max", "min"):
            raise _UNKNOWN_REDUCTION(reduction=reduction)
        source = Partial(Reduction(reduction))
        for _, communicator in self.splits:
            tensor = convert(tensor, source, Replicate(), communicator, shared_gradient=True)
        return tensor


def part_of(splits: Sequence[tuple[str, Communicator]]) -> MeshPart:
    """Returns the part of a rank whose operator is split so."""
    return MeshPart(tuple(splits))
