"""Collectives with gradients, and conversions from one placement to another along mesh axes.

Along one mesh axis, with one logical loss. A replicated value has its whole gradient on every rank,
unless its users are sharded: then each rank has a share of it, and the shares are summed.

    function          forward           backward
    AllReduce         all-reduce        identity         its result is used alike on all ranks
                                        all-reduce       its result is used by sharded work
    ShareGradient     identity          all-reduce       R, to be used by sharded work
    DivideGradient    identity          divided by size  R, made by sharded work
    Gather            all-gather        slice            its result is used alike on all ranks
                                        reduce-scatter   its result is used by sharded work
    Keep              rank 0 keeps it   identity         R -> P(sum); for P(max) all keep it
    JoinExtreme       max or min        to the winners, evenly shared
    JoinProduct       product           times the product of the others

Each backward is the forward of another pair, so where gradients are themselves recorded
(``create_graph=True``) it goes through that pair, and derivatives of every order are right.

    from \\ to    R                  S(j)             P(sum)
    R            nothing            slice            rank 0 keeps it, zeros elsewhere
    S(i)         all-gather         all-to-all       into zeros
    P(sum)       all-reduce         reduce-scatter   nothing

P(max), P(min) and P(prod) go through R; S(i) -> S(i) with other blocks gathers and cuts anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd import Function
from torch.compiler import is_compiling

from dimsolve.ir.errors import DimsolveError, Problem
from dimsolve.partition.placement import (
    Grouped,
    Partial,
    Placement,
    Reduction,
    Replicate,
    Shard,
)

from .communicator import Communicator
from .routes import RankRoutes
from .sharding import (
    cut_off,
    cut_rows,
    filled_up,
    join_parts,
    neutral,
    products_of_others,
    run_of,
    slice_part,
)

_UNKNOWN_REDUCTION = Problem(
    DimsolveError,
    "reduction",
    "parts cannot be reduced so",
    "all_reduce was asked for {reduction!r}",
    'write "sum", "max" or "min"',
)


class Pair(Protocol):
    """An autograd function made by `_pair`."""

    apply: Callable[..., Tensor]
    compute: Callable[..., Tensor]
    back: Callable[..., tuple[Any, ...]]


def _step_back(function: Pair, gradient: Tensor, *arguments: Any) -> Tensor:
    """One step of a backward pass: recorded where gradients are, else without autograd's cost."""
    recorded = torch.is_grad_enabled() and not is_compiling()
    return (function.apply if recorded else function.compute)(gradient, *arguments)


def _pair(name: str, compute: Callable[..., Tensor], back: Callable[..., tuple[Any, ...]]) -> Pair:
    """Returns a differentiable function ``compute(tensor, *arguments)``.

    back: from the arguments to the function whose forward is the way back, and its arguments.
    """

    # dynamo takes a context away where the number of parameters is that of the arguments after it.
    def forward(*given: Any) -> Tensor:
        ctx, tensor, *arguments = given
        ctx.arguments = arguments
        if not is_compiling():
            ctx.set_materialize_grads(False)  # where nothing comes back nothing is sent
        made: Tensor = pair.compute(tensor, *arguments)
        return made.view_as(made) if made is tensor else made

    def backward(ctx: Any, gradient: Tensor | None) -> tuple[Any, ...]:
        if gradient is None:
            return None, *[None] * len(ctx.arguments)
        function, *arguments = back(*ctx.arguments)
        return _step_back(function, gradient, *arguments), *[None] * len(ctx.arguments)

    backward.__code__ = backward.__code__.replace(co_qualname=f"{name}.backward")  # errors show it
    methods: dict[str, Any] = {"compute": compute, "back": back}
    methods |= {"forward": forward, "backward": backward}
    metaclass: Any = type(Function)
    members = {key: staticmethod(method) for key, method in methods.items()}
    pair: Pair = metaclass(name, (Function,), members)
    return pair


def _same(tensor: Tensor, *_: Any) -> Tensor:
    return tensor


def _summed(tensor: Tensor, end: Communicator, *_: Any) -> Tensor:
    return end.all_reduce(tensor.contiguous())


