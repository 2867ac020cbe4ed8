"""Errors that show where: one record makes the caret text, a problem+json and a highlight.

    AnnotationError: one identifier, two marks
      m k+, k n -> m n
        ^~  ^
      'k' is marked '+' in input 0 and not marked in input 1; write the same mark at both

A `Diagnostic` is data; the exceptions only carry it. ``str()`` of one is all of the above but the
name of its class, which Python writes itself at the end of a traceback. IPython shows the message
below the user's own lines. Illegal partitions are answers, not exceptions.

Where in a text something stands: half-open offsets, ``text[start:stop]``.

The text and the carets under it: what an error shows of what was read.

      m k+, k n -> m n
        ^~  ^

Columns are counted as a terminal draws them: a wide character takes two, a combining one none. What
cannot be drawn (a line end, a null byte, half of a surrogate pair, a direction mark) is written as
its escape, so that the carets stay under their place and printing never fails. Of a long text only
the neighbourhood of the spans is shown, with ``…`` for what is left out.

Characters that do not belong, and the errors that all readers share.

    describe("\\u2212")       "'\\u2212' (U+2212 MINUS SIGN)"
    replacement("\\u2192")    "->"

An editor, a web page or another keyboard may have made an arrow of ``->``; the hint says what was
meant.

Values of the wrong type: which parameter, what came, what is expected.

    AnnotationError: inputs is not a list of shapes
      inputs is 3, an int
      hint: give one shape per annotated input, such as ["8*s, k", (8, "k")]

Every public function checks its parameters with these, so that a mistake in a call reads like any
other error and never surfaces inside the solver.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from reprlib import Repr
from types import FrameType
from typing import Generic, NamedTuple, TypeVar

from .lookalikes import is_invisible


class Span(NamedTuple):
    """Offsets into the text that was read, in characters: ``start`` is included, ``stop`` is not.

    >>> "m k+ -> m"[slice(*Span(2, 4))]
    'k+'
    """

    start: int
    stop: int


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


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """What went wrong, where, with which numbers, and what would work.

    code: a stable kebab-case name, e.g. ``"two-marks"``. title: one line. text: what was read, or
    "" where no text is to blame. spans: the places in it, the first is the main one. reason: the
    full sentence with names and numbers. hint: what would work, or "".
    """

    code: str
    title: str
    text: str = ""
    spans: tuple[Span, ...] = ()
    reason: str = ""
    hint: str = ""

    def render(self) -> str:
        """Returns the title, the text over its carets, the reason and the hint, a line each.

        >>> spans = Span(2, 4), Span(6, 7)
        >>> title = "one identifier, two marks"
        >>> print(Diagnostic("two-marks", title, "m k+, k n -> m n", spans).render())
        one identifier, two marks
          m k+, k n -> m n
            ^~  ^
        """
        lines = [self.title]
        if self.text.strip():
            lines += [f"  {line}" for line in excerpt(self.text, self.spans) if line]
        if self.reason:
            lines.append(f"  {self.reason}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class DimsolveError(Exception):
    """The base of everything dimsolve raises on purpose."""

    __module__ = "dimsolve"
    """Tracebacks name the place from which users import it."""

    diagnostic: Diagnostic

    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic
        super().__init__(diagnostic)

    def __str__(self) -> str:
        return self.diagnostic.render()

    def _render_traceback_(self, *_: object) -> list[str]:
        """What IPython shows in place of a traceback: the user's own lines, and the message.

        The frames in between are dimsolve's and torch's, and explain nothing that the message does
        not. Python's own traceback has them all, and so has ``%debug``.
        """
        lines = [f"  {_line_of(frame, number)}" for frame, number in _own_frames(self)]
        first, *rest = f"{type(self).__name__}: {self}".splitlines()
        return [*lines, first, *rest, *getattr(self, "__notes__", ())]


_INTERNAL = frozenset({"dimsolve", "torch", "IPython", "ipykernel"})
"""Packages whose frames are not the user's; those of Python's own library are not either."""


def _own_frames(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """The frames of an error's traceback that are in the user's code, and their lines."""
    traceback = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in _INTERNAL and package not in sys.stdlib_module_names:
            yield frame, traceback.tb_lineno
        traceback = traceback.tb_next


def _line_of(frame: FrameType, number: int) -> str:
    """A line of code with its place; of a notebook's cell only its number means something."""
    path = frame.f_code.co_filename
    code = linecache.getline(path, number, frame.f_globals).strip()
    in_cell = "ipykernel_" in path or path.startswith("<ipython-input")
    place = "line" if in_cell else f"{path.replace(chr(92), '/').rpartition('/')[2]}, line"
    return f"{place} {number}: {code}".rstrip(": ")


