"""The answer of `legal_parts` as a picture: a box for every count, and what the counts need.

    h may be split into    [1] [2] 3 [4] 5 6 7 [8] ...

    always    1, 2, 4, 8
    if        s % 3 == 0                           3, 6
    never     c = 8 is never a multiple of 5       5, 7

A filled box is always legal, a framed one under a condition, a dashed one is not known, and a pale
number never.

The answer of `check` as a picture: verdict, reason, and what becomes of every tensor.

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

from dimsolve.partition.legality import Legality, LegalParts, ranges, said_once, together
from dimsolve.partition.placement import Shard
from dimsolve.solver.algebra.poly import Dim

from .annotation import annotation_picture, colours_of, operand_picture
from .picture import (
    EMPTY,
    Picture,
    badge,
    chip,
    clipped,
    column,
    faint,
    flow,
    paragraph,
    row,
    table,
    words,
)
from .placement import DRAWN, MOST_BLOCKS, MOST_PARTS, few, miniature
from .solution import verdict_picture
from .svg import CARD, FAINT, INK, LINE, PALE, VERDICTS, rect


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
        table(_rows_of_draw_legality(legality)),
        _notes(legality),
        gap=12,
    )
    return picture.card(f"may {split} be split into {legality.parts}?", legality.explain())


def _rows_of_draw_legality(legality: Legality) -> Iterator[Sequence[Picture]]:
    if legality.rule is None:
        return
    solution = legality.solution
    annotation = solution.annotation
    colours = colours_of(annotation)
    heads = ("", "annotated", "whole", "placement", "on one rank", "cut")
    yield [faint(head, 11) for head in heads]
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
            faint(label),
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


_MOST_BOXES = 256
_MOST_LINES = 12


def legal_parts_svg(counts: LegalParts) -> str:
    """Returns the picture as SVG text."""
    what = counts.split or "it"
    shown = range(1, min(counts.up_to, _MOST_BOXES) + 1)
    more = counts.up_to > _MOST_BOXES
    picture = column(
        row(words(what, bold=True), faint("may be split into", 13), gap=8),
        flow([_box(counts, count) for count in shown], width=680, gap=3),
        faint(f"and on to {counts.up_to}", 11) if more else EMPTY,
        table(_rows_of_draw_legal_parts(counts)),
        gap=12,
    )
    return picture.card(f"how many parts {what} may have", str(counts))


def _box(counts: LegalParts, count: int) -> Picture:
    inner = words(
        str(count), size=11, fill=_text_colour(counts, count), bold=count in counts.always
    )
    width, height = max(22.0, inner.width + 8), inner.height + 4
    verdict = _verdict(counts, count)
    colour = VERDICTS[verdict]
    ground = rect(
        0.5,
        0.5,
        width - 1,
        height - 1,
        fill={"always": colour, "never": PALE}.get(verdict, CARD),
        stroke=LINE if verdict == "never" else colour,
        rx=3,
        dashed=verdict == "unknown",
        title=f"{count}: {verdict}",
    )
    return Picture(width, height, (ground, inner.at((width - inner.width) / 2, 2)))


def _text_colour(counts: LegalParts, count: int) -> str:
    verdict = _verdict(counts, count)
    return {"always": CARD, "never": FAINT}.get(verdict, VERDICTS[verdict])


def _verdict(counts: LegalParts, count: int) -> str:
    if count in counts.conditional or count in counts.uneven:
        return "conditional"
    if count in counts.forbidden:
        return "never"
    return "always" if count in counts.always else "unknown"


def _rows_of_draw_legal_parts(counts: LegalParts) -> Iterator[Sequence[Picture]]:
    always = ranges(counts.always) if counts.fixed_divisor == 0 else _listed(counts.always)
    yield [
        badge("always", VERDICTS["always"]),
        paragraph(always, width=58),
        faint(_why(counts)),
    ]
    for word, verdict, texts in (
        ("uneven", "conditional", counts.uneven),
        ("if", "conditional", counts.conditional),
        ("never", "never", said_once(counts.forbidden)),
        ("unknown", "unknown", counts.unknown),
    ):
        groups = list(together(texts).items())
        for text, numbers in groups[:_MOST_LINES]:
            yield [
                badge(word, VERDICTS[verdict]),
                paragraph(text, width=62, size=12, fill=INK),
                paragraph(ranges(numbers), width=32, size=12, fill=FAINT),
            ]
        if len(groups) > _MOST_LINES:
            left = len(groups) - _MOST_LINES
            yield [chip(word, VERDICTS[verdict]), faint(f"and {left} more")]


def _listed(counts: Sequence[int]) -> str:
    shown = ", ".join(map(str, counts[:200]))
    return (shown or "no count") if len(counts) <= 200 else f"{shown}, ..."


def _why(counts: LegalParts) -> str:
    return f"the divisors of {counts.fixed_divisor}" if counts.fixed_divisor > 1 else ""
