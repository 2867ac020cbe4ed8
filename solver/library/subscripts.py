"""``x[...]`` and ``x[...] = value``: ints, slices, None, Ellipsis, index tensors and masks.

x[:, None, :, 0]           a b c^ -> a 1 b
x[..., :64]                a b (2 c) -> a b c          a rank's stop is its c
table[ids]                 a^ b, c d -> c d b          ids may be cut, the rows of the table not
x[:, 0] = v                a b^ c, a c -> a b^ c
"""

from __future__ import annotations

from typing import Any

from dimsolve.ir.operator import Declaration
from dimsolve.solver.algebra.poly import Dim

from . import errors
from .broadcast import laid_on
from .dtypes import dtype_of
from .entry import entry
from .samples import example, mask, t, whole
from .subscript_words import read_subscript
from .values import Lengths, dims_of, is_tensor
from .writing import Names, annotation, bare, freeze, freeze_some, freeze_word


def getitem(input: Any, index: Any) -> Declaration:
    """Returns the declaration of reading a subscript; of a tuple or a dict the item itself."""
    if not is_tensor(input):
        return Declaration("-> ?", (), returns="value", value=input[index])
    found = read_subscript(dims_of(input), index, Names())
    return Declaration(
        annotation([found.source, *found.index_words], [found.target]),
        (input, *found.indices),
        arguments=found.arguments,
        sizes=found.sizes,
        fresh=tuple(found.fresh),
        dtypes=(dtype_of(input),),
        linear=((0,),),
    )


def setitem(input: Any, index: Any, value: Any) -> Declaration:
    """Returns the declaration of writing to a subscript: what is written is the tensor as it is
    afterwards.
    """
    dims = dims_of(input)
    names = Names()
    found = read_subscript(dims, index, names)
    source, target = found.source, found.target
    index_words = [freeze(row) for row in found.index_words]
    chosen = {word for row in found.index_words for word in row}
    target = [freeze_word(word) if word in chosen else word for word in target]
    if found.mask_words and not (is_tensor(value) and dims_of(value)):
        source = [bare(word) if word in chosen else word for word in source]
        index_words = [[bare(word) for word in row] for row in index_words]
    inputs, patterns = [input, *found.indices], [source, *index_words]
    doubtful: set[str] = set()
    if is_tensor(value):
        inputs.append(value)
        given = dims_of(value, "the value")
        pattern, doubtful = _value_pattern(given, target, found.lengths, names)
        patterns.append(pattern)
    used = {bare(word) for row in patterns for dim in row for word in dim.strip("()").split(" ")}
    return Declaration(
        freeze_some(annotation(patterns, [source]), doubtful),
        tuple(inputs),
        arguments={name: length for name, length in found.arguments.items() if name in used},
        sizes=found.sizes,
        dtypes=(dtype_of(input),),
        mutates=(0,),
        returns="nothing",
    )


def _value_pattern(
    dims: Lengths, target: list[str], wanted: list[Dim | None], names: Names
) -> tuple[list[str], set[str]]:
    """The words of a value that is broadcast to what a subscript names, and which stay whole."""
    extra = len(dims) - len(target)
    if any(length != 1 for length in dims[: max(extra, 0)]):
        raise errors.cannot_assign(dims, len(target))
    words, doubtful = laid_on(dims[max(extra, 0) :], wanted, target, names)
    return ["1"] * max(extra, 0) + words, doubtful


_READS = (
    example(t(12, 24), (slice(None), None)),
    example(t(12, 24, 4), (Ellipsis, 1)),
    example(t(12, 24), (Ellipsis, slice(None, 12))),
    example(t(12, 24), (slice(None), slice(12, None))),
    example(t(12, 24), (slice(None), slice(8, 16))),
    example(t(12, 24), (slice(None), slice(0, None, 2))),
    example(t(12, 24), slice(1, None)),
    example(t(12, 24), (slice(None), slice(None, -1))),
    example(t(24, 6), whole(24, 12, 4)),
    example(t(12, 24, 6), (whole(12, 4, 1), whole(24, 1, 3))),
    example(t(12, 4, 24), (whole(12, 6), slice(None), whole(24, 6))),
    example(t(12, 24), 3),
)

ENTRIES = (
    entry("operator.getitem", getitem, *_READS),
    entry(
        "operator.setitem",
        setitem,
        example(t(12, 24), (slice(None), 2), 0.5),
        example(t(12, 4, 6), (slice(None), 1), t(12, 6)),
        example(t(12, 24), (slice(None), slice(12, None)), t(12)),
        example(t(12, 24), mask(12, 24), 0.0),
        note="what it writes to is its output",
    ),
)
