"""What can be wrong with the text of a dimension, a shape, a fact or a claim, one function for each.

    AnnotationError: a division that may leave a fraction
      s/2, k
       ^
      a dimension is a whole number, and '/' may leave a fraction
      hint: write '//' to round down, or ceildiv(a, b) to round up
"""

from __future__ import annotations

from collections.abc import Sequence

from .character_errors import describe, difference, replacement
from .errors import AnnotationError, Diagnostic
from .excerpt import shown
from .span import Span


def _error(
    code: str, title: str, text: str, spans: tuple[Span, ...], reason: str, hint: str = ""
) -> AnnotationError:
    return AnnotationError(Diagnostic(code, title, text, spans, reason, hint))


_CHARACTERS = {
    "/": (
        "a division that may leave a fraction",
        "a dimension is a whole number, and '/' may leave a fraction",
        "write '//' to round down, or ceildiv(a, b) to round up",
    ),
    "=": (
        "'=' compares nothing",
        "'=' gives a name to a value, and a fact or a claim compares two values",
        "write '=='",
    ),
    "^": ("'^' is no power", "'^' marks identifiers of an annotation", "write '**' for a power"),
    "[": ("a bracket that no expression has", "nothing is indexed, and shapes need no brackets", "write '('"),
    "]": ("a bracket that no expression has", "nothing is indexed, and shapes need no brackets", "write ')'"),
    "?": (
        "'?' among dimensions",
        "'?' is written in annotations; the shape given for it is None",
        "write a name for a dimension that is not known",
    ),
    "&": ("facts are not joined", "one text says one fact", "give two facts"),
    "|": ("facts are not joined", "one text says one fact", "give two facts, where both hold"),
    ":": ("a colon that no expression has", "nothing is defined or sliced in an expression", ""),
}
"""Character -> title, reason and hint."""

_SPELLINGS = {
    "floor": "write a//b, which rounds down",
    "ceil": "write ceildiv(a, b)",
    "ceiling": "write ceildiv(a, b)",
    "pow": "write a**2",
    "Eq": "write a == b",
    "Ne": "write a != b",
    "Le": "write a <= b",
    "Lt": "write a < b",
    "Ge": "write a >= b",
    "Gt": "write a > b",
    "abs": "write max(a, -a)",
    "Abs": "write max(a, -a)",
    "CleanDiv": "write a//b",
    "PythonMod": "write a % b",
}
"""Function that we do not have -> how the same is written."""

_KEYWORDS = {"and": "give two facts", "or": "", "not": "write '!=' or the opposite comparison", "if": "", "in": ""}


def too_long(text: str, limit: int) -> AnnotationError:
    return _error(
        "text-too-long", "text too long", text[:limit], (Span(limit, limit),),
        f"an expression has at most {limit:,} characters; this text has {len(text):,}",
    )  # fmt: skip


def too_deep(text: str, span: Span, limit: int) -> AnnotationError:
    return _error(
        "too-deep", "brackets too deep", text, (span,),
        f"brackets and signs nest at most {limit} deep",
    )  # fmt: skip


def too_high(text: str, span: Span, limit: int) -> AnnotationError:
    return _error(
        "too-many-operations", "too many operations in a row", text, (span,),
        f"at most {limit} operations stand on each other's results",
        "put brackets around parts of the sum or product",
    )  # fmt: skip


def degree(text: str, span: Span, limit: int) -> AnnotationError:
    return _error(
        "power-too-large", "power too large", text, (span,),
        f"powers of powers may come to {limit} in all",
    )  # fmt: skip


def exponent(text: str, span: Span, limit: int) -> AnnotationError:
    return _error(
        "bad-exponent", "exponent too large or not written out", text, (span,),
        f"an exponent is a number from 0 to {limit}, written out",
    )  # fmt: skip


def too_many_digits(text: str, span: Span, count: int, limit: int) -> AnnotationError:
    return _error(
        "too-many-digits", "number too long", text, (span,),
        f"a number has at most {limit} digits; this one has {count:,}",
    )  # fmt: skip


def unknown_function(text: str, name: str, span: Span) -> AnnotationError:
    return _error(
        "unknown-function", "unknown function", text, (span,),
        f"'{shown(name)}' is no function of the dimension language; min, max, ceildiv, floordiv and mod are",
        _SPELLINGS.get(name, f"write '{shown(name)}*(' if a product is meant"),
    )  # fmt: skip


def operand_count(text: str, name: str, span: Span, count: int, *, many: bool) -> AnnotationError:
    needs = "two or more" if many else "two"
    return _error(
        "operand-count", "wrong number of operands", text, (span,),
        f"{name} takes {needs}; here {'is' if count == 1 else 'are'} {count}",
    )  # fmt: skip


