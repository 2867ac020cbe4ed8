"""Rows looked up in a table.

    embedding(ids, weight)     a b, v^ d -> a b d        ids and the width may be cut
    embedding_bag(ids, weight, mode="sum")     a b+, v^ d -> a d
    one_hot(ids, 10)           a b -> a b c^             c=10

The rows ``v`` of the table stay whole by the annotation: a rank that has a part of them must mask
the others. That rule is in `dimsolve.partition.rules.table`.
"""

from __future__ import annotations

from typing import Any

from dimsolve.ir.operator import Declaration

from ..declare import errors
from ..declare.dtypes import dtype_of
from ..declare.entry import entry, example, functional, t, whole
from ..declare.forms import declared
from ..declare.needs import GE, need
from ..declare.writing import Names, NotKnown, bare, dims_of
from ..shape.indexing import need_place

_RENORMED = "max_norm writes to the rows that are looked up, so every rank must look up all"


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Declaration:
    """Declares a look-up; gradients scaled by frequency need all ids on every rank."""
    rank = len(dims_of(input, "the ids"))
    mark = "^" if scale_grad_by_freq or max_norm is not None else ""
    names = Names({"v", "d"})
    ids = names.take(rank, mark)
    if padding_idx is not None:
        need_place(padding_idx, dims_of(weight, "the table")[0])
    width = "d^" if max_norm is not None else "d"
    return declared(
        (input, weight),
        [ids, ["v^", width]],
        [[*ids, width]],
        dtypes=(dtype_of(weight),),
        linear=() if max_norm is not None else ((1,),),
        mutates=() if max_norm is None else (1,),
        frozen="" if max_norm is None else _RENORMED,
    )


def torch_embedding(
    weight: Any,
    indices: Any,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Declaration:
    """Declares torch.embedding, which takes the table first."""
    rank = len(dims_of(indices, "the ids"))
    names = Names({"v", "d"})
    ids = names.take(rank, "^" if scale_grad_by_freq else "")
    return declared((weight, indices), [["v^", "d"], ids], [[*ids, "d"]], linear=((0,),))


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Declaration:
    """Declares look-ups that are summed, averaged or compared per bag."""
    if max_norm is not None:
        raise NotKnown(_RENORMED)
    tied = "^" if scale_grad_by_freq else ""
    bag = "+" if mode == "sum" or (mode == "mean" and padding_idx is None) else "^"
    inner = f"b{'^' if scale_grad_by_freq else bag}"
    if len(dims_of(input, "the ids")) == 1:
        if offsets is None:
            raise NotKnown("ids with one dimension need offsets")
        if include_last_offset:
            raise NotKnown("include_last_offset is not supported")
        rows, inputs, output = ["i^", "v^ d", "b^"], [input, weight, offsets], "b^ d"
        weights = "i^"
    else:
        rows, inputs, output = [f"a{tied} {inner}", "v^ d"], [input, weight], f"a{tied} d"
        weights = f"a{tied} {inner}"
    if per_sample_weights is not None:
        rows.append(weights)
        inputs.append(per_sample_weights)
    return Declaration(
        f"{', '.join(rows)} -> {output}",
        tuple(inputs),
        reduction="avg" if mode == "mean" else "sum",
        dtypes=(dtype_of(weight),),
        linear=() if mode == "max" else ((1,),),
    )


def one_hot(input: Any, num_classes: Any = -1) -> Declaration:
    """Declares one_hot; without a number of classes only running can tell it."""
    row = Names().take(len(dims_of(input)))
    word = Names(row).one("^")
    given = isinstance(num_classes, int) and num_classes < 0
    if not given:
        need(num_classes, GE, 1, errors.not_understood("one_hot", f"{num_classes} classes"))
    return declared(
        (input,),
        [row],
        [[*row, word]],
        arguments={} if given else {bare(word): num_classes},
        fresh=(bare(word),) if given else (),
        dtypes=("int64",),
    )


ENTRIES = (
    functional(
        embedding,
        example(whole(24, 12, 6), t(24, 8)),
        example(whole(24, 12), t(24, 12), padding_idx=3),
        note="the table is cut by rows through a transform rule",
    ),
    entry("torch.embedding", torch_embedding, example(t(24, 12), whole(24, 12, 2))),
    functional(
        embedding_bag,
        example(whole(24, 12, 6), t(24, 8), mode="sum"),
        example(whole(24, 12, 6), t(24, 8)),
        example(whole(24, 12, 6), t(24, 8), mode="max"),
        example(whole(24, 12, 6), t(24, 8), mode="sum", per_sample_weights=t(12, 6)),
    ),
    functional(one_hot, example(whole(10, 12, 4), 10)),
)
