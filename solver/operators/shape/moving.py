"""Elements that move along dimensions, and diagonals and triangles of matrices.

What depends on where an element stands keeps its dimension whole; the others may be split.

    pad(x, (1, 0))        a b^ -> a c^         c = b + 1
    roll(x, 1, -1)        a b^ -> a b^
    narrow(x, 1, 8, 8)    a (3 b) -> a b       of 24: the second of three blocks; a rank's is its b
    diff(x)               a b^ -> a c^         c = b - 1
    tril(x)               a b^ c^ -> a b^ c^
    diagonal(x, 0, 1, 2)  a b^ c^ -> a d^      d = min(b, c)
    diag_embed(x)         a b^ -> a b^ b^
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dimsolve.ir.operator import Declaration

from ...algebra.dims import maximum, minimum
from ...algebra.poly import Dim, product
from ..declare import errors
from ..declare.dtypes import dtype_name, dtype_of, result_type
from ..declare.entry import Form, entry, example, functional, shapes, t, torch_entry
from ..declare.forms import declared, moved, words
from ..declare.needs import EQ, GE, GT, LE, at_least, less, need
from ..declare.writing import (
    Names,
    NotKnown,
    as_tuple,
    axes,
    axis,
    bare,
    dims_of,
    is_dim,
    is_tensor,
    known,
    length_word,
    rest_of,
)
from .creation import POSITIONS, made
from .indexing import from_start, need_place, slice_dim


def pad(input: Any, pad: Any, mode: str = "constant", value: float | None = None) -> Declaration:
    """Declares F.pad: pairs (before, after), the last dimension first; a negative pad cuts off."""
    dims = dims_of(input)
    if len(pad) % 2 or len(pad) > 2 * len(dims):
        raise errors.wrong_number("paddings", len(pad), 2 * len(dims))
    names = Names()
    arguments: dict[str, Any] = {}
    source, target = [], []
    for n, length in enumerate(dims):
        index = 2 * (len(dims) - 1 - n)
        before, after = (pad[index], pad[index + 1]) if index < len(pad) else (0, 0)
        if before == 0 and after == 0:
            word = "1" if length == 1 else names.one()
            source.append(word)
            target.append(word)
            continue
        source.append("1" if length == 1 else names.one("^"))
        padded = None if length is None else length + before + after
        if padded is None or length is None:
            raise NotKnown("the length of a dimension that is padded is not known")
        _need_room(mode, length, before, after)
        target.append(length_word(names, arguments, padded))
    linear = ((0,),) if mode != "constant" or not value else ()
    made = declared((input,), [source], [target], arguments=arguments, linear=linear)
    # What copies elements has a batch dimension, which may be empty, before its channels.
    batched = len(dims) >= len(pad) // 2 + 2 and source[0].isidentifier()
    return replace(made, empty=True if mode == "constant" else tuple(source[:batched]))


def _need_room(mode: str, length: Dim, before: Dim, after: Dim) -> None:
    """What a padding asks of a length: one that copies elements has enough of them."""
    refusal = errors.out_of_range("the padding", f"({before}, {after})", length)
    need(length + before + after, GE, 0 if mode == "constant" else 1, refusal)
    match mode:
        case "reflect":
            need(length, GT, before, refusal)
            need(length, GT, after, refusal)
        case "circular":
            need(length, GE, before, refusal)
            need(length, GE, after, refusal)
        case _:
            pass


def whole_dims(input: Any, dims: Sequence[int]) -> Declaration:
    """Declares a function that moves elements along these dimensions, which stay whole."""
    names = Names()
    lengths = dims_of(input)
    row = ["1" if d == 1 else names.one("^" if n in dims else "") for n, d in enumerate(lengths)]
    return moved(input, row, row)


def roll(input: Any, shifts: Any, dims: Any = None) -> Declaration:
    """Declares torch.roll; without dims it rolls the flattened tensor."""
    rank = len(dims_of(input))
    places = dims if isinstance(dims, list | tuple) else () if dims is None else (dims,)
    return whole_dims(input, [axis(dim, rank) for dim in places] or range(rank))


def flip(input: Any, *dims: Any, **named: Any) -> Declaration:
    """Declares torch.flip."""
    places = rest_of(dims, named, "dims")
    return whole_dims(input, axes(places, len(dims_of(input)), empty_means_all=False))


def fliplr(input: Any) -> Declaration:
    """Declares a flip of dimension 1."""
    return flip(input, 1)


def flipud(input: Any) -> Declaration:
    """Declares a flip of dimension 0."""
    return flip(input, 0)


def rot90(input: Any, k: int = 1, dims: Any = (0, 1)) -> Declaration:
    """Declares a rotation in the plane of two dimensions: a quarter turn reverses one of them, and
    the other keeps its order where it moves to.
    """
    rank = len(dims_of(input))
    a, b = axes(tuple(dims), rank)
    names = Names()
    reversed_ = ((), (b,), (a, b), (a,))[k % 4]
    row = [names.one("^" if n in reversed_ else "") for n in range(rank)]
    turned = list(row)
    if k % 2:
        turned[a], turned[b] = row[b], row[a]
    return moved(input, row, turned)


def narrow(input: Any, dim: int, start: Any, length: Any) -> Declaration:
    """Declares a slice given by its start and its length."""
    dims = dims_of(input)
    place = axis(dim, len(dims))
    if is_tensor(start):
        raise NotKnown("the start of narrow is a tensor")
    names = Names()
    row = names.take(len(dims))
    arguments: dict[str, Any] = {}
    total = dims[place]
    first = start if total is None else from_start(start, total)
    if total is not None:
        refusal = errors.out_of_range("narrow", f"{first} to {first + length}", total)
        if less(first, 0) or less(total, first + length):
            raise refusal
        need(first, GE, 0, refusal)
        need(first, LE, total, refusal)
        need(first + length, LE, total, refusal)
    need(length, GE, 0, errors.negative_length(length))
    if total is not None and not at_least(total, first + length):
        cut_before, cut_after = names.one("^"), length_word(names, arguments, length)
        source, target = list(row), list(row)
        source[place], target[place] = cut_before, cut_after
        return moved(input, source, target, arguments=arguments)
    cut = slice_dim(total, slice(first, first + length), Names(set(map(bare, row))), arguments)
    sizes = {} if "^" in cut.after else {"length": cut.after}
    if "start" in cut.sizes:
        sizes["start"] = cut.sizes["start"]
    source, target = list(row), list(row)
    source[place], target[place] = cut.before, cut.after
    return moved(input, source, target, arguments=arguments, sizes=sizes)


def aten_slice(
    input: Any, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Declaration:
    """Declares a slice given by its bounds and its step."""
    dims = dims_of(input)
    place = axis(dim, len(dims))
    names, arguments = Names(), dict[str, Any]()
    row = names.take(len(dims))
    cut = slice_dim(dims[place], slice(start, end, step), names, arguments)
    source, target = list(row), list(row)
    source[place], target[place] = cut.before, cut.after
    sizes = {key.replace("stop", "end"): text for key, text in cut.sizes.items()}
    return moved(input, source, target, arguments=arguments, sizes=sizes)


def select(input: Any, dim: int, index: Any) -> Declaration:
    """Declares one element of a dimension."""
    dims = dims_of(input)
    place = axis(dim, len(dims))
    if is_dim(index):
        need_place(index, dims[place])
    row = words(len(dims), [place])
    return moved(input, row, [*row[:place], *row[place + 1 :]])


def diff(
    input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None
) -> Declaration:
    """Declares differences along a dimension of tensors put together."""
    dims = dims_of(input)
    place = axis(dim, len(dims))
    names = Names()
    row = names.take(len(dims))
    arguments: dict[str, Any] = {}
    tensors = [x for x in (prepend, input, append) if x is not None]
    lengths = known(tuple(dims_of(x)[place] for x in tensors), "a tensor of diff")
    if not isinstance(n, int) and len(tensors) > 1:
        raise NotKnown("how often the differences are taken is not known")
    need(n, GE, 0, errors.not_understood("diff", f"n is {n}"))
    total = maximum(sum(lengths[1:], lengths[0]) - n, 0)
    order = [x for x in (input, prepend, append) if x is not None]
    patterns = []
    for tensor in order:
        word = "1" if dims_of(tensor)[place] == 1 else names.one("^")
        patterns.append([*row[:place], word, *row[place + 1 :]])
    target = [*row[:place], length_word(names, arguments, total), *row[place + 1 :]]
    dtype = dtype_of(input)
    return declared(
        order,
        patterns,
        [target],
        arguments=arguments,
        dtypes=("bool" if dtype == "bool" else result_type(order),),
        linear=(tuple(range(len(order))),) if dtype != "bool" else (),
        frozen="" if len(dims) > 1 else "every difference needs the element before it",
    )


def gradient(
    input: Any, *, spacing: Any = None, dim: Any = None, edge_order: int = 1
) -> Declaration:
    """Declares central differences along dimensions, a result for each."""
    dims = dims_of(input)
    if is_tensor(spacing) or any(is_tensor(x) for x in as_tuple(spacing)):
        raise NotKnown("places in tensors are not supported")
    places = axes(dim, len(dims))
    for n in places:
        if (length := dims[n]) is not None:
            need(length, GE, edge_order + 1, errors.out_of_range("edge_order", edge_order, length))
    row = words(len(dims), places)
    return declared(
        (input,),
        [row],
        [row] * len(places),
        dtypes=(dtype_of(input),) * len(places),
        linear=((0,),),
        returns="tuple",
    )


def constant_pad_nd(input: Any, pad: Any, value: Any = 0) -> Declaration:
    """Declares a padding with one value."""
    return _pad(input, pad, "constant", value)


_pad = pad


def _triangle_indices(*, lower: bool) -> Form:
    """Declares tril_indices, triu_indices: one column for each place of a triangle."""

    def declare(
        row: Any, col: Any, offset: int = 0, *, dtype: Any = None, **rest: Any
    ) -> Declaration:
        if not isinstance(row, int) or not isinstance(col, int):
            raise NotKnown("how many places a triangle has is not known")
        below = sum(min(max(n + offset + lower, 0), col) for n in range(row))
        count = below if lower else row * col - below
        return made((2, count), "", dtype_name(dtype) or "int64", mark="^", frozen=POSITIONS)

    return declare


def triangle(input: Any, diagonal: int = 0) -> Declaration:
    """Declares tril and triu: batches may be cut, matrices not."""
    rank = len(dims_of(input))
    if rank < 2:
        raise errors.wrong_rank("a triangle", "input", dims_of(input), "at least 2 dimensions")
    names = Names()
    row = [names.one("^" if n >= rank - 2 else "") for n in range(rank)]
    return moved(input, row, row, frozen=POSITIONS if rank == 2 else "")


def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Declaration:
    """Declares the elements on a diagonal, as a last dimension."""
    dims = dims_of(input)
    a, b = axis(dim1, len(dims)), axis(dim2, len(dims))
    rows, columns = dims[a], dims[b]
    names = Names()
    row = [names.one("^" if n in (a, b) else "") for n in range(len(dims))]
    arguments: dict[str, Any] = {}
    length = None
    if rows is not None and columns is not None:
        down, right = max(-offset, 0), max(offset, 0)
        length = minimum(rows - down, columns - right)
        length = (
            max(length, 0) if isinstance(length, int) else maximum(length, 0) if offset else length
        )
    word = length_word(names, arguments, length)
    rest = [w for n, w in enumerate(row) if n not in (a, b)]
    return moved(
        input,
        row,
        [*rest, word],
        arguments=arguments,
        fresh=(bare(word),) if length is None else (),
        frozen="" if rest else POSITIONS,
    )


_diagonal = diagonal


def torch_diagonal_of_linalg(
    A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1
) -> Declaration:
    """Declares torch.linalg.diagonal, by default of the last dimensions."""
    return diagonal(A, offset, dim1, dim2)


def diag(input: Any, diagonal: int = 0) -> Declaration:
    """Declares torch.diag: a vector to a matrix, or a matrix to its diagonal."""
    dims = dims_of(input)
    if len(dims) == 2:
        return _diagonal(input, diagonal)
    return diag_embed(input, diagonal)


def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Declaration:
    """Declares vectors laid on the diagonals of matrices."""
    dims = dims_of(input)
    names = Names()
    batch, last = names.take(len(dims) - 1), names.one("^")
    arguments: dict[str, Any] = {}
    length = None if dims[-1] is None else dims[-1] + abs(offset)
    side = last if offset == 0 else length_word(names, arguments, length)
    rank = len(dims) + 1
    a, b = axis(dim1, rank), axis(dim2, rank)
    rest = iter(batch)
    target = [side if n in (a, b) else next(rest) for n in range(rank)]
    return moved(
        input, [*batch, last], target, arguments=arguments, frozen="" if batch else POSITIONS
    )


def diagflat(input: Any, offset: int = 0) -> Declaration:
    """Declares a flattened tensor on a diagonal."""
    dims = known(dims_of(input))
    side = product(dims) + abs(offset)
    names, arguments = Names(), dict[str, Any]()
    row = names.take(len(dims), "^")
    word = length_word(names, arguments, side)
    return moved(input, row, [word, word], arguments=arguments, frozen=POSITIONS)


def diagonal_scatter(
    input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Declaration:
    """Declares a diagonal replaced."""
    found = diagonal(input, offset, dim1, dim2)
    row, target = found.annotation.split(" -> ")
    word, given = target.rpartition(" ")[2], dims_of(src, "the source")[-1]
    length = int(word) if word.isdecimal() else found.arguments.get(bare(word))
    if length is not None and given is not None:
        need(given, EQ, length, errors.lengths_differ("the diagonal and the source", length, given))
    return replace(
        found,
        annotation=f"{row}, {target} -> {row}",
        inputs=(input, src),
        arguments={},
        fresh=(),
        linear=((0, 1),),
    )


ENTRIES = (
    functional(
        pad,
        example(t(12, 6), (1, 2)),
        example(t(12, 6, 4), (0, 0, 1, 1), value=2.0),
        example(t(12, 6, 8), (1, 1), mode="reflect"),
        example(t(12, 6), (-1, 0)),
    ),
    torch_entry(
        roll,
        example(t(12, 6), 1, -1),
        example(t(12, 6), (1, 2), (0, 1)),
        example(t(2, 12, 6), (1, 2), (1, 2)),
        example(t(12, 6), 3),
    ),
    torch_entry(flip, example(t(12, 6), (1,)), example(t(2, 12, 6), (-1, 0))),
    entry("torch.Tensor.flip", flip, example(t(12, 6), 1), example(t(2, 12, 6), -1, 0)),
    torch_entry(fliplr, *shapes("12 6")),
    torch_entry(flipud, *shapes("12 6")),
    torch_entry(
        rot90,
        *shapes("4 6 12"),
        *[example(t(12, 4, 6), turns, (1, 2)) for turns in (1, 2, -1)],
    ),
    torch_entry(
        narrow,
        example(t(12, 6), 1, 0, 6),
        example(t(12, 24), 1, 12, 12),
        example(t(12, 24), 1, 8, 8),
        example(t(12, 24), 0, 1, 5),
    ),
    entry(
        "torch.ops.aten.slice",
        aten_slice,
        example(t(12, 24), 1, 8, 16),
        example(t(12, 24), 0, 1, 5, 2),
    ),
    torch_entry(select, example(t(12, 6), 1, 2), example(t(12, 6, 4), -1, -1)),
    torch_entry(diff, *shapes("12 6"), example(t(12, 6), 1, -1, t(12, 1)), example(t(12, 6), 2, 1)),
    torch_entry(gradient, *shapes("12 6"), example(t(2, 12, 6), dim=-1, spacing=0.5)),
    torch_entry(constant_pad_nd, example(t(12, 6), (1, 2)), example(t(12, 6), (0, 0, 1, 0), 2.0)),
    entry("torch.tril", triangle, *shapes("12 4 6"), example(t(6, 6), -1)),
    entry("torch.triu", triangle, example(t(12, 4, 6), 1), *shapes("6 6")),
    entry("torch.tril_indices", _triangle_indices(lower=True), example(4, 6), example(6, 4, -1)),
    entry("torch.triu_indices", _triangle_indices(lower=False), example(4, 6), example(3, 5, 2)),
    torch_entry(diagonal, example(t(12, 4, 6), 0, 1, 2), example(t(4, 6), 1)),
    entry("torch.linalg.diagonal", torch_diagonal_of_linalg, *shapes("12 4 6")),
    torch_entry(diag, *shapes("6"), example(t(4, 6), -1)),
    torch_entry(diag_embed, *shapes("12 6"), example(t(12, 6), 1)),
    torch_entry(diagflat, *shapes("4 3"), example(t(6), 1)),
    torch_entry(diagonal_scatter, example(t(12, 4, 6), t(12, 4), 0, 1, 2)),
)
