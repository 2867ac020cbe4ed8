"""A tensor taken apart along one dimension: how long each part is, and what a rank's call says.

split(x, 4, -1) of 12     a (3 b) -> a b, a b, a b      a rank's size is its b
chunk(x, 2, -1)           a (2 b) -> a b, a b
unbind(x, 0) of 3         3 b -> b, b, b

The inverse of `joining`: parts that are so many blocks of one length may be cut, all at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dimsolve.ir.operator import Declaration
from dimsolve.solver.algebra.dims import ceil_div
from dimsolve.solver.algebra.poly import Dim, divide_exactly

from . import errors
from .dtypes import dtype_of
from .entry import Form, entry
from .joining import blocks
from .lengths import never_equal
from .needs import EQ, GE, need
from .samples import example, t
from .values import NotKnown, PartsNotKnown, axis, dims_of, is_dim
from .writing import Names, annotation, bare


def apart(
    input: Any, place: int, lengths: Sequence[Dim], sizes_as: str = "", *, rigid: bool = False
) -> Declaration:
    """Returns the declaration of a dimension taken apart into these lengths, in order.

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
    return Declaration(
        annotation(
            [[*row[:place], total, *row[place + 1 :]]],
            [[*row[:place], word, *row[place + 1 :]] for word in words],
        ),
        (input,),
        arguments=arguments,
        sizes=sizes,
        dtypes=(dtype_of(input),) * len(lengths),
        linear=((0,),),
        returns="tuple",
    )


def _parted(length: Dim | None) -> Dim:
    """The length that is taken apart. Raises PartsNotKnown where it is not known."""
    if length is None:
        raise PartsNotKnown("the length that is taken apart is not known")
    return length


def split(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> Declaration:
    """Returns the declaration of torch.split: parts of one size, the last may be smaller, or parts
    of given sizes.
    """
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
    """Returns the declaration of split_with_sizes."""
    dims = dims_of(tensor)
    place = axis(dim, len(dims))
    length = _parted(dims[place])
    _need_all(list(split_sizes), length)
    return apart(tensor, place, list(split_sizes), "split_sizes:all")


def chunk(input: Any, chunks: int, dim: int = 0) -> Declaration:
    """Returns the declaration of torch.chunk: at most ``chunks`` parts of one size, the last may be
    smaller.
    """
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
    """Returns the declaration of torch.tensor_split: so many parts whose lengths differ by at most
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
    """Returns the declaration of hsplit, vsplit, dsplit: tensor_split along a fixed dimension."""

    def declare(input: Any, indices_or_sections: Any) -> Declaration:
        rank = len(dims_of(input))
        return tensor_split(input, indices_or_sections, 0 if dim == 1 and rank == 1 else dim)

    return declare


def unbind(input: Any, dim: int = 0) -> Declaration:
    """Returns the declaration of a dimension taken apart into its elements."""
    dims = dims_of(input)
    row = Names().take(len(dims))
    place = axis(dim, len(dims))
    length = _parted(dims[place])
    if not isinstance(length, int):
        raise PartsNotKnown("how many tensors unbind gives is not known")
    rest = [*row[:place], *row[place + 1 :]]
    return Declaration(
        annotation([[*row[:place], str(length), *row[place + 1 :]]], [rest] * length),
        (input,),
        dtypes=(dtype_of(input),) * length,
        linear=((0,),),
        returns="tuple",
    )


ENTRIES = (
    entry(
        "torch.split",
        split,
        example(t(12, 24), 8, 1),
        example(t(12, 24), [12, 6, 6], dim=-1),
        example(t(12, 10), 4, 1),
        example(t(12, 10), [3, 7], 1),
    ),
    entry("torch.split_with_sizes", split_with_sizes, example(t(12, 24), [16, 8], 1)),
    entry(
        "torch.chunk",
        chunk,
        example(t(12, 24), 3, -1),
        example(t(12, 10), 4, 1),
        example(t(12, 6), 2),
    ),
    entry(
        "torch.tensor_split",
        tensor_split,
        example(t(12, 24), 3, 1),
        example(t(12, 10), (4, 6), 1),
        example(t(12, 10), 3, 1),
    ),
    entry("torch.hsplit", split_along(1), example(t(12, 6), 3), example(t(12), (3, 5))),
    entry("torch.vsplit", split_along(0), example(t(12, 6), 4)),
    entry("torch.dsplit", split_along(2), example(t(12, 2, 6), 2)),
    entry("torch.unsafe_split", split, example(t(12, 24), 8, 1)),
    entry("torch.unbind", unbind, example(t(3, 12)), example(t(12, 2, 6), 1)),
)
