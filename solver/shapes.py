"""Shapes as callers give them, made into tuples of Dims.

A shape is a sequence of dimensions (an int, dimension text, a SymPy expression made by dimsolve,
``None`` for an unknown one), or one text for all of them, or ``None`` for a value whose shape is
not known or not looked at.

    "8*s, k"   [8, "k"]   (8*s, k)   torch.Size([8, 64])   None
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from operator import index
from typing import Any, TypeAlias

from dimsolve.ir.errors import AnnotationError, Diagnostic, DimsolveError, ShapeError
from dimsolve.ir.expression import Expression
from dimsolve.ir.expression_parser import MAX_DIGITS
from dimsolve.ir.read_expression import read_dimension, read_shape
from dimsolve.ir.wrong_types import described

from .algebra.canonical import from_expression
from .algebra.poly import Dim, Poly, TooLarge, symbol

Shape: TypeAlias = "tuple[Dim | None, ...]"
DimLike: TypeAlias = Any
"""An int (or what has ``__index__``), dimension text, a SymPy expression made by dimsolve, a Dim,
or None.
"""
ShapeLike: TypeAlias = "str | Sequence[DimLike] | None"
MAX_NUMBER = 10**MAX_DIGITS
"""A number has as many digits as a written one: then it can be printed and multiplied."""


def to_dim(value: DimLike, place: str = "") -> Dim:
    """Returns the Dim of an int, a text or a SymPy expression.

    place: what it is, in words, for errors. Raises AnnotationError for what is no dimension and
    ShapeError for a negative number.

    >>> to_dim("8*s"), to_dim(12)
    (Poly(8*s), 12)
    """
    if value.__class__ is int:
        dim: Dim = value
    elif isinstance(value, str):
        dim = dim_of_text(value)
    elif isinstance(value, Poly):
        return value
    elif isinstance(value, bool):
        raise _not_a_dimension(value, place)
    else:
        dim = _dim_of_object(value, place)
    if isinstance(dim, int) and not 0 <= dim < MAX_NUMBER:
        raise _negative(dim, place) if -MAX_NUMBER < dim < 0 else _too_long(place)
    return dim


def _negative(dim: int, place: str) -> ShapeError:
    return ShapeError(
        Diagnostic(
            code="negative-dimension",
            title="a dimension is negative",
            reason=f"{place} is {dim}, less than 0" if place else f"{dim} is less than 0",
            hint="a size is 0 or more; write an unknown dimension as None",
        )
    )


def _too_long(place: str) -> AnnotationError:
    return AnnotationError(
        Diagnostic(
            code="too-many-digits",
            title="a number that is too long",
            reason=f"{place or 'a dimension'} has more than {MAX_DIGITS} digits",
        )
    )


@lru_cache(maxsize=8192)
def dim_of_text(text: str) -> Dim:
    """Returns the Dim of dimension text; the common ``s`` and ``8*s`` take a shortcut past the
    reader.
    """
    if text.isascii() and len(text) <= 64:
        if text.isdigit():
            return int(text)
        factor, times, name = text.partition("*")
        if not times and text.isidentifier():
            return symbol(text)
        if factor.isdigit() and name.isidentifier():
            return int(factor) * symbol(name)
    return dim_of_expression(read_dimension(text), text)


def dim_of_expression(expression: Expression, text: str) -> Dim:
    """Returns the canonical Dim; AnnotationError where it divides by 0 or grows past the limits."""
    try:
        return from_expression(expression)
    except ZeroDivisionError:
        reason, hint = "it divides by 0, so it has no value", ""
        code, title = "division-by-zero", "a division by zero"
    except TooLarge:
        reason, hint = "multiplied out it has too many terms", "write a smaller expression"
        code, title = "too-large", "the expression is too large"
    diagnostic = Diagnostic(code, title, text, (expression.span,), reason, hint)
    raise AnnotationError(diagnostic)


def _dim_of_object(value: Any, place: str) -> Dim:
    try:
        return index(value)
    except TypeError:
        pass
    if str(type(value).__module__).startswith(("sympy.", "dimsolve.")):
        from .symbolic import from_sympy

        try:
            return from_sympy(value)
        except AnnotationError as error:
            diagnostic = error.diagnostic
        reason = f"{place} is {diagnostic.reason}" if place else diagnostic.reason
        raise AnnotationError(replace(diagnostic, reason=reason))
    raise _not_a_dimension(value, place)


def _not_a_dimension(value: object, place: str) -> AnnotationError:
    return AnnotationError(
        Diagnostic(
            code="not-a-dimension",
            title=f"{place or 'this'} is not a dimension",
            reason=f"{place or 'it'} is {described(value)}",
            hint='give an int, a text such as "8*s", or a SymPy expression made by dimsolve',
        )
    )


def to_shape(value: ShapeLike, place: str = "") -> Shape | None:
    """Returns the dimensions of a shape in any of its forms; None stays None.

    place: which shape it is, in words, for errors. Raises AnnotationError for what cannot be read
    as a shape and ShapeError for a negative dimension.

    >>> to_shape("8*s, k")
    (Poly(8*s), Poly(k))
    """
    kind = value.__class__
    if value is None:
        return None
    if isinstance(value, str):
        dims: Shape = shape_of_text(value)
        if any(dim.__class__ is int and not 0 <= dim < MAX_NUMBER for dim in dims):
            _with_places(dims, place)
        return dims
    if kind is not tuple and kind is not list and not _is_sequence(value):
        raise _not_a_shape(value, place)
    try:
        return tuple(
            [
                dim if dim.__class__ is int and 0 <= dim < MAX_NUMBER else to_optional_dim(dim)
                for dim in value
            ]
        )
    except DimsolveError as error:
        failed = error
    _with_places(value, place)
    raise failed


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview)


def _with_places(dims: Sequence[DimLike], place: str) -> None:
    """Reads the dimensions once more, to say of the wrong one which it is."""
    for number, dim in enumerate(dims):
        if dim is not None:
            to_dim(dim, f"{place}, dim {number}" if place else f"dim {number}")


def _not_a_shape(value: object, place: str) -> AnnotationError:
    return AnnotationError(
        Diagnostic(
            code="not-a-shape",
            title=f"{place or 'this'} is not a shape",
            reason=f"{place or 'it'} is {described(value)}",
            hint='give a sequence such as (8, "k"), a text such as "8*s, k", or None',
        )
    )


def to_optional_dim(value: DimLike) -> Dim | None:
    """Returns the Dim, or None for an unknown one."""
    return None if value is None else to_dim(value)


@lru_cache(maxsize=4096)
def shape_of_text(text: str) -> tuple[Dim, ...]:
    """Returns the Dims of a text such as ``8*s, k``."""
    if "(" not in text and "," in text:
        parts = [part.strip() for part in text.split(",")]
        if all(parts) and all(part.isascii() and part.isalnum() for part in parts):
            return tuple(dim_of_text(part) for part in parts)
    return tuple(dim_of_expression(dimension, text) for dimension in read_shape(text))
