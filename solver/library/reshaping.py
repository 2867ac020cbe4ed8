"""Functions that read the same elements in another shape: see `dimsolve.solver.library.alignment`.

view(x, b, s, 8, 64)         a b (c d) -> a b c d    c=8, d=64; a rank's sizes: its a, b, c, d
flatten(x, 1)                a b c -> a (b c)
unflatten(x, 1, (4, -1))     a (b c) -> a b c        b=4
unfold(x, 1, 4, 4)           a (b 4) -> a b 4
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dimsolve.ir.operator import Declaration
from dimsolve.solver.algebra.dims import floor_div, surely_positive
from dimsolve.solver.algebra.poly import Dim, divide_exactly, product

from . import errors
from .alignment import align, opened
from .dtypes import bits, dtype_name, dtype_of
from .entry import entry
from .lengths import never_equal
from .needs import EQ, GE, LE, need, need_multiple
from .samples import DType, example, t
from .shaping import LINEAR, moved
from .values import NotKnown, axis, dims_of, is_dim, listed, rest_of
from .writing import Names, annotation, length_word


def resolve_sizes(dims: Sequence[Dim], sizes: Sequence[Dim]) -> tuple[Dim, ...]:
    """Returns the sizes with -1 replaced. Raises ShapeError where they cannot hold as many elements
    as ``dims``.

    >>> resolve_sizes((2, 12), (-1, 4))
    (6, 4)
    """
    below = [size for size in sizes if isinstance(size, int) and size < -1]
    if below:
        raise errors.negative_size(sizes, below[0])
    given = tuple(size for size in sizes if size != -1)
    for size in given:
        need(size, GE, 0, errors.negative_size(sizes, size))
    total, rest = product(dims), product(given)
    if len(given) == len(sizes):
        if never_equal(total, rest):
            raise errors.cannot_view(dims, sizes, total, rest)
        left, right = _without_common(dims, given)
        need(product(left), EQ, product(right), errors.cannot_view(dims, sizes, total, rest))
        return tuple(sizes)
    if len(given) < len(sizes) - 1:
        raise errors.two_unknown_sizes(sizes)
    refusal = errors.no_remainder(dims, sizes, total, rest)
    need(rest, GE, 1, refusal)
    quotient = divide_exactly(total, rest)
    if quotient is None:
        left, right = _without_common(dims, given)
        need_multiple(product(left), product(right), refusal)
        quotient = floor_div(total, rest)
    return tuple(quotient if size == -1 else size for size in sizes)


def _without_common(a: Sequence[Dim], b: Sequence[Dim]) -> tuple[list[Dim], list[Dim]]:
    """Both without the positive lengths that stand in both: what is left must have equal products
    all the same.
    """
    left, right = list(a), []
    for dim in b:
        if dim in left and surely_positive(dim):
            left.remove(dim)
        else:
            right.append(dim)
    return left, right


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
    if size == step and isinstance(size, int) and size and divide_exactly(length, size) is not None:
        source = [*row[:place], f"({row[place]} {size})", *row[place + 1 :]]
        need(length, GE, size)
        return moved(input, source, [*row, str(size)])
    need(step, GE, 1, errors.out_of_range("the step", step, length))
    need(size, LE, length, errors.out_of_range("the size", size, length))
    arguments: dict[str, Any] = {}
    names = Names({*row})
    count = length_word(names, arguments, floor_div(length - size, step) + 1)
    source, target = list(row), [*row, length_word(names, arguments, size)]
    source[place], target[place] = f"{row[place]}^", count
    return moved(input, source, target, arguments=arguments)


def ravel(input: Any) -> Declaration:
    """Returns the declaration of flatten without parameters."""
    return flatten(input)


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
    entry("torch.Tensor.unfold", unfold, example(t(12, 24), 1, 4, 4), example(t(12, 24), 1, 5, 2)),
)
