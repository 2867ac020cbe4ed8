"""Functions that read the same elements in another shape, and that add, drop and move dimensions.

    view(x, b, s, 8, 64)         a b (c d) -> a b c d    c=8, d=64; a rank's sizes: its a, b, c, d
    flatten(x, 1)                a b c -> a (b c)
    unflatten(x, 1, (4, -1))     a (b c) -> a b c        b=4
    permute(x, 2, 0, 1)          a b c -> c a b
    squeeze(x)                   a 1 b -> a b            a rank names the dimension
    unsqueeze(x, 1)              a b -> a 1 b

A row-major tensor may be split at a factor wherever the same product of lengths stands before it
(or behind it) on both sides. `align` finds such factors group by group between equal prefixes,
first from the left, then from the right; what is left in the middle stays frozen.

    (b*s, d) -> (b, s, d)        (a b) c -> a b c
    (6, 4)   -> (4, 6)           (a 3) (2 b) -> (a 2) (3 b)      a=2, b=2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dimsolve.ir.operator import Declaration

from ...algebra.dims import floor_div, surely_positive, symbols_of
from ...algebra.poly import Dim, divide_exactly, product, symbol
from ..declare import errors
from ..declare.dtypes import bits, dtype_name, dtype_of
from ..declare.entry import DType, Form, entry, example, shapes, t, torch_entry
from ..declare.forms import LINEAR, declared, moved
from ..declare.needs import EQ, GE, LE, NE, common_divisor, need, need_multiple, never_equal
from ..declare.writing import (
    Lengths,
    Names,
    NotKnown,
    annotation,
    as_tuple,
    axes,
    axis,
    bare,
    dims_of,
    group,
    is_dim,
    length_word,
    listed,
    rest_of,
)

_OPEN = "?"
"""Begins the symbols that stand for unknown lengths: no caller's symbol does."""


@dataclass(slots=True)
class Alignment:
    """Patterns of the two shapes, and what a Declaration needs besides."""

    input: list[str]
    output: list[str]
    arguments: dict[str, Any] = field(default_factory=dict)
    fresh: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class _Factor:
    """One factor of a dimension: its length, and whether it stands at one place in both shapes."""

    length: Dim
    shared: bool


def opened(dims: Lengths) -> tuple[Dim, ...]:
    """Returns the lengths with a symbol of its own for every unknown one."""
    return tuple(symbol(f"{_OPEN}{n}") if dim is None else dim for n, dim in enumerate(dims))


def align(dims: Sequence[Dim], sizes: Sequence[Dim]) -> Alignment:
    """Returns the patterns of a reshape from ``dims`` to ``sizes``, whose products are equal.

    >>> result = align((6, 4), (4, 6))
    >>> result.input, result.output, result.arguments
    (['(a 3)', '(2 b)'], ['(a 2)', '(3 b)'], {'a': 2, 'b': 2})
    """
    if 0 in (*dims, *sizes):
        rows = (
            [[_Factor(length, False)] for length in dims],
            [[_Factor(length, False)] for length in sizes],
        )
        return _write(*rows)
    factors_in: list[list[_Factor]] = [[] for _ in dims]
    factors_out: list[list[_Factor]] = [[] for _ in sizes]
    for left, right in _groups(dims, sizes):
        _refine(dims, sizes, left, right, factors_in, factors_out)
    return _write(factors_in, factors_out)


def _groups(dims: Sequence[Dim], sizes: Sequence[Dim]) -> list[tuple[list[int], list[int]]]:
    """Cuts both shapes, without their ones, wherever the products so far are equal."""
    places = [[n for n, dim in enumerate(shape) if dim != 1] for shape in (dims, sizes)]
    ends: dict[Dim, int] = {}
    total: Dim = 1
    for count, place in enumerate(places[1], 1):
        total = total * sizes[place]
        ends[total] = count
    groups: list[tuple[list[int], list[int]]] = []
    done = (0, 0)
    total = 1
    for count, place in enumerate(places[0], 1):
        total = total * dims[place]
        other = ends.get(total)
        if other is not None:
            groups.append((places[0][done[0] : count], places[1][done[1] : other]))
            done = (count, other)
    rest = (places[0][done[0] :], places[1][done[1] :])
    return [*groups, rest] if any(rest) else groups


