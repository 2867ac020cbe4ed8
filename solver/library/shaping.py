"""Functions that add, drop and move dimensions.

permute(x, 2, 0, 1)       a b c -> c a b
squeeze(x)                a 1 b -> a b    a rank says which dimension, so that a part of length
                                          1 stays
unsqueeze(x, 1)           a b -> a 1 b
"""

from __future__ import annotations

from typing import Any

from dimsolve.ir.operator import Declaration
from dimsolve.solver.algebra.dims import surely_positive

from . import errors
from .dtypes import dtype_of
from .entry import Form, entry
from .lengths import common_divisor
from .needs import GE, NE, need
from .samples import example, t
from .values import as_tuple, axes, axis, dims_of, rest_of
from .writing import Names, Pattern, annotation, opaque

LINEAR = ((0,),)


def moved(input: Any, source: Pattern, target: Pattern, **more: Any) -> Declaration:
    """Returns the declaration of a function that moves elements and computes nothing."""
    text = annotation([source], [target])
    return Declaration(text, (input,), dtypes=(dtype_of(input),), linear=LINEAR, **more)


def squeeze(input: Any, dim: Any = None) -> Declaration:
    """Returns the declaration of dropping dimensions of length 1; lengths that are symbols are
    taken as longer.
    """
    dims = dims_of(input)
    wanted = axes(dim, len(dims), empty_means_all=False)
    dropped = tuple(n for n in wanted if dims[n] == 1)
    for n in wanted:
        length = dims[n]
        if length is not None and length != 1:
            need(length, GE, 2) if surely_positive(length) else need(length, NE, 1)
    names = Names()
    row = ["1" if length == 1 else names.one() for length in dims]
    kept = [word for n, word in enumerate(row) if n not in dropped]
    return moved(input, row, kept, fixed={"dim": dropped})


def unsqueeze(input: Any, dim: int) -> Declaration:
    """Returns the declaration of a new dimension of length 1."""
    row = Names().take(len(dims_of(input)))
    place = axis(dim, len(row) + 1)
    return moved(input, row, [*row[:place], "1", *row[place:]])


def permute(input: Any, *dims: Any, **named: Any) -> Declaration:
    """Returns the declaration of dimensions in another order."""
    row = Names().take(len(dims_of(input)))
    order = axes(rest_of(dims, named, "dims"), len(row), empty_means_all=False)
    if len(order) != len(row):
        raise errors.wrong_number("dimensions", len(order), len(row))
    return moved(input, row, [row[n] for n in order])


def transpose(input: Any, dim0: int, dim1: int) -> Declaration:
    """Returns the declaration of two dimensions exchanged."""
    row = Names().take(len(dims_of(input)))
    a, b = axis(dim0, len(row)), axis(dim1, len(row))
    turned = list(row)
    if row:
        turned[a], turned[b] = row[b], row[a]
    return moved(input, row, turned)


def swapaxes(input: Any, axis0: int, axis1: int) -> Declaration:
    """Returns the declaration of transpose under NumPy's name."""
    return transpose(input, axis0, axis1)


def matrix_transpose(input: Any) -> Declaration:
    """Returns the declaration of ``t``, ``mT``, ``adjoint``: the last dimensions exchanged."""
    rank = len(dims_of(input))
    return (
        transpose(input, -2, -1)
        if rank > 1
        else moved(input, Names().take(rank), Names().take(rank))
    )


def reversed_dims(input: Any) -> Declaration:
    """Returns the declaration of ``x.T``: all dimensions in reverse order."""
    row = Names().take(len(dims_of(input)))
    return moved(input, row, row[::-1])


def movedim(input: Any, source: Any, destination: Any) -> Declaration:
    """Returns the declaration of dimensions moved to other places, the others in their order."""
    row = Names().take(len(dims_of(input)))
    origins, places = axes(as_tuple(source), len(row)), axes(as_tuple(destination), len(row))
    if len(origins) != len(places):
        raise errors.wrong_number("destinations", len(places), len(origins))
    rest = iter([word for n, word in enumerate(row) if n not in origins])
    target = {place: row[n] for n, place in zip(origins, places, strict=True)}
    return moved(input, row, [target[n] if n in target else next(rest) for n in range(len(row))])


def atleast(rank: int) -> Form:
    """Returns the declaration of atleast_1d, 2d, 3d for one tensor."""
    rows = {
        1: {0: ["1"]},
        2: {0: ["1", "1"], 1: ["1", "a"]},
        3: {0: ["1", "1", "1"], 1: ["1", "a", "1"], 2: ["a", "b", "1"]},
    }

    def declare(input: Any) -> Declaration:
        row = Names().take(len(dims_of(input)))
        return moved(input, row, rows[rank].get(len(row), row))

    return declare


_MOVE = (example(t(12, 4, 6), 0, 2), example(t(12, 4, 6), -1, 1))

ENTRIES = (
    entry(
        "torch.squeeze",
        squeeze,
        example(t(12, 1, 6, 1)),
        example(t(12, 1, 6), 1),
        example(t(12, 1, 6), 0),
        example(t(4, 1, 1, 6), (1, 2)),
        example(t(2, 1, 3)),
    ),
    entry(
        "torch.unsqueeze",
        unsqueeze,
        example(t(12, 6), 0),
        example(t(12, 6), -1),
        example(t(12, 6), 1),
    ),
    entry(
        "torch.permute", permute, example(t(12, 4, 6), (2, 0, 1)), example(t(12, 4, 6), (0, -1, 1))
    ),
    entry(
        "torch.Tensor.permute",
        permute,
        example(t(12, 4, 6), 2, 0, 1),
        example(t(12, 4, 6), (0, 2, 1)),
    ),
    entry("torch.transpose", transpose, *_MOVE),
    entry("torch.swapaxes", swapaxes, *_MOVE),
    entry("torch.t", matrix_transpose, example(t(12, 6)), example(t(12))),
    entry("torch.adjoint", matrix_transpose, example(t(2, 12, 6))),
    entry("torch.movedim", movedim, *_MOVE, example(t(12, 4, 6), (0, 1), (2, 0))),
    entry("torch.atleast_1d", atleast(1), example(t(12, 6)), example(t())),
    entry("torch.atleast_2d", atleast(2), example(t(12)), example(t(12, 6))),
    entry("torch.atleast_3d", atleast(3), example(t(12)), example(t(12, 6))),
)

del common_divisor, opaque
