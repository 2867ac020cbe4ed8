"""Identifiers that look the same and are not: ``a`` (U+0061) and Cyrillic ``a`` (U+0430).

Each name is reduced to a skeleton: compatibility forms are unfolded (NFKC), invisible characters
removed, and letters that most fonts draw alike replaced by one of them. Two different names with
one skeleton look the same. Names of ASCII letters only are never alike: ``l`` and ``I`` are the
writer's own choice. The table holds single letters of Greek, Cyrillic and Armenian after Unicode's
confusables (UTS 39), less those that can be told apart, as alpha and ``a``: formulas use both.
"""

from __future__ import annotations

from collections.abc import Iterable

_ALIKE = {
    "a": "\u0251\u0430",
    "c": "\u03f2\u0441",
    "d": "\u0501",
    "e": "\u0435\u04bd",
    "g": "\u0261\u0581",
    "h": "\u04bb\u0570",
    "i": "\u0131\u03b9\u0456",
    "j": "\u03f3\u0458",
    "k": "\u043a",
    "l": "\u01c0\u04cf",
    "n": "\u0578",
    "o": "\u03bf\u043e\u0585",
    "p": "\u03c1\u0440",
    "q": "\u051b\u0566",
    "r": "\u0433",
    "s": "\u0455",
    "u": "\u03c5\u057d",
    "v": "\u03bd\u0475",
    "w": "\u0461\u051d",
    "x": "\u0445",
    "y": "\u0443",
    "A": "\u0391\u0410",
    "B": "\u0392\u0412",
    "C": "\u03f9\u0421",
    "E": "\u0395\u0415",
    "G": "\u050c",
    "H": "\u0397\u041d",
    "I": "\u0399\u0406\u04c0",
    "J": "\u037f\u0408",
    "K": "\u039a\u041a",
    "M": "\u039c\u041c",
    "N": "\u039d",
    "O": "\u039f\u041e\u0555",
    "P": "\u03a1\u0420",
    "Q": "\u051a",
    "S": "\u0405\u054f",
    "T": "\u03a4\u0422",
    "U": "\u054d",
    "V": "\u0474",
    "W": "\u051c",
    "X": "\u03a7\u0425",
    "Y": "\u03a5\u04ae",
    "Z": "\u0396",
    "\u0413": "\u0393",
    "\u041f": "\u03a0",
    "\u0424": "\u03a6",
    "\u0444": "\u03c6",
}
_SKELETON = {ord(twin): letter for letter, twins in _ALIKE.items() for twin in twins}


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


_FILLERS = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0}
