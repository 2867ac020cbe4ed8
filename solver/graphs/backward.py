"""An annotation read as a relation: what outputs and inputs together tell of every operand.

``* , * -> *`` with an input of unknown rank, another ``(m, n)`` and an output of unknown rank says
that all three are ``(m, n)``. The outputs are laid beside the inputs as if all were given, and one
solution gives every operand its dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.node import Value
from dimsolve.ir.operator import Declaration
from dimsolve.ir.types import Dim, TensorType

from ..algebra.dims import symbols_of
from ..algebra.poly import product
from ..infer import infer_sizes


@dataclass(frozen=True, slots=True)
class Operands:
    """Dimensions of operands that had none. ``free``: symbols in them that are new."""

    dims: tuple[tuple[Value, tuple[Dim, ...]], ...] = ()
    free: frozenset[str] = frozenset()


def operand_dims(declaration: Declaration, operands: Sequence[Value | None]) -> Operands:
    """Returns the dimensions that the annotation gives to tensors of unknown rank; none where it
    gives none.

    operands: the annotated inputs, then the outputs.
    """
    left, _, right = declaration.annotation.partition("->")
    sides = [side.strip() for side in (left, right) if side.strip()]
    shapes = [
        value.type.dims if value is not None and isinstance(value.type, TensorType) else None
        for value in operands
    ]
    if all(shape is None for shape in shapes):
        return Operands()
    try:
        solution = infer_sizes(f"{', '.join(sides)} ->", shapes, arguments=declaration.arguments)
    except DimsolveError:
        return Operands()
    free = {atom for name in solution.free for atom in symbols_of(solution.values[name])}
    found = []
    for value, shape, patterns in zip(operands, shapes, solution.layout.inputs, strict=True):
        if value is None or shape is not None or patterns is None:
            continue
        lengths = [[solution.values[name] for name in p.names] for p in patterns]
        dims = tuple(
            [product([p.constant, *row]) for p, row in zip(patterns, lengths, strict=True)]
        )
        found.append((value, dims))
    return Operands(tuple(found), frozenset(free))
