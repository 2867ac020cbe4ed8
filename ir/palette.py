"""The colours of all pictures: dark hues on a light card, so that they can be read on any page.

    identifiers   m k n             blue, vermilion, green: one each, in the order of reading
    data          piece 0, 1, 2     light fills, one each
    verdicts      legal, illegal    green, red

A colour is never the only sign: beside it stands a name, a number or a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from colorsys import hls_to_rgb
from types import MappingProxyType

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

VERDICTS: Mapping[str, str] = MappingProxyType(
    {
        "legal": "#116b3a",
        "proved": "#116b3a",
        "always": "#116b3a",
        "holds": "#116b3a",
        "conditional": "#80600a",
        "illegal": "#b3261e",
        "refuted": "#b3261e",
        "never": "#b3261e",
        "does not hold": "#b3261e",
        "unknown": "#7a35a8",
    }
)

VERDICT_STYLES: Mapping[str, str] = MappingProxyType(
    {
        "legal": "bold green",
        "proved": "bold green",
        "always": "bold green",
        "conditional": "bold yellow",
        "if": "bold yellow",
        "illegal": "bold red",
        "refuted": "bold red",
        "never": "bold red",
        "unknown": "bold magenta",
    }
)
"""How verdicts look in a terminal, in rich's words."""


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
