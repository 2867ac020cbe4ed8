"""Characters in what was read: which of them show, what was meant by one, which look the same.

    describe("\\u2212")       "'\\u2212' (U+2212 MINUS SIGN)"
    replacement("\\u2192")    "->"             an editor or another keyboard made it of ``->``
    shown("a\\0b")            "a\\x00b"        drawable, and short enough for a sentence

Two names look the same where they have one skeleton: compatibility forms are unfolded (NFKC),
invisible characters removed, and letters that most fonts draw alike replaced by one of them. Names
of ASCII letters only are never alike: ``l`` and ``I`` are the writer's own choice. The table holds
single letters of Greek, Cyrillic and Armenian after Unicode's confusables (UTS 39), less those that
can be told apart, as alpha and ``a``: formulas use both.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

GAP = "…"
"""Stands for what is left out."""

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


_ALIKE = (
    "a\u0251\u0430 c\u03f2\u0441 d\u0501 e\u0435\u04bd g\u0261\u0581 h\u04bb\u0570 "
    "i\u0131\u03b9\u0456 j\u03f3\u0458 k\u043a l\u01c0\u04cf n\u0578 o\u03bf\u043e\u0585 "
    "p\u03c1\u0440 q\u051b\u0566 r\u0433 s\u0455 u\u03c5\u057d v\u03bd\u0475 w\u0461\u051d "
    "x\u0445 y\u0443 A\u0391\u0410 B\u0392\u0412 C\u03f9\u0421 E\u0395\u0415 G\u050c "
    "H\u0397\u041d I\u0399\u0406\u04c0 J\u037f\u0408 K\u039a\u041a M\u039c\u041c N\u039d "
    "O\u039f\u041e\u0555 P\u03a1\u0420 Q\u051a S\u0405\u054f T\u03a4\u0422 U\u054d V\u0474 "
    "W\u051c X\u03a7\u0425 Y\u03a5\u04ae Z\u0396 \u0413\u0393 \u041f\u03a0 \u0424\u03a6 "
    "\u0444\u03c6"
)
"""Each letter, and those that most fonts draw like it."""
_SKELETON = {ord(twin): row[0] for row in _ALIKE.split() for twin in row[1:]}
_FILLERS = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0}


def is_invisible(char: str) -> bool:
    """Says whether a character draws nothing: joiners, direction marks, variation selectors.

    >>> is_invisible("\\N{ZERO WIDTH SPACE}"), is_invisible("\\N{COMBINING ACUTE ACCENT}")
    (True, False)
    """
    from unicodedata import category

    code = ord(char)
    return (
        category(char) == "Cf"
        or code in _FILLERS
        or 0xFE00 <= code <= 0xFE0F
        or 0x180B <= code <= 0x180F
        or 0xE0000 <= code <= 0xE0FFF
    )


def is_drawn(char: str) -> bool:
    """Says whether a character shows as itself: control characters and invisible ones do not."""
    return char.isprintable() and not is_invisible(char)


def drawn(char: str) -> str:
    """Returns the character, or its escape where it cannot be drawn."""
    return char if is_drawn(char) else ascii(char)[1:-1]


def shown(text: str, limit: int = 40) -> str:
    """Returns text as it may stand in a sentence: drawable, and cut after ``limit`` characters.

    >>> shown("a\\0b"), shown("x" * 50, 5)
    ('a\\\\x00b', 'xxxxx…')
    """
    line = "".join(map(drawn, text[:limit]))
    return line + GAP if len(text) > limit else line


def visible(text: str, keep: str = "") -> str:
    r"""Returns the text with what would not be shown, or would steer a terminal, written out.

    keep: characters that stay as they are.

    >>> visible("a\x00b\u202e\n"), visible("a\x00\n", keep="\n")
    ('a\\x00b\\u202e\\n', 'a\\x00\n')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)


def point(char: str) -> str:
    """Returns a character's code point and name.

    >>> point("a")
    'U+0061 LATIN SMALL LETTER A'
    """
    from unicodedata import name

    return f"U+{ord(char):04X} {name(char, '')}".rstrip()


def describe(char: str) -> str:
    """Returns a character, and its code point where it is not on every keyboard or cannot be drawn.

    >>> describe("k"), describe("\\0"), describe("\\u200b")
    ("'k'", 'U+0000', 'U+200B ZERO WIDTH SPACE')
    """
    if not is_drawn(char):
        return point(char)
    return f"'{char}'" if char.isascii() else f"'{char}' ({point(char)})"


def replacement(char: str) -> str:
    """Returns the ASCII text that was probably meant by a character, or ``""``.

    >>> replacement("\\N{MINUS SIGN}"), replacement("x")
    ('-', '')
    """
    return _REPLACEMENT.get(char, "")


def is_multiplication(char: str) -> bool:
    """Says whether a character is a sign of multiplication, though not ours."""
    return char in _MULTIPLICATION


def hint_for(char: str, language: Container[str]) -> str:
    """Returns what to write in place of a character in a language with these tokens, or ``""``.

    >>> hint_for("\\N{RIGHTWARDS ARROW}", {"->"}), hint_for("'", {"->"}), hint_for("@", {"->"})
    ("write '->'", 'leave it out', '')
    """
    if char in _QUOTES or not is_drawn(char):
        return "leave it out"
    wanted = replacement(char)
    return f"write '{wanted}'" if wanted in language else ""


def find_lookalikes(names: Iterable[str]) -> tuple[str, str] | None:
    """Returns the first two different names that look the same, in their order, or None.

    >>> find_lookalikes(["k", "\\N{KELVIN SIGN}", "K"])
    ('\\u212a', 'K')
    >>> find_lookalikes(["\\N{GREEK SMALL LETTER ALPHA}", "\\N{GREEK SMALL LETTER BETA}", "b"])
    """
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(_skeleton(name), name)
        if other != name and not (other.isascii() and name.isascii()):
            return other, name
    return None


def _skeleton(name: str) -> str:
    if name.isascii():
        return name
    from unicodedata import normalize

    visible = "".join(char for char in normalize("NFKC", name) if not is_invisible(char))
    return visible.translate(_SKELETON)
