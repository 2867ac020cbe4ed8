"""Law: carets stand under the characters they mean, however those are drawn and however many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsolve.ir.characters import shown
from dimsolve.ir.errors import Span
from dimsolve.ir.excerpt import (
    MAX_COLUMNS,
    excerpt,
)


@pytest.mark.parametrize(
    ("text", "spans", "line", "carets"),
    [
        ("m k+, k n", [(2, 4), (6, 7)], "m k+, k n", "  ^~  ^"),
        ("abc", [(3, 3)], "abc", "   ^"),
        ("abc", [(0, 0)], "abc", "^"),
        ("abc", [(7, 9)], "abc", "   ^"),
        ("abc", [(-4, 2)], "abc", "^~"),
        ("abc", [], "abc", ""),
        ("", [(0, 0)], "", "^"),
        ("a b  ", [(5, 5)], "a b", "     ^"),
        ("a\tb", [(2, 3)], "a\\tb", "   ^"),
        ("a\nb", [(1, 2)], "a\\nb", " ^~"),
        ("\0b", [(1, 2)], "\\x00b", "    ^"),
        ("\ud800b", [(0, 1), (1, 2)], "\\ud800b", "^~~~~~^"),
        ("\u202eb", [(1, 2)], "\\u202eb", "      ^"),
        ("\u6279b", [(0, 1), (1, 2)], "\u6279b", "^~^"),
        ("e\u0301b", [(2, 3)], "e\u0301b", " ^"),
        ("e\u0301b", [(0, 2)], "e\u0301b", "^"),
        ("\u1112\u1161\u11ab b", [(4, 5)], "\u1112\u1161\u11ab b", "   ^"),
        ("\U0001f600 b", [(2, 3)], "\U0001f600 b", "   ^"),
        ("a b c", [(0, 5), (2, 3)], "a b c", "^~^~~"),
        ("a b c", [(2, 3), (0, 5)], "a b c", "^~^~~"),
    ],
)
def test_carets_stand_under_their_spans(
    text: str, spans: list[tuple[int, int]], line: str, carets: str
) -> None:
    assert excerpt(text, [Span(*span) for span in spans]) == (line, carets)


def test_long_texts_show_the_neighbourhood_of_each_span() -> None:
    text = "a " * 1000 + "here " + "b " * 1000 + "there " + "c " * 500
    line, carets = excerpt(text, [Span(2000, 2004), Span(4005, 4010)])
    assert line == (
        "\u2026a a a a a a a a a a a a here b b b b b b b b b b b b"
        "\u2026b b b b b b b b b b b b there c c c c c c c c c c c c\u2026"
    )
    assert line[carets.index("^") :].startswith("here")
    assert line[carets.rindex("^") :].startswith("there")
    assert carets.strip("^~ ") == ""
    assert (carets.count("^"), carets.count("~")) == (2, 7)


def test_the_ends_of_long_texts() -> None:
    line, carets = excerpt("x" * 5000, [Span(0, 1)])
    assert (line, carets) == ("x" * 25 + "\u2026", "^")
    line, carets = excerpt("x" * 5000, [Span(5000, 5000)])
    assert (line, carets) == ("\u2026" + "x" * 24, " " * 25 + "^")
    line, carets = excerpt("x" * 5000, [Span(0, 5000)])
    assert (line, carets) == ("x" * 72 + "\u2026", "^" + "~" * 71)
    line, carets = excerpt("x" * 5000, [])
    assert (line, carets) == ("x" * MAX_COLUMNS + "\u2026", "")


@given(
    st.text(st.characters(exclude_categories=()), max_size=300),
    st.lists(st.tuples(st.integers(-5, 400), st.integers(-5, 400)), max_size=10),
)
def test_any_text_can_be_shown(text: str, spans: list[tuple[int, int]]) -> None:
    line, carets = excerpt(text, [Span(*span) for span in spans])
    assert len(line.splitlines()) <= 1
    line.encode("utf-8")
    assert set(carets) <= set("^~ ")
    assert carets.count("^") <= len(spans)
    assert bool(carets) == bool(spans)


@given(st.text(st.sampled_from("ab\t\0\u6279"), min_size=1, max_size=40), st.data())
def test_a_caret_begins_at_the_width_of_what_stands_before(text: str, data: st.DataObject) -> None:
    """Oracle: the widths of the five characters, by hand; none of these texts is too wide."""
    width = {"a": 1, "b": 1, "\t": 2, "\0": 4, "\u6279": 2}
    start = data.draw(st.integers(0, len(text) - 1))
    stop = data.draw(st.integers(start + 1, len(text)))
    if sum(width[char] for char in text) > MAX_COLUMNS:
        return
    _, carets = excerpt(text, [Span(start, stop)])
    before = sum(width[char] for char in text[:start])
    under = sum(width[char] for char in text[start:stop])
    assert carets == " " * before + "^" + "~" * (under - 1)


def test_text_within_a_sentence_is_drawable_and_short() -> None:
    assert shown("a\0\ud800\u200b") == "a\\x00\\ud800\\u200b"
    assert shown("a" * 41) == "a" * 40 + "\u2026"
    assert shown("a" * 40) == "a" * 40
