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
    Divide            divided by size   identity         the backward of DivideGradient

Those of partial values are in `dimsolve.exec.distributed.partial_functions`. Each backward is the
forward of another row, so where gradients are themselves recorded (``create_graph=True``) it goes
through that row's class, and derivatives of every order are right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.compiler import is_compiling

from dimsolve.partition.placement import Shard

from .communicator import Communicator
from .sharding import cut_rows, join_parts, slice_part


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