def _divided(tensor: Tensor, end: Communicator) -> Tensor:
    return tensor / end.size


def _scaled(tensor: Tensor, end: Communicator) -> Tensor:
    return tensor * end.size


def _sliced(tensor: Tensor, shard: Shard, end: Communicator) -> Tensor:
    part = slice_part(tensor, shard, end.rank, end.size)
    # Never a view of the argument: what comes next may write to it.
    return part.clone(memory_format=torch.contiguous_format)


def _gathered(tensor: Tensor, shard: Shard, end: Communicator, *_: Any) -> Tensor:
    return join_parts(end.all_gather(filled_up(tensor, shard, end.size).contiguous()), shard)


class Begun:
    """What waits, once, for rows that have begun to be gathered, and keeps nothing of them then:
    autograd keeps it for as long as the result has a gradient.
    """

    __slots__ = ("_wait",)

    def __init__(self, wait: Callable[[], Tensor]) -> None:
        self._wait: Callable[[], Tensor] | None = wait

    def rows(self) -> Tensor:
        wait, self._wait = self._wait, None
        assert wait is not None, "rows are taken once"
        return wait()


def _gathered_late(tensor: Tensor, begun: Begun, shard: Shard, *_: Any) -> Tensor:
    return join_parts(begun.rows(), shard)


def _announced(tensor: Tensor, shard: Shard, end: Communicator) -> Tensor:
    """A tensor of the gathered shape, without its memory: the numbers come later."""
    part = filled_up(torch.empty(tensor.shape, device="meta"), shard, end.size)
    shape = join_parts(part.new_empty((end.size, *part.shape)), shard).shape
    return tensor.new_empty_strided(shape, (0,) * len(shape))


def _scattered(tensor: Tensor, shard: Shard, end: Communicator) -> Tensor:
    part = end.reduce_scatter(cut_rows(tensor, shard, end.size).contiguous())
    return cut_off(part, shard, end.rank, end.size)


def _exchanged(tensor: Tensor, source: Shard, target: Shard, end: Communicator) -> Tensor:
    given = cut_rows(filled_up(tensor, source, end.size), target, end.size)
    made = join_parts(end.all_to_all(given.contiguous()), source)
    return cut_off(made, target, end.rank, end.size)


def _kept(tensor: Tensor, reduction: Reduction, end: Communicator) -> Tensor:
    if end.rank and reduction in (Reduction.SUM, Reduction.PROD):
        return torch.full_like(tensor, neutral(reduction, tensor.dtype))
    return tensor.clone()


def _inserted(tensor: Tensor, shard: Shard, reduction: Reduction, end: Communicator) -> Tensor:
    tensor = filled_up(tensor, shard, end.size)
    rows = tensor.new_full((end.size, *tensor.shape), neutral(reduction, tensor.dtype))
    rows[end.rank] = tensor
    return join_parts(rows, shard)


def _first(tensor: Tensor, end: Communicator) -> Tensor:
    return end.broadcast(tensor.contiguous(), 0)


def _kept_first(tensor: Tensor, end: Communicator) -> Tensor:
    return torch.zeros_like(tensor) if end.rank else tensor.clone()


def _back_of_sum(end: Communicator, shared: bool) -> tuple[Any, ...]:
    return (AllReduce, end, True) if shared else (ShareGradient, end)


def _back_of_gather(shard: Shard, end: Communicator, shared: bool) -> tuple[Any, ...]:
    return (ReduceScatter if shared else Slice), shard, end


def _back_of_keep(reduction: Reduction, end: Communicator) -> tuple[Any, ...]:
    match reduction:
        case Reduction.SUM:
            return DivideGradient, end
        case Reduction.AVG:
            return Scale, end
        case Reduction.PROD:
            return TakeFirst, end
        case _:
            return AllReduce, end, False


