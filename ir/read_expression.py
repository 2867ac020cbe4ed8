"""The reader of dimensions, shapes, facts and claims: text in, trees out, nothing evaluated.

    read_dimension("8*s")               8*s
    read_shape("8*s, k")                (8*s, k)
    read_relation("k % 64 == 0")        k % 64 == 0
    read_relations("1 <= s <= 8")       1 <= s, s <= 8

The language: whole numbers, names, ``+ - * // %``, brackets, ``**`` with a small written-out
exponent, ``min``, ``max``, ``ceildiv``, ``mod`` and ``floordiv``; precedence as in Python. No text
ever reaches SymPy, whose own readers execute code. The same short text is read only once; the
functions named ``parse_...`` read it each time.
"""

from __future__ import annotations

from functools import lru_cache

from . import expression_errors as errors
from .expression import Comparison, Expression, Relation
from .expression_parser import Parser
from .wrong_types import wrong_type

_CACHED_CHARACTERS = 64
"""Longer texts are read each time, so that hostile ones cannot fill the memory."""
_COMPARISONS = {comparison.value: comparison for comparison in Comparison}


def read_dimension(text: str) -> Expression:
    """Returns the tree of one dimension.

    Raises AnnotationError, with the place and what would work, for text that is none.

    >>> str(read_dimension("(s + 7)//8*8"))
    '(s + 7)//8*8'
    """
    return _dimension(text) if _is_short(text) else parse_dimension(text)


def read_shape(text: str) -> tuple[Expression, ...]:
    """Returns the trees of a shape's dimensions. ``""`` and ``"()"`` are the scalar's shape.

    Brackets around the whole and a comma at the end are allowed. Raises AnnotationError like
    `read_dimension`.

    >>> [str(dim) for dim in read_shape("8*s, k")], read_shape("()")
    (['8*s', 'k'], ())
    """
    return _shape(text) if _is_short(text) else parse_shape(text)


def read_relation(text: str) -> Relation:
    """Returns the tree of one fact or claim, which is exactly one comparison.

    Raises AnnotationError like `read_dimension`, and for a chain of comparisons, which
    `read_relations` reads.

    >>> read_relation("k % 64 == 0").comparison
    <Comparison.EQ: '=='>
    """
    relations = read_relations(text)
    if len(relations) > 1:
        raise errors.chain(text, relations[1].span)
    return relations[0]


def read_relations(text: str) -> tuple[Relation, ...]:
    """Returns the trees of one or more comparisons; a chain means what it means in Python.

    Raises AnnotationError like `read_dimension`.

    >>> [str(relation) for relation in read_relations("1 <= s <= 8")]
    ['1 <= s', 's <= 8']
    """
    return _relations(text) if _is_short(text) else parse_relations(text)


def parse_dimension(text: str) -> Expression:
    """Returns what `read_dimension` returns, and reads the text each time."""
    parser = Parser(text)
    expression = parser.expression()
    parser.expect("")
    return expression


def parse_shape(text: str) -> tuple[Expression, ...]:
    """Returns what `read_shape` returns, and reads the text each time."""
    parser = Parser(text)
    closing = ")" if _is_bracketed(parser.tokens) else ""
    opened = parser.span()
    if closing:
        parser.expect("(")
    dims: list[Expression] = []
    while parser.token() != closing:
        dims.append(parser.expression())
        if parser.token() != ",":
            break
        parser.expect(",")
    if closing:
        parser.expect(closing, opened)
    parser.expect("")
    return tuple(dims)


def parse_relations(text: str) -> tuple[Relation, ...]:
    """Returns what `read_relations` returns, and reads the text each time."""
    parser = Parser(text)
    start = parser.span().start
    left = parser.expression()
    relations: list[Relation] = []
    while comparison := _COMPARISONS.get(parser.token()):
        parser.expect(comparison.value)
        next_start = parser.span().start
        right = parser.expression()
        relations.append(Relation(left, comparison, right, text, parser.since(start)))
        left, start = right, next_start
    parser.expect("")
    if not relations:
        raise errors.no_comparison(text)
    return tuple(relations)


_dimension = lru_cache(maxsize=1024)(parse_dimension)
_shape = lru_cache(maxsize=1024)(parse_shape)
_relations = lru_cache(maxsize=1024)(parse_relations)


def _is_short(text: str) -> bool:
    if not isinstance(text, str):
        raise wrong_type(
            "the dimension, shape, fact or claim",
            text,
            "a text",
            "write it in the dimension language, such as '8*s' or 'k % 64 == 0'",
        )
    return len(text) <= _CACHED_CHARACTERS


def _is_bracketed(tokens: list[str]) -> bool:
    """Says whether brackets surround a whole shape: ``(a, b)`` and ``()``, but not ``(a)*(b)``."""
    if tokens[0] != "(" or tokens[-2] != ")":
        return False
    depth = 0
    commas = 0
    for position, token in enumerate(tokens[:-1]):
        depth += (token == "(") - (token == ")")
        commas += token == "," and depth == 1
        if depth == 0 and position < len(tokens) - 2:
            return False
    return commas > 0 or len(tokens) == 3
