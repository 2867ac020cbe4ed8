"""What ranks that have parts of a tensor compute of the whole of it, with torch's own gradients.

    Extreme      amax, amin, max, min         elements that tie share the gradient
    Norm         vector_norm of any order     torch's formula at zeros, NaN and infinity too
    Variance     var, std                     deviations from the mean of all ranks
    Written      scatter_reduce, index_reduce what ties shares, with what was there before

Autograd through the sums would give other values where torch's formulas meet 0, NaN or infinity:
the derivative of ``abs(x) ** 0.5`` is infinite at 0, torch's gradient of the norm is 0 there. So
each backward is the formula of torch (``FunctionsManual.cpp``), with counts, norms and means of all
ranks. A gradient that comes back is a rank's share: the shares are summed first. Where gradients
are recorded the formulas are too, so derivatives of higher order are right.

This file needs torch; rules import it when they run.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from .rule import Part

Dims = tuple[int, ...]

WIDE = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
"""In which dtype torch adds up numbers of few bits; others in their own."""


def widened(tensor: Tensor) -> Tensor:
    """Returns the tensor in the dtype that torch adds up in."""
    return tensor.to(WIDE.get(tensor.dtype, tensor.dtype))


def has(x: Tensor, dims: Dims) -> bool:
    """Whether there is anything along these dimensions, all where none is named."""
    return all(x.shape[dim] for dim in dims or range(x.dim()))


def least(x: Tensor, dims: Dims, largest: bool) -> Tensor:
    """What the extremes of nothing are where others have some: below all that is, or above. The
    dimensions are left with length 1.
    """
    kept = [dim % x.dim() for dim in dims or range(x.dim())]
    shape = [1 if dim in kept else length for dim, length in enumerate(x.shape)]
    if x.is_floating_point():
        return x.new_full(shape, -inf if largest else inf)
    if x.dtype is torch.bool:
        return x.new_full(shape, not largest)
    limits = torch.iinfo(x.dtype)
    return x.new_full(shape, limits.min if largest else limits.max)


def extreme(part: Part, x: Tensor, dims: Dims, keepdim: bool, largest: bool, of_all: bool) -> Any:
    """Returns the largest or smallest elements. of_all: those of ``max()`` and ``min()``, whose
    gradient goes to NaN where there is one; that of amax and amin is NaN everywhere then.
    """
    found = _call(Extreme, x, part, dims, largest, of_all)
    return found if keepdim or not dims else found.squeeze(dims)


class Extreme(Function):
    """(a, b) over 0 -> (1, b)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, part: Part, dims: Dims, largest: bool, of_all: bool) -> Tensor:
        find = torch.amax if largest else torch.amin
        local = find(x, dims, keepdim=True) if has(x, dims) else least(x, dims, largest)
        found: Tensor = part.all_reduce(local, "max" if largest else "min")
        ctx.given = part, dims, of_all
        ctx.save_for_backward(x, found)
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        part, dims, of_all = ctx.given
        x, found = (tensor.detach() for tensor in ctx.saved_tensors)
        gradient = part.all_reduce(gradient)
        chosen = x == found
        if of_all:
            chosen = chosen | (x.isnan() & found.isnan())
            share = gradient / _counted(part, chosen, dims)
            return share.where(chosen, 0), None, None, None, None
        return gradient * chosen / _counted(part, chosen, dims), None, None, None, None


def _counted(part: Part, chosen: Tensor, dims: Dims) -> Tensor:
    count: Tensor = part.all_reduce(chosen.sum(dims, keepdim=True))
    return count


def vector_norm(part: Part, x: Tensor, order: float, dims: Dims, keepdim: bool) -> Tensor:
    """Returns the norm over dims, in the real dtype of x."""
    found = _call(Norm, x, part, order, dims)
    return found if keepdim or not dims else found.squeeze(dims)