# P(sum) -> R; R -> R, used or made by sharded work; R -> P(sum), an equal summand on every rank
AllReduce: Pair = _pair("AllReduce", _summed, _back_of_sum)
ShareGradient: Pair = _pair("ShareGradient", _same, lambda end: (AllReduce, end, False))
DivideGradient: Pair = _pair("DivideGradient", _same, lambda end: (Divide, end))
Divide: Pair = _pair("Divide", _divided, lambda end: (DivideGradient, end))

# S -> R, begun already, announced, or neither; R -> S; P(sum) -> S; S(i) -> S(j)
Gather: Pair = _pair("Gather", _gathered, _back_of_gather)
GatherBegun: Pair = _pair("GatherBegun", _gathered_late, lambda _, shard, end: (Slice, shard, end))
GatherAnnounced: Pair = _pair("GatherAnnounced", _announced, lambda shard, end: (Slice, shard, end))
Slice: Pair = _pair("Slice", _sliced, lambda shard, end: (Gather, shard, end, False))
ReduceScatter: Pair = _pair(
    "ReduceScatter", _scattered, lambda shard, end: (Gather, shard, end, True)
)
Exchange: Pair = _pair(
    "Exchange", _exchanged, lambda source, target, end: (Exchange, target, source, end)
)

# R -> P: rank 0 keeps a summand or a factor, the others the neutral element; of a maximum, a
# minimum or an average all ranks keep it. S -> P: each part in its place among neutral elements.
Keep: Pair = _pair("Keep", _kept, _back_of_keep)
Insert: Pair = _pair("Insert", _inserted, lambda shard, _, end: (TakePart, shard, end))

# What only goes back: of Keep, of an average and of a product, and of Insert.
Scale: Pair = _pair("Scale", _scaled, lambda end: (Keep, Reduction.AVG, end))
TakeFirst: Pair = _pair("TakeFirst", _first, lambda end: (KeepFirst, end))
KeepFirst: Pair = _pair("KeepFirst", _kept_first, lambda end: (TakeFirst, end))
TakePart: Pair = _pair("TakePart", _sliced, lambda shard, end: (Insert, shard, Reduction.SUM, end))


class JoinExtreme(Function):
    """P(max) or P(min) -> R: ranks that tie share the gradient evenly."""

    @staticmethod
    def forward(
        ctx: Any, tensor: Tensor, reduction: Reduction, end: Communicator, shared: bool
    ) -> Tensor:
        joined = end.all_reduce(tensor.contiguous(), reduction)
        ctx.arguments = end, shared
        ctx.save_for_backward(tensor, joined)
        return joined

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        tensor, joined = ctx.saved_tensors
        function, *arguments = _back_of_sum(*ctx.arguments)
        gradient = _step_back(function, gradient, *arguments)
        wins = (tensor == joined).to(gradient.dtype)
        return gradient * wins / ctx.arguments[0].all_reduce(wins), None, None, None


