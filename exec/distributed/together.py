"""Several tensors that go the same way, in one collective.

    q (4, 8), k (4, 2), v (4, 2): S(1) -> S(0) over 2 ranks      one all-to-all of (2, 24)

    all-to-all        rows of all parts side by side, a row for each rank
    all-gather        the parts one after another
    reduce-scatter    rows of all parts side by side

These lay out anew what they send and what they get, so that putting tensors together costs nothing
beside; an all-reduce works in place, and goes alone. Gradients come back together too, those that
there are: to what all ranks' losses leave out none comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.compiler import is_compiling

from dimsolve.partition.placement import Placement, Shard

from .collectives import Exchange, Gather, Pair, ReduceScatter, pair_of
from .communicator import Communicator
from .sharding import cut_off, cut_rows, filled_up, join_parts


def goes_together(
    source: Placement, target: Placement, end: Communicator, *, shared_gradient: bool = False
) -> bool:
    """Returns whether tensors that go this way can go in one collective."""
    pair = pair_of(source, target, end, shared_gradient)
    return pair is not None and pair[0] in _WAYS


def convert_together(
    tensors: Sequence[Tensor],
    source: Placement,
    target: Placement,
    communicator: Communicator,
    *,
    shared_gradient: bool = False,
) -> tuple[Tensor, ...]:
    """Returns what `dimsolve.exec.distributed.collectives.convert` makes of each of the tensors.

    The way must be one of those that go together. Tensors of several dtypes go one by one. What
    needs no gradient is sent with the others and comes back alone: without one.
    """
    pair = pair_of(source, target, communicator, shared_gradient)
    assert pair is not None
    function, *arguments = pair
    return together(function, tuple(arguments), tensors)


def together(
    function: Pair, arguments: tuple[Any, ...], tensors: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Returns what a pair's function makes of each of the tensors."""
    if is_compiling():
        return tuple([function.apply(tensor, *arguments) for tensor in tensors])
    made: tuple[Tensor, ...] = Together.apply(function, arguments, *tensors)
    return made


class Together(Function):
    """A pair's function of several tensors; the way back is that of the pair, for those that need
    a gradient.
    """

    @staticmethod
    def forward(ctx: Any, function: Pair, arguments: tuple[Any, ...], *tensors: Tensor) -> Any:
        ctx.way = function, arguments
        ctx.set_materialize_grads(False)  # where nothing comes back nothing is sent
        made = _all(function, arguments, tensors)
        needed = ctx.needs_input_grad[2:]
        ctx.mark_non_differentiable(*[x for x, need in zip(made, needed, strict=True) if not need])
        return made

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        function, arguments = ctx.way
        wanted = zip(gradients, ctx.needs_input_grad[2:], strict=True)
        needed = [need and x is not None for x, need in wanted]
        given = [x for x, need in zip(gradients, needed, strict=True) if need and x is not None]
        if not given:
            return None, None, *[None] * len(needed)
        back, *rest = function.back(*arguments)
        made: Iterator[Tensor]
        if torch.is_grad_enabled() and back in _WAYS:
            made = iter(together(back, tuple(rest), given))
        elif torch.is_grad_enabled():
            made = iter([back.apply(gradient, *rest) for gradient in given])
        else:
            made = iter(_all(back, tuple(rest), given))
        return None, None, *[next(made) if need else None for need in needed]


def _all(function: Pair, arguments: tuple[Any, ...], tensors: Sequence[Tensor]) -> tuple[Any, ...]:
    if function not in _WAYS or len({tensor.dtype for tensor in tensors}) > 1:
        return tuple([function.compute(tensor, *arguments) for tensor in tensors])
    return _WAYS[function](tensors, *arguments)


def _exchanged(
    tensors: Sequence[Tensor], source: Shard, target: Shard, end: Communicator
) -> tuple[Tensor, ...]:
    given = [cut_rows(filled_up(x, source, end.size), target, end.size) for x in tensors]
    got = _apart(end.all_to_all(_beside(given)), given)
    return tuple([_own(cut_off(join_parts(x, source), target, end.rank, end.size)) for x in got])


def _gathered(
    tensors: Sequence[Tensor], shard: Shard, end: Communicator, *_: Any
) -> tuple[Tensor, ...]:
    given = [filled_up(x, shard, end.size).unsqueeze(0) for x in tensors]
    got = _apart(end.all_gather(_beside(given)[0]), given)
    return tuple([_own(join_parts(x, shard)) for x in got])


def _scattered(tensors: Sequence[Tensor], shard: Shard, end: Communicator) -> tuple[Tensor, ...]:
    given = [cut_rows(x, shard, end.size) for x in tensors]
    got = _apart(end.reduce_scatter(_beside(given)).unsqueeze(0), given)
    return tuple([_own(cut_off(x[0], shard, end.rank, end.size)) for x in got])


_WAYS: dict[Pair, Callable[..., tuple[Tensor, ...]]] = {
    Exchange: _exchanged,
    Gather: _gathered,
    ReduceScatter: _scattered,
}


def _beside(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors (rows, ...) side by side: (rows, all their numbers of a row)."""
    lengths = [prod(x.shape[1:]) for x in tensors]
    rows = tensors[0].shape[0]
    made = tensors[0].new_empty((rows, sum(lengths)))
    for x, place in zip(tensors, made.split(lengths, 1), strict=True):
        place.view(x.shape).copy_(x)
    return made


def _apart(made: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """The tensors again that lie side by side, each with as many rows as there are now."""
    places = made.split([prod(x.shape[1:]) for x in like], 1)
    return [place.view(made.shape[0], *x.shape[1:]) for place, x in zip(places, like, strict=True)]


def _own(tensor: Tensor) -> Tensor:
    """The tensor in memory of its own: what comes next may write to it, or outlive the others."""
    # In inference mode a view does not say that it is one.
    alone = not tensor._is_view() and tensor.untyped_storage().nbytes() == tensor.nbytes
    return tensor if alone else tensor.clone(memory_format=torch.contiguous_format)
