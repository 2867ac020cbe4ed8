"""What can be wrong with the text of a dimension, a shape, a fact or a claim.

    AnnotationError: '/' may leave a fraction
      s/2, k
       ^
      a dimension is a whole number
      hint: write '//' to round down, or ceildiv(a, b) to round up

One function for each mistake makes its error; each docstring begins with a text that is wrong in
this way. The parser raises the errors; tests hold them word for word.
"""

from __future__ import annotations

from collections.abc import Sequence

from .character_errors import describe, error, hint_for
from .errors import AnnotationError
from .excerpt import shown
from .span import Span

_TOKENS = frozenset(["+", "-", "*", "//", "%", "(", ")", ",", "==", "!=", "<=", ">=", "<", ">"])

_NO_BRACKETS = "nothing is indexed, and a shape needs no brackets"
_ONE_FACT = "one text says one fact"
_QUOTE = (
    "a quote in an expression",
    "an expression is made of numbers, names and operators; no part of it is text",
    "leave out the quotes",
)
_FOREIGN = {
    "/": (
        "'/' may leave a fraction",
        "a dimension is a whole number",
        "write '//' to round down, or ceildiv(a, b) to round up",
    ),
    "=>": (
        "'=>' is no comparison",
        "values are compared with ==, !=, <=, <, >= and >",
        "write '>='",
    ),
    "=<": (
        "'=<' is no comparison",
        "values are compared with ==, !=, <=, <, >= and >",
        "write '<='",
    ),
    "=": ("'=' is no comparison", "values are compared with ==, !=, <=, <, >= and >", "write '=='"),
    "!": ("'!' is no comparison", "values are compared with ==, !=, <=, <, >= and >", "write '!='"),
    "^": ("'^' is no power", "'^' is a mark of annotations", "write '**' for a power"),
    "[": ("'[' in an expression", _NO_BRACKETS, "write '(' to group"),
    "]": ("']' in an expression", _NO_BRACKETS, "write ')' to group"),
    "?": (
        "'?' in an expression",
        "'?' belongs to annotations",
        "write None as the whole shape, or a name for a dimension that is not known",
    ),
    "&": ("'&' in an expression", _ONE_FACT, "give two facts"),
    "|": ("'|' in an expression", _ONE_FACT, "write 's % 8 == 0' to say that 8 divides s"),
    '"': _QUOTE,
    "'": _QUOTE,
    ":": ("':' in an expression", "nothing is defined or sliced here", ""),
    ".": (
        "'.' in an expression",
        "a dimension is a whole number, and names have no attributes",
        "",
    ),
}
"""What is written -> title, reason and hint."""

_SPELLINGS = {
    "floor": "write a//b, which rounds down",
    "ceil": "write ceildiv(a, b)",
    "ceiling": "write ceildiv(a, b)",
    "pow": "write a**2",
    "abs": "write max(a, -a)",
    "Abs": "write max(a, -a)",
    "CleanDiv": "write a//b",
    "PythonMod": "write a % b",
    "Eq": "write a == b",
    "Ne": "write a != b",
    "Le": "write a <= b",
    "Lt": "write a < b",
    "Ge": "write a >= b",
    "Gt": "write a > b",
}
"""A function that is not ours -> how the same is written."""

_KEYWORDS = {
    "and": "give two facts",
    "or": "",
    "not": "write the opposite comparison, as '!=' for '=='",
    "if": "",
    "else": "",
    "in": "",
    "is": "write '=='",
    "lambda": "",
    "for": "",
}
"""A word that Python would read as an operator -> what to write."""


def too_many_operands(text: str, span: Span, limit: int) -> AnnotationError:
    """``a, a, a, ...``"""
    reason = f"a text has at most {limit:,} names and numbers"
    return error("too-many-operands", "too many names and numbers", text, (span,), reason)


def too_deep(text: str, span: Span, limit: int) -> AnnotationError:
    """``((((...``"""
    reason = f"brackets, signs and powers nest at most {limit} deep"
    return error("too-deep", "nested too deep", text, (span,), reason)


def too_high(text: str, span: Span, limit: int) -> AnnotationError:
    """``a * a * a * ...``"""
    reason = f"at most {limit} operations may follow one on the result of the other"
    hint = "put brackets around parts of a long product"
    return error("too-many-operations", "too many operations", text, (span,), reason, hint)


def power_too_large(text: str, span: Span, limit: int) -> AnnotationError:
    """``((a**16)**16)**16``"""
    reason = f"powers of powers may come to {limit} in all"
    return error("power-too-large", "power too large", text, (span,), reason)


def bad_exponent(text: str, span: Span, limit: int) -> AnnotationError:
    """``a**17``, ``a**b``, ``9**9**9``"""
    reason = f"an exponent is a written-out number from 0 to {limit}"
    return error("bad-exponent", "exponent too large or unknown", text, (span,), reason)


