"""What the values of a call are: tensors, their lengths and dtypes, dimensions counted from the
end.

A tensor is anything with ``shape`` and ``dtype``: real, fake, or a stand-in whose lengths are
symbols. Its shape may be None, and so may single lengths, where they are not known.

    dims_of(x)            (batch, seq, 512)
    axis(-1, 3)           2
    axes(None, 3)         (0, 1, 2)
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, TypeAlias

from dimsolve.solver.algebra.poly import Dim, Poly
from dimsolve.solver.shapes import to_dim

from . import errors

Lengths: TypeAlias = "tuple[Dim | None, ...]"


class NotKnown(Exception):
    """A declaration needs what is not known of the call; its text says what."""


class PartsNotKnown(NotKnown):
    """How many tensors a call gives is not known."""


def is_tensor(value: Any) -> bool:
    """Whether the value has a shape and a dtype.

    >>> is_tensor(3), is_tensor([1])
    (False, False)
    """
    return hasattr(value, "dtype") and hasattr(value, "shape")


def is_dim(value: Any) -> bool:
    """Whether the value is a length: an int or a Poly, and no bool."""
    return isinstance(value, int | Poly) and not isinstance(value, bool)


def dims_of(tensor: Any, what: str = "a tensor") -> Lengths:
    """Returns the lengths of a tensor, None for unknown ones. Raises NotKnown where not even their
    number is known.
    """
    shape = tensor.shape
    if shape is None:
        raise NotKnown(f"the rank of {what} is not known")
    return tuple([d if d is None or d.__class__ is int else to_dim(d) for d in shape])


def tensors_in(values: Any) -> list[Any]:
    """Returns the tensors among values, looking into lists and tuples, in order."""
    if isinstance(values, list | tuple):
        return [tensor for value in values for tensor in tensors_in(value)]
    return [values] if is_tensor(values) else []


def axis(dim: Any, rank: int) -> int:
    """Returns a dimension counted from 0. Raises ShapeError for one that does not exist.

    >>> axis(-1, 3)
    2
    """
    number = index(dim)
    room = max(rank, 1)  # torch lets 0 and -1 name the dimension that a scalar has not
    if not -room <= number < room:
        raise errors.no_such_dim(number, rank)
    return number % room


def axes(dims: Any, rank: int, *, empty_means_all: bool = True) -> tuple[int, ...]:
    """Returns dimensions counted from 0, in the order given; None means all of them.

    Raises ShapeError for one that does not exist or stands twice.

    >>> axes((-1, 0), 3), axes(None, 2)
    ((2, 0), (0, 1))
    """
    if dims is None:
        return tuple(range(rank))
    listed = tuple(dims) if isinstance(dims, list | tuple) else (dims,)
    if not listed and empty_means_all:
        return tuple(range(rank))
    found = tuple(axis(dim, rank) for dim in listed)
    if len(set(found)) < len(found):
        raise errors.dim_twice(listed)
    return found if rank else ()


def listed(sizes: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the sizes of a call that takes them one by one or as one sequence.

    >>> listed((2, 3)), listed(([2, 3],)), listed(((),))
    ((2, 3), (2, 3), ())
    """
    if len(sizes) == 1 and isinstance(sizes[0], list | tuple):
        return tuple(sizes[0])
    return tuple(sizes)


def rest_of(values: Sequence[Any], named: dict[str, Any], name: str) -> tuple[Any, ...]:
    """Returns what ``*name`` takes, also where it is given by its name. Raises NotKnown for other
    names.
    """
    if set(named) - {name}:
        raise NotKnown(f"the argument '{min(set(named) - {name})}' is not known of")
    return listed((named[name],) if name in named else values)


def known(dims: Lengths, what: str = "a tensor") -> tuple[Dim, ...]:
    """Returns the lengths where all are known; raises NotKnown otherwise."""
    if any(dim is None for dim in dims):
        raise NotKnown(f"a length of {what} is not known")
    return tuple(dim for dim in dims if dim is not None)


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Returns a list or a tuple as a tuple, and any other value as a tuple of one."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def per_dim(value: Any, count: int) -> tuple[Any, ...]:
    """Returns one value per spatial dimension: ``2`` and ``(2,)`` stand for ``(2, 2)``.

    >>> per_dim(2, 2), per_dim((1, 3), 2)
    ((2, 2), (1, 3))
    """
    if not isinstance(value, list | tuple):
        return (value,) * count
    if len(value) == 1:
        return (value[0],) * count
    if len(value) != count:
        raise errors.wrong_number("sizes", len(value), count)
    return tuple(value)
