"""A subscript laid on a tensor: which words its items take, and which they leave.

x[:, None, :, 0]           a b c^ -> a 1 b
x[..., :64]                a b (2 c) -> a b c          a rank's stop is its c
x[mask]                    a^ b^ c, a^ b^ -> d^ c      d is known only when it runs

Reading and writing (`subscripts`) use it alike: what is read by one is written by the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dimsolve.solver.algebra.poly import Dim

from . import errors
from .broadcast import broadcast
from .dtypes import dtype_of
from .lengths import at_least
from .needs import GE, need
from .slices import slice_dim, slice_length
from .values import Lengths, NotKnown, dims_of, is_dim, is_tensor
from .writing import Names, bare, freeze

_MASKS = ("bool", "uint8")
"""Dtypes of index tensors that say which elements are meant, not where they are."""


@dataclass(slots=True)
class Subscript:
    """A subscript laid on a tensor: the words of the tensor (source), of the index tensors, and of
    what is read (target).

    ``lengths`` are those of what is read. ``mask_words`` are the dimensions that a mask covers; the
    others are what a Declaration needs besides.
    """

    source: list[str] = field(default_factory=list)
    indices: list[Any] = field(default_factory=list)
    index_words: list[list[str]] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    lengths: list[Dim | None] = field(default_factory=list)
    arguments: dict[str, Any] = field(default_factory=dict)
    sizes: dict[str, str] = field(default_factory=dict)
    fresh: list[str] = field(default_factory=list)
    mask_words: list[str] = field(default_factory=list)


def read_subscript(dims: Lengths, index: Any, names: Names) -> Subscript:
    """Returns the subscript of a tensor with these lengths. Raises ShapeError where it cannot be
    laid on it.
    """
    items = index if isinstance(index, tuple) else (index,)
    reader = _Reader(dims, names, "index.{}" if isinstance(index, tuple) else "index")
    for position, item in _without_ellipsis(items, len(dims)):
        reader.take(position, item)
    if reader.tensors:
        _place_indices(reader.found, reader.tensors, reader.places, names)
    return reader.found


@dataclass(slots=True)
class _Reader:
    """Takes the items of a subscript one by one. ``tensors`` are the index tensors and lists with
    their shapes, ``places`` where in the result each of them stands.
    """

    dims: Lengths
    names: Names
    key: str
    found: Subscript = field(default_factory=Subscript)
    tensors: list[tuple[Any, Lengths]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)

    def take(self, position: int, item: Any) -> None:
        """Lays one item on the dimensions that are left."""
        if item is None:
            self.found.target.append("1")
            self.found.lengths.append(1)
            return
        place = len(self.found.source)
        if place >= len(self.dims):
            raise errors.too_many_indices(len(self.dims), place + 1)
        length = self.dims[place]
        if isinstance(item, slice):
            self._slice(position, item, length)
        elif is_dim(item):
            need_place(item, length)
            self._word(length)
        elif is_tensor(item) and not dims_of(item, "an index"):
            self._number(item, length)
        else:
            self._index(item, length)

    def _word(self, length: Dim | None) -> None:
        self.found.source.append("1" if length == 1 else self.names.one("^"))

    def _slice(self, position: int, item: slice, length: Dim | None) -> None:
        cut = slice_dim(length, item, self.names, self.found.arguments)
        key = self.key.format(position)
        self.found.sizes.update({f"{key}.{bound}": text for bound, text in cut.sizes.items()})
        self.found.source.append(cut.before)
        self.found.target.append(cut.after)
        self.found.lengths.append(None if length is None else slice_length(length, item))

    def _number(self, item: Any, length: Dim | None) -> None:
        """A tensor without dimensions is read as the number that it holds."""
        if dtype_of(item) in _MASKS:
            raise NotKnown("an index that is one bool is not known of")
        self.found.indices.append(item)
        self.found.index_words.append([])
        self._word(length)

    def _index(self, item: Any, length: Dim | None) -> None:
        self.places.append(len(self.found.target))
        self.tensors.append((item, _index_shape(item)))
        if is_tensor(item) and dtype_of(item) in _MASKS:
            self.found.mask_words = self.names.take(len(self.tensors[-1][1]), "^")
            self.found.source += self.found.mask_words
        else:
            for number in _extremes(item):
                need_place(number, length)
            self._word(length)


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
    if is_tensor(item) and dtype_of(item) in _MASKS:
        return len(dims_of(item, "the mask"))
    return 1


def need_place(item: Dim, length: Dim | None) -> None:
    """Says that a number is an index into a length, counted from the start or from the end.

    Raises ShapeError for numbers where it is none.
    """
    if length is not None:
        refusal = errors.out_of_range("the index", item, length)
        if not at_least(-1, item):
            need(length, GE, item + 1, refusal)
        if not at_least(item, 0):
            need(length, GE, -item, refusal)


def _extremes(item: Any) -> list[Dim]:
    """The numbers of an index that is a list, also of lists: where the least and the greatest are
    places, those between are.
    """
    found = _numbers_in(item)
    numbers = [number for number in found if isinstance(number, int)]
    rest: list[Dim] = [number for number in found if not isinstance(number, int)]
    return [*dict.fromkeys([min(numbers), max(numbers)]), *rest] if numbers else rest


def _numbers_in(item: Any) -> list[Dim]:
    if isinstance(item, list):
        return [number for inner in item for number in _numbers_in(inner)]
    return [item] if is_dim(item) else []


def _index_shape(item: Any) -> Lengths:
    if is_tensor(item):
        return dims_of(item, "an index")
    if isinstance(item, list) and not any(isinstance(inner, bool) for inner in item):
        inner = _index_shape(item[0]) if item and isinstance(item[0], list) else ()
        return (len(item), *inner)
    raise NotKnown(f"an index is a {type(item).__name__}")


def _place_indices(
    result: Subscript, tensors: list[tuple[Any, Lengths]], places: list[int], names: Names
) -> None:
    """Puts the dimensions of the index tensors where the first of them stands; in front where
    others are between them.
    """
    place_words = _mask_words if result.mask_words else _tensor_words
    words, lengths = place_words(result, tensors, names)
    result.indices += [item for item, _ in tensors if is_tensor(item)]
    together = all(place == places[0] for place in places)
    at = places[0] if together else 0
    result.target[at:at] = words
    result.lengths[at:at] = lengths


def _mask_words(
    result: Subscript, tensors: list[tuple[Any, Lengths]], names: Names
) -> tuple[list[str], list[Dim | None]]:
    """The word and the length of what a mask chooses: only running tells how much that is."""
    if len(tensors) > 1:
        raise NotKnown("a mask beside other index tensors is not known of")
    result.index_words.append(result.mask_words)
    word = names.one("^")
    result.fresh.append(bare(word))
    return [word], [None]


def _tensor_words(
    result: Subscript, tensors: list[tuple[Any, Lengths]], names: Names
) -> tuple[list[str], list[Dim | None]]:
    """The words and lengths of index tensors and lists, broadcast together."""
    shapes = [shape for _, shape in tensors]
    spread = broadcast(shapes, names)
    constant = any(not is_tensor(item) for item, _ in tensors)
    rows = [freeze(row) if constant else row for row in spread.inputs]
    words = freeze(spread.output) if constant else spread.output
    result.index_words += [
        row for row, (item, _) in zip(rows, tensors, strict=True) if is_tensor(item)
    ]
    given = {bare(word) for row in result.index_words for word in row}
    for row, shape in zip(rows, shapes, strict=True):
        for word, length in zip(row, shape, strict=True):
            if not word.isdecimal() and bare(word) not in given:
                result.arguments[bare(word)] = length
    result.arguments.update(spread.arguments)
    result.fresh += spread.fresh
    return words, _common_lengths(words, rows, shapes, spread.arguments)


def _common_lengths(
    words: list[str], rows: list[list[str]], shapes: list[Lengths], made: dict[str, Any]
) -> list[Dim | None]:
    """The lengths that index tensors have together, for the words of their result."""
    known: dict[str, Dim | None] = {
        bare(word): length
        for row, shape in zip(rows, shapes, strict=True)
        for word, length in zip(row, shape, strict=True)
    }
    known.update(made)
    return [int(word) if word.isdecimal() else known.get(bare(word)) for word in words]
