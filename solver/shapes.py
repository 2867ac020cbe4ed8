"""Shapes as callers give them, made into tuples of Dims.

    "8*s, k"   "[8, k]"   [8, "k"]   (8*s, k)   torch.Size([8, 64])   torch.ones(8, 64)   None

A shape is a sequence of dimensions (an int, dimension text, a SymPy expression made by dimsolve,
``None`` for an unknown one), or one text for all of them (`dimsolve.ir.read_expression.read_shape`
says how it is written), or a tensor or array, whose shape is taken, or ``None`` for a value whose
shape is not known or not looked at. Types are told apart here, once, for every question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import index
from typing import Any, TypeAlias, TypeGuard

from dimsolve.ir.checks import (
    described,
    wrong_type,
)
from dimsolve.ir.errors import AnnotationError, DimsolveError, Problem, ShapeError, problems
from dimsolve.ir.expression import Expression
from dimsolve.ir.read_expression import MAX_DIGITS, read_dimension, read_shape

from .algebra.dims import from_expression
from .algebra.poly import Dim, Poly, TooLarge, symbol

Shape: TypeAlias = "tuple[Dim | None, ...]"
DimLike: TypeAlias = Any
"""An int (or what has ``__index__``), dimension text, a SymPy expression made by dimsolve, a Dim,
or None.
"""
ShapeLike: TypeAlias = "str | Sequence[DimLike] | Any | None"
MAX_NUMBER = 10**MAX_DIGITS
"""A number has as many digits as a written one: then it can be printed and multiplied."""


_IMPOSSIBLE = problems(
    ShapeError,
    """
    negative-dimension: a dimension is negative
      {what} less than 0
      hint: a size is 0 or more; write an unknown dimension as None
    """,
)
_WRONG = problems(
    AnnotationError,
    """
    too-many-digits: a number that is too long
      {place} has more than {limit} digits
    division-by-zero: a division by zero
      it divides by 0, so it has no value
    too-large: the expression is too large
      multiplied out it has too many terms
      hint: write a smaller expression
    not-a-dimension: {this} is not a dimension
      {it} is {value}
      hint: give an int, a text such as "8*s", or a SymPy expression made by dimsolve
    not-a-shape: {this} is not a shape
      {it} is {value}
      hint: give a sequence such as (8, "k"), a text such as "8*s, k", or None
    """,
)


def _refused(problem: Problem[AnnotationError], value: object, place: str) -> AnnotationError:
    return problem(this=place or "this", it=place or "it", value=described(value))


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
        raise _refused(_WRONG["not-a-dimension"], value, place)
    else:
        dim = _dim_of_object(value, place)
    if isinstance(dim, int) and not 0 <= dim < MAX_NUMBER:
        if dim >= MAX_NUMBER or dim <= -MAX_NUMBER:
            raise _WRONG["too-many-digits"](place=place or "a dimension", limit=MAX_DIGITS)
        raise _IMPOSSIBLE["negative-dimension"](what=f"{place} is {dim}," if place else f"{dim} is")
    return dim


@lru_cache(maxsize=8192)
def dim_of_text(text: str) -> Dim:
    """Returns the Dim of a text; the common ``s`` and ``8*s`` take a shortcut."""
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
        problem = _WRONG["division-by-zero"]
    except TooLarge:
        problem = _WRONG["too-large"]
    raise problem(text, expression.span)


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
    raise _refused(_WRONG["not-a-dimension"], value, place)


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
        shape = getattr(value, "shape", None)  # of a tensor of torch, NumPy or JAX
        number = any(base.__name__ == "generic" for base in type(value).__mro__)  # NumPy's
        if not isinstance(shape, tuple) or number:
            raise _refused(_WRONG["not-a-shape"], value, place)
        value = shape
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


def _is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview)


def _with_places(dims: Sequence[DimLike], place: str) -> None:
    """Reads the dimensions once more, to say of the wrong one which it is."""
    for number, dim in enumerate(dims):
        if dim is not None:
            to_dim(dim, f"{place}, dim {number}" if place else f"dim {number}")


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


def to_inputs(inputs: Any) -> Sequence[Any]:
    """Returns the inputs where they are a sequence; AnnotationError for anything else."""
    if isinstance(inputs, str):
        hint = f"a text is one shape; give a list of shapes: [{inputs[:40]!r}]"
        raise wrong_type("inputs", inputs, "a list of shapes", hint)
    if not _is_sequence(inputs):
        hint = 'give one shape per annotated input, such as ["8*s, k", (8, "k")]'
        raise wrong_type("inputs", inputs, "a list of shapes", hint)
    return inputs


def to_arguments(arguments: Any) -> Mapping[str, Any]:
    """Returns the arguments by name, none for None; AnnotationError for what is no mapping."""
    if arguments is None:
        return {}
    hint = 'give lengths by name, such as {"h": 8}'
    if not isinstance(arguments, Mapping):
        raise wrong_type("arguments", arguments, "a mapping of names to lengths", hint)
    for name in arguments:
        if not isinstance(name, str):
            raise wrong_type("a name in arguments", name, "a text", hint)
    return arguments
