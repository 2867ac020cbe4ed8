"""Elements picked and written by index tensors.

index_select(x, 0, i)      a^ b, c -> c b              i may be cut, what it picks from not
gather(x, 1, i)            a b^, a c -> a c
scatter_add(x, 1, i, v)    a b^, a c+, a c+ -> a b^    x is a summand where c is cut
where(m, x, y)             a b, b, a 1 -> a b
masked_fill(x, m, 0)       a b, a 1 -> a b
masked_select(x, m)        a^ b^, a^ b^ -> c^          c is known only when it runs
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
from .needs import LE, need
from .pointwise import Pointwise
from .samples import example, mask, t, whole
from .subscripts import getitem
from .values import Lengths, axis, dims_of, is_tensor
from .writing import Names, annotation, group


def where(condition: Any, input: Any = None, other: Any = None) -> Declaration:
    """Returns the declaration of a choice element by element; with a condition alone, of its
    places.
    """
    if input is None and other is None:
        from .searching import nonzero

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
        if n != place and a is not None and b is not None:
            need(b, LE, a, errors.out_of_range("the index", b, a))
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
        row, picked = names.take(len(dims), "^"), names.take(len(places))
        text = annotation([row, picked], [[group(*picked)]])
        return Declaration(text, (input, indices), dtypes=(dtype_of(input),))
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


def index(input: Any, indices: Sequence[Any]) -> Declaration:
    """Returns the declaration of reading places of index tensors."""
    return getitem(input, tuple(slice(None) if i is None else i for i in indices))


def masked_select(input: Any, mask: Any) -> Declaration:
    """Returns the declaration of the elements where a mask is set: only running tells how many."""
    names = Names({"u"})
    spread = broadcast([dims_of(input), dims_of(mask, "the mask")], names, "^")
    return Declaration(
        annotation(spread.inputs, [["u^"]]),
        (input, mask),
        fresh=("u",),
        dtypes=(dtype_of(input),),
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
        example(t(12, 6), whole(72, 12, 4)),
        example(t(12, 6), whole(6, 12, 4), 1),
        example(t(12, 6), whole(6, 1, 4), 1),
    ),
    entry("torch.take", take, example(t(12, 6), whole(72, 12, 4))),
    entry("torch.ops.aten.index", index, example(t(12, 6), (whole(12, 4),))),
    entry("torch.masked_select", masked_select, example(t(12, 6), mask(12, 6))),
)
