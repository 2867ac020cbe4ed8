"""Types that torch confirms: what our solver deduced, compared with torch's fake tensors.

    ours  float32[batch, 8*s]     torch  float32[s52, 8*s27]     confirmed with s52 = batch, s27 = s

Equal polynomials pass at once, others are proved equal under what is known of the graph. A length
that is known only at run time is our new symbol and torch's own: from there on the two are one.
"""

from __future__ import annotations

from typing import Any

from dimsolve.ir.expression import Comparison
from dimsolve.ir.graph import Node
from dimsolve.ir.types import (
    ANY,
    Known,
    ObjectType,
    ScalarType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
)
from dimsolve.solver.algebra.dims import Call, Function
from dimsolve.solver.algebra.poly import Dim, Poly, atoms_of, replace
from dimsolve.solver.graphs.deduction import Outcome
from dimsolve.solver.graphs.problems import place
from dimsolve.solver.graphs.system import System
from dimsolve.solver.proof.prove import decide
from dimsolve.solver.proof.verdict import Always

from .torch_dims import NotExpressible, TorchDims

_ORDERED = {Function.MIN: Comparison.LE, Function.MAX: Comparison.GE}
"""How an argument that such a call always gives stands to the others."""


class Confirmation:
    """Compares types with torch's. ``dims`` reads torch's sizes, ``system`` is what is known of
    the symbols.
    """

    def __init__(self, dims: TorchDims, system: System) -> None:
        self.dims = dims
        self.system = system

    def types(
        self, made: Node, outcome: Outcome, several: bool, fakes: tuple[Any, ...]
    ) -> tuple[Type, ...] | None:
        """Returns the types that we deduced where torch confirms them, gaining what torch knows
        besides; None where it does not.
        """
        if outcome.several != several or len(outcome.types) != len(fakes):
            return None
        types: list[Type] = []
        for type, fake in zip(outcome.types, fakes, strict=True):
            found = self._confirmed_one(type, fake, made)
            if found is None:
                return None
            types.append(found)
        return tuple(types)

    def _confirmed_one(self, type: Type, fake: Any, made: Node) -> Type | None:
        if not isinstance(type, TensorType) or not hasattr(fake, "dtype"):
            theirs = self.type(fake, made)
            if type == TensorType(None, None):  # '?' may be any value
                return theirs
            if isinstance(type, ScalarType) and isinstance(theirs, ScalarType):
                if type.value is None:
                    return theirs
                agreed = theirs.value is None or self._equal(type.value, theirs.value)
                return type if agreed else None
            return theirs if type in (ANY, theirs) else None
        dtype = dtype_of(fake)
        if type.dtype is not None and type.dtype != dtype:
            return None
        ours = type.dims
        if ours is None:
            return self.type(fake, made)
        if len(ours) != len(fake.shape):
            return None
        dims = tuple([self._agreed(a, b) for a, b in zip(ours, fake.shape, strict=True)])
        if None in dims:
            return None
        unchanged = dims == ours and type.dtype is not None
        return type if unchanged else TensorType(len(dims), dtype, Known(dims))

    def _agreed(self, ours: Dim | None, theirs: Any) -> Dim | None:
        """Our length where torch's is the same; None where it is another one."""
        if ours.__class__ is int and theirs.__class__ is int:
            return ours if ours == theirs else None
        try:
            found = self._settled(self.dims.dim(theirs))
        except NotExpressible:
            expression = theirs.node.expr
            if ours is not None and getattr(expression, "is_Symbol", False):
                self.dims.bind(expression, ours)
            return ours
        if ours is None or ours == found:
            return found
        if not self._equal(ours, found):
            return None
        return min(ours, found, key=lambda dim: (len(str(dim)), str(dim)))  # the shorter to read

    def _settled(self, dim: Dim) -> Dim:
        """A length whose minima and maxima are what the guards of the model leave of them: of
        ``min(64, seq)``, a slice of a table that is as long as what it is added to, ``seq``.
        """
        for call in sorted(atoms_of(dim)) if isinstance(dim, Poly) else ():
            if isinstance(call, Call) and call.function in _ORDERED:
                least = next((a for a in call.arguments if self._is_extreme(call, a)), None)
                if least is not None:
                    return self._settled(replace(dim, {call: least}))
        return dim

    def _is_extreme(self, call: Call, one: Dim) -> bool:
        """Whether one argument is always the least, or the largest."""
        order, facts = _ORDERED[call.function], self.system.facts
        return all(
            isinstance(decide(one, order, other, facts), Always)
            for other in call.arguments
            if other is not one
        )

    def _equal(self, a: Dim, b: Dim) -> bool:
        return a == b or isinstance(decide(a, Comparison.EQ, b, self.system.facts), Always)

    def type(self, fake: Any, made: Node) -> Type:
        """The type that torch gives a value."""
        if hasattr(fake, "dtype"):
            dims = tuple([self._length(size, made, i) for i, size in enumerate(fake.shape)])
            return TensorType(len(dims), dtype_of(fake), Known(dims))
        match type(fake).__name__:
            case "SymInt" | "int":
                return ScalarType("int", self._length(fake, made, 0))
            case "SymFloat" | "float":
                return ScalarType("float")
            case "SymBool" | "bool":
                return ScalarType("bool")
            case "Size":
                return ShapeType(tuple([self._length(s, made, i) for i, s in enumerate(fake)]))
            case _ if isinstance(fake, tuple | list):
                return TupleType(tuple(self.type(item, made) for item in fake))
            case name:
                return ANY if fake is None else ObjectType(name)

    def _length(self, size: Any, made: Node, index: int) -> Dim:
        try:
            return self._settled(self.dims.dim(size))
        except NotExpressible:
            fresh = self.system.fresh(f"_{made.id}_{index}", place(made))
            expression = size.node.expr
            if getattr(expression, "is_Symbol", False):
                self.dims.bind(expression, fresh)
            return fresh


def dtype_of(tensor: Any) -> str:
    """Returns the name of a tensor's dtype."""
    return str(tensor.dtype).removeprefix("torch.")