def _refine(
    dims: Sequence[Dim],
    sizes: Sequence[Dim],
    left: list[int],
    right: list[int],
    factors_in: list[list[_Factor]],
    factors_out: list[list[_Factor]],
) -> None:
    """Fills in the factors of one group: shared ones from the left, shared ones from the right, the
    rest between.
    """
    remaining = {n: dims[n] for n in left}, {n: sizes[n] for n in right}
    front = _shared(remaining, left, right)
    back = _shared(remaining, left[::-1], right[::-1])
    for side, places, factors in ((0, left, factors_in), (1, right, factors_out)):
        for n in places:
            middle = [_Factor(remaining[side][n], False)] if remaining[side][n] != 1 else []
            factors[n] = [*front[side].get(n, []), *middle, *reversed(back[side].get(n, []))]


def _shared(
    remaining: tuple[dict[int, Dim], dict[int, Dim]], left: list[int], right: list[int]
) -> tuple[dict[int, list[_Factor]], dict[int, list[_Factor]]]:
    """Takes off the factors that both sides have first, and divides ``remaining`` by them."""
    found: tuple[dict[int, list[_Factor]], dict[int, list[_Factor]]] = ({}, {})
    i = j = 0
    while i < len(left) and j < len(right):
        a, b = remaining[0][left[i]], remaining[1][right[j]]
        common = 1 if 1 in (a, b) else common_divisor((a, b))
        if common != 1:
            factor = _Factor(common, True)
            for side, n in ((0, left[i]), (1, right[j])):
                found[side].setdefault(n, []).append(factor)
                quotient = divide_exactly(remaining[side][n], common)
                assert quotient is not None
                remaining[side][n] = quotient
        done = remaining[0][left[i]] == 1, remaining[1][right[j]] == 1
        if not any(done):
            break
        i, j = i + done[0], j + done[1]
    return found


def _write(factors_in: list[list[_Factor]], factors_out: list[list[_Factor]]) -> Alignment:
    """Names the factors in reading order. Numbers that are not shared are written out."""
    names = Names()
    words: dict[int, str] = {}
    arguments: dict[str, Any] = {}
    fresh: list[str] = []
    for factor, is_output, is_grouped in _in_reading_order(factors_in, factors_out):
        number = factor.length if isinstance(factor.length, int) and not factor.shared else None
        if number is not None and (is_grouped or number < 2):
            words[id(factor)] = str(number)
            continue
        word = names.one()
        words[id(factor)] = word if factor.shared else f"{word}^"
        if any(name.startswith(_OPEN) for name in symbols_of(factor.length)):
            fresh += [word] if is_output else []
        elif is_output or is_grouped:
            arguments[word] = factor.length
    patterns = [
        [group(*(words[id(f)] for f in factors)) for factors in row]
        for row in (factors_in, factors_out)
    ]
    return Alignment(patterns[0], patterns[1], arguments, tuple(fresh))


def _in_reading_order(
    factors_in: list[list[_Factor]], factors_out: list[list[_Factor]]
) -> Iterator[tuple[_Factor, bool, bool]]:
    """Each factor where it stands first: whether that is in an output, and beside others."""
    seen: set[int] = set()
    for is_output, row in ((False, factors_in), (True, factors_out)):
        for factors in row:
            for factor in factors:
                if id(factor) not in seen:
                    seen.add(id(factor))
                    yield factor, is_output, len(factors) > 1


def elements(dims: Sequence[Dim]) -> Dim:
    """Returns the number of elements of a shape."""
    return product(dims)


def squeeze(input: Any, dim: Any = None) -> Declaration:
    """Declares dropping dimensions of length 1; lengths that are symbols are taken as longer."""
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
    """Declares a new dimension of length 1."""
    row = Names().take(len(dims_of(input)))
    place = axis(dim, len(row) + 1)
    return moved(input, row, [*row[:place], "1", *row[place:]])


def permute(input: Any, *dims: Any, **named: Any) -> Declaration:
    """Declares dimensions in another order."""
    row = Names().take(len(dims_of(input)))
    order = axes(rest_of(dims, named, "dims"), len(row), empty_means_all=False)
    if len(order) != len(row):
        raise errors.wrong_number("dimensions", len(order), len(row))
    return moved(input, row, [row[n] for n in order])


