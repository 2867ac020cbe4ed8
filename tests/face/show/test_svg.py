"""Pictures are well formed whatever they are of, and their colours can be read."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsolve.show.picture import broken, paragraph, words
from dimsolve.show.svg import (
    CARD,
    FAINT,
    HUES,
    INK,
    MIDTONES,
    PALE,
    VERDICTS,
    element,
    fills,
    hatch,
    svg_text,
)
from tests.oracles.pictures import SPACE, read_picture, texts


def luminance(colour: str) -> float:
    """The relative luminance of WCAG 2."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: str, other: str) -> float:
    """The contrast of WCAG 2: 4.5 is enough for text."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colour", [INK, FAINT, *HUES, *VERDICTS.values()])
def test_text_can_be_read_on_the_card_and_on_quiet_ground(colour: str) -> None:
    assert contrast(colour, CARD) >= 4.5
    assert contrast(colour, PALE) >= 4.5


@pytest.mark.parametrize("colour", MIDTONES)
def test_text_without_a_card_can_be_read_on_light_and_dark_pages(colour: str) -> None:
    assert contrast(colour, "#ffffff") >= 4.5
    assert contrast(colour, "#111111") >= 4


@pytest.mark.parametrize("count", [1, 2, 10, 11, 64, 256])
def test_pieces_of_data_have_colours_of_their_own_under_dark_lines(count: int) -> None:
    colours = fills(count)
    assert len(set(colours)) == count
    assert all(contrast(colour, INK) >= 4.5 for colour in colours)


@given(st.text())
def test_any_text_is_escaped_and_its_width_is_known(text: str) -> None:
    root = read_picture(words(text).card(f"a {text}", f"a {text}"))
    shown = "".join(texts(root))
    assert all(character.isprintable() for character in shown)
    if text.isprintable():
        assert shown == text


@given(st.text(), st.integers(1, 40))
def test_broken_lines_lose_nothing_but_spaces(text: str, width: int) -> None:
    assert "".join("".join(broken(text, width)).split()) == "".join(text.split())


def test_broken_lines_are_not_longer_than_asked() -> None:
    assert all(len(line) <= 7 for line in broken("a bc def ghij klmnopqrstuvwxyz 0 1 2", 7))
    read_picture(paragraph("x" * 500, width=50).card("long", "long"))


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "a & b", '"/><svg onload=x>', "]]>"])
def test_hostile_text_is_text(text: str) -> None:
    root = read_picture(words(text).card(text, text))
    assert texts(root) == [text]
    assert root[0].text == root[1].text == text


@given(
    st.floats(0, 500), st.floats(0, 500), st.floats(1, 300), st.floats(1, 300), st.integers(3, 9)
)
def test_hatching_stays_in_its_rectangle(
    x: float, y: float, width: float, height: float, gap: int
) -> None:
    data = hatch(x, y, width, height, stroke=INK, gap=gap).attributes[0][1]
    for point in data.replace("L", "M").split("M")[1:]:
        px, py = map(float, point.split())
        assert x - 0.01 <= px <= x + width + 0.01 and y - 0.01 <= py <= y + height + 0.01


def test_attributes_are_escaped() -> None:
    text = svg_text(element("rect", fill='"><script>'))
    assert ElementTree.fromstring(text).get("fill") == '"><script>'
    assert SPACE not in text