def unknown_function(text: str, name: str, span: Span) -> AnnotationError:
    """``floor(a)``"""
    reason = f"'{shown(name)}' is none of min, max, ceildiv, floordiv and mod"
    hint = _SPELLINGS.get(name, f"write '{shown(name)}*(' for a product" if len(name) == 1 else "")
    return error("unknown-function", "unknown function", text, (span,), reason, hint)


def operand_count(text: str, name: str, span: Span, count: int, *, many: bool) -> AnnotationError:
    """``min(a)`` or ``ceildiv(a, b, c)``"""
    reason = f"{name} takes two {'or more ' if many else ''}operands; here is {count}"
    if count > 1:
        reason = f"{name} takes two operands; here are {count}"
    return error("operand-count", "wrong number of operands", text, (span,), reason)


def no_comparison(text: str) -> AnnotationError:
    """``k % 64`` where a fact belongs."""
    end = len(text.rstrip())
    reason = "a fact or a claim compares two values"
    hint = "write ==, !=, <=, <, >= or > between them, as in 'k % 64 == 0'"
    return error("no-comparison", "no comparison", text, (Span(end, end),), reason, hint)


def chain(text: str, span: Span) -> AnnotationError:
    """``1 <= s <= 8`` where one comparison belongs."""
    reason = "one comparison belongs here, and this is the second"
    hint = "write each comparison by itself"
    return error("chained-comparison", "more than one comparison", text, (span,), reason, hint)


def no_operand(text: str, tokens: Sequence[str], position: int, span: Span) -> AnnotationError:
    """``a + * b``, ``a +``, ``()``: something else where a number, a name or a bracket belongs."""
    token = tokens[position]
    if token[:1].isalnum() or not token.isascii():
        return _bad_word(text, token, span)
    if len(tokens) == 1:
        reason = "a number, a name or '(' belongs here"
        return error("no-operand", "empty expression", text, (span,), reason)
    after = f"after '{shown(tokens[position - 1])}'" if position else "at the beginning"
    found = f"'{token}' stands" if token else "the text ends"
    reason = f"a number, a name or '(' belongs {after}, where {found}"
    return error("no-operand", "an operand is missing", text, (span,), reason)


def unexpected(
    text: str, tokens: Sequence[str], position: int, span: Span, opened: Span | None
) -> AnnotationError:
    """``a b``, ``2(a)``, ``a, b``, ``(a``, ``a)``: a whole expression, and then something else.

    ``opened``: the bracket that is still open, if any.
    """
    token, before = tokens[position], tokens[position - 1]
    if token == "(" or token[:1].isalnum() or token.isidentifier() or not token.isascii():
        return _side_by_side(text, token, before, span)
    if token in ("", ",") and opened is not None:
        reason = f"this bracket is not closed before {f'{token!r}' if token else 'the end'}"
        return error("unclosed-bracket", "'(' without ')'", text, (opened, span), reason)
    match token:
        case ")":
            reason, title = "no bracket is open here", "')' without '('"
            return error("unopened-bracket", title, text, (span,), reason)
        case ",":
            reason = "one expression belongs here, and ',' begins another"
            return error("more-than-one", "more than one expression", text, (span,), reason)
        case _:
            reason = f"'{token}' compares two values, and one value belongs here"
            hint = "leave out the brackets around a comparison" if opened else ""
            title = "a comparison where none belongs"
            return error("unexpected-comparison", title, text, (span,), reason, hint)


def _side_by_side(text: str, token: str, before: str, span: Span) -> AnnotationError:
    title = "no operator between two operands"
    for word in (before, token):
        if word in _KEYWORDS:
            reason = f"'{word}' is no operator here"
            return error("no-operator", title, text, (span,), reason, _KEYWORDS[word])
    if token != "(" and not token.isidentifier() and not token.isdecimal():
        return _bad_word(text, token, span)
    reason = f"'{shown(before)}' and '{shown(token)}' stand side by side"
    return error("no-operator", title, text, (span,), reason, "write '*' for a product")


def _bad_word(text: str, word: str, span: Span) -> AnnotationError:
    for offset, char in enumerate(word, span.start):
        if not ("a" + char).isidentifier():
            return unknown_character(text, offset)
    reason = f"'{shown(word)}' begins with {describe(word[0])}, and a name with a letter or '_'"
    hint = "write '*' for a product, as in 2*a"
    if word.replace("_", "").isdecimal():
        hint = "write a number without '_'"
    return error("bad-name", "neither a name nor a number", text, (span,), reason, hint)


def unknown_character(text: str, offset: int) -> AnnotationError:
    """``a/b``, ``a = b``, ``a[0]``, ``a.b``: any character that belongs to no token."""
    for foreign in (text[offset : offset + 2], text[offset]):
        if foreign in _FOREIGN:
            title, reason, hint = _FOREIGN[foreign]
            spans = (Span(offset, offset + len(foreign)),)
            return error("unknown-character", title, text, spans, reason, hint)
    char, spans = text[offset], (Span(offset, offset + 1),)
    reason = f"{describe(char)} is no part of the dimension language"
    title = "a character that no expression has"
    return error("unknown-character", title, text, spans, reason, hint_for(char, _TOKENS))
