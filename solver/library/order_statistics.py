"""Order statistics: the greatest, the median, the k-th smallest, and where they stand.

max(x)               a+ b+ -> ()         P(max): of values alone the parts can be joined
max(x, -1)           a b^ -> a, a        a place among all elements is none among a part's
quantile(x, q, 0)    a^ b, c -> c b      a tensor of quantiles comes first

Only the extremes of values are reductions; everything else must see the dimension whole.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dimsolve.ir.operator import Declaration, ReductionName

from . import errors
from .dtypes import dtype_of
from .entry import Form, entry
from .needs import GE, LE, need
from .reductions import reduced
from .samples import between, distinct, example, t
from .values import axis, dims_of, is_dim, is_tensor
from .writing import Names


def _chosen(reduction: ReductionName) -> Form:
    """Returns the declaration of max, min: of two tensors, of all elements, or with indices along
    one dimension.
    """

    def declare(
        input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None
    ) -> Declaration:
        from .pointwise import Pointwise

        if is_tensor(dim) or other is not None:
            return Pointwise(("input", "other"), 2)(input, other if other is not None else dim)
        dtype = dtype_of(input)
        if dim is None:
            return reduced(input, None, False, reduction=reduction, dtype=dtype)
        found = reduced(
            input, axis(dim, len(dims_of(input))), keepdim, mark="^", dtype=dtype, outputs=2
        )
        return replace(found, dtypes=(dtype, "int64"))

    return declare


def _index(input: Any, dim: Any = None, keepdim: bool = False) -> Declaration:
    """Returns the declaration of argmax, argmin: a place among all elements."""
    return reduced(input, dim, keepdim, mark="^", dtype="int64")


def _pair(input: Any, dim: Any = None, keepdim: bool = False) -> Declaration:
    """Returns the declaration of median, nanmedian, mode: one result, or values and indices along a
    dimension.
    """
    dtype = dtype_of(input)
    if dim is None:
        return reduced(input, None, False, mark="^", dtype=dtype)
    return replace(reduced(input, dim, keepdim, mark="^", outputs=2), dtypes=(dtype, "int64"))


def mode(input: Any, dim: int = -1, keepdim: bool = False) -> Declaration:
    """Returns the declaration of the most frequent value and its place."""
    return _pair(input, dim, keepdim)


def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Declaration:
    """Returns the declaration of the k-th smallest value and its place."""
    dims = dims_of(input)
    length = dims[axis(dim, len(dims))] if dims else 1
    if length is not None and is_dim(k):
        refusal = errors.out_of_range("k", k, length)
        need(k, GE, 1, refusal)
        need(k, LE, length, refusal)
    return _pair(input, dim, keepdim)


def aminmax(input: Any, *, dim: Any = None, keepdim: bool = False) -> Declaration:
    """Returns the declaration of both extremes: one reduction cannot join the two outputs."""
    return reduced(input, dim, keepdim, mark="^", dtype=dtype_of(input), outputs=2)


def quantile(
    input: Any, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Declaration:
    """Returns the declaration of quantiles; a tensor of them comes first in the result."""
    found = reduced(input, dim, keepdim, mark="^", dtype=dtype_of(input))
    if not is_tensor(q) or not dims_of(q):
        return found
    left, right = found.annotation.split(" -> ")
    names = Names(set(left.replace("^", "").split(" ")))
    word = names.one()
    target = word if right == "()" else f"{word} {right}"
    return replace(found, annotation=f"{left}, {word} -> {target}", inputs=(input, q), frozen="")


_ONE_DIM = (example(distinct(12, 6), -1), example(distinct(2, 12, 6), 1, keepdim=True))

ENTRIES = (
    entry(
        "torch.max",
        _chosen("max"),
        example(distinct(12, 6)),
        *_ONE_DIM,
        example(t(12, 6), t(12, 6)),
    ),
    entry(
        "torch.min", _chosen("min"), example(distinct(12, 6)), *_ONE_DIM, example(t(12, 6), t(6))
    ),
    entry(
        "torch.argmax",
        _index,
        example(distinct(12, 6)),
        example(distinct(12, 6), keepdim=True),
        *_ONE_DIM,
    ),
    entry("torch.argmin", _index, example(distinct(12, 6)), *_ONE_DIM),
    entry("torch.median", _pair, example(distinct(12, 5)), *_ONE_DIM),
    entry("torch.nanmedian", _pair, example(distinct(12, 5)), *_ONE_DIM),
    entry("torch.mode", mode, *_ONE_DIM),
    entry(
        "torch.kthvalue",
        kthvalue,
        example(distinct(12, 6), 2),
        example(distinct(12, 6), 3, 0, keepdim=True),
    ),
    entry("torch.aminmax", aminmax, example(distinct(12, 6)), example(distinct(12, 6), dim=-1)),
    entry(
        "torch.quantile",
        quantile,
        example(distinct(12, 6), 0.3, -1),
        example(distinct(12, 6), between(0.1, 0.9, 2), 0),
    ),
)
