"""Sorting, searching and running sums: the dimension itself stays whole, all others may be cut.

sort(x, -1)            a b^ -> a b^, a b^
topk(x, 3)             a b^ -> a c^, a c^        c=3
cumsum(x, 1)           a b^ c -> a b^ c
searchsorted(x, y)     a b^, a c -> a c
histc(x, 10, 0, 9)     a+ b+ -> c^               c=10, counts are summed
"""

from __future__ import annotations

from typing import Any

from dimsolve.ir.operator import Declaration

from . import errors
from .dtypes import dtype_name, dtype_of, summed
from .entry import Entry, entry
from .needs import LE, need
from .samples import distinct, example, t, whole
from .values import NotKnown, axis, dims_of, is_dim, is_tensor
from .writing import Names, annotation, length_word

_WHOLE = "every element depends on its place among all others"


def along(
    input: Any,
    dim: Any,
    dtypes: tuple[str | None, ...],
    *,
    linear: bool = False,
    length: Any = None,
) -> Declaration:
    """Returns the declaration of a function of whole rows; ``length`` is the new length of the
    dimension, where it changes.
    """
    dims = dims_of(input)
    names = Names()
    place = axis(dim, len(dims)) if dims else 0
    row = [names.one("^" if n == place else "") for n in range(len(dims))]
    target, arguments = list(row), {}
    if length is not None and dims:
        found: dict[str, Any] = {}
        target[place] = length_word(names, found, length)
        arguments = found
    return Declaration(
        annotation([row], [target] * len(dtypes)),
        (input,),
        arguments=arguments,
        dtypes=dtypes,
        linear=((0,),) if linear else (),
        frozen="" if len(dims) > 1 else _WHOLE,
        returns="tuple" if len(dtypes) > 1 else "tensor",
    )


def cumsum(input: Any, dim: int, *, dtype: Any = None) -> Declaration:
    """Returns the declaration of a running sum."""
    return along(input, dim, (dtype_name(dtype) or summed(dtype_of(input)),), linear=True)


def cumprod(input: Any, dim: int, *, dtype: Any = None) -> Declaration:
    """Returns the declaration of a running product."""
    return along(input, dim, (dtype_name(dtype) or summed(dtype_of(input)),))


def running(input: Any, dim: int) -> Declaration:
    """Returns the declaration of cummax, cummin: values and places."""
    return along(input, dim, (dtype_of(input), "int64"))


def logcumsumexp(input: Any, dim: int) -> Declaration:
    """Returns the declaration of a running logsumexp."""
    return along(input, dim, (dtype_of(input),))


def sort(input: Any, dim: int = -1, descending: bool = False, *, stable: Any = None) -> Declaration:
    """Returns the declaration of torch.sort: values and places."""
    return along(input, dim, (dtype_of(input), "int64"))


def argsort(
    input: Any, dim: int = -1, descending: bool = False, *, stable: Any = None
) -> Declaration:
    """Returns the declaration of torch.argsort."""
    return along(input, dim, ("int64",))


def msort(input: Any) -> Declaration:
    """Returns the declaration of a sort along dimension 0."""
    return along(input, 0, (dtype_of(input),))


def topk(
    input: Any, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Declaration:
    """Returns the declaration of the k largest elements and their places."""
    if not is_dim(k):
        raise NotKnown("k is not known")
    dims = dims_of(input)
    length = dims[axis(dim, len(dims))] if dims else 1
    if length is not None:
        need(k, LE, length, errors.out_of_range("k", k, length))
    return along(input, dim, (dtype_of(input), "int64"), length=k)


def trapezoid(y: Any, x: Any = None, *, dx: Any = 1.0, dim: int = -1) -> Declaration:
    """Returns the declaration of an integral along a dimension."""
    dims = dims_of(y)
    if x is not None and (not is_tensor(x) or dims_of(x) != dims):
        raise NotKnown("only places of the shape of the values are known of")
    names = Names()
    place = axis(dim, len(dims))
    row = [names.one("^" if n == place else "") for n in range(len(dims))]
    tensors = [y] if x is None else [y, x]
    return Declaration(
        annotation([row] * len(tensors), [[word for n, word in enumerate(row) if n != place]]),
        tuple(tensors),
        dtypes=(dtype_of(y),),
        linear=((0,),),
        frozen="" if len(dims) > 1 else _WHOLE,
    )


def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = 1.0, dim: int = -1) -> Declaration:
    """Returns the declaration of a running integral, one element shorter than the values."""
    dims = dims_of(y)
    length = dims[axis(dim, len(dims))]
    if x is not None or length is None:
        raise NotKnown("only values at equal distances are known of")
    return along(y, dim, (dtype_of(y),), linear=True, length=length - 1)


def renorm(input: Any, p: Any, dim: int, maxnorm: Any) -> Declaration:
    """Returns the declaration of slices along a dimension scaled down to a norm: only that
    dimension may be cut.
    """
    dims = dims_of(input)
    place = axis(dim, len(dims))
    names = Names()
    row = [names.one("" if n == place else "^") for n in range(len(dims))]
    return Declaration(annotation([row], [row]), (input,), dtypes=(dtype_of(input),))


_ROWS = (example(t(12, 6), 1), example(t(2, 12, 6), -1))
_DISTINCT = (example(distinct(12, 6)), example(distinct(2, 12, 6), 0))
_INDEXED = (example(distinct(12, 6), 1), example(distinct(2, 12, 6), 0))


def _entries() -> list[Entry]:
    return [
        entry("torch.cumsum", cumsum, *_ROWS, example(whole(9, 12, 6), 0)),
        entry("torch.cumprod", cumprod, *_ROWS),
        entry("torch.cummax", running, *_INDEXED),
        entry("torch.cummin", running, *_INDEXED),
        entry("torch.logcumsumexp", logcumsumexp, *_ROWS),
        entry("torch.sort", sort, *_DISTINCT),
        entry("torch.argsort", argsort, *_DISTINCT),
        entry("torch.msort", msort, example(distinct(6, 12))),
        entry("torch.topk", topk, example(distinct(12, 6), 3), example(distinct(6, 12), 2, 0)),
        entry("torch.trapezoid", trapezoid, example(t(12, 6)), example(t(6, 12), t(6, 12), dim=0)),
        entry(
            "torch.cumulative_trapezoid",
            cumulative_trapezoid,
            example(t(12, 6)),
            example(t(6, 12), dim=0),
        ),
        entry("torch.renorm", renorm, example(t(12, 6), 2, 0, 1.0)),
    ]


ENTRIES = tuple(_entries())
