"""Tensors put together along one dimension.

cat((x, y), -1)           a b, a b -> a (2 b)           b is cut in both at once: S(1, blocks=2)
cat of 8 and 16           a (1 b), a (2 b) -> a (3 b)   b=8
cat of 8 and 9            a b^, a c^ -> a d^            d=17: no cut falls between the two
stack((x, y))             a b, a b -> 2 a b

What takes a tensor apart again is in `taking_apart`; both lay `blocks` one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dimsolve.ir.operator import Declaration
from dimsolve.solver.algebra.poly import Dim, divide_exactly

from . import errors
from .dtypes import dtype_of, result_type
from .entry import Form, entry
from .lengths import common_divisor
from .pointwise import spread
from .samples import example, t
from .values import Lengths, NotKnown, axis, dims_of, known, listed
from .writing import Names, annotation, bare, group, length_word


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
    """Returns the declaration of a concatenation."""
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
    return Declaration(
        annotation(patterns, [[*row[:place], total, *row[place + 1 :]]]),
        tuple(tensors),
        arguments=arguments,
        dtypes=(result_type(tensors),),
        linear=(tuple(range(len(tensors))),),
    )


def _length_at(shape: Lengths, place: int, rank: int) -> Dim | None:
    if len(shape) != rank:
        raise errors.wrong_rank("cat", "a tensor", shape, f"{rank} dimensions")
    return shape[place]


def stack(tensors: Any, dim: int = 0) -> Declaration:
    """Returns the declaration of equal tensors along a new dimension."""
    tensors = list(tensors)
    row = Names().take(len(dims_of(tensors[0])))
    place = axis(dim, len(row) + 1)
    return Declaration(
        annotation([row] * len(tensors), [[*row[:place], str(len(tensors)), *row[place:]]]),
        tuple(tensors),
        dtypes=(result_type(tensors),),
        linear=(tuple(range(len(tensors))),),
    )


def _stacked(dim: int, least: int) -> Form:
    """Returns the declaration of hstack, vstack and dstack: a concatenation of what has at least so
    many dimensions.
    """

    def declare(tensors: Any) -> Declaration:
        ranks = {len(dims_of(tensor)) for tensor in tensors}
        if min(ranks) < least:
            if ranks == {1} and least == 2 and dim == 0:
                return stack(tensors, 0)
            raise NotKnown(f"tensors with fewer than {least} dimensions are not known of")
        return cat(tensors, 0 if ranks == {1} else dim)

    return declare


def column_stack(tensors: Any) -> Declaration:
    """Returns the declaration of vectors as columns, or of matrices side by side."""
    tensors = list(tensors)
    if {len(dims_of(tensor)) for tensor in tensors} == {1}:
        return stack(tensors, 1)
    return _stacked(1, 2)(tensors)


def broadcast_tensors(*tensors: Any) -> Declaration:
    """Returns the declaration of tensors expanded to a common shape, one result each."""
    given = list(listed(tensors))
    found = spread(given, len(given))
    return replace(found, dtypes=tuple(map(dtype_of, given)), returns="tuple")


_JOINED = (
    example([t(12, 6), t(12, 6)], 1),
    example([t(12, 6), t(12, 12), t(12, 6)], -1),
    example([t(12, 4), t(12, 3)], dim=1),
    example([t(4, 6), t(8, 6)]),
)

ENTRIES = (
    entry("torch.cat", cat, *_JOINED),
    entry(
        "torch.stack",
        stack,
        example([t(12, 6), t(12, 6)]),
        example([t(12, 6), t(12, 6), t(12, 6)], -1),
    ),
    entry("torch.hstack", _stacked(1, 1), example([t(12, 6), t(12, 6)]), example([t(12), t(6)])),
    entry("torch.vstack", _stacked(0, 2), example([t(4, 6), t(8, 6)]), example([t(6), t(6)])),
    entry("torch.dstack", _stacked(2, 3), example([t(2, 4, 6), t(2, 4, 6)])),
    entry(
        "torch.column_stack", column_stack, example([t(12), t(12)]), example([t(12, 4), t(12, 2)])
    ),
    entry(
        "torch.broadcast_tensors", broadcast_tensors, example(t(12, 1), t(6)), example(t(12), t(12))
    ),
)
