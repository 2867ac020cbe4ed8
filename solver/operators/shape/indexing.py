"""Elements read by index tensors, and subscripts: ``x[...]`` and ``x[...] = value``.

    index_select(x, 0, i)      a^ b, c -> c b              i may be split, what it picks from not
    gather(x, 1, i)            a b^, a c -> a c
    masked_select(x, m)        a^ b^, a^ b^ -> c^          only running tells c
    x[:, None, :, 0]           a b c^ -> a 1 b
    x[mask]                    a^ b^ c, a^ b^ -> d^ c      only running tells d
    table[ids]                 a^ b, c d -> c d b
    x[:, 0] = v                a b^ c, a c -> a b^ c

Where the bounds of a slice and the length have a common divisor w, the dimension is so many blocks
of w and the slice takes whole blocks: w may be split, and each rank has its part of every block.

    [:, :64] of 128            (2 w) -> w                  stop: w
    [..., 64:96] of 128        (4 w) -> w                  start: (2 w), stop: (3 w)
    [..., 0::2] of 64          (w 2) -> w
    [:, 1:] of n               n^ -> m^                    m = n - 1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dimsolve.ir.operator import Declaration

from ...algebra.dims import ceil_div, maximum, minimum
from ...algebra.poly import Dim, divide_exactly
from ..declare import errors
from ..declare.dtypes import dtype_of
from ..declare.entry import entry, example, mask, t, torch_entry, whole
from ..declare.forms import declared
from ..declare.needs import GE, LE, at_least, common_divisor, need
from ..declare.writing import (
    Lengths,
    Names,
    NotKnown,
    annotation,
    axis,
    bare,
    dims_of,
    freeze,
    freeze_some,
    freeze_word,
    group,
    is_dim,
    is_tensor,
    length_word,
)
from ..elementwise.pointwise import Pointwise, broadcast, laid_on


@dataclass(slots=True)
class Sliced:
    """The words of a dimension before and after a slice; ``sizes`` are the bounds by name, as text
    of one dimension.
    """

    before: str
    after: str
    sizes: dict[str, str] = field(default_factory=dict)


def slice_dim(length: Dim | None, part: slice, names: Names, arguments: dict[str, Any]) -> Sliced:
    """Returns how a slice cuts a dimension. Raises NotKnown for bounds that are no lengths."""
    if any(bound is not None and not is_dim(bound) for bound in (part.start, part.stop, part.step)):
        raise NotKnown("a bound of a slice is not known")
    step = 1 if part.step is None else part.step
    need(step, GE, 1, errors.not_understood("a slice", f"its step is {step}"))
    if length is None:
        return _open_length(part, step, names)
    if length == 1 and _whole(part, 1, step):
        return Sliced("1", "1")
    if _whole(part, length, step):
        word = names.one()
        return Sliced(word, word)
    start, stop = _bound(part.start, 0, length), _bound(part.stop, length, length)
    if step == 1:
        blocks = _blocks(length, start, stop, part, names)
        if blocks is not None:
            return blocks
    elif _every_one(length, start, stop, step):
        word = names.one()
        # A start counted from the end is another place in a part.
        sizes = {"start": str(start)} if part.start not in (None, start) else {}
        return Sliced(group(word, str(step)), word, sizes)
    before = "1" if length == 1 else names.one("^")
    return Sliced(before, length_word(names, arguments, slice_length(length, part)))


def slice_length(length: Dim, part: slice) -> Dim:
    """Returns how many elements a slice with bounds that are lengths takes of a length.

    >>> slice_length(10, slice(-3, None)), slice_length(10, slice(2, 9, 3))
    (3, 3)
    """
    step = 1 if part.step is None else part.step
    start, stop = _bound(part.start, 0, length), _bound(part.stop, length, length)
    if at_least(start, stop):
        return 0
    count: Dim = stop - start if at_least(stop, start) else maximum(stop - start, 0)
    return ceil_div(count, step)


def _every_one(length: Dim, start: Dim, stop: Dim, step: Any) -> bool:
    """Whether the slice takes one element of every block of ``step``."""
    whole = stop == length and divide_exactly(length, step) is not None
    return whole and isinstance(start, int) and start < step


def _open_length(part: slice, step: Any, names: Names) -> Sliced:
    if part.start in (None, 0) and part.stop is None and step == 1:
        word = names.one()
        return Sliced(word, word)
    raise NotKnown("the length of a dimension that is sliced is not known")


def _whole(part: slice, length: Dim, step: Any) -> bool:
    """Whether the slice takes everything, also where the length shrinks on a rank."""
    if step != 1 or part.start not in (None, 0):
        return False
    if part.stop is None or part.stop == length:
        return True
    return isinstance(part.stop, int) and part.stop >= 0 and at_least(part.stop, length)


def _bound(bound: Any, default: Dim, length: Dim) -> Dim:
    """The bound counted from the start and held inside the dimension, as Python does it."""
    if bound is None:
        return default
    place = from_start(bound, length)
    if not at_least(place, 0):
        place = maximum(place, 0)
    return place if at_least(length, place) else minimum(place, length)


def from_start(place: Dim, length: Dim) -> Dim:
    """Returns a place counted from the start where one below 0 is counted from the end, as Python
    does it. It may lie outside of the length.

    >>> from dimsolve.solver.algebra.poly import symbol
    >>> n = symbol("n")
    >>> print(from_start(-2, n), from_start(-n, 8), from_start(n, 8))
    n - 2 -n + 8 n
    >>> print(from_start(n - 4, 8))
    8*min(1, max(0, -n + 4)) + n - 4
    """
    if at_least(place, 0):
        return place
    if at_least(-1, place):
        return length + place
    return place + length * minimum(1, maximum(0, -place))


def _blocks(length: Dim, start: Dim, stop: Dim, part: slice, names: Names) -> Sliced | None:
    """The slice as whole blocks of a common divisor, None where there is none but 1."""
    width = common_divisor((length, start, stop))
    if width in (0, 1) or not at_least(stop, start) or stop == start:
        return None
    counts = [divide_exactly(value, width) for value in (length, start, stop, stop - start)]
    if not all(isinstance(count, int) for count in counts):
        return None
    total, first, last, taken = map(str, counts)
    word = names.one()
    sizes = {}
    if part.start is not None and first != "0":
        sizes["start"] = group(first, word)
    if part.stop is not None:
        sizes["stop"] = group(last, word)
    return Sliced(group(total, word), group(taken, word), sizes)


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
            raise errors.too_many_indices(place + 1, len(self.dims))
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
            raise NotKnown("an index that is one bool is not supported")
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
        raise NotKnown("a mask beside other index tensors is not supported")
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


def getitem(input: Any, index: Any) -> Declaration:
    """Declares reading a subscript; of a tuple or a dict the item itself."""
    if not is_tensor(input):
        return Declaration("-> ?", (), returns="value", value=input[index])
    found = read_subscript(dims_of(input), index, Names())
    return declared(
        (input, *found.indices),
        [found.source, *found.index_words],
        [found.target],
        arguments=found.arguments,
        sizes=found.sizes,
        fresh=tuple(found.fresh),
        linear=((0,),),
    )


def setitem(input: Any, index: Any, value: Any) -> Declaration:
    """Declares writing to a subscript: what is written is the tensor as it is afterwards."""
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


def where(condition: Any, input: Any = None, other: Any = None) -> Declaration:
    """Declares a choice element by element; with a condition alone, of its places."""
    if input is None and other is None:
        from ..reductions.sorting import nonzero

        return nonzero(condition, as_tuple=True)
    found = Pointwise(("condition", "input", "other"), 3, "choice")(condition, input, other)
    tensors = [n for n, x in enumerate((condition, input, other)) if is_tensor(x)]
    chosen = [n for n, place in enumerate(tensors) if place > 0]
    zero = all(is_tensor(x) or x == 0 for x in (input, other))
    return replace(
        found, linear=(tuple(chosen),) if chosen and zero and is_tensor(condition) else ()
    )


def masked_fill(input: Any, mask: Any, value: Any) -> Declaration:
    """Declares a value written where a mask is set."""
    tensors = [input, mask, *([value] if is_tensor(value) and dims_of(value) else [])]
    scalars = [value] if is_tensor(value) and not dims_of(value) else []
    found = Pointwise(("input", "mask", "value"), 3, "first")(*tensors, *scalars)
    zero = not is_tensor(value) and value == 0
    return replace(found, linear=((0,),) if zero else ())


def index_select(input: Any, dim: int, index: Any) -> Declaration:
    """Declares whole slices picked along a dimension."""
    dims, count = dims_of(input), dims_of(index, "the index")
    names = Names()
    row = names.take(len(dims))
    if not dims:
        return declared((input, index), [[], ["1"] * len(count)], [[]])
    place = axis(dim, len(dims))
    word = names.one() if count else "1"
    source = [*row[:place], f"{row[place]}^", *row[place + 1 :]]
    return declared(
        (input, index),
        [source, [word] if count else []],
        [[*row[:place], word, *row[place + 1 :]]],
        linear=((0,),),
    )


def _rows(dims: Lengths, index: Lengths, place: int, names: Names) -> tuple[list[str], list[str]]:
    """The words of a tensor and of an index into it: other dimensions are one where their lengths
    agree.
    """
    if len(dims) != len(index):
        raise errors.wrong_rank("gather", "the index", index, f"{len(dims)} dimensions")
    source, picked = [], []
    for n, (a, b) in enumerate(zip(dims, index, strict=True)):
        if n != place and a == b and a is not None:
            word = "1" if a == 1 else names.one()
            source.append(word)
            picked.append(word)
            continue
        if n != place and a is not None and b is not None:
            need(b, LE, a, errors.out_of_range("the index", b, a))
        source.append("1" if a == 1 else names.one("^"))
        picked.append("1" if b == 1 else names.one("" if n == place else "^"))
    return source, picked


def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Declaration:
    """Declares elements picked along a dimension, one for each place of the index."""
    dims, places = dims_of(input), dims_of(index, "the index")
    source, picked = _rows(dims, places, axis(dim, len(dims)), Names())
    return declared(
        (input, index),
        [source, picked],
        [picked],
        linear=((0,),),
        frozen=""
        if any("^" not in word and not word.isdecimal() for word in picked)
        else "one place is looked up",
    )


def take_along_dim(input: Any, indices: Any, dim: Any = None) -> Declaration:
    """Declares gather with broadcasting of the other dimensions; without dim the
    tensor is flattened.
    """
    dims, places = dims_of(input), dims_of(indices, "the index")
    names = Names()
    if dim is None:
        row, picked = names.take(len(dims), "^"), names.take(len(places))
        text = annotation([row, picked], [[group(*picked)]])
        return Declaration(text, (input, indices), dtypes=(dtype_of(input),))
    place = axis(dim, len(dims))
    others = [dims[:place] + dims[place + 1 :], places[:place] + places[place + 1 :]]
    spread = broadcast(others, names)
    old, new = names.one("^"), names.one()
    rows = [[*r[:place], w, *r[place:]] for r, w in zip(spread.inputs, (old, new), strict=True)]
    target = [*spread.output[:place], new, *spread.output[place:]]
    return declared((input, indices), rows, [target], arguments=spread.arguments)


def take(input: Any, index: Any) -> Declaration:
    """Declares elements of the flattened tensor."""
    names = Names()
    row = names.take(len(dims_of(input)), "^")
    picked = names.take(len(dims_of(index, "the index")))
    return declared((input, index), [row, picked], [picked], linear=((0,),))


def index(input: Any, indices: Sequence[Any]) -> Declaration:
    """Declares reading places of index tensors."""
    return getitem(input, tuple(slice(None) if i is None else i for i in indices))


def masked_select(input: Any, mask: Any) -> Declaration:
    """Declares the elements where a mask is set: only running tells how many."""
    names = Names({"u"})
    spread = broadcast([dims_of(input), dims_of(mask, "the mask")], names, "^")
    return declared(
        (input, mask),
        spread.inputs,
        [["u^"]],
        fresh=("u",),
        frozen="how many elements there are depends on the data",
    )


_WHERE = (
    example(mask(12, 6), t(12, 6), t(12, 6)),
    example(mask(12, 1), t(6), t(12, 6)),
    example(mask(12, 6), t(12, 6), 0.0),
)
_FILL = (
    example(t(12, 6), mask(12, 6), 0.0),
    example(t(12, 4, 6), mask(4, 1), -1.0),
    example(t(12, 6), mask(6), t()),
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
    torch_entry(where, *_WHERE, example(mask(12, 6))),
    entry(
        "torch.Tensor.where",
        lambda input, condition, other: where(condition, input, other),
        note="x.where(c, y)",
    ),
    torch_entry(masked_fill, *_FILL),
    torch_entry(
        index_select, example(t(24, 6), 0, whole(24, 12)), example(t(12, 6, 4), -1, whole(4, 6))
    ),
    torch_entry(
        gather,
        example(t(12, 6), 1, whole(6, 12, 4)),
        example(t(6, 12), 0, whole(6, 3, 12)),
        example(t(12, 6), -1, whole(6, 4, 4)),
    ),
    torch_entry(
        take_along_dim,
        example(t(12, 6), whole(72, 12, 4)),
        example(t(12, 6), whole(6, 12, 4), 1),
        example(t(12, 6), whole(6, 1, 4), 1),
    ),
    torch_entry(take, example(t(12, 6), whole(72, 12, 4))),
    entry("torch.ops.aten.index", index, example(t(12, 6), (whole(12, 4),))),
    torch_entry(masked_select, example(t(12, 6), mask(12, 6))),
)
