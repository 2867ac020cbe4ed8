"""Functions that give a tensor another shape: view and its kin, dimensions added, dropped and
moved.

view(x, b, s, 8, 64)      a b (c d) -> a b c d       c=8, d=64     the sizes of a rank: its a, b, c,
d flatten(x, 1)             a b c -> a (b c) permute(x, 2, 0, 1)       a b c -> c a b squeeze(x)
a 1 b -> a b               a rank says which dimension, so that a part of length 1 stays
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dimsolve.ir.operator import Declaration
from dimsolve.solver.dims import floor_div
from dimsolve.solver.poly import Dim, divide_exactly, product

from . import errors
from .alignment import align, opened
from .dtypes import bits, dtype_name, dtype_of
from .entry import Form, entry
from .lengths import common_divisor, never_equal
from .samples import DType, example, t
from .values import NotKnown, as_tuple, axes, axis, dims_of, is_dim, listed, rest_of
from .writing import Names, Pattern, annotation, length_word, opaque

LINEAR = ((0,),)


def moved(input: Any, source: Pattern, target: Pattern, **more: Any) -> Declaration:
    """Returns the declaration of a function that moves elements and computes nothing."""
    text = annotation([source], [target])
    return Declaration(text, (input,), dtypes=(dtype_of(input),), linear=LINEAR, **more)


def resolve_sizes(dims: Sequence[Dim], sizes: Sequence[Dim]) -> tuple[Dim, ...]:
    """Returns the sizes with -1 replaced. Raises ShapeError where they cannot hold as many elements
    as ``dims``.

    >>> resolve_sizes((2, 12), (-1, 4))
    (6, 4)
    """
    below = [size for size in sizes if isinstance(size, int) and size < -1]
    if below:
        raise errors.negative_size(sizes, below[0])
    open_places = [n for n, size in enumerate(sizes) if size == -1]
    total, rest = product(dims), product(size for size in sizes if size != -1)
    if not open_places:
        if never_equal(total, rest):
            raise errors.cannot_view(dims, sizes, total, rest)
        return tuple(sizes)
    if len(open_places) > 1:
        raise errors.two_unknown_sizes(sizes)
    if rest == 0:
        raise errors.no_remainder(dims, sizes, total, rest)
    quotient = divide_exactly(total, rest)
    if quotient is None:
        if isinstance(total, int) and isinstance(rest, int):
            raise errors.no_remainder(dims, sizes, total, rest)
        quotient = floor_div(total, rest)
    return tuple(quotient if size == -1 else size for size in sizes)


def reshaped(input: Any, sizes: Sequence[Any], parameter: str = "") -> Declaration:
    """Returns the declaration of a reshape; ``parameter`` is the one that holds the sizes."""
    if not all(is_dim(size) for size in sizes):
        raise NotKnown("a size is not known")
    dims = opened(dims_of(input))
    found = align(dims, resolve_sizes(dims, sizes))
    return moved(
        input,
        found.input,
        found.output,
        arguments=found.arguments,
        fresh=found.fresh,
        sizes={parameter: annotation([], [found.output])[4:]} if parameter else {},
    )


def view(input: Any, *size: Any, **named: Any) -> Declaration:
    """Returns the declaration of Tensor.view, with sizes or with a dtype."""
    if "dtype" in named:
        return view_dtype(input, named["dtype"])
    sizes = rest_of(size, named, "size")
    if len(sizes) == 1 and dtype_name(sizes[0]) is not None and not is_dim(sizes[0]):
        return view_dtype(input, sizes[0])
    return reshaped(input, sizes, "size")


def view_dtype(input: Any, dtype: Any) -> Declaration:
    """Returns the declaration of a view with another dtype: bytes of the last dimension are read
    anew.
    """
    old, new = dtype_of(input), dtype_name(dtype)
    if old is None or new is None:
        raise NotKnown("the dtype is not known")
    if bits(old) == bits(new):
        return Declaration("* -> *", (input,), dtypes=(new,))
    dims = dims_of(input)
    row = Names().take(len(dims))
    factor = str(max(bits(old), bits(new)) // min(bits(old), bits(new)))
    long = [*row[:-1], f"({row[-1]} {factor})"]
    pair = (row, long) if bits(old) > bits(new) else (long, row)
    return Declaration(annotation([pair[0]], [pair[1]]), (input,), dtypes=(new,))


def reshape(input: Any, *shape: Any, **named: Any) -> Declaration:
    """Returns the declaration of reshape, as a function or a method."""
    return reshaped(input, rest_of(shape, named, "shape"), "shape")


def view_as(input: Any, other: Any) -> Declaration:
    """Returns the declaration of a view with the shape of another tensor, which is cut alike."""
    dims, sizes = opened(dims_of(input)), opened(dims_of(other, "the other tensor"))
    found = align(dims, resolve_sizes(dims, sizes))
    return Declaration(
        annotation([found.input, found.output], [found.output]),
        (input, other),
        arguments=found.arguments,
        dtypes=(dtype_of(input),),
        linear=LINEAR,
    )


def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Declaration:
    """Returns the declaration of a merge of neighbouring dimensions."""
    dims = dims_of(input)
    if not dims:
        return moved(input, [], ["1"])
    start, end = axis(start_dim, len(dims)), axis(end_dim, len(dims))
    if start > end:
        raise errors.not_understood("flatten", f"start_dim {start} comes after end_dim {end}")
    lengths = opened(dims)
    merged = (*lengths[:start], product(lengths[start : end + 1]), *lengths[end + 1 :])
    found = align(lengths, merged)
    return moved(input, found.input, found.output, arguments=found.arguments, fresh=found.fresh)


def unflatten(input: Any, dim: int, sizes: Any) -> Declaration:
    """Returns the declaration of a split of one dimension into several."""
    dims = opened(dims_of(input))
    place = axis(dim, len(dims))
    inner = listed(sizes if isinstance(sizes, list | tuple) else (sizes,))
    whole = (*dims[:place], *resolve_sizes((dims[place],), inner), *dims[place + 1 :])
    found = align(dims, whole)
    return moved(
        input,
        found.input,
        found.output,
        arguments=found.arguments,
        fresh=found.fresh,
        sizes={"sizes": " ".join(found.output[place : place + len(inner)])},
    )


def squeeze(input: Any, dim: Any = None) -> Declaration:
    """Returns the declaration of dropping dimensions of length 1; lengths that are symbols are
    taken as longer.
    """
    dims = dims_of(input)
    wanted = axes(dim, len(dims), empty_means_all=False)
    dropped = tuple(n for n in wanted if dims[n] == 1)
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
    """Returns the declaration of ``t``, ``mT`` and ``adjoint``: the last two dimensions exchanged."""
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


def unfold(input: Any, dimension: int, size: int, step: int) -> Declaration:
    """Returns the declaration of Tensor.unfold: windows of a dimension, cut freely where they do
    not overlap.
    """
    dims = dims_of(input)
    row = Names().take(len(dims))
    place = axis(dimension, len(dims))
    length = dims[place] if dims else 1
    if length is None:
        raise NotKnown("the length that is unfolded is not known")
    if size == step and divide_exactly(length, size) is not None:
        source = [*row[:place], f"({row[place]} {size})", *row[place + 1 :]]
        return moved(input, source, [*row, str(size)])
    arguments: dict[str, Any] = {}
    count = length_word(Names({*row}), arguments, floor_div(length - size, step) + 1)
    source, target = list(row), [*row, str(size)]
    source[place], target[place] = f"{row[place]}^", count
    return moved(input, source, target, arguments=arguments)


def ravel(input: Any) -> Declaration:
    """Returns the declaration of flatten without parameters."""
    return flatten(input)


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
_VIEWS = (
    example(t(2, 12, 24), 2, 12, 4, 6),
    example(t(2, 12, 24), (2, 12, -1, 6)),
    example(t(2, 12, 24), -1, 24),
    example(t(24, 12), 4, 6, 12),
    example(t(6, 4), 4, 6),
    example(t(12, 1, 6), 1, 72),
)

ENTRIES = (
    entry("torch.Tensor.view", view, *_VIEWS, example(t(12, 6), DType("int32"))),
    entry("torch.Tensor.reshape", reshape, *_VIEWS),
    entry(
        "torch.reshape",
        reshape,
        example(t(2, 12, 24), (2, 12, 4, 6)),
        example(t(2, 3, 4, 6), (6, -1)),
    ),
    entry(
        "torch.Tensor.view_as",
        view_as,
        example(t(12, 24), t(12, 4, 6)),
        example(t(2, 6, 4), t(12, 4)),
    ),
    entry(
        "torch.flatten",
        flatten,
        example(t(12, 4, 6)),
        example(t(12, 4, 6), 1),
        example(t(2, 3, 4, 6), 1, 2),
    ),
    entry("torch.ravel", ravel, example(t(12, 4))),
    entry(
        "torch.unflatten", unflatten, example(t(24, 12), 0, (4, 6)), example(t(12, 24), -1, (-1, 6))
    ),
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
    entry("torch.numpy_T", reversed_dims, note="the attribute T"),
    entry("torch.movedim", movedim, *_MOVE, example(t(12, 4, 6), (0, 1), (2, 0))),
    entry("torch.Tensor.unfold", unfold, example(t(12, 24), 1, 4, 4), example(t(12, 24), 1, 5, 2)),
    entry("torch.atleast_1d", atleast(1), example(t(12, 6)), example(t())),
    entry("torch.atleast_2d", atleast(2), example(t(12)), example(t(12, 6))),
    entry("torch.atleast_3d", atleast(3), example(t(12)), example(t(12, 6))),
)

del common_divisor, opaque
