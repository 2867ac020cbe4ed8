"""The answer of `legal_parts` as a picture: a box for every count, and what the counts need.

    h may be split into    [1] [2] 3 [4] 5 6 7 [8] ...

    always    1, 2, 4, 8
    if        s % 3 == 0                           3, 6
    never     c = 8 is never a multiple of 5       5, 7

A filled box is always legal, a framed one under a condition, a dashed one is not known, and a pale
number never.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dimsolve.ir.palette import CARD, FAINT, INK, LINE, PALE, VERDICTS
from dimsolve.ir.picture import (
    EMPTY,
    Picture,
    badge,
    chip,
    column,
    flow,
    paragraph,
    row,
    table,
    words,
)
from dimsolve.ir.svg import rect

from .counts_said import ranges, said_once, together
from .legal_parts import LegalParts

_MOST_BOXES = 256
_MOST_LINES = 12


def legal_parts_svg(counts: LegalParts) -> str:
    """Returns the picture as SVG text."""
    what = counts.split or "it"
    shown = range(1, min(counts.up_to, _MOST_BOXES) + 1)
    more = counts.up_to > _MOST_BOXES
    picture = column(
        row(words(what, bold=True), words("may be split into", fill=FAINT), gap=8),
        flow([_box(counts, count) for count in shown], width=680, gap=3),
        words(f"and on to {counts.up_to}", size=11, fill=FAINT) if more else EMPTY,
        table(_rows(counts)),
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
    if count in counts.conditional:
        return "conditional"
    if count in counts.forbidden:
        return "never"
    return "always" if count in counts.always else "unknown"


def _rows(counts: LegalParts) -> Iterator[Sequence[Picture]]:
    always = ranges(counts.always) if counts.fixed_divisor == 0 else _listed(counts.always)
    yield [
        badge("always", VERDICTS["always"]),
        paragraph(always, width=58),
        words(_why(counts), size=12, fill=FAINT),
    ]
    for word, verdict, texts in (
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
            yield [chip(word, VERDICTS[verdict]), words(f"and {left} more", size=12, fill=FAINT)]


def _listed(counts: Sequence[int]) -> str:
    shown = ", ".join(map(str, counts[:200]))
    return (shown or "no count") if len(counts) <= 200 else f"{shown}, ..."


def _why(counts: LegalParts) -> str:
    return f"the divisors of {counts.fixed_divisor}" if counts.fixed_divisor > 1 else ""
