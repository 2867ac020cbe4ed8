"""``x[...]`` and ``x[...] = value``: ints, slices, None, Ellipsis, index tensors and masks.

x[:, None, :, 0]           a b c^ -> a 1 b
x[..., :64]                a b (2 c) -> a b c          a rank's stop is its c
table[ids]                 a^ b, c d -> c d b          ids may be cut, the rows of the table not
x[mask]                    a^ b^ c, a^ b^ -> d^ c      d is known only when it runs
x[:, 0] = v                a b^ c, a c -> a b^ c
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dimsolve.ir.operator import Declaration

from . import errors
from .broadcast import broadcast
from .dtypes import dtype_of
from .entry import entry
from .samples import example, mask, t, whole
from .slices import slice_dim
from .values import Lengths, NotKnown, dims_of, is_dim, is_tensor
from .writing import Names, annotation, bare, freeze, freeze_word


@dataclass(slots=True)
class Subscript:
    """A subscript laid on a tensor: the words of the tensor (source), of the index tensors, and of
    what is read (target).

    ``mask_words`` are the dimensions that a mask covers; the others are what a Declaration needs
    besides.
    """

    source: list[str] = field(default_factory=list)
    indices: list[Any] = field(default_factory=list)
    index_words: list[list[str]] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    arguments: dict[str, Any] = field(default_factory=dict)
    sizes: dict[str, str] = field(default_factory=dict)
    fresh: list[str] = field(default_factory=list)
    mask_words: list[str] = field(default_factory=list)


def read_subscript(dims: Lengths, index: Any, names: Names) -> Subscript:
    """Returns the subscript of a tensor with these lengths. Raises ShapeError where it cannot be
    laid on it.
    """
    items = index if isinstance(index, tuple) else (index,)
    prefix = "index." if isinstance(index, tuple) else "index"
    result = Subscript()
    taken = 0
    tensor_places: list[int] = []
    tensors: list[tuple[Any, Lengths]] = []
    for number, item in enumerate(_without_ellipsis(items, len(dims))):
        position, item = item
        if item is None:
            result.target.append("1")
            continue
        if taken >= len(dims):
            raise errors.too_many_indices(len(dims), number + 1)
        length = dims[taken]
        if isinstance(item, slice):
            cut = slice_dim(length, item, names, result.arguments)
            key = f"{prefix}{position}" if isinstance(index, tuple) else prefix
            result.sizes.update({f"{key}.{bound}": text for bound, text in cut.sizes.items()})
            result.source.append(cut.before)
            result.target.append(cut.after)
        elif is_dim(item):
            _check_index(item, length)
            result.source.append("1" if length == 1 else names.one("^"))
        else:
            tensor_places.append(len(result.target))
            tensors.append((item, _index_shape(item)))
            if is_tensor(item) and dtype_of(item) in ("bool", "uint8"):
                width = len(tensors[-1][1])
                result.mask_words = names.take(width, "^")
                result.source += result.mask_words
                taken += width
                continue
            result.source.append("1" if length == 1 else names.one("^"))
        taken += 1
    if tensors:
        _place_indices(result, tensors, tensor_places, names)
    return result


def _without_ellipsis(items: tuple[Any, ...], rank: int) -> list[tuple[int, Any]]:
    """The items with their places, Ellipsis and the end filled up with whole slices."""
    used = sum(_width(item) for item in items)
    everything = (-1, slice(None))
    numbered = list(enumerate(items))
    places = [n for n, item in numbered if item is Ellipsis]
    if len(places) > 1:
        raise errors.not_understood("indexing", "'...' stands twice")
    filling = [everything] * (rank - used)
    if places:
        return [*numbered[: places[0]], *filling, *numbered[places[0] + 1 :]]
    return [*numbered, *filling]


def _width(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    if is_tensor(item) and dtype_of(item) in ("bool", "uint8"):
        return len(dims_of(item, "the mask"))
    return 1


def _check_index(item: Any, length: Any) -> None:
    if isinstance(item, int) and isinstance(length, int) and not -length <= item < length:
        raise errors.out_of_range("the index", item, length)


def _index_shape(item: Any) -> Lengths:
    if is_tensor(item):
        return dims_of(item, "an index")
    if isinstance(item, list):
        return (
            (len(item), *_index_shape(item[0]))
            if item and isinstance(item[0], list)
            else (len(item),)
        )
    raise NotKnown(f"an index is a {type(item).__name__}")


def _place_indices(
    result: Subscript, tensors: list[tuple[Any, Lengths]], places: list[int], names: Names
) -> None:
    """Puts the dimensions of the index tensors where the first of them stands; in front where
    others are between them.
    """
    if result.mask_words:
        if len(tensors) > 1:
            raise NotKnown("a mask beside other index tensors is not known of")
        result.index_words = [result.mask_words]
        word = names.one("^")
        result.fresh.append(bare(word))
        words = [word]
    else:
        spread = broadcast([shape for _, shape in tensors], names)
        constant = any(not is_tensor(item) for item, _ in tensors)
        rows = [freeze(row) if constant else row for row in spread.inputs]
        words = freeze(spread.output) if constant else spread.output
        result.index_words = [
            row for row, (item, _) in zip(rows, tensors, strict=True) if is_tensor(item)
        ]
        given = {bare(w) for row in result.index_words for w in row}
        for row, (_, shape) in zip(rows, tensors, strict=True):
            for word, length in zip(row, shape, strict=True):
                if not word.isdecimal() and bare(word) not in given:
                    result.arguments[bare(word)] = length
        result.arguments.update(spread.arguments)
        result.fresh += spread.fresh
    result.indices = [item for item, _ in tensors if is_tensor(item)]
    together = all(place == places[0] for place in places)
    at = places[0] if together else 0
    result.target[at:at] = words


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
    if is_tensor(value):
        inputs.append(value)
        patterns.append(_value_pattern(dims_of(value, "the value"), target, names))
    used = {bare(word) for row in patterns for dim in row for word in dim.strip("()").split(" ")}
    return Declaration(
        annotation(patterns, [source]),
        tuple(inputs),
        arguments={name: length for name, length in found.arguments.items() if name in used},
        sizes=found.sizes,
        dtypes=(dtype_of(input),),
        mutates=(0,),
        returns="nothing",
    )


def _value_pattern(dims: Lengths, target: list[str], names: Names) -> list[str]:
    """The words of a value that is broadcast to what a subscript names."""
    extra = len(dims) - len(target)
    if any(length != 1 for length in dims[: max(extra, 0)]):
        raise errors.cannot_assign(dims, len(target))
    words = ["1"] * max(extra, 0)
    for length, word in zip(dims[max(extra, 0) :], target[max(-extra, 0) :], strict=True):
        words.append("1" if length == 1 else word)
    return words


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
