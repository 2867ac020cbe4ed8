"""How an answer begins in every picture: the verdict, its reason, conditions and counterexample.

[conditional]  k is a multiple of 8 only if k % 8 == 0; at k = 1 it is 1
exactly where   k % 8 == 0
fails at        k = 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .expression import values_text
from .palette import FAINT, VERDICTS
from .picture import Picture, badge, chip, clipped, column, flow, paragraph, row, table, words

_WIDTH = 92


def verdict_picture(
    verdict: str,
    reason: str,
    conditions: Sequence[str] = (),
    counterexample: Mapping[str, int] | None = None,
) -> Picture:
    """Returns the head of an answer. ``conditions`` of what is unknown are what is left to show."""
    colour = VERDICTS[verdict]
    head = row(badge(verdict, colour), paragraph(reason, width=_WIDTH), gap=10, middle=False)
    title = "left to show" if verdict == "unknown" else "exactly where"
    lines = []
    if conditions:
        chips = [chip(clipped(text, _WIDTH), colour, size=12) for text in conditions]
        lines.append([words(title, size=12, fill=FAINT), flow(chips, width=640)])
    if counterexample:
        point = values_text(counterexample)
        lines.append([words("fails at", size=12, fill=FAINT), paragraph(point, width=_WIDTH)])
    return column(head, table(lines), gap=8)
