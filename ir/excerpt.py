"""What an error shows: the text with carets under its places, and the user's own lines.

      m k+, k n -> m n
        ^~  ^

Columns are counted as a terminal draws them: a wide character takes two, a combining one none. What
cannot be drawn (a line end, a null byte, half of a surrogate pair, a direction mark) is written as
its escape, so that the carets stay under their place and printing never fails. Of a long text only
the neighbourhood of the places is shown, with ``…`` for what is left out.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from .characters import GAP, drawn

Place: TypeAlias = tuple[int, int]
"""Half-open offsets into the text."""

MAX_COLUMNS = 96
_CONTEXT = 24
_MAX_PLACES = 8
_JAMO = frozenset(map(chr, range(0x1160, 0x1200)))
"""The vowels and final consonants of Hangul: terminals draw them into the syllable before them."""
_INTERNAL = frozenset({"dimsolve", "torch", "IPython", "ipykernel"})
"""Packages whose frames are not the user's; those of Python's own library are not either."""


def excerpt(text: str, spans: Sequence[Place]) -> tuple[str, str]:
    """Returns the line that shows the text and the line of carets under its spans, not indented.

    A span that is empty, at the end of the text for one, gets one caret. Offsets outside the text
    are moved into it.

    >>> print("\\n".join(excerpt("m k+, k n -> m n", [(2, 4), (6, 7)])))
    m k+, k n -> m n
      ^~  ^
    """
    places = [_within(span, len(text)) for span in spans[:_MAX_PLACES]]
    line: list[str] = []
    columns: dict[int, int] = {}
    column = 0
    for start, stop in _kept(text, places):
        if start > 0:
            line.append(GAP)
            column += 1
        for offset in range(start, stop):
            columns[offset] = column
            line.append(drawn(text[offset]))
            column += _width(line[-1])
        columns[stop] = column
    if line and max(columns) < len(text):
        line.append(GAP)
    return "".join(line).rstrip(), _carets(places, columns)


def _within(place: Place, length: int) -> Place:
    start = min(max(place[0], 0), length)
    return start, min(max(place[1], start), length)


def _kept(text: str, places: Sequence[Place]) -> list[Place]:
    """Returns the ranges that are shown: all of a short text, else the context of each place."""
    if len(text) <= MAX_COLUMNS and sum(_width(drawn(char)) for char in text) <= MAX_COLUMNS:
        return [(0, len(text))]
    if not places:
        return [(0, min(len(text), MAX_COLUMNS))]
    ranges: list[Place] = []
    for start, stop in sorted(places):
        low = max(start - _CONTEXT, 0)
        high = min(max(min(stop, start + MAX_COLUMNS // 2), start) + _CONTEXT, len(text))
        if ranges and low <= ranges[-1][1] + len(GAP):
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], high))
        else:
            ranges.append((low, high))
    return ranges


def _carets(places: Sequence[Place], columns: dict[int, int]) -> str:
    """Draws ``^`` under each place's first column and ``~`` under its others."""
    marks: dict[int, str] = {}
    for start, stop in places:
        first = columns[start]
        shown_stop = max((offset for offset in columns if offset <= stop), default=start)
        for column in range(first + 1, columns[shown_stop]):
            marks.setdefault(column, "~")
        marks[first] = "^"
    return "".join(marks.get(column, " ") for column in range(max(marks, default=-1) + 1))


def _width(text: str) -> int:
    """Returns the number of terminal columns: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    if category(text) in ("Mn", "Me") or text in _JAMO:
        return 0
    return 2 if east_asian_width(text) in ("W", "F") else 1


def user_lines(error: BaseException) -> Iterator[str]:
    """Yields the lines of a traceback that are the user's own code, each with its place.

    Of a notebook's cell only the line's number means something.
    """
    traceback = error.__traceback__
    while traceback is not None:
        frame, number = traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in _INTERNAL or package in sys.stdlib_module_names:
            continue
        path = frame.f_code.co_filename
        code = linecache.getline(path, number, frame.f_globals).strip()
        in_cell = "ipykernel_" in path or path.startswith("<ipython-input")
        file = "" if in_cell else f"{path.replace(chr(92), '/').rpartition('/')[2]}, "
        yield f"{file}line {number}: {code}".rstrip(": ")
