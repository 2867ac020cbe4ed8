"""SVG as data: elements with presentation attributes only, and the text that they are written as.

    svg_text(document([rect(0, 0, 20, 10, fill="#9ecbf2")], 20, 10, "a box", "one blue box"))
    <svg xmlns="http://www.w3.org/2000/svg" width="20" height="10" ...><title>a box</title>...</svg>

There are no style elements, no classes, no ids, no scripts and no HTML: a picture is whole in a
viewer that strips all of them, and several stand on one page without disturbing each other. Texts
are escaped, and what would not be shown (control and direction characters) is written out.

The colours of all pictures: dark hues on a light card, so that they can be read on any page.

    identifiers   m k n             blue, vermilion, green: one each, in the order of reading
    data          piece 0, 1, 2     light fills, one each
    verdicts      legal, illegal    green, red

A colour is never the only sign: beside it stands a name, a number or a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from colorsys import hls_to_rgb
from dataclasses import dataclass
from typing import TypeAlias
from unicodedata import combining, east_asian_width

from dimsolve.ir.characters import visible

INK = "#1f2430"
FAINT = "#5b6472"
LINE = "#c4cad4"
PALE = "#eef1f5"
CARD = "#ffffff"
"""Text, secondary text, lines, quiet fills, and the card that everything stands on."""

HUES = (
    "#0b57a8",
    "#b03a0a",
    "#116b3a",
    "#7a35a8",
    "#80600a",
    "#08697a",
    "#a8236a",
    "#6d4c33",
    "#44546a",
    "#566400",
)
"""Of identifiers and mesh axes: each has a contrast of at least 4.5 to the card."""

MIDTONES = (
    "#0f74e0",
    "#d2450c",
    "#168749",
    "#9c56ca",
    "#95700c",
    "#0a8196",
    "#d43188",
    "#9a6b48",
    "#617797",
    "#6d7e00",
)
"""The same hues for text without a card, on a light or a dark page: LaTeX."""

_FILLS = (
    "#9ecbf2",
    "#f7b58f",
    "#9bd8b1",
    "#d5b6ee",
    "#ecd272",
    "#8ed6de",
    "#f2abcf",
    "#d3bda9",
    "#b9c4d6",
    "#cbd685",
)

_VERDICTS = {
    "#116b3a": ("legal", "proved", "always", "holds"),
    "#80600a": ("conditional",),
    "#b3261e": ("illegal", "refuted", "never", "does not hold"),
    "#7a35a8": ("unknown",),
}
VERDICTS = {verdict: colour for colour, verdicts in _VERDICTS.items() for verdict in verdicts}


def hues(names: Iterable[str], colours: Sequence[str] = HUES) -> dict[str, str]:
    """Returns a colour for each name, in order; after the last one they begin again.

    >>> hues(["m", "k", "m"])
    {'m': '#0b57a8', 'k': '#b03a0a'}
    """
    distinct = dict.fromkeys(names)
    return {name: colours[number % len(colours)] for number, name in enumerate(distinct)}


def fills(count: int) -> list[str]:
    """Returns a fill for each of so many pieces of data, all of them different.

    >>> fills(2), len(set(fills(64)))
    (['#9ecbf2', '#f7b58f'], 64)
    """
    if count <= len(_FILLS):
        return list(_FILLS[:count])
    return [_light(number / count, 0.70 + 0.05 * (number % 4)) for number in range(count)]


def _light(hue: float, lightness: float) -> str:
    channels = hls_to_rgb(hue, lightness, 0.65)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in channels)


FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_ADVANCE = 0.6
"""Width of a character of a monospaced font, in parts of its size."""

NAMES = frozenset({"svg", "title", "desc", "g", "rect", "path", "text", "circle"})
"""The elements that occur in a picture."""

Number: TypeAlias = float | int


@dataclass(frozen=True, slots=True)
class Element:
    """One element. ``attributes`` are written in order; ``children`` are elements or text."""

    name: str
    attributes: tuple[tuple[str, str], ...] = ()
    children: tuple[Element | str, ...] = ()


def element(name: str, *children: Element | str, **attributes: Number | str | None) -> Element:
    """Returns an element; ``stroke_width=2`` is the attribute ``stroke-width``, None is left out.

    >>> svg_text(element("rect", width=2.50, stroke_width=1))
    '<rect width="2.5" stroke-width="1"/>'
    """
    assert name in NAMES, name
    written = tuple(
        (key.replace("_", "-"), value if isinstance(value, str) else number(value))
        for key, value in attributes.items()
        if value is not None
    )
    return Element(name, written, children)


def number(value: Number) -> str:
    """Returns a number with two decimals at most, without a trailing zero or a negative zero.

    >>> number(2.504), number(10), number(-0.001)
    ('2.5', '10', '0')
    """
    text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return "0" if text == "-0" else text


def rect(
    x: Number,
    y: Number,
    width: Number,
    height: Number,
    *,
    fill: str,
    stroke: str | None = None,
    rx: Number | None = None,
    title: str = "",
    dashed: bool = False,
    stroke_width: Number | None = None,
) -> Element:
    """Returns a rectangle; ``title`` is what a pointer on it shows."""
    children = (element("title", title),) if title else ()
    dashes = "3 3" if dashed else None
    return element(
        "rect",
        *children,
        x=x,
        y=y,
        width=width,
        height=height,
        rx=rx,
        fill=fill,
        stroke=stroke,
        stroke_width=stroke_width,
        stroke_dasharray=dashes,
    )


def path(points: str, *, stroke: str, width: Number = 1, fill: str = "none") -> Element:
    """Returns a path of SVG path data, which is made of numbers and never of text."""
    return element("path", d=points, fill=fill, stroke=stroke, stroke_width=width)


def label(
    x: Number,
    baseline: Number,
    text: str,
    *,
    size: Number = 13,
    fill: str = INK,
    bold: bool = False,
) -> Element:
    """Returns one line of monospaced text. Its width is fixed, so that no font moves its end."""
    shown = visible(text)
    return element(
        "text",
        shown,
        x=x,
        y=baseline,
        font_family=FONT,
        font_size=size,
        font_weight="bold" if bold else None,
        fill=fill,
        textLength=float(text_width(shown, size)) if shown.strip() else None,
        lengthAdjust="spacingAndGlyphs" if shown.strip() else None,
    )


def text_width(text: str, size: Number = 13) -> float:
    """Returns the width of a line; East Asian wide characters are two columns wide.

    >>> text_width("abcd", 10), text_width("形", 10)
    (24.0, 12.0)
    """
    return sum(columns(character) for character in text) * _ADVANCE * size


def columns(character: str) -> int:
    """Returns how many columns a character takes."""
    if combining(character):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def hatch(x: float, y: float, width: float, height: float, *, stroke: str, gap: int = 6) -> Element:
    """Returns diagonal lines that fill a rectangle. They are computed and not a pattern: a pattern
    needs an id, which another picture on the page may have too.

    >>> hatch(0, 0, 6, 6, stroke="#000000").attributes[0]
    ('d', 'M0 6L6 0')
    """
    lines = []
    for offset in range(gap, int(width + height), gap):
        left, right = max(0.0, offset - height), min(width, float(offset))
        ends = [(x + left, y + offset - left), (x + right, y + offset - right)]
        (x1, y1), (x2, y2) = ends
        lines.append(f"M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}")
    return path("".join(lines), stroke=stroke)


def document(
    children: Iterable[Element], width: Number, height: Number, title: str, description: str
) -> Element:
    """Returns a picture of this size in pixels; title and description are what is read aloud."""
    return element(
        "svg",
        element("title", _sentence(title)),
        element("desc", _sentence(description)),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        width=width,
        height=height,
        viewBox=f"0 0 {number(width)} {number(height)}",
        role="img",
    )


def _sentence(text: str) -> str:
    """The lines of a text as one, as it is read aloud."""
    return visible("; ".join(line.strip() for line in text.split("\n") if line.strip()))


_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def svg_text(root: Element) -> str:
    """Returns the element as XML text, on one line.

    >>> svg_text(element("text", "a < b & c"))
    '<text>a &lt; b &amp; c</text>'
    """
    pieces: list[str] = []
    _write(root, pieces)
    return "".join(pieces)


def _write(node: Element | str, pieces: list[str]) -> None:
    if isinstance(node, str):
        pieces.append(_escaped(node))
        return
    attributes = "".join(f' {name}="{_escaped(value)}"' for name, value in node.attributes)
    if not node.children:
        pieces.append(f"<{node.name}{attributes}/>")
        return
    pieces.append(f"<{node.name}{attributes}>")
    for child in node.children:
        _write(child, pieces)
    pieces.append(f"</{node.name}>")


def _escaped(text: str) -> str:
    return _NO_XML.sub("\ufffd", text).translate(_ESCAPES)
