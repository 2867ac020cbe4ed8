"""Distances and angles between vectors, whose coordinates stay whole where a root is taken.

cdist(x, y)                  a b d^, a c d^ -> a b c
cdist(x, y, p=1)             a b d+, a c d+ -> a b c      distances along the coordinates add up
cosine_similarity(x, y)      a b^, a b^ -> a
pdist(x)                     n^ d^ -> e^              e = n*(n - 1)//2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dimsolve.ir.operator import Declaration

from ...algebra.dims import floor_div
from ..declare.dtypes import dtype_of, floating, result_type
from ..declare.entry import example, functional, shapes, t, torch_entry
from ..declare.forms import declared
from ..declare.writing import Names, annotation, axis, bare, dims_of, length_word
from ..elementwise.pointwise import broadcast


def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: Any = None) -> Declaration:
    """Declares distances between rows: the coordinates stay whole, but for a sum of sizes and a
    count of those that differ.
    """
    a, b = dims_of(x1), dims_of(x2, "the other tensor")
    names = Names()
    batch = broadcast([a[:-2], b[:-2]], names)
    rows, columns, width = names.one(), names.one(), names.one("+" if p in (0, 1) else "^")
    text = annotation(
        [[*batch.inputs[0], rows, width], [*batch.inputs[1], columns, width]],
        [[*batch.output, rows, columns]],
    )
    return Declaration(
        text,
        (x1, x2),
        arguments=batch.arguments,
        fresh=tuple(batch.fresh),
        fixed=_way_to_compute(p, compute_mode, a[-2], b[-2]),
        dtypes=(result_type((x1, x2)),),
    )


def pdist(input: Any, p: float = 2.0) -> Declaration:
    """Declares distances between all pairs of rows."""
    rows, _ = dims_of(input)
    arguments: dict[str, Any] = {}
    count = None if rows is None else floor_div(rows * (rows - 1), 2)
    word = length_word(Names({"n", "d"}), arguments, count)
    return Declaration(
        f"n^ d^ -> {word}",
        (input,),
        arguments=arguments,
        fresh=(bare(word),) if count is None else (),
        dtypes=(dtype_of(input),),
        frozen="every row meets every other",
    )


def _way_to_compute(p: float, mode: Any, rows: Any, columns: Any) -> dict[str, Any]:
    """torch chooses by the number of rows, and the ways differ in their rounding: the whole's way
    is taken.
    """
    if p != 2 or mode not in (None, "use_mm_for_euclid_dist_if_necessary"):
        return {}
    if not isinstance(rows, int) or not isinstance(columns, int):
        return {}
    many = rows > 25 or columns > 25
    return {"compute_mode": f"{'' if many else 'donot_'}use_mm_for_euclid_dist"}


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Declaration:
    """Declares the cosine between vectors along one dimension."""
    rank = max(len(dims_of(x1)), len(dims_of(x2, "the other tensor")))
    return _compared(x1, x2, axis(dim, rank) - rank)


def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Declaration:
    """Declares distances between vectors in the last dimension."""
    return _compared(x1, x2, -1, ["1"] * keepdim)


def _compared(x1: Any, x2: Any, place: int, kept: Sequence[str] = ()) -> Declaration:
    """The declaration of vectors compared along a dimension, counted from the end; ``kept`` stands
    in its place.
    """
    spread = broadcast([dims_of(x1), dims_of(x2, "the other tensor")], Names())
    at = len(spread.output) + place
    rest = [*spread.output[:at], *spread.output[at + 1 :]]
    return declared(
        (x1, x2),
        [_frozen_at(row, len(row) + place) for row in spread.inputs],
        [[*rest[:at], *kept, *rest[at:]]],
        arguments={k: v for k, v in spread.arguments.items() if k in map(bare, rest)},
        fresh=tuple(name for name in spread.fresh if name in map(bare, rest)),
        dtypes=(floating(result_type((x1, x2))),),
        frozen="" if rest else "the vectors are compared whole",
    )


def _frozen_at(row: list[str], place: int) -> list[str]:
    if place < 0:
        return row
    word = row[place]
    return [*row[:place], word if word.isdecimal() else word.rstrip("^") + "^", *row[place + 1 :]]


ENTRIES = (
    functional(cosine_similarity, *shapes("12 6, 12 6"), example(t(12, 6, 4), t(6, 1), dim=-2)),
    functional(pairwise_distance, *shapes("12 6, 12 6"), example(t(12, 6), t(12, 6), keepdim=True)),
    torch_entry(pdist, *shapes("6 4")),
    torch_entry(
        cdist,
        *shapes("2 12 6, 2 4 6"),
        example(t(12, 6), t(4, 6), p=1.0),
        example(t(12, 6), t(4, 6), p=float("inf")),
    ),
)
