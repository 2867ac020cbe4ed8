"""Types of values: what is known about a tensor, a shape, a number, a tuple, an object, a function.

Rank, dtype and every single dimension of a tensor may be known or not, each on its own. The shape
itself is one of three cases: known dimensions, a call of an opaque shape function that computes it
at run time, or nothing at all.

    float32[n, m*2]     known             TensorType(2, "float32", Known((n, m*2)))
    float32[f(n*4)]     computed          TensorType(None, "float32", Computed("f", ((n*4,),)))
    float32[n, ?]       a dimension lost  TensorType(2, "float32", Known((n, None)))
    ?[*]                nothing known     TensorType(None, None, Unknown())

Dimensions are held, not computed with: what they mean, and joins and subtypes, live in
`dimsolve.solver`. As JSON a dimension is an int or text in the dimension language:

    {"tensor": {"rank": 2, "dtype": "float32", "shape": ["n", 8]}}        float32[n, 8]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Dim: TypeAlias = Any
"""A length: an int while it is known, else a `dimsolve.solver.algebra.poly.Poly`. Both are
immutable and print as dimension text.
"""


def dims_text(dims: Sequence[Dim | None]) -> str:
    """Returns ``n, m*2, ?``.

    >>> dims_text((2, None))
    '2, ?'
    """
    return ", ".join(["?" if dim is None else str(dim) for dim in dims])


@dataclass(frozen=True, slots=True)
class Known:
    """A shape with dimensions; None for one that is not known."""

    dims: tuple[Dim | None, ...]

    def __str__(self) -> str:
        return dims_text(self.dims)


SHAPE = "shape"
"""The shape function that is a value's own shape, or the shape that a value is."""


@dataclass(frozen=True, slots=True)
class Computed:
    """A shape that a named shape function computes at run time.

    arguments: shapes (tuples of dimensions), or names of values, whose shapes (or whose value, for
    a shape) are meant.
    """

    function: str
    arguments: tuple[tuple[Dim | None, ...] | str, ...]

    def __str__(self) -> str:
        if self.function == SHAPE and isinstance(self.arguments[0], str):
            return f"%{self.arguments[0]}"
        parts = [f"%{a}" if isinstance(a, str) else f"({dims_text(a)})" for a in self.arguments]
        return f"{self.function}({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A shape that can only be looked up at run time."""

    def __str__(self) -> str:
        return "*"


Shape: TypeAlias = Known | Computed | Unknown
UNKNOWN = Unknown()


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor. A known rank alone is a shape whose dimensions are all unknown."""

    rank: int | None
    dtype: str | None
    shape: Shape = UNKNOWN

    def __post_init__(self) -> None:
        if isinstance(self.shape, Known):
            if self.rank is None:
                object.__setattr__(self, "rank", len(self.shape.dims))
            elif self.rank != len(self.shape.dims):
                raise ValueError(f"rank {self.rank} and the shape ({self.shape}) disagree")
        elif self.rank is not None and isinstance(self.shape, Unknown):
            object.__setattr__(self, "shape", Known((None,) * self.rank))

    @property
    def dims(self) -> tuple[Dim | None, ...] | None:
        """The dimensions, None each where unknown; None where not even their number is known."""
        if isinstance(self.shape, Known):
            return self.shape.dims
        return None if self.rank is None else (None,) * self.rank

    def __str__(self) -> str:
        computed = self.rank is not None and isinstance(self.shape, Computed)
        return f"{self.dtype or '?'}[{f'{self.rank}: ' if computed else ''}{self.shape}]"


@dataclass(frozen=True, slots=True)
class ShapeType:
    """A shape as a value, as of ``x.size()``. ``dims`` is None where its length is not known."""

    dims: tuple[Dim | None, ...] | None

    @property
    def rank(self) -> int | None:
        """How many dimensions it has, if that is known."""
        return None if self.dims is None else len(self.dims)

    def __str__(self) -> str:
        return f"shape({'*' if self.dims is None else dims_text(self.dims)})"


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A Python number of a dtype; ``value`` is that of an integer, where it is known."""

    dtype: str
    value: Dim | None = None

    def __str__(self) -> str:
        return self.dtype if self.value is None else f"{self.dtype} {self.value}"


@dataclass(frozen=True, slots=True)
class TupleType:
    """A tuple or list of values."""

    fields: tuple[Type, ...]

    def __str__(self) -> str:
        inner = ", ".join(str(field) for field in self.fields)
        return f"({inner},)" if len(self.fields) == 1 else f"({inner})"


@dataclass(frozen=True, slots=True)
class ObjectType:
    """Any other value (a generator, a cache), only replicated. Without a kind: any value."""

    kind: str = ""

    def __str__(self) -> str:
        return f"object {self.kind}".strip()


@dataclass(frozen=True, slots=True)
class FunctionType:
    """A function; its symbols are its own. ``parameters`` is None where they are not known."""

    parameters: tuple[Type, ...] | None
    result: Type

    def __str__(self) -> str:
        inner = "..." if self.parameters is None else ", ".join(map(str, self.parameters))
        return f"({inner}) -> {self.result}"


Type: TypeAlias = TensorType | ShapeType | ScalarType | TupleType | ObjectType | FunctionType
ANY = ObjectType()


def tensor(dims: Sequence[Dim | None] | None, dtype: str | None = None) -> TensorType:
    """Returns the type of a tensor with these dimensions, or of unknown rank.

    >>> str(tensor((3, None), "float32")), str(tensor(None))
    ('float32[3, ?]', '?[*]')
    """
    if dims is None:
        return TensorType(None, dtype)
    return TensorType(len(dims), dtype, Known(tuple(dims)))


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
