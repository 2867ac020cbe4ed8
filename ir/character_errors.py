"""Characters that do not belong, and the errors that all readers share.

    describe("\\u2212")       "'\\u2212' (U+2212 MINUS SIGN)"
    replacement("\\u2192")    "->"

An editor, a web page or another keyboard may have made an arrow of ``->``; the hint says what was
meant.
"""

from __future__ import annotations

from collections.abc import Container

from .errors import AnnotationError, Diagnostic
from .excerpt import is_drawn, shown
from .span import Span

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
