"""Reads the types of inputs as people write them: ``"n, m, 2"``, ``"n, ?"``, ``("n", None)``, None.

"n, m*2"    float32[n, m*2]
"n, ?"      float32[n, ?]
None        float32[*]
""          float32[]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dimsolve.ir.types import (
    Dim,
    FunctionType,
    Known,
    ObjectType,
    ScalarType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    Unknown,
)

from ..shapes import to_optional_dim, to_shape
from . import request_problems

_NAMES = """
    bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64
    complex32 complex64 complex128 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz
    float8_e8m0fnu float4_e2m1fn_x2 quint8 qint8 qint32 quint4x2 quint2x4 bits8 bits16 bits1x8
    bits2x4 bits4x2 int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5 uint6 uint7
"""
DTYPES = frozenset(_NAMES.split())
"""The dtypes of torch by name."""

UNKNOWN_WORDS = ("?", "_")


def read_dim(value: Any) -> Dim:
    """Returns a dimension that is an int, a text or a SymPy expression."""
    dim = to_optional_dim(value)
    assert dim is not None
    return dim


def read_dims(shape: Any) -> tuple[Dim | None, ...] | None:
    """Returns dimensions; None for an unknown rank. ``?`` and ``_`` are unknown dimensions.

    >>> read_dims("n, ?"), read_dims(""), read_dims("*")
    ((Poly(n), None), (), None)
    """
    if shape is None:
        return None
    if isinstance(shape, str):
        text = shape.strip()
        if text == "*":
            return None
        if text.startswith("(") and text.endswith(")") and _closes_at_end(text):
            text = text[1:-1].strip().removesuffix(",")
        words = split_dims(text)
        if any(word in UNKNOWN_WORDS for word in words):
            return tuple([None if w in UNKNOWN_WORDS else read_dim(w) for w in words])
        return to_shape(text) if text else ()
    if isinstance(shape, Sequence):
        return tuple([None if d in UNKNOWN_WORDS else to_optional_dim(d) for d in shape])
    return to_shape((shape,))


def _closes_at_end(text: str) -> bool:
    depth = 0
    for place, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            return place == len(text) - 1 and "," in text
    return False


def split_dims(text: str) -> list[str]:
    """Returns the dimensions of a text, split at commas outside brackets.

    >>> split_dims("n, max(a, b), 2")
    ['n', 'max(a, b)', '2']
    """
    words, depth, start = [], 0, 0
    for place, character in enumerate(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
        if character == "," and depth == 0:
            words.append(text[start:place].strip())
            start = place + 1
    last = text[start:].strip()
    return [*words, last] if last else words


def read_input_type(shape: Any, dtype: str | None) -> Type:
    """Returns the type of an input: a type as it is, anything else as the shape of a tensor.

    >>> str(read_input_type("n, ?", "float32"))
    'float32[n, ?]'
    """
    if hasattr(shape, "__dataclass_fields__"):
        result: Type = shape
        return result
    if dtype is not None and dtype not in DTYPES:
        raise request_problems.no_dtype(dtype, DTYPES)
    dims = read_dims(shape)
    if dims is None:
        return TensorType(None, dtype)
    return TensorType(len(dims), dtype, Known(dims))


def read_type(text: str) -> Type:
    """Returns the type that a text says; ValueError for one that says none. What prints as a type
    reads back.

    >>> print(read_type("(float32[n, ?], shape(n*2), int n, object Cache)"))
    (float32[n, ?], shape(2*n), int n, object Cache)
    >>> print(read_type("(float32[n]) -> ?[*]"))
    (float32[n]) -> ?[*]
    """
    text = text.strip()
    arrow = _outside(text, "->")
    if arrow is not None:
        inner = text[:arrow].strip()[1:-1]
        parameters = None if inner == "..." else tuple(read_type(w) for w in split_dims(inner))
        return FunctionType(parameters, read_type(text[arrow + 2 :]))
    if text.endswith("]"):
        dtype, _, inside = text[:-1].partition("[")
        dims = read_dims(inside)
        shape = Unknown() if dims is None else Known(dims)
        return TensorType(None, None if dtype in UNKNOWN_WORDS else dtype, shape)
    if text.startswith("shape(") and text.endswith(")"):
        return ShapeType(read_dims(text[len("shape(") : -1]))
    if text.startswith("(") and text.endswith(")"):
        return TupleType(tuple(read_type(word) for word in split_dims(text[1:-1])))
    kind, _, rest = text.partition(" ")
    if kind == "object":
        return ObjectType(rest)
    if not kind.isidentifier():
        raise ValueError(f"{text!r:.80} is no type")
    return ScalarType(kind, read_dim(rest) if rest else None)


def _outside(text: str, word: str) -> int | None:
    """Where a word stands outside of brackets, the last time; None where it does not."""
    depth, found = 0, None
    for place, character in enumerate(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
        if depth == 0 and text.startswith(word, place):
            found = place
            break
    return found
