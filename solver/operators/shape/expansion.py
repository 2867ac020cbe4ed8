"""expand and repeat: dimensions of length 1 made longer, dimensions repeated, new leading ones.

    expand(x, b, 8, s)   of (b, 1, s)    a 1 c -> a b c      b=8; a rank's sizes are its a, b and c
    expand(x, 2, -1)     of (s,)         b -> a b            a=2; each rank makes its part of a
    repeat(x, 1, 3)      of (b, s)       a b -> a (c b)      c=3; b is cut in every copy at once
    repeat_interleave(x, 3, 1)           a b -> a (b c)

Sizes that are -1 keep a length; on a rank it is the length there. A repeat is a reshape, an expand
and a reshape; its own splits are those three taken together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dimsolve.ir.operator import Declaration

from ...algebra.poly import Dim, product
from ..declare import errors
from ..declare.entry import entry, example, shapes, t, torch_entry
from ..declare.forms import declared, moved
from ..declare.needs import EQ, need, need_equal_or_one, never_equal
from ..declare.writing import (
    Lengths,
    Names,
    NotKnown,
    axis,
    bare,
    dims_of,
    group,
    is_dim,
    is_tensor,
    length_word,
    listed,
    rest_of,
)


def expanded(input: Any, sizes: Sequence[Any], parameter: str) -> Declaration:
    """Declares an expand to these sizes. Raises ShapeError where a size breaks its rules."""
    dims = dims_of(input)
    if not all(is_dim(size) for size in sizes):
        raise NotKnown("a size is not known")
    source, target, arguments = expand_words(dims, sizes)
    return moved(
        input, source, target, arguments=arguments, sizes={parameter: " ".join(target) or "()"}
    )


def expand_words(
    dims: Lengths, sizes: Sequence[Dim]
) -> tuple[list[str], list[str], dict[str, Any]]:
    """Returns the words of a tensor before and after, and the lengths that the tensor does not
    give.

    >>> expand_words((12, 1), (2, -1, 6))
    (['b', '1'], ['a', 'b', 'c'], {'a': 2, 'c': 6})
    """
    new = len(sizes) - len(dims)
    if new < 0:
        raise errors.expand_too_few(dims, sizes)
    names = Names()
    source: list[str] = []
    target: list[str] = []
    arguments: dict[str, Any] = {}
    for position, size in enumerate(sizes):
        if isinstance(size, int) and size < -1:
            raise errors.negative_size(size, sizes)
        if position < new:
            if size == -1:
                raise errors.expand_new_dim(position, sizes)
            target.append(length_word(names, arguments, size, ""))
            continue
        length = dims[position - new]
        before, after = _one_dim(dims, sizes, length, size, names, arguments)
        source.append(before)
        target.append(after)
    return source, target, arguments


def _one_dim(
    dims: Lengths,
    sizes: Sequence[Dim],
    length: Dim | None,
    size: Dim,
    names: Names,
    arguments: dict[str, Any],
) -> tuple[str, str]:
    if length == 1:
        return "1", "1" if size == -1 else length_word(names, arguments, size, "")
    if size in (-1, length):
        word = "0" if length == 0 else names.one()
        return word, word
    if length is None:
        return names.one("^"), length_word(names, arguments, size)
    if isinstance(length, int) or never_equal(length, 1):
        if never_equal(length, size):
            raise errors.expand_length(dims, sizes, length, size)
        need(length, EQ, size)
        word = names.one("^")
        return word, word
    need_equal_or_one(length, size, one=(length,))
    return names.one("^"), length_word(names, arguments, size)


def expand(input: Any, *size: Any, implicit: bool = False, **named: Any) -> Declaration:
    """Declares Tensor.expand."""
    return expanded(input, rest_of(size, named, "size"), "size")


def broadcast_to(input: Any, size: Any) -> Declaration:
    """Declares torch.broadcast_to."""
    return expanded(input, listed((size,)), "size")


def expand_as(input: Any, other: Any) -> Declaration:
    """Declares an expand to another tensor's shape; that tensor is cut alike."""
    sizes = dims_of(other, "the other tensor")
    if any(size is None for size in sizes):
        raise NotKnown("a length of the other tensor is not known")
    source, target, arguments = expand_words(
        dims_of(input), tuple(s for s in sizes if s is not None)
    )
    given = {bare(word) for word in target}
    return declared(
        (input, other),
        [source, target],
        [target],
        arguments={k: v for k, v in arguments.items() if k not in given},
        linear=((0,),),
    )


