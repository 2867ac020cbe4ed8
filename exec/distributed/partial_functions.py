"""The differentiable functions of partial values: made of whole ones or parts, and joined.

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

The conventions are those of `dimsolve.exec.distributed.collective_functions`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.compiler import is_compiling

from dimsolve.partition.placement import Reduction, Shard

from .collective_functions import (
    AllReduce,
    DivideGradient,
    Gather,
    ShareGradient,
    backward_step,
    same,
    sliced,
    summed,
)
from .communicator import Communicator
from .sharding import join_parts, neutral, products_of_others


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