def transpose(input: Any, dim0: int, dim1: int) -> Declaration:
    """Declares two dimensions exchanged."""
    row = Names().take(len(dims_of(input)))
    a, b = axis(dim0, len(row)), axis(dim1, len(row))
    turned = list(row)
    if row:
        turned[a], turned[b] = row[b], row[a]
    return moved(input, row, turned)


def swapaxes(input: Any, axis0: int, axis1: int) -> Declaration:
    """Declares transpose under NumPy's name."""
    return transpose(input, axis0, axis1)


def matrix_transpose(input: Any) -> Declaration:
    """Declares ``t``, ``mT``, ``adjoint``: the last dimensions exchanged."""
    rank = len(dims_of(input))
    return (
        transpose(input, -2, -1)
        if rank > 1
        else moved(input, Names().take(rank), Names().take(rank))
    )


def reversed_dims(input: Any) -> Declaration:
    """Declares ``x.T``: all dimensions in reverse order."""
    row = Names().take(len(dims_of(input)))
    return moved(input, row, row[::-1])


def movedim(input: Any, source: Any, destination: Any) -> Declaration:
    """Declares dimensions moved to other places, the others in their order."""
    row = Names().take(len(dims_of(input)))
    origins, places = axes(as_tuple(source), len(row)), axes(as_tuple(destination), len(row))
    if len(origins) != len(places):
        raise errors.wrong_number("destinations", len(places), len(origins))
    rest = iter([word for n, word in enumerate(row) if n not in origins])
    target = {place: row[n] for n, place in zip(origins, places, strict=True)}
    return moved(input, row, [target[n] if n in target else next(rest) for n in range(len(row))])


def atleast(rank: int) -> Form:
    """Declares atleast_1d, 2d, 3d for one tensor."""
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


def resolve_sizes(dims: Sequence[Dim], sizes: Sequence[Dim]) -> tuple[Dim, ...]:
    """Returns the sizes with -1 replaced. Raises ShapeError where they cannot hold as many elements
    as ``dims``.

    >>> resolve_sizes((2, 12), (-1, 4))
    (6, 4)
    """
    below = [size for size in sizes if isinstance(size, int) and size < -1]
    if below:
        raise errors.negative_size(below[0], sizes)
    given = tuple(size for size in sizes if size != -1)
    for size in given:
        need(size, GE, 0, errors.negative_size(size, sizes))
    total, rest = product(dims), product(given)
    if len(given) == len(sizes):
        if never_equal(total, rest):
            raise errors.cannot_view(dims, total, sizes, rest)
        left, right = _without_common(dims, given)
        need(product(left), EQ, product(right), errors.cannot_view(dims, total, sizes, rest))
        return tuple(sizes)
    if len(given) < len(sizes) - 1:
        raise errors.two_unknown_sizes(sizes)
    refusal = errors.no_remainder(dims, total, rest, sizes)
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
    """Declares a reshape; ``parameter`` is the one that holds the sizes."""
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
    """Declares Tensor.view, with sizes or with a dtype."""
    if "dtype" in named:
        return view_dtype(input, named["dtype"])
    sizes = rest_of(size, named, "size")
    if len(sizes) == 1 and dtype_name(sizes[0]) is not None and not is_dim(sizes[0]):
        return view_dtype(input, sizes[0])
    return reshaped(input, sizes, "size")


def view_copy(input: Any, size: Any) -> Declaration:
    """Declares torch.view_copy, with sizes or with a dtype."""
    return view(input, size)


def view_dtype(input: Any, dtype: Any) -> Declaration:
    """Declares a view with another dtype: bytes of the last dimension are read anew."""
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
    return declared((input,), [pair[0]], [pair[1]], dtypes=(new,))


def reshape(input: Any, *shape: Any, **named: Any) -> Declaration:
    """Declares reshape, as a function or a method."""
    return reshaped(input, rest_of(shape, named, "shape"), "shape")


def view_as(input: Any, other: Any) -> Declaration:
    """Declares a view with the shape of another tensor, which is cut alike."""
    dims, sizes = opened(dims_of(input)), opened(dims_of(other, "the other tensor"))
    found = align(dims, resolve_sizes(dims, sizes))
    return declared(
        (input, other),
        [found.input, found.output],
        [found.output],
        arguments=found.arguments,
        linear=LINEAR,
    )


