"""The text and the carets under it: what an error shows of what was read.

      m k+, k n -> m n
        ^~  ^

Columns are counted as a terminal draws them: a wide character takes two, a combining one none. What
cannot be drawn (a line end, a null byte, half of a surrogate pair, a direction mark) is written as
its escape, so that the carets stay under their place and printing never fails. Of a long text only
the neighbourhood of the spans is shown, with ``…`` for what is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from .lookalikes import is_invisible
from .span import Span

MAX_COLUMNS = 96
_CONTEXT = 24
_MAX_SPANS = 8
_GAP = "…"
_JAMO = frozenset(map(chr, range(0x1160, 0x1200)))
"""The vowels and final consonants of Hangul: terminals draw them into the syllable before them."""


def excerpt(text: str, spans: Sequence[Span]) -> tuple[str, str]:
    """Returns the line that shows the text and the line of carets under its spans, not indented.

    A span that is empty, at the end of the text for one, gets one caret. Offsets outside the text
    are moved into it.

    >>> print("\\n".join(excerpt("m k+, k n -> m n", [Span(2, 4), Span(6, 7)])))
    m k+, k n -> m n
      ^~  ^
    """
    places = [_within(span, len(text)) for span in spans[:_MAX_SPANS]]
    line: list[str] = []
    columns: dict[int, int] = {}
    column = 0
    for start, stop in _kept(text, places):
        if start > 0:
            line.append(_GAP)
            column += 1
        for offset in range(start, stop):
            columns[offset] = column
            line.append(_drawn(text[offset]))
            column += _width(line[-1])
        columns[stop] = column
    if line and max(columns) < len(text):
        line.append(_GAP)
    return "".join(line).rstrip(), _carets(places, columns)


def shown(text: str, limit: int = 40) -> str:
    """Returns text as it may stand in a sentence: drawable, and cut after ``limit`` characters.

    >>> shown("a\\0b"), shown("x" * 50, 5)
    ('a\\\\x00b', 'xxxxx…')
    """
    drawn = "".join(map(_drawn, text[:limit]))
    return drawn + _GAP if len(text) > limit else drawn


def visible(text: str, keep: str = "") -> str:
    r"""Returns the text with what would not be shown, or would steer a terminal, written out.

    keep: characters that stay as they are.

    >>> visible("a\x00b\u202e\n"), visible("a\x00\n", keep="\n")
    ('a\\x00b\\u202e\\n', 'a\\x00\n')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)


def is_drawn(char: str) -> bool:
    """Says whether a character shows as itself: control characters and invisible ones do not."""
    return char.isprintable() and not is_invisible(char)


def _drawn(char: str) -> str:
    """Returns the character, or its escape where it cannot be drawn."""
    return char if is_drawn(char) else ascii(char)[1:-1]


def _within(span: Span, length: int) -> Span:
    start = min(max(span.start, 0), length)
    return Span(start, min(max(span.stop, start), length))


def _kept(text: str, places: Sequence[Span]) -> list[tuple[int, int]]:
    """Returns the ranges that are shown: all of a short text, else the context of each place."""
    if len(text) <= MAX_COLUMNS and sum(_width(_drawn(char)) for char in text) <= MAX_COLUMNS:
        return [(0, len(text))]
    if not places:
        return [(0, min(len(text), MAX_COLUMNS))]
    ranges: list[tuple[int, int]] = []
    for start, stop in sorted(places):
        low = max(start - _CONTEXT, 0)
        high = min(max(min(stop, start + MAX_COLUMNS // 2), start) + _CONTEXT, len(text))
        if ranges and low <= ranges[-1][1] + len(_GAP):
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], high))
        else:
            ranges.append((low, high))
    return ranges


def _carets(places: Sequence[Span], columns: dict[int, int]) -> str:
    """Draws ``^`` under each place's first column and ``~`` under its others."""
    marks: dict[int, str] = {}
    for start, stop in places:
        first = columns[start]
        shown_stop = max((offset for offset in columns if offset <= stop), default=start)
        for column in range(first + 1, columns[shown_stop]):
            marks.setdefault(column, "~")
        marks[first] = "^"
    return "".join(marks.get(column, " ") for column in range(max(marks, default=-1) + 1))


def _width(drawn: str) -> int:
    """Returns the number of terminal columns: two for wide characters, none for combining ones."""
    if drawn.isascii():
        return len(drawn)
    from unicodedata import category, east_asian_width

    if category(drawn) in ("Mn", "Me") or drawn in _JAMO:
        return 0
    return 2 if east_asian_width(drawn) in ("W", "F") else 1