def no_comparison(text: str) -> AnnotationError:
    return _error(
        "no-comparison", "no comparison", text, (Span(len(text), len(text)),),
        "a fact or a claim compares two expressions",
        "write ==, !=, <=, <, >= or >, as in 'k % 64 == 0'",
    )  # fmt: skip


def chain(text: str, span: Span) -> AnnotationError:
    return _error(
        "chained-comparison", "more than one comparison", text, (span,),
        "one comparison is expected here",
        "write each comparison by itself",
    )  # fmt: skip


def no_operand(text: str, tokens: Sequence[str], position: int, span: Span) -> AnnotationError:
    """Where a number, a name or a bracket must stand, something else does."""
    token = tokens[position]
    if (token and token[0].isalnum()) or not token.isascii():
        return _bad_word(text, token, span)
    before = tokens[position - 1] if position else ""
    found = f"'{token}'" if token else "the end"
    if before == "(" and token == ")":
        return _error(
            "empty-brackets", "empty brackets", text, (Span(span.start, span.stop),),
            "there is nothing between these brackets", "the scalar's shape is () alone, or no text",
        )  # fmt: skip
    after = f"after '{before}'" if before else "at the start"
    if not before and not token:
        return _error(
            "no-operand", "empty expression", text, (), "a number, a name or '(' is expected"
        )
    return _error(
        "no-operand", "an operand is missing", text, (span,),
        f"a number, a name or '(' is expected {after}, and {found} comes",
    )  # fmt: skip


def unexpected(
    text: str, tokens: Sequence[str], position: int, span: Span, expected: str
) -> AnnotationError:
    """After a whole expression, something comes that does not continue it."""
    token = tokens[position]
    before = tokens[position - 1] if position else ""
    if token == "(" or token.isidentifier() or token[:1].isdecimal():
        if token in _KEYWORDS or before in _KEYWORDS:
            keyword = token if token in _KEYWORDS else before
            return _error(
                "no-operator", "no operator between two operands", text, (span,),
                f"'{keyword}' is no operator of the dimension language", _KEYWORDS[keyword],
            )  # fmt: skip
        return _error(
            "no-operator", "no operator between two operands", text, (span,),
            f"'{shown(before)}' and '{shown(token)}' stand side by side",
            "a product is written with '*'",
        )  # fmt: skip
    if token and not token.isascii():
        return _bad_word(text, token, span)
    if expected == ")":
        opened = _open_bracket(tokens, position)
        return _error(
            "unclosed-bracket", "'(' without ')'", text, (span,),
            f"')' is expected, and {f'{token!r}' if token else 'the end'} comes"
            if opened is None else f"')' is expected, and {f'{token!r}' if token else 'the end'} comes",
        )  # fmt: skip
    if token == ")":
        return _error("unopened-bracket", "')' without '('", text, (span,), "no bracket is open here")
    if token == ",":
        return _error(
            "more-than-one", "more than one expression", text, (span,),
            "one expression is expected here, and ',' separates the dimensions of a shape",
        )  # fmt: skip
    return _error(
        "unexpected-comparison", "a comparison where none belongs", text, (span,),
        f"'{token}' compares two values; here a value is expected",
    )  # fmt: skip


def _open_bracket(tokens: Sequence[str], position: int) -> int | None:
    return None


def _bad_word(text: str, word: str, span: Span) -> AnnotationError:
    for offset, char in enumerate(word, span.start):
        if not ("a" + char).isidentifier():
            return unknown_character(text, offset)
    return _error(
        "bad-name", "neither a name nor a number", text, (span,),
        f"'{shown(word)}' starts with {describe(word[0])}, and a name starts with a letter or '_'",
        "a product is written with '*', as in 2*a",
    )  # fmt: skip


def unknown_character(text: str, offset: int) -> AnnotationError:
    char = text[offset]
    span = (Span(offset, offset + 1),)
    if char in _CHARACTERS:
        title, reason, hint = _CHARACTERS[char]
        return _error("unknown-character", title, text, span, reason, hint)
    reason = f"{describe(char)} is no part of the dimension language"
    hint = ""
    before = text[:offset].rstrip()[-1:]
    if char == "." and before.isdecimal():
        reason, hint = "a dimension is a whole number, and '.' begins a fraction", ""
    elif char == ".":
        reason = "nothing has attributes in the dimension language"
    elif char in "'\"`":
        hint = "remove the quotes"
    elif wanted := replacement(char):
        hint = f"write '{wanted}'"
    return _error("unknown-character", "a character that no expression has", text, span, reason, hint)


def lookalike_names(text: str, first: str, at: Span, second: str, second_at: Span) -> AnnotationError:
    one, other = difference(first, second)
    return _error(
        "lookalikes", "two names that look the same", text, (at, second_at),
        f"'{shown(first)}' has {one} where '{shown(second)}' has {other}",
        "write one of them at both places, or rename one",
    )  # fmt: skip
