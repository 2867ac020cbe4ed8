"""Tensors put together along one dimension, and taken apart again: blocks one after the other.

cat((x, y), -1)           a b, a b -> a (2 b)           b is split in both: S(1, blocks=2)
cat of 8 and 16           a (1 b), a (2 b) -> a (3 b)   b=8
cat of 8 and 9            a b^, a c^ -> a d^            d=17: no split falls between the two
stack((x, y))             a b, a b -> 2 a b
split(x, 4, -1) of 12     a (3 b) -> a b, a b, a b      a rank's size is its b
chunk(x, 2, -1)           a (2 b) -> a b, a b
unbind(x, 0) of 3         3 b -> b, b, b
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dimsolve.ir.operator import Declaration

from ...algebra.dims import ceil_div
from ...algebra.poly import Dim, divide_exactly
from ..declare import errors
from ..declare.dtypes import dtype_of, result_type
from ..declare.entry import Form, entry, example, shapes, t, torch_entry
from ..declare.forms import declared
from ..declare.needs import EQ, GE, common_divisor, need, never_equal
from ..declare.writing import (
    Lengths,
    Names,
    NotKnown,
    PartsNotKnown,
    axis,
    bare,
    dims_of,
    group,
    is_dim,
    known,
    length_word,
    listed,
)
from ..elementwise.pointwise import spread


def blocks(
    lengths: Sequence[Dim], names: Names, arguments: dict[str, Any], *, rigid: bool = False
) -> tuple[list[str], str]:
    """Returns words for lengths that lie one after the other, and for their sum.

    Where they are all multiples of one length w, each is so many blocks of w, and w may be cut.
    Otherwise, or if ``rigid``, all is frozen.

    >>> blocks([8, 16], Names(), {}), blocks([8, 9], Names(), {})
    ((['a', '(2 a)'], '(3 a)'), (['a^', 'b^'], 'c^'))
    """
    width = common_divisor(lengths)
    counts = [0 if width == 0 else divide_exactly(length, width) for length in lengths]
    numbers = [count for count in counts if isinstance(count, int)]
    if not rigid and width not in (0, 1) and len(numbers) == len(counts) and 0 not in numbers:
        word = names.one()
        return [group(str(n), word) for n in numbers], group(str(sum(numbers)), word)
    words = ["1" if length == 1 else length_word(names, {}, length) for length in lengths]
    total: Dim = sum(lengths[1:], lengths[0]) if lengths else 0
    return words, length_word(names, arguments, total)


def cat(tensors: Any, dim: int = 0) -> Declaration:
    """Declares a concatenation."""
    tensors = list(tensors)
    shapes = [dims_of(tensor, f"tensor {n}") for n, tensor in enumerate(tensors)]
    rank = max(len(shape) for shape in shapes)
    place = axis(dim, rank)
    names = Names()
    row = names.take(rank)
    arguments: dict[str, Any] = {}
    joined = [n for n, shape in enumerate(shapes) if not (shape == (0,) and rank > 1)]
    lengths = known(
        tuple(_length_at(shapes[n], place, rank) for n in joined), "a tensor that is joined"
    )
    words, total = blocks(
        lengths, Names({bare(w) for n, w in enumerate(row) if n != place}), arguments
    )
    patterns: list[list[str]] = [["0"] for _ in shapes]
    for n, word in zip(joined, words, strict=True):
        patterns[n] = [*row[:place], word, *row[place + 1 :]]
    return declared(
        tensors,
        patterns,
        [[*row[:place], total, *row[place + 1 :]]],
        arguments=arguments,
        dtypes=(result_type(tensors),),
        linear=(tuple(range(len(tensors))),),
    )


def _length_at(shape: Lengths, place: int, rank: int) -> Dim | None:
    if len(shape) != rank:
        raise errors.wrong_rank("cat", "a tensor", shape, f"{rank} dimensions")
    return shape[place]


def stack(tensors: Any, dim: int = 0) -> Declaration:
    """Declares equal tensors along a new dimension."""
    tensors = list(tensors)
    row = Names().take(len(dims_of(tensors[0])))
    place = axis(dim, len(row) + 1)
    return declared(
        tensors,
        [row] * len(tensors),
        [[*row[:place], str(len(tensors)), *row[place:]]],
        dtypes=(result_type(tensors),),
        linear=(tuple(range(len(tensors))),),
    )


def _stacked(dim: int, least: int) -> Form:
    """Declares hstack, vstack and dstack: a concatenation of tensors with ``least`` dimensions."""

    def declare(tensors: Any) -> Declaration:
        ranks = {len(dims_of(tensor)) for tensor in tensors}
        if min(ranks) < least:
            if ranks == {1} and least == 2 and dim == 0:
                return stack(tensors, 0)
            if ranks == {2} and least == 3:
                return stack(tensors, 2)
            raise NotKnown(f"tensors with fewer than {least} dimensions are not supported")
        return cat(tensors, 0 if ranks == {1} else dim)

    return declare


def column_stack(tensors: Any) -> Declaration:
    """Declares vectors as columns, or of matrices side by side."""
    tensors = list(tensors)
    if {len(dims_of(tensor)) for tensor in tensors} == {1}:
        return stack(tensors, 1)
    return _stacked(1, 2)(tensors)


def broadcast_tensors(*tensors: Any) -> Declaration:
    """Declares tensors expanded to a common shape, one result each."""
    given = list(listed(tensors))
    found = spread(given, len(given))
    return replace(found, dtypes=tuple(map(dtype_of, given)), returns="tuple")


_JOINED = (
    example([t(12, 6), t(12, 6)], 1),
    example([t(12, 6), t(12, 12), t(12, 6)], -1),
    example([t(12, 4), t(12, 3)], dim=1),
    example([t(4, 6), t(8, 6)]),
)


def apart(
    input: Any, place: int, lengths: Sequence[Dim], sizes_as: str = "", *, rigid: bool = False
) -> Declaration:
    """Declares a dimension taken apart into these lengths, in order.

    sizes_as: the parameter that holds the lengths, as ``"size:one"`` for all parts or
    ``"sizes:all"`` of them. rigid: the cuts are written in the call in a form that a rank cannot
    make anew.
    """
    dims = dims_of(input)
    names = Names()
    row = names.take(len(dims))
    arguments: dict[str, Any] = {}
    others = Names({bare(w) for n, w in enumerate(row) if n != place})
    words, total = blocks(lengths, others, arguments, rigid=rigid)
    if total.endswith("^"):
        arguments = {bare(w): n for w, n in zip(words, lengths, strict=True) if not w.isdecimal()}
    sizes: dict[str, str] = {}
    if sizes_as and not total.endswith("^"):
        name, _, form = sizes_as.partition(":")
        sizes = {name: words[0] if form == "one" else " ".join(words)}
    made = declared(
        (input,),
        [[*row[:place], total, *row[place + 1 :]]],
        [[*row[:place], word, *row[place + 1 :]] for word in words],
        arguments=arguments,
        sizes=sizes,
        dtypes=(dtype_of(input),) * len(lengths),
        linear=((0,),),
        returns="tuple",
    )
    # Of one size, nothing is one part, however many there were.
    rest = (*row[:place], *row[place + 1 :])
    return replace(made, empty=rest if sizes_as.endswith(":one") else True)


def _parted(length: Dim | None) -> Dim:
    """The length that is taken apart. Raises PartsNotKnown where it is not known."""
    if length is None:
        raise PartsNotKnown("the length that is taken apart is not known")
    return length


def split(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> Declaration:
    """Declares torch.split: parts of one size, the last may be smaller, or parts of given sizes."""
    dims = dims_of(tensor)
    place = axis(dim, len(dims))
    length = _parted(dims[place])
    size = split_size_or_sections
    if isinstance(size, list | tuple):
        _need_all(size, length)
        return apart(tensor, place, size, "split_size_or_sections:all")
    return apart(tensor, place, _equal_parts(length, size), "split_size_or_sections:one")


def _need_all(sizes: Sequence[Dim], length: Dim) -> None:
    """The sizes of the parts add up to the dimension."""
    if not sizes:
        raise NotKnown("a split has no parts")
    total: Dim = sum(sizes[1:], sizes[0])
    refusal = errors.lengths_differ(
        "the sizes of a split, summed, and the dimension", total, length
    )
    if never_equal(total, length):
        raise refusal
    need(total, EQ, length, refusal)


def _equal_parts(length: Dim, size: Dim) -> list[Dim]:
    """The lengths of parts of one size; the number of parts must be a number."""
    whole_parts = divide_exactly(length, size) if size != 0 else None
    if isinstance(whole_parts, int):
        return [size] * whole_parts
    if not (isinstance(length, int) and isinstance(size, int) and size > 0):
        raise PartsNotKnown("how many parts a split has is not known")
    return [*[size] * (length // size), length % size]


def split_with_sizes(tensor: Any, split_sizes: Any, dim: int = 0) -> Declaration:
    """Declares split_with_sizes."""
    dims = dims_of(tensor)
    place = axis(dim, len(dims))
    length = _parted(dims[place])
    _need_all(list(split_sizes), length)
    return apart(tensor, place, list(split_sizes), "split_sizes:all")


def chunk(input: Any, chunks: int, dim: int = 0) -> Declaration:
    """Declares torch.chunk: at most ``chunks`` parts of one size, the last may be smaller."""
    dims = dims_of(input)
    place = axis(dim, len(dims))
    length = _parted(dims[place])
    return apart(input, place, _chunks(length, chunks))


def _chunks(length: Dim, chunks: int) -> list[Dim]:
    """The lengths of chunks. Of a length that is not known there are as many as asked for: that
    the last one is positive is then a condition, which is exact.
    """
    size = ceil_div(length, chunks)
    exact = divide_exactly(length, chunks)
    if exact is not None and exact != 0:
        return [exact] * chunks
    if isinstance(length, int):
        return _equal_parts(length, size)
    last = length - (chunks - 1) * size
    need(last, GE, 1)
    return [*[size] * (chunks - 1), last]


def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> Declaration:
    """Declares torch.tensor_split: so many parts whose lengths differ by at most
    1, or cuts at indices.
    """
    dims = dims_of(input)
    place = axis(dim, len(dims))
    length = _parted(dims[place])
    given = indices_or_sections
    if is_dim(given):
        exact = divide_exactly(length, given)
        if exact is not None and isinstance(given, int):
            return apart(input, place, [exact] * given)
        if not isinstance(length, int) or not isinstance(given, int):
            raise PartsNotKnown("the lengths of the parts are not known")
        return apart(input, place, [length // given + (n < length % given) for n in range(given)])
    if not isinstance(given, list | tuple):
        raise PartsNotKnown("the places of the cuts are not known")
    if not isinstance(length, int) or not all(isinstance(cut, int) for cut in given):
        raise PartsNotKnown("the lengths of the parts are not known")
    cuts = [slice(*pair).indices(length) for pair in zip([0, *given], [*given, None], strict=True)]
    lengths = [max(stop - start, 0) for start, stop, _ in cuts]
    return apart(input, place, lengths, rigid=True)


def split_along(dim: int) -> Form:
    """Declares hsplit, vsplit, dsplit: tensor_split along a fixed dimension."""

    def declare(input: Any, indices_or_sections: Any) -> Declaration:
        rank = len(dims_of(input))
        return tensor_split(input, indices_or_sections, 0 if dim == 1 and rank == 1 else dim)

    return declare


def unbind(input: Any, dim: int = 0) -> Declaration:
    """Declares a dimension taken apart into its elements."""
    dims = dims_of(input)
    row = Names().take(len(dims))
    place = axis(dim, len(dims))
    length = _parted(dims[place])
    if not isinstance(length, int):
        raise PartsNotKnown("how many tensors unbind gives is not known")
    rest = [*row[:place], *row[place + 1 :]]
    return declared(
        (input,),
        [[*row[:place], str(length), *row[place + 1 :]]],
        [rest] * length,
        dtypes=(dtype_of(input),) * length,
        linear=((0,),),
        returns="tuple",
    )


ENTRIES = (
    torch_entry(cat, *_JOINED),
    torch_entry(stack, example([t(12, 6), t(12, 6)]), example([t(12, 6), t(12, 6), t(12, 6)], -1)),
    entry("torch.hstack", _stacked(1, 1), example([t(12, 6), t(12, 6)]), example([t(12), t(6)])),
    entry("torch.vstack", _stacked(0, 2), example([t(4, 6), t(8, 6)]), example([t(6), t(6)])),
    entry(
        "torch.dstack",
        _stacked(2, 3),
        example([t(2, 4, 6), t(2, 4, 6)]),
        example([t(12, 6), t(12, 6)]),
    ),
    torch_entry(column_stack, example([t(12), t(12)]), example([t(12, 4), t(12, 2)])),
    torch_entry(broadcast_tensors, *shapes("12 1, 6", "12, 12")),
    torch_entry(
        split,
        example(t(12, 24), 8, 1),
        example(t(12, 24), [12, 6, 6], dim=-1),
        example(t(12, 10), 4, 1),
        example(t(12, 10), [3, 7], 1),
    ),
    torch_entry(split_with_sizes, example(t(12, 24), [16, 8], 1)),
    torch_entry(chunk, example(t(12, 24), 3, -1), example(t(12, 10), 4, 1), example(t(12, 6), 2)),
    torch_entry(
        tensor_split,
        example(t(12, 24), 3, 1),
        example(t(12, 10), (4, 6), 1),
        example(t(12, 10), 3, 1),
    ),
    entry("torch.hsplit", split_along(1), example(t(12, 6), 3), example(t(12), (3, 5))),
    entry("torch.vsplit", split_along(0), example(t(12, 6), 4)),
    entry("torch.dsplit", split_along(2), example(t(12, 2, 6), 2)),
    entry("torch.unsafe_split", split, example(t(12, 24), 8, 1)),
    torch_entry(unbind, *shapes("3 12"), example(t(12, 2, 6), 1)),
)
