"""Types as JSON, there and back. A dimension is an int or text in the dimension language.

{"tensor": {"rank": 2, "dtype": "float32", "shape": ["n", 8]}}        float32[n, 8]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .types import (
    Computed,
    Dim,
    FunctionType,
    Known,
    ObjectType,
    ScalarType,
    Shape,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    Unknown,
)

Json = Any
ReadDim = Callable[[str], Dim]


def dims_to_json(dims: tuple[Dim | None, ...]) -> Json:
    """Returns dimensions as JSON data."""
    return [dim if dim is None or isinstance(dim, int) else str(dim) for dim in dims]


def type_to_json(type: Type) -> Json:
    """Returns a type as JSON data."""
    match type:
        case TensorType(rank, dtype, shape):
            return {"tensor": {"rank": rank, "dtype": dtype, "shape": _shape_to_json(shape)}}
        case ShapeType(dims):
            return {"shape": None if dims is None else dims_to_json(dims)}
        case ScalarType(dtype, value):
            number = value if value is None or isinstance(value, int) else str(value)
            return {"scalar": dtype, "value": number}
        case TupleType(fields):
            return {"tuple": [type_to_json(field) for field in fields]}
        case ObjectType(kind):
            return {"object": kind}
        case FunctionType(parameters, result):
            listed = None if parameters is None else [type_to_json(p) for p in parameters]
            return {"function": {"parameters": listed, "result": type_to_json(result)}}


def _shape_to_json(shape: Shape) -> Json:
    match shape:
        case Known(dims):
            return dims_to_json(dims)
        case Computed(function, arguments):
            return {
                "computed": function,
                "arguments": [a if isinstance(a, str) else dims_to_json(a) for a in arguments],
            }
        case Unknown():
            return None


class TypeReader:
    """Reads types. ``read_dim`` reads dimension text, which is the solver's business."""

    def __init__(self, read_dim: ReadDim) -> None:
        self.read_dim = read_dim

    def dim(self, data: Json) -> Dim | None:
        return data if data is None or isinstance(data, int) else self.read_dim(data)

    def dims(self, data: Json) -> tuple[Dim | None, ...]:
        return tuple(self.dim(item) for item in data)

    def type(self, data: Json) -> Type:
        match data:
            case {"tensor": {"rank": rank, "dtype": dtype, "shape": shape}}:
                return TensorType(rank, dtype, self.shape(shape))
            case {"shape": dims}:
                return ShapeType(None if dims is None else self.dims(dims))
            case {"scalar": dtype, "value": value}:
                return ScalarType(dtype, self.dim(value))
            case {"tuple": fields}:
                return TupleType(tuple(self.type(field) for field in fields))
            case {"object": kind}:
                return ObjectType(kind)
            case {"function": {"parameters": parameters, "result": result}}:
                listed = None if parameters is None else tuple(self.type(p) for p in parameters)
                return FunctionType(listed, self.type(result))
        raise ValueError(f"{data!r:.80} is no type")

    def shape(self, data: Json) -> Shape:
        match data:
            case None:
                return Unknown()
            case {"computed": function, "arguments": arguments}:
                listed = (a if isinstance(a, str) else self.dims(a) for a in arguments)
                return Computed(function, tuple(listed))
            case _:
                return Known(self.dims(data))