def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Declaration:
    """Declares a merge of neighbouring dimensions."""
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
    """Declares a split of one dimension into several."""
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
    """Declares Tensor.unfold: windows of a dimension, cut freely where they do not overlap."""
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


_PLACES = "elements are taken by their places in memory"


def as_strided(input: Any, size: Any, stride: Any, storage_offset: Any = None) -> Declaration:
    """Declares elements read by their places in memory, which a part does not know."""
    if not all(is_dim(length) for length in size):
        raise NotKnown("a size is not known")
    row = Names().take(len(dims_of(input)), "^")
    names, arguments = Names([*map(bare, row)]), dict[str, Any]()
    target = [length_word(names, arguments, length) for length in size]
    return moved(input, row, target, arguments=arguments, frozen=_PLACES)


def as_strided_scatter(
    input: Any, src: Any, size: Any, stride: Any, storage_offset: Any = None
) -> Declaration:
    """Declares elements written by their places in memory."""
    given = dims_of(src, "the source")
    if len(given) != len(size):
        raise errors.wrong_number("sizes", len(size), len(given))
    for length, wanted in zip(given, size, strict=True):
        if length is not None and is_dim(wanted):
            need(length, EQ, wanted, errors.lengths_differ("the source and size", length, wanted))
    names = Names()
    row, source = (names.take(len(dims_of(x)), "^") for x in (input, src))
    return declared((input, src), [row, source], [row], frozen=_PLACES)


def ravel(input: Any) -> Declaration:
    """Declares flatten without parameters."""
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
    torch_entry(
        squeeze,
        *shapes("12 1 6 1"),
        example(t(12, 1, 6), 1),
        example(t(12, 1, 6), 0),
        example(t(4, 1, 1, 6), (1, 2)),
        *shapes("2 1 3"),
    ),
    torch_entry(unsqueeze, example(t(12, 6), 0), example(t(12, 6), -1), example(t(12, 6), 1)),
    torch_entry(permute, example(t(12, 4, 6), (2, 0, 1)), example(t(12, 4, 6), (0, -1, 1))),
    entry(
        "torch.Tensor.permute",
        permute,
        example(t(12, 4, 6), 2, 0, 1),
        example(t(12, 4, 6), (0, 2, 1)),
    ),
    torch_entry(transpose, *_MOVE),
    torch_entry(swapaxes, *_MOVE),
    entry("torch.t", matrix_transpose, *shapes("12 6", "12")),
    entry("torch.adjoint", matrix_transpose, *shapes("2 12 6")),
    torch_entry(movedim, *_MOVE, example(t(12, 4, 6), (0, 1), (2, 0))),
    entry("torch.atleast_1d", atleast(1), *shapes("12 6", "()")),
    entry("torch.atleast_2d", atleast(2), *shapes("12", "12 6")),
    entry("torch.atleast_3d", atleast(3), *shapes("12", "12 6")),
    entry("torch.Tensor.view", view, *_VIEWS, example(t(12, 6), DType("int32"))),
    entry("torch.Tensor.reshape", reshape, *_VIEWS),
    torch_entry(reshape, example(t(2, 12, 24), (2, 12, 4, 6)), example(t(2, 3, 4, 6), (6, -1))),
    torch_entry(view_copy, example(t(2, 12, 24), (2, 12, 4, 6)), example(t(6, 4), (4, 6))),
    entry("torch.Tensor.view_as", view_as, *shapes("12 24, 12 4 6", "2 6 4, 12 4")),
    torch_entry(flatten, *shapes("12 4 6"), example(t(12, 4, 6), 1), example(t(2, 3, 4, 6), 1, 2)),
    torch_entry(as_strided, example(t(12, 6), (4, 3), (6, 1), 2)),
    torch_entry(as_strided_scatter, example(t(12, 6), t(4, 3), (4, 3), (6, 1), 2)),
    torch_entry(ravel, *shapes("12 4")),
    torch_entry(unflatten, example(t(24, 12), 0, (4, 6)), example(t(12, 24), -1, (-1, 6))),
    entry("torch.Tensor.unfold", unfold, example(t(12, 24), 1, 4, 4), example(t(12, 24), 1, 5, 2)),
)