class JoinProduct(Function):
    """P(prod) -> R: the gradient of a factor is the product of the others, zeros included."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, end: Communicator, shared: bool) -> Tensor:
        factors = end.all_gather(tensor.contiguous())
        ctx.arguments = end, shared
        ctx.save_for_backward(tensor, products_of_others(factors)[end.rank])
        return factors.prod(0, dtype=tensor.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        end = ctx.arguments[0]
        tensor, others = ctx.saved_tensors
        if torch.is_grad_enabled() and not is_compiling():
            factors = Gather.apply(tensor.unsqueeze(0), Shard(0), end, True)
            others = products_of_others(factors)[end.rank]
        function, *arguments = _back_of_sum(*ctx.arguments)
        return _step_back(function, gradient, *arguments) * others.conj(), None, None


def pair_of(
    source: Placement, target: Placement, end: Communicator, shared: bool
) -> tuple[Any, ...] | None:
    """Returns the function that converts, and its arguments; None where it takes several."""
    match source, target:
        case Replicate(), Replicate() | Grouped():
            return ShareGradient, end
        case Shard(), Grouped():
            return Gather, source, end, True
        case Replicate(), Shard():
            return Slice, target, end
        case Replicate(), Partial(reduction):
            return Keep, reduction, end
        case Shard(), Replicate():
            return Gather, source, end, shared
        case Shard(), Shard() if source.dim != target.dim:
            return Exchange, source, target, end
        case Shard(), Partial(reduction) if reduction is not Reduction.AVG:
            return Insert, source, reduction, end
        case Partial(Reduction.SUM), Replicate():
            return AllReduce, end, shared
        case Partial(Reduction.MAX | Reduction.MIN as reduction), Replicate():
            return JoinExtreme, reduction, end, shared
        case Partial(Reduction.PROD), Replicate():
            return JoinProduct, end, shared
        case Partial(Reduction.SUM), Shard():
            return ReduceScatter, target, end
        case _:
            return None


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
    if source == target and not (shared_gradient and isinstance(source, Replicate)):
        return tensor
    pair = pair_of(source, target, communicator, shared_gradient)
    if pair is not None:
        function, *arguments = pair
        converted: Tensor = function.apply(tensor, *arguments)
        return converted
    if source == Partial(Reduction.AVG) and not isinstance(target, Partial):
        size, total = communicator.size, Partial(Reduction.SUM)
        if tensor.dtype is torch.float16:  # the sum may not fit where the average does
            tensor, size = tensor / size, 1
        summed = convert(tensor, total, target, communicator, shared_gradient=shared_gradient)
        return summed / size if size > 1 else summed
    whole = convert(tensor, source, Replicate(), communicator)
    return convert(whole, Replicate(), target, communicator)


def made_by_shards(tensor: Tensor, communicator: Communicator) -> Tensor:
    """Returns a replicated output of sharded work as a value whose gradient is whole.

    The shares of the gradient that the ranks' programs send back for their inputs add up.
    """
    return DivideGradient.apply(tensor, communicator)


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


@dataclass(frozen=True, slots=True)
class MeshPart:
    """What a rank's own implementation of an operator knows of the other parts.

        part.index, part.count         this part's place among all parts of the operator
        part["n"].count                the same for the split of one identifier; 1 without a split
        part.all_reduce(kept)          how many targets are kept on all ranks together

    splits: of the operator, (identifier, communicator) each, outer axis first. dealt: of the
    identifiers that are cut into unequal parts their length, and what the parts are multiples of.
    See `dimsolve.partition.rules.rule` for the rules that use it.
    """

    splits: tuple[tuple[str, Communicator], ...] = ()
    dealt: tuple[tuple[str, int, int], ...] = ()

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
        # of a list: torch.compile cannot look into what takes a generator
        return prod([communicator.size for _, communicator in self.splits])

    def __getitem__(self, name: str) -> MeshPart:
        splits = tuple([split for split in self.splits if split[0] == name])
        return MeshPart(splits, tuple([each for each in self.dealt if each[0] == name]))

    def start(self, length: int) -> int:
        """Where the part begins, of which this rank has so much."""
        if not self.dealt:
            return self.index * length
        ((_, of, unit),) = self.dealt
        return run_of(Shard(0, of=of, unit=unit), self.index, self.count)[0] * unit

    def whole(self, length: int) -> int:
        """How long the whole is, of which this rank has so much."""
        return self.dealt[0][1] if self.dealt else self.count * length

    def all_reduce(self, tensor: Tensor, reduction: str = "sum") -> Tensor:
        """Returns the sum, max or min over all parts; see `dimsolve.partition.rules.rule.Part`."""
        if reduction not in ("sum", "max", "min"):
            raise _UNKNOWN_REDUCTION(reduction=reduction)
        source = Partial(Reduction(reduction))
        for _, communicator in self.splits:
            tensor = convert(tensor, source, Replicate(), communicator, shared_gradient=True)
        return tensor

    def routes(self, to: Tensor) -> RankRoutes:
        """Returns the ways of rows to the parts; see `dimsolve.partition.rules.rule.Part`."""
        return RankRoutes(to, [communicator for _, communicator in self.splits])


def part_of(
    splits: Sequence[tuple[str, Communicator]], dealt: Sequence[tuple[str, int, int]] = ()
) -> MeshPart:
    """Returns the part of a rank whose operator is split so."""
    return MeshPart(tuple(splits), tuple(dealt))