class Norm(Function):
    """(a, b) over 0 -> (1, b)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, part: Part, order: float, dims: Dims) -> Tensor:
        if order in (inf, -inf):
            if has(x, dims):
                local = torch.linalg.vector_norm(x, order, dims, keepdim=True)
            else:
                local = least(x.abs(), dims, order > 0)
            norm = part.all_reduce(local, "max" if order > 0 else "min")
        else:
            wide = widened(x).abs()
            powers = wide * wide if order == 2 else wide**order
            total = part.all_reduce(powers.sum(dims, keepdim=True))
            root = total.sqrt() if order == 2 else total ** (1 / order)
            norm = root.to(x.abs().dtype)
        ctx.given = part, order, dims
        ctx.save_for_backward(x, norm)
        result: Tensor = norm
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        part, order, dims = ctx.given
        x, norm = ctx.saved_tensors
        gradient = part.all_reduce(gradient)
        if order in (inf, -inf):
            size = x.detach().abs()
            chosen = (size == norm.detach()) | size.isnan()
            share = gradient / _counted(part, chosen, dims)
            return x.sgn() * (share * chosen), None, None, None
        if order == 2:
            return gradient * (x / norm).masked_fill(norm == 0, 0), None, None, None
        if order < 1:
            scaled = x.sgn() * _power(x, order - 1)
            return scaled * gradient * norm ** (1 - order), None, None, None
        scaled = x.sgn() * x.abs() ** (order - 1) if order < 2 else x * x.abs() ** (order - 2)
        return scaled * (gradient / norm ** (order - 1)).masked_fill(norm == 0, 0), None, None, None


def _power(x: Tensor, exponent: float) -> Tensor:
    """A negative power of sizes, 0 of zeros, whose own derivative is 0 of zeros too."""
    zero = x == 0
    return (x.abs().masked_fill(zero, 1) ** exponent).masked_fill(zero, 0)


def variance(
    part: Part, x: Tensor, dims: Dims, correction: float, of_all: bool, count: int
) -> Tensor:
    """Returns the variance over dims, which stay with length 1, in the dtype that torch adds up
    in. of_all: that of ``var()`` without dimensions. count: how many all ranks have over dims.
    """
    found: Tensor = _call(Variance, widened(x), part, dims, correction, of_all, count)
    return found


class Variance(Function):
    """(a, b) over 0 -> (1, b)."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, part: Part, dims: Dims, correction: float, of_all: bool, count: int
    ) -> Tensor:
        mean = part.all_reduce(x.sum(dims, keepdim=True)) / count
        ctx.given = part, dims, count, count - correction, of_all
        ctx.save_for_backward(x, mean)
        centred = x - mean
        squares = (centred * centred.conj()).real if x.is_complex() else centred * centred
        found: Tensor = part.all_reduce(squares.sum(dims, keepdim=True))
        return found / max(count - correction, 0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        part, dims, count, freedom, of_all = ctx.given
        x, mean = ctx.saved_tensors
        if torch.is_grad_enabled():
            mean = part.all_reduce(x.sum(dims, keepdim=True)) / count
        gradient = part.all_reduce(gradient)
        if of_all and freedom <= 0:
            limits = torch.where(x == mean, torch.nan, inf).to(gradient.dtype)
            return gradient * limits, None, None, None, None, None
        factor = 2 / freedom if freedom else inf
        return factor * gradient * (x - mean), None, None, None, None, None


def written(
    part: Part, x: Tensor, dim: int, index: Tensor, src: Tensor, largest: bool, include_self: bool
) -> Tensor:
    """Returns the largest or smallest of what all ranks write to each place of x, (a, b), from
    src, (a, c), at the places of index, (a, c). include_self: of that and what x has there.
    """
    # gather reads an expanded int32 index, which index_reduce gives, beside its places
    return _call(Written, x, src, part, dim, index.long(), largest, include_self)


class Written(Function):
    """(a, b), (a, c) -> (a, b)."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        src: Tensor,
        part: Part,
        dim: int,
        index: Tensor,
        largest: bool,
        include_self: bool,
    ) -> Tensor:
        before = x if include_self else least(x, (), largest).expand_as(x)
        own = before.scatter_reduce(dim, index, src, "amax" if largest else "amin")
        found: Tensor = part.all_reduce(own, "max" if largest else "min")
        if not include_self:
            here = torch.zeros_like(x, dtype=torch.int64).scatter(dim, index, 1)
            ctx.reached = part.all_reduce(here, "max") > 0
            found = found.where(ctx.reached, x)
        ctx.given = part, dim, include_self
        ctx.save_for_backward(x, src, index, found)
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        part, dim, include_self = ctx.given
        x, src, index, found = (tensor.detach() for tensor in ctx.saved_tensors)
        gradient = part.all_reduce(gradient)
        kept, chosen = x == found, src == found.gather(dim, index)
        own = torch.zeros_like(found, dtype=torch.int64).scatter_add(dim, index, chosen.long())
        share = gradient / (kept + part.all_reduce(own))
        # Every rank has x: one of them says what is its gradient.
        of_x = share * kept if part.index == 0 else torch.zeros_like(share)
        if not include_self:
            of_x = of_x.masked_fill(ctx.reached, 0)
        return of_x, chosen * share.gather(dim, index), None, None, None, None, None


def _call(function: Any, *arguments: Any) -> Tensor:
    apply: Callable[..., Tensor] = function.apply
    return apply(*arguments)
