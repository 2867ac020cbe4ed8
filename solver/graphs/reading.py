"""Shapes, types and arguments of calls as people write them, read into what a graph holds.

"n, m*2"           float32[n, m*2]
"n, ?"             float32[n, ?]         which a graph opens: float32[n, _x1]
None               float32[*]
""                 float32[]
(2, "m*2")         (2, 2*m)              texts inside a list of sizes are dimensions
"mean"             "mean"                a text alone stays a text
torch.float32      Constant(torch.float32)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from dimsolve.ir.graph import Argument, Constant, Device, Value
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

from ..algebra.poly import Poly, symbol
from ..shapes import to_optional_dim, to_shape
from . import problems
from .deduction import symbols_in
from .system import System

Dims: TypeAlias = "tuple[Dim | None, ...]"


def opened_dims(system: System, dims: Dims, name: str) -> Dims:
    """Returns dimensions with an open symbol for each that is not known: ``_x0`` for the first of
    ``x``.
    """
    if None not in dims:
        return dims
    return tuple(
        system.fresh(f"_{name}{place}", f"dim {place} of %{name}") if dim is None else dim
        for place, dim in enumerate(dims)
    )


def opened(system: System, type: Type, name: str) -> Type:
    """Returns the type with an open symbol for every dimension that is not known."""
    if isinstance(type, TensorType) and isinstance(type.shape, Known):
        return replace(type, shape=Known(opened_dims(system, type.shape.dims, name)))
    if isinstance(type, ShapeType) and type.dims is not None:
        return ShapeType(opened_dims(system, type.dims, name))
    if isinstance(type, TupleType):
        fields = [opened(system, f, f"{name}_{i}_") for i, f in enumerate(type.fields)]
        return TupleType(tuple(fields))
    return type


def note_symbols(system: System, type: Type, origin: str) -> None:
    """Notes the symbols of a type; names that begin with an underscore are open."""
    for name in sorted(symbols_in(type)):
        if name.startswith("_"):
            system.open.setdefault(name, origin)
        else:
            system.name([symbol(name)], origin)


_DTYPES = """
    bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64
    complex32 complex64 complex128 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz
    float8_e8m0fnu float4_e2m1fn_x2 quint8 qint8 qint32 quint4x2 quint2x4 bits8 bits16 bits1x8
    bits2x4 bits4x2 int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5 uint6 uint7
"""
DTYPES = frozenset(_DTYPES.split())
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
        raise problems.no_dtype(dtype, DTYPES)
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
    """Where a word first stands outside of brackets; None where it does not."""
    depth = 0
    for place, character in enumerate(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
        if depth == 0 and text.startswith(word, place):
            return place
    return None


_SIZED = """
    broadcast_to empty expand full new_empty new_full new_ones new_zeros ones rand randn repeat
    reshape tile unflatten view zeros
"""
SIZED = frozenset(_SIZED.split())
"""Functions whose texts are sizes wherever they stand: ``view(x, "n", 8)``."""


def read_argument(argument: Any, *, nested: bool = False) -> Argument:
    """Returns the argument with dimensions read, and torch's constants and devices by name.

    >>> read_argument(("n", 2)), read_argument("mean")
    ((Poly(n), 2), 'mean')
    """
    kind = argument.__class__
    if kind in (Value, int, float, bool, Poly) or argument is None:
        return argument
    if isinstance(argument, tuple):
        return tuple([read_argument(item, nested=True) for item in argument])
    if isinstance(argument, list):
        return [read_argument(item, nested=True) for item in argument]
    if isinstance(argument, dict):
        return {key: read_argument(item) for key, item in argument.items()}
    if isinstance(argument, slice):
        bounds = (argument.start, argument.stop, argument.step)
        return slice(*[read_argument(bound, nested=True) for bound in bounds])
    module = kind.__module__.partition(".")[0]
    if module == "torch" and kind.__name__ == "device":
        return Device(str(argument))
    if module == "torch" and kind.__name__ in ("dtype", "memory_format", "layout"):
        return Constant(str(argument))
    if module == "sympy" or (nested and kind is str):
        return read_dim(argument)
    return argument
