"""The answer of `check` as a picture: verdict, reason, and what becomes of every tensor.

    check("m k+, k+ n -> m n", ["m, k", "k, n"], "k", 8)

    [conditional]   k is a multiple of 8 only if k % 8 == 0; at k = 1 it is 1
    input 0    [m] [k+]    m, k    S(1)      m, k//8    ||||||||
    input 1    [k+] [n]    k, n    S(0)      k//8, n    =
    output 0   [m] [n]     m, n    P(sum)    m, n       ////

A colour is what one rank has. A length that is cut is drawn with one step for each part; a number
of parts or blocks that is a symbol, or large, is drawn small and said so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dimsolve.ir.draw_annotation import annotation_picture, colours_of, operand_picture
from dimsolve.ir.draw_verdict import verdict_picture
from dimsolve.ir.palette import FAINT, INK
from dimsolve.ir.picture import Picture, chip, clipped, column, paragraph, row, table, words
from dimsolve.solver.algebra.poly import Dim

from .legality import Legality
from .miniature import DRAWN, MOST_BLOCKS, MOST_PARTS, few, miniature
from .placement import Shard


def legality_svg(legality: Legality) -> str:
    """Returns the picture as SVG text."""
    annotation = legality.solution.annotation
    split = legality.split or "nothing"
    picture = column(
        row(
            annotation_picture(annotation),
            words(f"{split} into {legality.parts}", bold=True),
            gap=24,
        ),
        verdict_picture(
            legality.verdict, legality.reason, legality.conditions, legality.counterexample
        ),
        table(_rows(legality)),
        _notes(legality),
        gap=12,
    )
    return picture.card(f"may {split} be split into {legality.parts}?", legality.explain())


def _rows(legality: Legality) -> Iterator[Sequence[Picture]]:
    if legality.rule is None:
        return
    solution = legality.solution
    annotation = solution.annotation
    colours = colours_of(annotation)
    heads = ("", "annotated", "whole", "placement", "on one rank", "cut")
    yield [words(head, size=11, fill=FAINT) for head in heads]
    columns = zip(
        [*_labels("input", annotation.inputs), *_labels("output", annotation.outputs)],
        (*annotation.inputs, *annotation.outputs),
        (*solution.layout.inputs, *solution.layout.outputs),
        (*solution.inputs, *solution.output_dims),
        (*legality.inputs, *legality.outputs),
        (*legality.local_input_dims, *legality.local_output_dims),
        strict=True,
    )
    for label, operand, patterns, whole, placement, local in columns:
        yield [
            words(label, size=12, fill=FAINT),
            operand_picture(operand, colours, 12),
            words(_shape(whole)),
            chip(clipped(str(placement), 30), INK, size=12),
            words(_shape(local)),
            miniature(len(patterns or ()), [placement], [legality.parts]),
        ]


def _notes(legality: Legality) -> Picture:
    """What the picture could not draw as it is."""
    placements = {
        placement
        for placement in (*legality.inputs, *legality.outputs)
        if isinstance(placement, Shard)
    }
    notes = []
    if placements and few(legality.parts, MOST_PARTS) != legality.parts:
        notes.append(f"{legality.parts} parts are drawn as {DRAWN}")
    blocks = {str(p.blocks) for p in placements if few(p.blocks, MOST_BLOCKS) != p.blocks}
    notes += [f"{count} blocks are drawn as {DRAWN}" for count in blocks]
    return paragraph("; ".join(sorted(notes)), size=11, fill=FAINT) if notes else Picture(0, 0)


def _labels(kind: str, operands: Sequence[object]) -> list[str]:
    return [f"{kind} {number}" for number in range(len(operands))]


def _shape(dims: Sequence[Dim | None] | None) -> str:
    if dims is None:
        return "?"
    return clipped(", ".join("?" if dim is None else str(dim) for dim in dims) or "()", 44)
