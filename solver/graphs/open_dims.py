"""Dimensions that are not known yet: each gets a symbol of its own, which an equation may solve
later.

    x: float32[n, ?]     float32[n, _x1]
"""

from __future__ import annotations

from dimsolve.ir.types import Known, ShapeType, TensorType, TupleType, Type

from ..algebra.poly import symbol
from .deduction import symbols_in
from .system import System


def opened(system: System, type: Type, name: str) -> Type:
    """Returns the type with an open symbol for every dimension that is not known: ``_x0`` for
    the first of ``x``.
    """
    if isinstance(type, TensorType) and isinstance(type.shape, Known):
        dims = type.shape.dims
        if None in dims:
            filled = tuple(
                system.fresh(f"_{name}{place}", f"dim {place} of %{name}") if dim is None else dim
                for place, dim in enumerate(dims)
            )
            return TensorType(type.rank, type.dtype, Known(filled))
    if isinstance(type, ShapeType) and type.dims is not None and None in type.dims:
        inner = opened(system, TensorType(None, None, Known(type.dims)), name)
        assert isinstance(inner, TensorType)
        return ShapeType(inner.dims)
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
