"""Pictures that are laid out like type: beside each other, above each other, in a table.

    column(words("m k+", "m, k"), table([[words("S(1)"), ...], ...])).card("title", "description")

A `Picture` knows its size and nothing of where it stands. All sizes come from the texts alone, so
the same object is the same picture on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from dimsolve.ir.characters import visible

from .svg import (
    CARD,
    FAINT,
    INK,
    LINE,
    Element,
    columns,
    document,
    element,
    label,
    number,
    rect,
    svg_text,
    text_width,
)

_PADDING = 14


@dataclass(frozen=True, slots=True)
class Picture:
    """Elements within ``width`` x ``height`` pixels, from the upper left corner."""

    width: float
    height: float
    elements: tuple[Element, ...] = ()

    def at(self, x: float, y: float) -> Element:
        """Returns the elements as a group that stands there."""
        place = f"translate({number(float(x))} {number(float(y))})"
        return element("g", *self.elements, transform=place)

    def named(self, title: str) -> Picture:
        """Returns the picture as one group with a title of its own."""
        group = element("g", element("title", visible(title)), *self.elements)
        return Picture(self.width, self.height, (group,))

    def card(self, title: str, description: str) -> str:
        """Returns the SVG text of the picture on a light card with a margin."""
        width, height = self.width + 2 * _PADDING, self.height + 2 * _PADDING
        ground = rect(0.5, 0.5, width - 1, height - 1, fill=CARD, stroke=LINE, rx=8)
        parts = [ground, self.at(_PADDING, _PADDING)]
        return svg_text(document(parts, float(width), float(height), title, description))


EMPTY = Picture(0, 0)


def words(
    text: str, *, size: float = 13, fill: str = INK, bold: bool = False, title: str = ""
) -> Picture:
    """Returns one line of text.

    >>> words("m k+").height
    19.5
    """
    line = label(0, size * 1.1, text, size=size, fill=fill, bold=bold)
    picture = Picture(text_width(visible(text), size), size * 1.5, (line,))
    return picture.named(title) if title else picture


def faint(text: str, size: float = 12) -> Picture:
    """Returns one quiet line: a label, a note."""
    return words(text, size=size, fill=FAINT)


def paragraph(text: str, *, width: int = 96, size: float = 13, fill: str = INK) -> Picture:
    """Returns text broken into lines of at most ``width`` columns, at spaces where there are any.

    >>> paragraph("a b c d", width=3).height
    39.0
    """
    lines = [words(line, size=size, fill=fill) for line in broken(visible(text), width)]
    return column(*lines, gap=0)


def broken(text: str, width: int) -> list[str]:
    """Returns the lines of a text, each at most ``width`` columns.

    >>> broken("ab cde fghij", 4)
    ['ab', 'cde', 'fghi', 'j']
    """
    lines: list[str] = [""]
    for word in text.split():
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if _columns(joined) <= width:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        for character in word:
            if lines[-1] and _columns(lines[-1] + character) > width:
                lines.append("")
            lines[-1] += character
    return lines


def _columns(text: str) -> int:
    return sum(columns(character) for character in text)


def clipped(text: str, width: int) -> str:
    """Returns the text, or its beginning and end with ``…`` between, in ``width`` characters.

    >>> clipped("self_attn.q_proj", 9)
    'self…proj'
    """
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def begun(text: str, width: int) -> str:
    """Returns the text, or its beginning and ``…``, in ``width`` characters.

    >>> begun("view, transpose", 9)
    'view, tr…'
    """
    return text if len(text) <= width else f"{text[: width - 1]}…"


def row(*pictures: Picture, gap: float = 8, middle: bool = True) -> Picture:
    """Returns pictures beside each other, centred on one line or with their tops at one height."""
    shown = [picture for picture in pictures if picture.elements or picture.width]
    height = max((picture.height for picture in shown), default=0)
    x = 0.0
    placed = []
    for picture in shown:
        placed.append(picture.at(x, (height - picture.height) / 2 if middle else 0))
        x += picture.width + gap
    return Picture(max(0.0, x - gap), height, tuple(placed))


def column(*pictures: Picture, gap: float = 8) -> Picture:
    """Returns pictures above each other, their left sides at one place; empty ones are left out."""
    shown = [picture for picture in pictures if picture.elements or picture.height]
    y = 0.0
    placed = []
    for picture in shown:
        placed.append(picture.at(0, y))
        y += picture.height + gap
    width = max((picture.width for picture in shown), default=0)
    return Picture(width, max(0.0, y - gap), tuple(placed))


def flow(pictures: Iterable[Picture], *, width: float = 760, gap: float = 6) -> Picture:
    """Returns pictures beside each other in as many lines as it takes to stay within the width."""
    lines: list[list[Picture]] = [[]]
    used = 0.0
    for picture in pictures:
        if lines[-1] and used + picture.width > width:
            lines.append([])
            used = 0.0
        lines[-1].append(picture)
        used += picture.width + gap
    return column(*(row(*line, gap=gap) for line in lines), gap=gap)


def table(rows: Iterable[Sequence[Picture]], *, gap: float = 18, line_gap: float = 4) -> Picture:
    """Returns rows whose cells stand in columns."""
    return column(*table_rows(rows, gap=gap), gap=line_gap)


def table_rows(
    rows: Iterable[Sequence[Picture]], *, gap: float = 18, least: float = 0
) -> list[Picture]:
    """Returns the rows of a table, one picture each, at least so many pixels high."""
    listed = [list(cells) for cells in rows]
    widths = [max(cell.width for cell in cells) for cells in zip_longest(*listed, fillvalue=EMPTY)]
    lines = []
    for cells in listed:
        height = max([least, *(cell.height for cell in cells)])
        x = 0.0
        placed = []
        for cell, width in zip(cells, widths, strict=False):
            if cell.elements:
                placed.append(cell.at(x, (height - cell.height) / 2))
            x += width + gap
        lines.append(Picture(max(0.0, x - gap), height, tuple(placed)))
    return lines


def badge(text: str, colour: str, *, size: float = 12) -> Picture:
    """Returns a word in white on a coloured ground."""
    inner = words(text, size=size, fill=CARD, bold=True)
    width, height = inner.width + 14, inner.height + 4
    return Picture(width, height, (rect(0, 0, width, height, fill=colour, rx=5), inner.at(7, 2)))


def chip(text: str, colour: str, *, size: float = 11) -> Picture:
    """Returns a word in a coloured frame."""
    inner = words(text, size=size, fill=colour)
    width, height = inner.width + 10, inner.height + 3
    frame = rect(0.5, 0.5, width - 1, height - 1, fill=CARD, stroke=colour, rx=4)
    return Picture(width, height, (frame, inner.at(5, 1.5)))