class AnnotationError(DimsolveError):
    """Text that cannot be read: an annotation, a dimension, a fact, a claim."""

    __module__ = "dimsolve"


class ShapeError(DimsolveError):
    """A contradiction: these inputs, arguments and facts can never match the annotation."""

    __module__ = "dimsolve"


class GraphError(DimsolveError):
    """A graph that is not well formed, or a node asked for what it has not."""

    __module__ = "dimsolve"


class OperatorError(DimsolveError):
    """A function that cannot be an operator, or an operator that breaks its promise."""

    __module__ = "dimsolve"


E = TypeVar("E", bound=DimsolveError)


@dataclass(frozen=True, slots=True)
class Problem(Generic[E]):
    """One kind of error, as a row of a table: its class, its code, and its words.

    ``{name}`` in the words is filled in when the error is made, so that a module's errors stand
    together and read as they are shown.

    >>> no_root = Problem(ShapeError, "no-root", "{n} has no root", "{n}**2 = {value}", "try 9")
    >>> print(no_root("n n", Span(0, 1), n="n", value=8))
    n has no root
      n n
      ^
      n**2 = 8
      hint: try 9
    """

    error: type[E]
    code: str
    title: str
    reason: str = ""
    hint: str = ""

    def __call__(self, text: str = "", *spans: Span, **words: object) -> E:
        """Returns the error. text, spans: what was read, and the places in it."""
        title, reason, hint = (
            template.format_map(words) for template in (self.title, self.reason, self.hint)
        )
        return self.error(Diagnostic(self.code, title, text, spans, reason, hint))


_UNREADABLE = frozenset(
    {
        "unknown-operator",
        "no-inputs",
        "unresolved",
        "not-a-mesh",
        "unknown-policy",
        "unreadable-file",
        "not-a-plan",
        "another-version",
    }
)
"""Codes of errors that say that a name, a mesh, a policy or a file gives nothing to ask about."""


def is_unreadable(error: DimsolveError) -> bool:
    """Whether an error says that the question itself cannot be read; otherwise it is an answer.

    >>> is_unreadable(DimsolveError(Diagnostic("not-a-mesh", "this is not a mesh")))
    True
    """
    return isinstance(error, AnnotationError) or error.diagnostic.code in _UNREADABLE


HYPHENS = "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63\uff0d"
"""Dashes and minus signs, the ASCII one first."""

_MULTIPLICATION = "\u00d7\u22c5\u2219\u2022\u2a2f"

_QUOTES = "'\"`\u2018\u2019\u201c\u201d"

_MEANT = {
    "->": "\u2192\u21a6\u21d2\u21e8\u279c\u279d\u279e\u2794\u27f6\u27f9\u27fc\uffeb",
    "(": "[{\uff08\ufe59\u207d\u2768\uff3b\uff5b\u3010\u3014",
    ")": "]}\uff09\ufe5a\u207e\u2769\uff3d\uff5d\u3011\u3015",
    ",": ";\uff0c\u060c\u3001\ufe50\uff64\uff1b\u061b",
    "*": "\u2217\uff0a\u204e\u066d\u22c6\u2605\u2606" + _MULTIPLICATION,
    "+": "\uff0b\ufe62\u207a\u2795",
    "-": HYPHENS[1:],
    "^": "\uff3e\u02c6\u2303\u2038",
    "?": "\uff1f\u061f\ufe56",
    "//": "\u00f7\u2215\u2044\uff0f",
    "%": "\uff05\ufe6a\u066a",
    "==": "\uff1d\u2261",
    "!=": "\u2260",
    "<=": "\u2264\u2a7d",
    ">=": "\u2265\u2a7e",
    "<": "\uff1c",
    ">": "\uff1e",
}
_REPLACEMENT = {char: wanted for wanted, chars in _MEANT.items() for char in chars}


