"""The collectives as differentiable functions: one class per pair of forward and backward.

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
    Keep              rank 0 keeps it   identity         R -> P(sum); for P(max) all keep it
    Insert            into zeros        slice            S -> P(sum)
    JoinExtreme       max or min        to the winners, evenly shared
    JoinProduct       product           times the product of the others
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from dimsolve.partition.placement import Reduction, Shard

from .communicator import Communicator
from .sharding import cut_rows, join_parts, neutral, products_of_others, slice_part


def split_rows(tensor: Tensor, shard: Shard, count: int) -> Tensor:
    """Returns (count, ...) whose row i is part i, in one piece of memory."""
    return cut_rows(tensor, shard, count).contiguous()


def _sliced(tensor: Tensor, shard: Shard, communicator: Communicator) -> Tensor:
    part = slice_part(tensor, shard, communicator.rank, communicator.size)
    # Never a view of the argument: what comes next may write to it.
    return part.clone(memory_format=torch.contiguous_format)


def _gathered(tensor: Tensor, shard: Shard, communicator: Communicator) -> Tensor:
    return join_parts(communicator.all_gather(tensor.contiguous()), shard)


def _scattered(tensor: Tensor, shard: Shard, communicator: Communicator) -> Tensor:
    return communicator.reduce_scatter(split_rows(tensor, shard, communicator.size))


class AllReduce(Function):
    """P(sum) -> R."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, communicator: Communicator, shared: bool) -> Tensor:
        ctx.communicator = communicator if shared else None
        return communicator.all_reduce(tensor.contiguous())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        if ctx.communicator is not None:
            gradient = ctx.communicator.all_reduce(gradient.contiguous())
        return gradient, None, None


class ShareGradient(Function):
    """R -> R, used by sharded work: each rank computes a share of the gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, communicator: Communicator) -> Tensor:
        ctx.communicator = communicator
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return ctx.communicator.all_reduce(gradient.contiguous()), None


class DivideGradient(Function):
    """R -> R, made by sharded work: each rank's making of it has a share of the gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, communicator: Communicator) -> Tensor:
        ctx.size = communicator.size
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return gradient / ctx.size, None


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
        back = _scattered if shared else _sliced
        return back(gradient, shard, communicator), None, None, None


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
        return _sliced(gradient, *ctx.given), None, None, None


class Slice(Function):
    """R -> S."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, shard: Shard, communicator: Communicator) -> Tensor:
        ctx.given = shard, communicator
        return _sliced(tensor, shard, communicator)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return _gathered(gradient, *ctx.given), None, None


class ReduceScatter(Function):
    """P(sum) -> S."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, shard: Shard, communicator: Communicator) -> Tensor:
        ctx.given = shard, communicator
        return _scattered(tensor, shard, communicator)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return _gathered(gradient, *ctx.given), None, None


class Exchange(Function):
    """S(i) -> S(j): every rank sends every other the part of its part."""

    @staticmethod
    def forward(
        ctx: Any, tensor: Tensor, source: Shard, target: Shard, communicator: Communicator
    ) -> Tensor:
        ctx.given = target, source, communicator
        rows = communicator.all_to_all(split_rows(tensor, target, communicator.size))
        return join_parts(rows, source)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        target, source, communicator = ctx.given
        back: Any = Exchange.apply
        return back(gradient, target, source, communicator), None, None, None


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
                whole = gradient
            case Reduction.AVG:
                whole = gradient * communicator.size
            case Reduction.PROD:
                whole = communicator.broadcast(gradient.contiguous(), 0)
            case _:
                whole = communicator.all_reduce(gradient.contiguous())
        return whole, None, None


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
        return _sliced(gradient, *ctx.given), None, None, None


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
        if shared:
            gradient = communicator.all_reduce(gradient.contiguous())
        wins = (tensor == joined).to(gradient.dtype)
        return gradient * wins / communicator.all_reduce(wins), None, None, None


class JoinProduct(Function):
    """P(prod) -> R: the gradient of a factor is the product of the others, zeros included."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, communicator: Communicator, shared: bool) -> Tensor:
        factors = communicator.all_gather(tensor.contiguous())
        ctx.given = communicator, shared
        ctx.save_for_backward(products_of_others(factors)[communicator.rank])
        return factors.prod(0, dtype=tensor.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        communicator, shared = ctx.given
        (others,) = ctx.saved_tensors
        if shared:
            gradient = communicator.all_reduce(gradient.contiguous())
        return gradient * others.conj(), None, None
