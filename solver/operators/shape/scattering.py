"""Elements written, or added, to places that an index tells.

scatter_add(x, 1, i, v)     a b^, a c+, a c+ -> a b^      x is a summand where c is cut
index_add(x, 0, i, v)       a^ b, c+, c+ b -> a^ b
index_copy(x, 0, i, v)      a^ b, c^, c^ b -> a^ b        what is written last stays
index_reduce(x, 0, i, v, "amax")    the same; a rule joins the largest of each part
select_scatter(x, v, 1, 2)  a b^, a -> a b^
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dimsolve.ir.operator import Declaration, ReductionName

from ...algebra.poly import product
from ..declare import errors
from ..declare.dtypes import dtype_of
from ..declare.entry import Sample, example, mask, t, torch_entry, whole
from ..declare.forms import declared, words
from ..declare.needs import EQ, LE, need
from ..declare.writing import (
    Lengths,
    Names,
    NotKnown,
    axis,
    bare,
    dims_of,
    freeze,
    is_dim,
    is_tensor,
    known,
)
from ..elementwise.pointwise import broadcast
from .indexing import _rows, need_place, setitem, slice_length


def scattered(
    input: Any, dim: int, index: Any, src: Any, *, summed: bool, mutates: bool = False
) -> Declaration:
    """Declares elements written or added along a dimension.

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
        inputs.append(src)
        rows = _with_source(source, picked, places, dims_of(src, "the source"), names)
    elif summed:
        rows = [freeze(source), freeze(picked)]
    return declared(
        inputs,
        rows,
        [rows[0]],
        value_split=(0,) if summed else (),
        dtypes=(dtype_of(input),),
        mutates=(0,) if mutates else (),
        linear=((0, 2),) if summed and is_tensor(src) else (),
        frozen=""
        if any("^" not in word and not word.isdecimal() for word in rows[0] + rows[1])
        else "the places may be anywhere",
    )


def _with_source(
    source: list[str], picked: list[str], places: Lengths, values: Lengths, names: Names
) -> list[list[str]]:
    """The words of the tensor, the index and the source, which may be larger than the index: all
    stay whole then.
    """
    for a, b in zip(places, values, strict=False):
        if a is not None and b is not None:
            need(a, LE, b, errors.out_of_range("the index", a, b))
    if len(values) != len(places):
        return [source, picked, []]
    same = [a == b for a, b in zip(values, places, strict=True)]
    written = [word if equal else names.one("^") for word, equal in zip(picked, same, strict=True)]
    rows = [source, picked, written]
    return rows if all(same) else [freeze(row) for row in rows]


def scatter(
    input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: Any = None
) -> Declaration:
    """Declares torch.scatter."""
    if reduce == "multiply":
        raise NotKnown("scatter with multiply is not supported")
    return scattered(
        input,
        dim,
        index,
        src if src is not None else value,
        summed=reduce == "add" and is_tensor(src),
    )


def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Declaration:
    """Declares torch.scatter_add."""
    return scattered(input, dim, index, src, summed=True)


def scatter_reduce(
    input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
) -> Declaration:
    """Declares torch.scatter_reduce: sums that keep the tensor itself can be cut where they write
    from, and extremes by a rule, which their reduction tells of.
    """
    found = scattered(input, dim, index, src, summed=reduce == "sum" and include_self)
    place, shapes = axis(dim, len(dims_of(input))), (dims_of(input), dims_of(index), dims_of(src))
    others = {row[:place] + row[place + 1 :] for row in map(tuple, shapes)}
    alike = len(others) == 1 and shapes[1] == shapes[2]
    return _extreme(found, reduce, include_self) if alike else found


def _extreme(found: Declaration, reduce: str, include_self: bool) -> Declaration:
    """The declaration that tells of an extreme, and of what was there before if it counts not."""
    if reduce not in EXTREMES:
        return found
    fixed = {} if include_self else {"include_self": False}
    return replace(found, reduction=EXTREMES[reduce], fixed=fixed)


EXTREMES: dict[str, ReductionName] = {"amax": "max", "amin": "min"}
"""How torch calls the reductions that only compare."""


def _sliced(
    input: Any, dim: int, index: Any, source: Any, mark: str
) -> tuple[list[str], list[str], list[str]]:
    dims = dims_of(input)
    names = Names()
    row = names.take(len(dims))
    place = axis(dim, len(dims))
    if not dims:  # one number, and slices that are one number
        given = dims_of(source, "the source") if is_tensor(source) else ()
        return [], ["1"] * len(dims_of(index, "the index")), ["1"] * len(given)
    word = names.one(mark)
    whole_row = [*row[:place], f"{row[place]}^", *row[place + 1 :]]
    return whole_row, [word], [*row[:place], word, *row[place + 1 :]]


def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Declaration:
    """Declares slices added along a dimension."""
    row, word, slices = _sliced(input, dim, index, source, "+")
    return declared(
        (input, index, source), [row, word, slices], [row], value_split=(0,), linear=((0, 2),)
    )


def index_copy(input: Any, dim: int, index: Any, source: Any) -> Declaration:
    """Declares slices written along a dimension."""
    row, word, slices = _sliced(input, dim, index, source, "^")
    return declared((input, index, source), [row, word, slices], [row])