def error(
    code: str, title: str, text: str, spans: tuple[Span, ...], reason: str, hint: str = ""
) -> AnnotationError:
    """Returns the error with this diagnostic."""
    return AnnotationError(Diagnostic(code, title, text, spans, reason, hint))


def too_long(what: str, text: str, limit: int) -> AnnotationError:
    """Keeps as much of the text as a reader would have read: the rest is too much to pass on."""
    reason = f"{what} has at most {limit:,} characters; this text has {len(text):,}"
    return error("text-too-long", "text too long", text[:limit], (Span(limit, limit),), reason)


def too_many_digits(text: str, span: Span, count: int, limit: int) -> AnnotationError:
    """A number that no length needs."""
    reason = f"a number has at most {limit:,} digits; this one has {count:,}"
    return error("too-many-digits", "number too long", text, (span,), reason)


def lookalikes(text: str, names: tuple[str, str], spans: tuple[Span, Span]) -> AnnotationError:
    """Two different names that look the same."""
    first, second = names
    at = next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
        min(len(first), len(second)),
    )
    ours, theirs = (point(name[at]) if at < len(name) else "nothing" for name in names)
    reason = f"'{shown(first)}' has {ours} where '{shown(second)}' has {theirs}"
    hint = "write one of them at both places, or rename one"
    return error("lookalikes", "two names that look the same", text, spans, reason, hint)


def is_multiplication(char: str) -> bool:
    """Says whether a character is a sign of multiplication, though not ours."""
    return char in _MULTIPLICATION


def replacement(char: str) -> str:
    """Returns the ASCII text that was probably meant by a character, or ``""``.

    >>> replacement("\\N{MINUS SIGN}"), replacement("x")
    ('-', '')
    """
    return _REPLACEMENT.get(char, "")


def hint_for(char: str, language: Container[str]) -> str:
    """Returns what to write in place of a character in a language with these tokens, or ``""``.

    >>> hint_for("\\N{RIGHTWARDS ARROW}", {"->"}), hint_for("'", {"->"}), hint_for("@", {"->"})
    ("write '->'", 'leave it out', '')
    """
    if char in _QUOTES or not is_drawn(char):
        return "leave it out"
    wanted = replacement(char)
    return f"write '{wanted}'" if wanted in language else ""


def describe(char: str) -> str:
    """Returns a character, and its code point where it is not on every keyboard or cannot be drawn.

    >>> describe("k"), describe("\\0"), describe("\\u200b")
    ("'k'", 'U+0000', 'U+200B ZERO WIDTH SPACE')
    """
    if not is_drawn(char):
        return point(char)
    return f"'{char}'" if char.isascii() else f"'{char}' ({point(char)})"


def point(char: str) -> str:
    """Returns a character's code point and name.

    >>> point("a")
    'U+0061 LATIN SMALL LETTER A'
    """
    from unicodedata import name

    return f"U+{ord(char):04X} {name(char, '')}".rstrip()


MAX_SHOWN = 60
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = MAX_SHOWN
_VOWELS = "aeiouAEIOU"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def wrong_type(parameter: str, value: object, expected: str, hint: str = "") -> AnnotationError:
    """Returns the error for a parameter of the wrong type.

    expected: what it should be, with its article.

    >>> print(wrong_type("up_to", True, "a positive integer"))
    up_to is not a positive integer
      up_to is True, a bool
    """
    return AnnotationError(
        Diagnostic(
            code="wrong-type",
            title=f"{parameter} is not {expected}",
            reason=f"{parameter} is {described(value)}",
            hint=hint,
        )
    )


def described(value: object) -> str:
    """Returns a value with its type, short enough for a sentence.

    >>> described(2.5), described(None), described({"a": 1})
    ('2.5, a float', 'None', "{'a': 1}, a dict")
    """
    if value is None:
        return "None"
    name = type(value).__name__
    article = "an" if name[:1] in tuple(_VOWELS) else "a"
    text = written(value)
    return f"{text}, {article} {name}" if text != "..." else f"{article} {name}"


def written(value: object) -> str:
    """Returns a value's own text, cut short; ``...`` where it has none that can be made.

    >>> written((1, 2)), written(10**5000)
    ('(1, 2)', '...')
    """
    try:
        return shown(_ADDRESS.sub("", _SHORT.repr(value)), MAX_SHOWN)
    except Exception:  # a foreign object may raise anything from its __repr__
        return "..."
