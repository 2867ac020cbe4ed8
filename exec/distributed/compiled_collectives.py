"""The collectives as operators of torch.library: what torch.compile sees of them.

    all_reduce(x)       (16, 64) -> (16, 64)        all_gather(x)    (16, 64) -> (2, 16, 64)

A compiler cannot look into a process group, and need not: it has to know the shapes. Outside of
compiled code the communicators call their group directly, which takes less time than an operator.
An end is named by a number: the operators take nothing but tensors, numbers and texts.
"""

from __future__ import annotations

from itertools import count
from typing import Any
from weakref import WeakValueDictionary

from torch import Tensor
from torch.library import custom_op

from dimsolve.partition.placement import Reduction

_ends: WeakValueDictionary[int, Any] = WeakValueDictionary()
_numbers = count()


def numbered(end: Any) -> int:
    """Returns the number of a communicator, by which operators find it."""
    number = next(_numbers)
    _ends[number] = end
    return number


@custom_op("dimsolve::all_reduce", mutates_args=())
def all_reduce(tensor: Tensor, end: int, reduction: str) -> Tensor:
    """(...) -> (...), equal on all ranks."""
    joined: Tensor = _ends[end].all_reduce(tensor, Reduction(reduction))
    return joined


@custom_op("dimsolve::all_gather", mutates_args=())
def all_gather(tensor: Tensor, end: int, size: int) -> Tensor:
    """(...) -> (size, ...), equal on all ranks."""
    rows: Tensor = _ends[end].all_gather(tensor)
    return rows


@custom_op("dimsolve::reduce_scatter", mutates_args=())
def reduce_scatter(tensor: Tensor, end: int, reduction: str) -> Tensor:
    """(size, ...) -> (...)."""
    mine: Tensor = _ends[end].reduce_scatter(tensor, Reduction(reduction))
    return mine


@custom_op("dimsolve::all_to_all", mutates_args=())
def all_to_all(tensor: Tensor, end: int) -> Tensor:
    """(size, ...) -> (size, ...)."""
    rows: Tensor = _ends[end].all_to_all(tensor)
    return rows


@custom_op("dimsolve::broadcast", mutates_args=())
def broadcast(tensor: Tensor, end: int, root: int) -> Tensor:
    """(...) -> (...), equal on all ranks."""
    joined: Tensor = _ends[end].broadcast(tensor, root)
    return joined


@all_reduce.register_fake
@all_to_all.register_fake
@broadcast.register_fake
def _same_shape(tensor: Tensor, *_: Any) -> Tensor:
    return tensor.new_empty(tensor.shape)


@all_gather.register_fake
def _rows(tensor: Tensor, end: int, size: int) -> Tensor:
    return tensor.new_empty((size, *tensor.shape))


@reduce_scatter.register_fake
def _row(tensor: Tensor, *_: Any) -> Tensor:
    return tensor.new_empty(tensor.shape[1:])