def repeated(input: Any, repeats: Sequence[Any], parameter: str) -> Declaration:
    """Declares a repeat with one count per dimension; leading counts make new dimensions."""
    dims = dims_of(input)
    if not all(is_dim(count) for count in repeats):
        raise NotKnown("a repeat count is not known")
    new = len(repeats) - len(dims)
    if new < 0:
        raise errors.repeat_too_few(dims, repeats)
    names = Names()
    arguments: dict[str, Any] = {}
    source: list[str] = []
    target: list[str] = []
    counts: list[str] = []
    for position, count in enumerate(repeats):
        if isinstance(count, int) and count < 0:
            raise errors.negative_size(count, repeats)
        length = 1 if position < new else dims[position - new]
        empty = 0 in (length, count)
        fixed = length == 0 and isinstance(count, int)
        word = str(count) if fixed else length_word(names, arguments, count, "")
        counts.append(word)
        if position < new:
            target.append(word)
            continue
        inner = "1" if length == 1 else "0" if length == 0 else names.one("^" if empty else "")
        source.append(inner)
        target.append("0" if empty else group(word, inner))
    if "0" in target:
        written = set(re.findall(r"\w+", " ".join(target)))
        arguments = {k: v for k, v in arguments.items() if k in written}
    return moved(
        input, source, target, arguments=arguments, sizes={parameter: " ".join(counts) or "()"}
    )


def repeat(input: Any, *repeats: Any, **named: Any) -> Declaration:
    """Declares Tensor.repeat."""
    return repeated(input, rest_of(repeats, named, "repeats"), "repeats")


def tile(input: Any, *dims: Any, **named: Any) -> Declaration:
    """Declares torch.tile: counts for the last dimensions, 1 for the others."""
    counts = rest_of(dims, named, "dims")
    missing = len(dims_of(input)) - len(counts)
    return repeated(input, (*[1] * max(missing, 0), *counts), "dims")


def repeat_interleave(
    input: Any, repeats: Any = None, dim: Any = None, *, output_size: Any = None
) -> Declaration:
    """Declares elements repeated one by one, along a dimension or of the flattened tensor."""
    dims = dims_of(input)
    if repeats is None or (is_tensor(repeats) and dim is None and len(dims) > 1):
        raise NotKnown("repeat counts for a flattened tensor are not supported")
    names = Names()
    row = names.take(len(dims))
    place = axis(0 if dim is None else dim, len(dims))
    if is_tensor(repeats):
        return _by_counts(input, repeats, row, place, output_size, names)
    arguments: dict[str, Any] = {}
    word = length_word(names, arguments, repeats, "")
    longer = "0" if word == "0" else group(*(row if dim is None else row[place : place + 1]), word)
    target = [longer] if dim is None else [*row[:place], longer, *row[place + 1 :]]
    sizes = {} if word == "1" else {"repeats": word}
    if output_size is not None:
        sizes["output_size"] = longer
        _need_size(dims if dim is None else dims[place : place + 1], repeats, output_size)
    return moved(input, row, target, arguments=arguments, sizes=sizes)


def _need_size(lengths: Lengths, repeats: Any, output_size: Any) -> None:
    """The size that is given must be the one that the counts make."""
    known = [length for length in lengths if length is not None]
    if len(known) == len(lengths) and is_dim(repeats) and is_dim(output_size):
        made = product([*known, repeats])
        need(output_size, EQ, made, errors.output_size_differs(output_size, made))


def _by_counts(
    input: Any, repeats: Any, row: list[str], place: int, output_size: Any, names: Names
) -> Declaration:
    """A count per element: how long the result is, is known from output_size or when it runs."""
    arguments: dict[str, Any] = {}
    word = length_word(names, arguments, output_size)
    source = [*row[:place], f"{row[place]}^", *row[place + 1 :]]
    counts = (
        ["1"] if dims_of(repeats) in ((1,),) else [f"{row[place]}^"] if dims_of(repeats) else []
    )
    return declared(
        (input, repeats),
        [source, counts],
        [[*row[:place], word, *row[place + 1 :]]],
        arguments=arguments,
        fresh=(bare(word),) if output_size is None else (),
    )


ENTRIES = (
    entry(
        "torch.Tensor.expand",
        expand,
        example(t(12, 1, 6), 12, 4, 6),
        example(t(12, 1, 6), (-1, 4, -1)),
        example(t(4, 1), 2, 3, 4, 12),
        example(t(), 12, 4),
    ),
    torch_entry(broadcast_to, example(t(12, 1), (12, 6)), example(t(6), (12, 6))),
    entry("torch.Tensor.expand_as", expand_as, *shapes("12 1, 12 6", "6, 2 12 6")),
    entry(
        "torch.Tensor.repeat",
        repeat,
        example(t(12, 6), 2, 3),
        example(t(12, 6), 4, 1, 2),
        example(t(12, 1), (1, 6)),
    ),
    torch_entry(tile, example(t(12, 6), (2,)), example(t(12, 6), (2, 1, 3))),
    torch_entry(
        repeat_interleave,
        example(t(12, 6), 4, 1),
        example(t(4, 6), 2, dim=0),
        example(t(4, 3), 2),
        example(t(12, 6), 4, 1, output_size=24),
        example(t(4, 3), 2, output_size=24),
    ),
)
