"""Elements picked and written by index tensors.

index_select(x, 0, i)          a^ b, c -> c b              i may be cut, the dimension that it picks
from not gather(x, 1, i)                a b^, a c -> a c scatter_add(x, 1, i, v)        a b^, a c+,
a c+ -> a b^    x is a summand where c is cut where(m, x, y)                 a b, b, a 1 -> a b
masked_fill(x, m, 0)           a b, a 1 -> a b masked_select(x, m)            a^ b^, a^ b^ -> c^
c is known only when it runs
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dimsolve.ir.operator import Declaration

from . import errors
from .broadcast import broadcast
from .dtypes import dtype_of
from .entry import entry
from .pointwise import Pointwise
from .samples import Sample, example, mask, t, whole
from .subscripts import getitem, setitem
from .values import Lengths, NotKnown, axis, dims_of, is_tensor
from .writing import Names, annotation, bare, freeze


def where(condition: Any, input: Any = None, other: Any = None) -> Declaration:
    """Returns the declaration of a choice element by element; with a condition alone, of its
    places.
    """
    if input is None and other is None:
        from .sorting import nonzero

        return nonzero(condition, as_tuple=True)
    found = Pointwise(("condition", "input", "other"), 3, "choice")(condition, input, other)
    tensors = [n for n, x in enumerate((condition, input, other)) if is_tensor(x)]
    chosen = [n for n, place in enumerate(tensors) if place > 0]
    zero = all(is_tensor(x) or x == 0 for x in (input, other))
    return replace(
        found, linear=(tuple(chosen),) if chosen and zero and is_tensor(condition) else ()
    )


def masked_fill(input: Any, mask: Any, value: Any) -> Declaration:
    """Returns the declaration of a value written where a mask is set."""
    tensors = [input, mask, *([value] if is_tensor(value) and dims_of(value) else [])]
    scalars = [value] if is_tensor(value) and not dims_of(value) else []
    found = Pointwise(("input", "mask", "value"), 3, "first")(*tensors, *scalars)
    zero = not is_tensor(value) and value == 0
    return replace(found, linear=((0,),) if zero else ())


def index_select(input: Any, dim: int, index: Any) -> Declaration:
    """Returns the declaration of whole slices picked along a dimension."""
    dims, count = dims_of(input), dims_of(index, "the index")
    names = Names()
    row = names.take(len(dims))
    if not dims:
        return Declaration(
            annotation([[], ["1"] * len(count)], [[]]), (input, index), dtypes=(dtype_of(input),)
        )
    place = axis(dim, len(dims))
    word = names.one() if count else "1"
    source = [*row[:place], f"{row[place]}^", *row[place + 1 :]]
    return Declaration(
        annotation([source, [word] if count else []], [[*row[:place], word, *row[place + 1 :]]]),
        (input, index),
        dtypes=(dtype_of(input),),
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
        source.append("1" if a == 1 else names.one("^"))
        picked.append("1" if b == 1 else names.one("" if n == place else "^"))
    return source, picked


def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Declaration:
    """Returns the declaration of elements picked along a dimension, one for each place of the
    index.
    """
    dims, places = dims_of(input), dims_of(index, "the index")
    source, picked = _rows(dims, places, axis(dim, len(dims)), Names())
    return Declaration(
        annotation([source, picked], [picked]),
        (input, index),
        dtypes=(dtype_of(input),),
        linear=((0,),),
        frozen=""
        if any("^" not in word and not word.isdecimal() for word in picked)
        else "one place is looked up",
    )


def take_along_dim(input: Any, indices: Any, dim: Any = None) -> Declaration:
    """Returns the declaration of gather with broadcasting of the other dimensions; without dim the
    tensor is flattened.
    """
    dims, places = dims_of(input), dims_of(indices, "the index")
    names = Names()
    if dim is None:
        row = names.take(len(dims), "^")
        word = ["(" + " ".join(names.take(len(places))) + ")"] if len(places) > 1 else names.take(1)
        source = names.take(0) or [w for w in word[0].strip("()").split(" ")]
        return Declaration(
            annotation([row, source], [word]), (input, indices), dtypes=(dtype_of(input),)
        )
    place = axis(dim, len(dims))
    others = [dims[:place] + dims[place + 1 :], places[:place] + places[place + 1 :]]
    spread = broadcast(others, names)
    old, new = names.one("^"), names.one()
    rows = [[*r[:place], w, *r[place:]] for r, w in zip(spread.inputs, (old, new), strict=True)]
    target = [*spread.output[:place], new, *spread.output[place:]]
    return Declaration(
        annotation(rows, [target]),
        (input, indices),
        arguments=spread.arguments,
        dtypes=(dtype_of(input),),
    )


def take(input: Any, index: Any) -> Declaration:
    """Returns the declaration of elements of the flattened tensor."""
    names = Names()
    row = names.take(len(dims_of(input)), "^")
    picked = names.take(len(dims_of(index, "the index")))
    return Declaration(
        annotation([row, picked], [picked]),
        (input, index),
        dtypes=(dtype_of(input),),
        linear=((0,),),
    )


def scattered(
    input: Any, dim: int, index: Any, src: Any, *, summed: bool, mutates: bool = False
) -> Declaration:
    """Returns the declaration of elements written or added along a dimension.

    Where they are added, the places that are written from may be cut: every rank adds its own, and
    the tensor is a summand.
    """
    dims, places = dims_of(input), dims_of(index, "the index")
    names = Names()
    place = axis(dim, len(dims))
    source, picked = _rows(dims, places, place, names)
    mark = "+" if summed else "^"
    picked = [
        word if word.isdecimal() or n != place else bare(word) + mark
        for n, word in enumerate(picked)
    ]
    inputs, rows = [input, index], [source, picked]
    if is_tensor(src):
        values = dims_of(src, "the source")
        inputs.append(src)
        same = (
            [a == b for a, b in zip(values, places, strict=True)]
            if len(values) == len(places)
            else []
        )
        rows.append(
            [word if equal else names.one("^") for word, equal in zip(picked, same, strict=True)]
            if same
            else []
        )
        if same and not all(same):
            picked = rows[1] = [
                w if e or w.isdecimal() else bare(w) + "^"
                for w, e in zip(picked, same, strict=True)
            ]
            rows[0] = [
                bare(w) + "^" if w in rows[2] or (not e and not w.isdecimal()) else w
                for w, e in zip(source, same, strict=True)
            ]
            rows = [freeze(row) for row in rows]
            source = rows[0]
    elif summed:
        picked = rows[1] = freeze(picked)
        rows[0] = source = freeze(source)
    return Declaration(
        annotation(rows, [rows[0]]),
        tuple(inputs),
        value_split=(0,) if summed else (),
        dtypes=(dtype_of(input),),
        mutates=(0,) if mutates else (),
        linear=((0, 2),) if summed and is_tensor(src) else (),
        frozen=""
        if any("^" not in word and not word.isdecimal() for word in rows[0] + rows[1])
        else "the places may be anywhere",
    )


def scatter(
    input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: Any = None
) -> Declaration:
    """Returns the declaration of torch.scatter."""
    if reduce == "multiply":
        raise NotKnown("scatter with multiply is not known of")
    return scattered(
        input,
        dim,
        index,
        src if src is not None else value,
        summed=reduce == "add" and is_tensor(src),
    )


def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Declaration:
    """Returns the declaration of torch.scatter_add."""
    return scattered(input, dim, index, src, summed=True)


def scatter_reduce(
    input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
) -> Declaration:
    """Returns the declaration of torch.scatter_reduce: only sums that keep the tensor itself can be
    cut where they write from.
    """
    return scattered(input, dim, index, src, summed=reduce == "sum" and include_self)


def _sliced(
    input: Any, dim: int, index: Any, source: Any, mark: str
) -> tuple[list[str], list[str], list[str]]:
    dims = dims_of(input)
    names = Names()
    row = names.take(len(dims))
    place = axis(dim, len(dims))
    word = names.one(mark)
    whole_row = [*row[:place], f"{row[place]}^", *row[place + 1 :]]
    return whole_row, [word], [*row[:place], word, *row[place + 1 :]]


def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Declaration:
    """Returns the declaration of slices added along a dimension."""
    row, word, slices = _sliced(input, dim, index, source, "+")
    return Declaration(
        annotation([row, word, slices], [row]),
        (input, index, source),
        value_split=(0,),
        dtypes=(dtype_of(input),),
        linear=((0, 2),),
    )


def index_copy(input: Any, dim: int, index: Any, source: Any) -> Declaration:
    """Returns the declaration of slices written along a dimension."""
    row, word, slices = _sliced(input, dim, index, source, "^")
    return Declaration(
        annotation([row, word, slices], [row]), (input, index, source), dtypes=(dtype_of(input),)
    )


def index_fill(input: Any, dim: int, index: Any, value: Any) -> Declaration:
    """Returns the declaration of a value written to slices along a dimension."""
    row, word, _ = _sliced(input, dim, index, None, "^")
    inputs = [input, index, *([value] if is_tensor(value) else [])]
    rows = [row, word, *([[]] if is_tensor(value) else [])]
    return Declaration(annotation(rows, [row]), tuple(inputs), dtypes=(dtype_of(input),))


def index_put(
    input: Any, indices: Sequence[Any], values: Any, accumulate: bool = False
) -> Declaration:
    """Returns the declaration of values written to places of index tensors."""
    found = setitem(input, tuple(slice(None) if i is None else i for i in indices), values)
    return replace(found, mutates=(), returns="tensor", sizes={})


def index(input: Any, indices: Sequence[Any]) -> Declaration:
    """Returns the declaration of reading places of index tensors."""
    return getitem(input, tuple(slice(None) if i is None else i for i in indices))


def masked_select(input: Any, mask: Any) -> Declaration:
    """Returns the declaration of the elements where a mask is set: how many, only running can tell."""
    names = Names({"u"})
    spread = broadcast([dims_of(input), dims_of(mask, "the mask")], names, "^")
    return Declaration(
        annotation(spread.inputs, [["u^"]]),
        (input, mask),
        fresh=("u",),
        dtypes=(dtype_of(input),),
        frozen="how many elements there are depends on the data",
    )


def masked_scatter(input: Any, mask: Any, source: Any) -> Declaration:
    """Returns the declaration of a source written element by element where a mask is set."""
    names = Names()
    spread = broadcast([dims_of(input), dims_of(mask, "the mask")], names, "^")
    other = names.take(len(dims_of(source, "the source")), "^")
    return Declaration(
        annotation([*spread.inputs, other], [spread.output]),
        (input, mask, source),
        dtypes=(dtype_of(input),),
        frozen="where an element of the source goes depends on all of the mask before",
    )


def select_scatter(input: Any, src: Any, dim: int, index: Any) -> Declaration:
    """Returns the declaration of one slice replaced."""
    dims = dims_of(input)
    names = Names()
    place = axis(dim, len(dims))
    row = [names.one("^" if n == place else "") for n in range(len(dims))]
    return Declaration(
        annotation([row, [*row[:place], *row[place + 1 :]]], [row]),
        (input, src),
        dtypes=(dtype_of(input),),
        linear=((0, 1),),
    )


def slice_scatter(
    input: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Declaration:
    """Returns the declaration of a range of slices replaced."""
    dims, values = dims_of(input), dims_of(src, "the source")
    names = Names()
    place = axis(dim, len(dims))
    row = [names.one("^" if n == place else "") for n in range(len(dims))]
    word = "1" if values[place] == 1 else names.one("^")
    return Declaration(
        annotation([row, [*row[:place], word, *row[place + 1 :]]], [row]),
        (input, src),
        dtypes=(dtype_of(input),),
        linear=((0, 1),),
    )


def _columns(count: int, *shape: int) -> Sample:
    return whole(count, *shape)


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
    entry("torch.where", where, *_WHERE, example(mask(12, 6))),
    entry(
        "torch.Tensor.where",
        lambda input, condition, other: where(condition, input, other),
        note="x.where(c, y)",
    ),
    entry("torch.masked_fill", masked_fill, *_FILL),
    entry(
        "torch.index_select",
        index_select,
        example(t(24, 6), 0, whole(24, 12)),
        example(t(12, 6, 4), -1, whole(4, 6)),
    ),
    entry(
        "torch.gather",
        gather,
        example(t(12, 6), 1, whole(6, 12, 4)),
        example(t(6, 12), 0, whole(6, 3, 12)),
        example(t(12, 6), -1, whole(6, 4, 4)),
    ),
    entry(
        "torch.take_along_dim",
        take_along_dim,
        example(t(12, 6), whole(6, 12, 4), 1),
        example(t(12, 6), whole(6, 1, 4), 1),
    ),
    entry("torch.take", take, example(t(12, 6), whole(72, 12, 4))),
    entry(
        "torch.scatter",
        scatter,
        example(t(12, 6), 1, whole(6, 12, 1), t(12, 1)),
        example(t(12, 6), 1, whole(6, 12, 1), 2.0),
    ),
    entry(
        "torch.scatter_add",
        scatter_add,
        example(t(12, 6), 1, whole(6, 12, 24), t(12, 24)),
        example(t(6, 12), 0, whole(6, 24, 12), t(24, 12)),
        example(t(12, 6), 1, whole(6, 4, 3), t(4, 3)),
    ),
    entry(
        "torch.scatter_reduce",
        scatter_reduce,
        example(t(12, 6), 1, whole(6, 12, 24), t(12, 24), "sum"),
        example(t(12, 6), 1, whole(6, 12, 4), t(12, 4), "amax"),
    ),
    entry(
        "torch.index_add",
        index_add,
        example(t(6, 4), 0, whole(6, 12), t(12, 4)),
        example(t(12, 6), 1, whole(6, 12), t(12, 12)),
    ),
    entry(
        "torch.index_copy",
        index_copy,
        example(t(6, 12), 0, _columns(1, 1), t(1, 12)),
        example(t(12, 6), 1, _columns(1, 1), t(12, 1)),
    ),
    entry("torch.index_fill", index_fill, example(t(12, 6), 1, whole(6, 2), 0.5)),
    entry(
        "torch.index_put",
        index_put,
        example(t(12, 6), (whole(12, 1), whole(6, 1)), t(1)),
        example(t(12, 6), (whole(12, 4),), 1.0 and t()),
    ),
    entry("torch.ops.aten.index", index, example(t(12, 6), (whole(12, 4),))),
    entry("torch.masked_select", masked_select, example(t(12, 6), mask(12, 6))),
    entry("torch.masked_scatter", masked_scatter, example(t(12, 6), mask(12, 6), t(72))),
    entry("torch.select_scatter", select_scatter, example(t(12, 6), t(12), 1, 2)),
    entry(
        "torch.slice_scatter",
        slice_scatter,
        example(t(12, 6), t(4, 6), 0, 2, 6),
        example(t(12, 6), t(12, 3), 1, 0, None, 2),
    ),
)
