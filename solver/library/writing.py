"""Writing an annotation for one call: identifiers in order, patterns as lists of words.

A pattern is a list of dimensions as text; a mark belongs to the word, so that every use of it
carries the mark.

    names = Names()
    m, k, n = names.take(2, ""), names.one("+"), names.one()
    annotation([[*m, k], [n, k]], [[*m, n]])        "a b c+, d c+ -> a b d"
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from dimsolve.ir.operator import Declaration
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.layout import fresh_names

from . import errors
from .needs import GE, need

_WORD = re.compile(r"([^\W\d]\w*)[+^]?")
Pattern: TypeAlias = "Sequence[str]"


class Names:
    """Gives the identifiers of one annotation: a, b, c, ..."""

    def __init__(self, taken: Collection[str] = ()) -> None:
        self._names = fresh_names(set(taken))

    def one(self, mark: str = "") -> str:
        """Returns a new identifier with its mark."""
        return next(self._names) + mark

    def take(self, count: int, mark: str = "") -> list[str]:
        """Returns that many new identifiers."""
        return [self.one(mark) for _ in range(count)]


def bare(word: str) -> str:
    """Returns an identifier without its mark.

    >>> bare("k+")
    'k'
    """
    return word.rstrip("+^")


def group(*words: str) -> str:
    """Returns one dimension that is a product, outermost first; ones are left out.

    >>> group("a", "1", "8"), group("a"), group("1")
    ('(a 8)', 'a', '1')
    """
    factors = [word for word in words if word != "1"]
    return f"({' '.join(factors)})" if len(factors) > 1 else factors[0] if factors else "1"


def tensor(pattern: Pattern | None) -> str:
    """Returns the text of one tensor: ``a b``, ``()`` for no dimensions, ``?`` for None."""
    return "?" if pattern is None else " ".join(pattern) or "()"


def annotation(inputs: Sequence[Pattern | None], outputs: Sequence[Pattern | None]) -> str:
    """Returns the text of an annotation.

    >>> annotation([["a", "b+"], []], [["a"]])
    'a b+, () -> a'
    """
    left, right = (", ".join(map(tensor, side)) for side in (inputs, outputs))
    return f"{left} -> {right}"


def freeze(pattern: Pattern) -> list[str]:
    """Returns the pattern with every identifier marked ``^``."""
    return [freeze_word(word) for word in pattern]


def freeze_word(dim: str) -> str:
    """Returns one dimension with its identifiers marked ``^``.

    >>> freeze_word("(a 8 b+)"), freeze_word("1")
    ('(a^ 8 b^)', '1')
    """
    inner = dim[1:-1] if dim.startswith("(") else dim
    words = [word if word.isdecimal() else bare(word) + "^" for word in inner.split(" ")]
    return f"({' '.join(words)})" if dim.startswith("(") else words[0]


def freeze_text(text: str) -> str:
    """Returns an annotation with every identifier marked ``^``.

    >>> freeze_text("a (b 2), c+ -> a, ()")
    'a^ (b^ 2), c^ -> a^, ()'
    """
    return _WORD.sub(r"\1^", text)


def identifiers_in(word: str) -> list[str]:
    """Returns the identifiers of one dimension, without marks.

    >>> identifiers_in("(g 2 r^)")
    ['g', 'r']
    """
    return [found[1] for found in _WORD.finditer(word)]


def freeze_some(text: str, identifiers: Collection[str]) -> str:
    """Returns an annotation with these identifiers marked ``^``.

    >>> freeze_some("a (b 2), c+ -> a, b", {"b"})
    'a (b^ 2), c+ -> a, b^'
    """
    if not identifiers:
        return text
    return _WORD.sub(lambda m: f"{m[1]}^" if m[1] in identifiers else m[0], text)


def length_word(
    names: Names, arguments: dict[str, Any], length: Dim | None, mark: str = "^"
) -> str:
    """Returns a word for a length that no input gives: a number, or an identifier bound in
    ``arguments``.

    None gives an identifier that stays open: only running can tell it. A length is 0 or more: where
    it is less, the call is not possible.
    """
    if length is not None:
        need(length, GE, 0, errors.negative_length(length))
    if isinstance(length, int) and length < 2:
        return str(length)
    word = names.one(mark)
    if length is not None:
        arguments[bare(word)] = length
    return word


_IDENTIFIER = re.compile(r"(?:[^\W\d]\w*|\*)([+^]?)")
WHOLE = "each part of the result needs all of the input"


def with_reason(declaration: Declaration) -> Declaration:
    """Returns the declaration with a reason exactly where it has identifiers and all are frozen.

    >>> with_reason(Declaration("a^ -> a^", ())).frozen
    'each part of the result needs all of the input'
    """
    marks = _IDENTIFIER.findall(declaration.annotation)
    if not marks or all(mark == "^" for mark in marks) is bool(declaration.frozen):
        return declaration
    return replace(declaration, frozen="" if declaration.frozen else WHOLE)


def opaque(tensors: Sequence[Any], outputs: int, reason: str, **more: Any) -> Declaration:
    """Returns a declaration that says nothing but ``?``, and why: all is replicated."""
    text = annotation([None] * len(tensors), [None] * outputs)
    return Declaration(text, tuple(tensors), frozen=reason, **more)