def index_reduce(
    input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Declaration:
    """Declares slices joined with those of a dimension."""
    return _extreme(index_copy(input, dim, index, source), reduce, include_self)


def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Declaration:
    """Declares elements written to places counted in the whole tensor."""
    names = Names()
    row, places = (names.take(len(dims_of(x)), "^") for x in (input, index))
    values = names.take(len(dims_of(source, "the source")), "^")
    count, given = (product(known(dims_of(x))) for x in (index, source))
    need(count, EQ, given, errors.lengths_differ("the index and the source", count, given))
    return declared(
        (input, index, source), [row, places, values], [row], frozen="the places may be anywhere"
    )


def index_fill(input: Any, dim: int, index: Any, value: Any) -> Declaration:
    """Declares a value written to slices along a dimension."""
    row, word, _ = _sliced(input, dim, index, None, "^")
    inputs = [input, index, *([value] if is_tensor(value) else [])]
    rows = [row, word, *([[]] if is_tensor(value) else [])]
    return declared(inputs, rows, [row], dtypes=(dtype_of(input),))


def index_put(
    input: Any, indices: Sequence[Any], values: Any, accumulate: bool = False
) -> Declaration:
    """Declares values written to places of index tensors."""
    found = setitem(input, tuple(slice(None) if i is None else i for i in indices), values)
    return replace(found, mutates=(), returns="tensor", sizes={})


def masked_scatter(input: Any, mask: Any, source: Any) -> Declaration:
    """Declares a source written element by element where a mask is set."""
    names = Names()
    spread = broadcast([dims_of(input), dims_of(mask, "the mask")], names, "^")
    other = names.take(len(dims_of(source, "the source")), "^")
    return declared(
        (input, mask, source),
        [*spread.inputs, other],
        [spread.output],
        arguments=spread.arguments,
        fresh=tuple(spread.fresh),
        frozen="where an element of the source goes depends on all of the mask before",
    )


def select_scatter(input: Any, src: Any, dim: int, index: Any) -> Declaration:
    """Declares one slice replaced."""
    dims = dims_of(input)
    place = axis(dim, len(dims))
    if is_dim(index):
        need_place(index, dims[place])
    row = words(len(dims), [place])
    return declared((input, src), [row, [*row[:place], *row[place + 1 :]]], [row], linear=((0, 1),))


def slice_scatter(
    input: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Declaration:
    """Declares a range of slices replaced."""
    dims, values = dims_of(input), dims_of(src, "the source")
    names = Names()
    place = axis(dim, len(dims))
    row = [names.one("^" if n == place else "") for n in range(len(dims))]
    word = "1" if values[place] == 1 else names.one("^")
    whole, given = dims[place], values[place]
    if whole is not None and given is not None:
        taken = slice_length(whole, slice(start, end, step))
        need(taken, EQ, given, errors.lengths_differ("the slice and the source", taken, given))
    return declared(
        (input, src), [row, [*row[:place], word, *row[place + 1 :]]], [row], linear=((0, 1),)
    )


def _ties(*shape: int) -> Sample:
    """A sample in which many elements are equal."""
    return whole(3, *shape, dtype="float64")


def _columns(count: int, *shape: int) -> Sample:
    return whole(count, *shape)


ENTRIES = (
    torch_entry(
        scatter,
        example(t(12, 6), 1, whole(6, 12, 1), t(12, 1)),
        example(t(12, 6), 1, whole(6, 12, 1), 2.0),
    ),
    torch_entry(
        scatter_add,
        example(t(12, 6), 1, whole(6, 12, 24), t(12, 24)),
        example(t(6, 12), 0, whole(6, 24, 12), t(24, 12)),
        example(t(12, 6), 1, whole(6, 4, 3), t(4, 3)),
    ),
    torch_entry(
        scatter_reduce,
        example(t(12, 6), 1, whole(6, 12, 24), t(12, 24), "sum"),
        example(_ties(12, 6), 1, whole(6, 12, 4), _ties(12, 4), "amax"),
        example(_ties(6, 12), 0, whole(6, 24, 12), _ties(24, 12), "amin", include_self=False),
        example(t(12, 6), 1, whole(6, 12, 24), t(12, 24), "mean"),
    ),
    torch_entry(
        index_add,
        example(t(6, 4), 0, whole(6, 12), t(12, 4)),
        example(t(12, 6), 1, whole(6, 12), t(12, 12)),
    ),
    torch_entry(
        index_copy,
        example(t(6, 12), 0, _columns(1, 1), t(1, 12)),
        example(t(12, 6), 1, _columns(1, 1), t(12, 1)),
    ),
    torch_entry(
        index_reduce,
        example(_ties(6, 12), 0, whole(6, 4), _ties(4, 12), "amax"),
        example(_ties(12, 6), 1, whole(6, 12), _ties(12, 12), "amin", include_self=False),
        example(t(12, 6), 1, whole(6, 4), t(12, 4), "mean", include_self=False),
    ),
    torch_entry(put, example(t(12, 6), whole(72, 4), t(4), True)),
    torch_entry(index_fill, example(t(12, 6), 1, whole(6, 2), 0.5)),
    torch_entry(
        index_put,
        example(t(12, 6), (whole(12, 1), whole(6, 1)), t(1)),
        example(t(12, 6), (whole(12, 4),), 1.0 and t()),
    ),
    torch_entry(masked_scatter, example(t(12, 6), mask(12, 6), t(72))),
    torch_entry(select_scatter, example(t(12, 6), t(12), 1, 2)),
    torch_entry(
        slice_scatter,
        example(t(12, 6), t(4, 6), 0, 2, 6),
        example(t(12, 6), t(12, 3), 1, 0, None, 2),
    ),
)
