"""Types of values: what is known about a tensor, a shape, a number, a tuple, an object, a function.

Rank, dtype and every single dimension of a tensor may be known or not, each on its own. The shape
itself is one of three cases: known dimensions, a call of an opaque shape function that computes it
at run time, or nothing at all.

    float32[n, m*2]     known             TensorType(2, "float32", Known((n, m*2)))
    float32[f(n*4)]     computed          TensorType(None, "float32", Computed("f", ((n*4,),)))
    float32[n, ?]       a dimension lost  TensorType(2, "float32", Known((n, None)))
    ?[*]                nothing known     TensorType(None, None, Unknown())

Dimensions are held, not computed with: what they mean, and joins and subtypes, live in
`dimsolve.solver`.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """A tensor. With known dimensions the rank is their number; a known rank alone is dimensions
    that are all unknown.
    """

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
        rank = (
            f"{self.rank}: " if self.rank is not None and isinstance(self.shape, Computed) else ""
        )
        return f"{self.dtype or '?'}[{rank}{self.shape}]"


@dataclass(frozen=True, slots=True)
class ShapeType:
    """A shape as a value of its own: what ``x.size()`` returns. ``dims`` is None where its length
    is not known.
    """

    dims: tuple[Dim | None, ...] | None

    @property
    def rank(self) -> int | None:
        """How many dimensions it has, if that is known."""
        return None if self.dims is None else len(self.dims)

    def __str__(self) -> str:
        return f"shape({'*' if self.dims is None else dims_text(self.dims)})"


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A Python number. ``dtype`` is ``int``, ``float``, ``bool``, or a tensor dtype's name;
    ``value`` is known only for integers.
    """

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
    """A value that is none of the others (a random generator, a cache); only ever replicated.
    Without a kind: any value at all.
    """

    kind: str = ""

    def __str__(self) -> str:
        return f"object {self.kind}".strip()


@dataclass(frozen=True, slots=True)
class FunctionType:
    """A function. ``parameters`` is None where they are not known. Symbols of the parameters are
    the function's own.
    """

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
