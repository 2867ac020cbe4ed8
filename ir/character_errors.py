"""Characters that do not belong: their names for error texts, and what was probably meant.

``describe`` writes U+2212 as ``'-' (U+2212 MINUS SIGN)``; ``replacement`` knows that ``->`` was meant by an arrow that
an editor made of it.
"""

from __future__ import annotations

from .excerpt import shown_char

HYPHENS = "-\u00ad\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63\uff0d"
"""Dashes and minus signs, the ASCII one first."""

_MEANT = {
    "->": "\u2190\u2192\u21a6\u21d2\u21e8\u279c\u279d\u279e\u2794\u27f6\u27f9\u27fc\uffeb",
    "(": "\uff08\ufe59\u207d\u2768[{\uff3b\uff5b\u3010\u3014",
    ")": "\uff09\ufe5a\u207e\u2769]}\uff3d\uff5d\u3011\u3015",
    ",": "\uff0c\u060c\u3001\ufe50\uff64;\uff1b\u061b",
    "*": "\u2217\u00d7\u22c5\u2219\u2022\u2a2f\uff0a\u204e\u066d\u22c6\u2605\u2606",
    "+": "\uff0b\ufe62\u207a\u2795",
    "^": "\uff3e\u02c6\u2303\u2038",
    "?": "\uff1f\u061f\ufe56",
    "//": "\u00f7\u2215\u2044\uff0f/",
    "%": "\uff05\ufe6a\u066a",
    "==": "\uff1d\u2261=",
    "!=": "\u2260",
    "<=": "\u2264\u2a7d",
    ">=": "\u2265\u2a7e",
    "<": "\uff1c",
    ">": "\uff1e",
}
_REPLACEMENT = {char: wanted for wanted, chars in _MEANT.items() for char in chars}


def replacement(char: str) -> str:
    """Returns the ASCII that was probably meant by a character, or ``""``."""
    return _REPLACEMENT.get(char, "-" if char in HYPHENS[1:] else "")


def describe(char: str) -> str:
    """Returns a character with its code point and name: enough to find it, whatever a screen makes of it.

    >>> describe("k"), describe("\\0"), describe("\\u200b")
    ("'k'", 'U+0000', 'U+200B ZERO WIDTH SPACE')
    """
    if char.isascii() and char.isprintable():
        return f"'{char}'"
    from unicodedata import name

    point = f"U+{ord(char):04X} {name(char, '')}".rstrip()
    return f"'{char}' ({point})" if shown_char(char) == char else point


def point(char: str) -> str:
    """Returns code point and name of any character: ``U+0061 LATIN SMALL LETTER A``."""
    from unicodedata import name

    return f"U+{ord(char):04X} {name(char, '')}".rstrip()


def difference(first: str, second: str) -> tuple[str, str]:
    """Returns the first two code points in which two different names differ; ``nothing`` past a name's end.

    >>> difference("ka", "k\\N{CYRILLIC SMALL LETTER A}")
    ('U+0061 LATIN SMALL LETTER A', 'U+0430 CYRILLIC SMALL LETTER A')
    """
    index = next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
        min(len(first), len(second)),
    )
    one, other = (point(name[index]) if index < len(name) else "nothing" for name in (first, second))
    return one, other
