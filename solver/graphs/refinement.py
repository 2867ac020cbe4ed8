"""Two statements about one value, met: what was known of it, and what a call, a pattern or a user
adds.

    known float32[n, ?]      added [m, 64]      float32[n, 64], and n == m is an equation
    known float32[n, 64]     added [n, 32]      %x dim 1 has two lengths
    known ?[*]               added [m, n]       ?[m, n]

A value that becomes better known wakes the calls that make and use it; `propagation` visits them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from dimsolve.ir.expression import Comparison
from dimsolve.ir.node import Node, Value
from dimsolve.ir.types import (
    ANY,
    SHAPE,
    Computed,
    Dim,
    Known,
    ScalarType,
    ShapeType,
    TensorType,
    Type,
    Unknown,
)

from ..proof.claims import Claim
from . import graph_problems
from .calls import Calls
from .deduction import substitute_type
from .open_dims import note_symbols, opened
from .system import Contradiction

if TYPE_CHECKING:
    from .graph_builder import GraphBuilder


class Refinement(Calls):
    """The types of one graph's values. ``queue``: the calls to visit again."""

    def __init__(self, graph: GraphBuilder) -> None:
        super().__init__(graph)
        self.queue: deque[Node] = deque()

    def opened(self, type: Type, name: str) -> Type:
        """Returns the type with an open symbol for every dimension that is not known."""
        return opened(self.graph.system, type, name)

    def note_symbols(self, type: Type, origin: str) -> None:
        """Notes the symbols of a type, with where they were first seen."""
        note_symbols(self.graph.system, type, origin)

    def refine(self, value: Value, type: Type, origin: str) -> bool:
        """Adds what is known of a value; returns whether it told anything new. ShapeError where it
        contradicts.
        """
        old = value.type
        if old == type or type == ANY:
            return False
        if isinstance(old, TensorType) and isinstance(type, TensorType):
            new: Type = self._met(value, old, type, origin)
        elif isinstance(old, ShapeType) and isinstance(type, ShapeType):
            dims = self._met_dims(value, old.dims, type.dims, origin)
            new = ShapeType(dims)
        elif old == ANY:
            new = type
        elif isinstance(old, ScalarType) and isinstance(type, ScalarType):
            new = type if old.value is None else old
        else:
            return False
        changed = new != value.type
        value.type = new
        if changed:
            self._wake(value)
        return changed

    def _met(self, value: Value, old: TensorType, new: TensorType, origin: str) -> TensorType:
        if old.dtype is not None and new.dtype is not None and old.dtype != new.dtype:
            raise graph_problems.two_dtypes(value, old.dtype, new.dtype, origin)
        dtype = old.dtype or new.dtype
        if old.dims is not None and new.dims is not None:
            dims = self._met_dims(value, old.dims, new.dims, origin)
            assert dims is not None
            return TensorType(len(dims), dtype, Known(dims))
        known = old if old.dims is not None else new
        if known.dims is not None:
            opened = self.opened(TensorType(None, dtype, Known(known.dims)), value.name)
            assert isinstance(opened, TensorType)
            return opened
        shape = new.shape if isinstance(old.shape, Unknown) else old.shape
        return TensorType(None, dtype, shape)

    def _met_dims(
        self,
        value: Value,
        old: tuple[Dim | None, ...] | None,
        new: tuple[Dim | None, ...] | None,
        origin: str,
    ) -> tuple[Dim | None, ...] | None:
        if old is None or new is None:
            return old if new is None else new
        if len(old) != len(new):
            raise graph_problems.two_ranks(value, old, new, origin)
        dims: list[Dim | None] = []
        for place, (a, b) in enumerate(zip(old, new, strict=True)):
            if a is not None and b is not None and a != b:
                self._equal(value, place, a, b, origin)
            known = b if a is None else a
            dims.append(None if known is None else self.graph.system.current(known))
        return tuple(dims)

    def _equal(self, value: Value, place: int, a: Dim, b: Dim, origin: str) -> None:
        claim = Claim(a, Comparison.EQ, b)
        try:
            steps = self.graph.system.require(claim, origin)
        except Contradiction:
            raise graph_problems.two_lengths(value, place, a, b, origin) from None
        if steps:
            self.substitute(steps)

    def substitute(self, steps: dict[str, Dim]) -> None:
        """Replaces symbols that were solved in every type of the graph."""
        for value in self.graph.values.values():
            new = substitute_type(value.type, steps)
            if new is not value.type and new != value.type:
                value.type = new

    def _wake(self, value: Value) -> None:
        if value.producer is not None:
            self.queue.append(value.producer)
        self.queue.extend(self.graph.users(value))

    def tensor_of_shape(self, shape: Value, dtype: str | None) -> TensorType:
        """Returns the type of a tensor whose shape is the value of another."""
        if isinstance(shape.type, ShapeType) and shape.type.dims is not None:
            return TensorType(None, dtype, Known(shape.type.dims))
        return TensorType(shape.rank, dtype, Computed(SHAPE, (shape.name,)))
