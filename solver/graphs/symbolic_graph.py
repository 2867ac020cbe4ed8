"""A graph with a system of equations over its symbols, and the questions that it answers.

    g.dim("y", 1)                2*m
    g.prove("n*m == m*n")        proved
    g.conditions                 ("k == l",)
    g.evaluate({"n": 4})         {"x": (4, 8), ...}

Deduction (`propagation`, `functions`) works on it; `builder` lets it grow by calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import index
from typing import TYPE_CHECKING, Any

from dimsolve.ir.expression import Relation
from dimsolve.ir.graph import Graph, Value
from dimsolve.ir.types import Dim, ScalarType, ShapeType, TensorType, Type

from ..algebra.dims import evaluate, symbols_of
from ..proof.verdict import Proof
from . import problems
from .system import System

if TYPE_CHECKING:
    import sympy


class SymbolicGraph(Graph):
    """A graph whose types speak of symbols. strict: operators that combine tensors element by
    element take tensors of one dtype, and promote none.
    """

    def __init__(self, name: str = "main", *, strict: bool = False) -> None:
        super().__init__(name)
        self.strict = strict
        self.system = System()

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols that the types speak of, the user's own first."""
        return (*self.system.given, *self.system.open)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What must hold of the symbols for the graph to run, in the dimension language."""
        return tuple(dict.fromkeys(str(condition) for condition in self.system.conditions))

    def dim(self, value: Value | str, index: int) -> sympy.Expr | None:
        """Returns a dimension of a tensor or a shape as a SymPy expression; None where it is not
        known.
        """
        from ..symbolic import to_sympy

        if isinstance(value, str) and value not in self.values:
            raise problems.no_such_value(self.name, value, self.values)
        found = self.values[value] if isinstance(value, str) else value
        dims = found.dims
        if dims is None:
            return None
        if not -len(dims) <= index < len(dims):
            raise problems.no_such_dim(found, index)
        known: Any = dims[index]
        return None if known is None else to_sympy(known)

    def prove(self, claim: str | Relation) -> Proof:
        """Returns whether a claim about the symbols holds wherever the graph runs.

        >>> from dimsolve.solver.graphs.builder import TypedGraph
        >>> g = TypedGraph()
        >>> x = g.input("x", "n, m")
        >>> g.prove("n*m == m*n").verdict
        'proved'
        """
        return self.system.prove(claim)

    def evaluate(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        """Returns the sizes of every value at sizes of the symbols: tuples for tensors and shapes,
        ints for numbers.

        A dimension that depends on a symbol without a size is None, and so is a shape of unknown
        rank. Raises ShapeError where the sizes break a condition of the graph or are no positive
        integers, AnnotationError for a symbol that the graph has not where one that it has is
        missing.
        """
        sizes = self._read_sizes(sizes)
        self._check_sizes(sizes)
        return {name: self._evaluated(value.type, sizes) for name, value in self.values.items()}

    def _read_sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        known = {*self.symbols, *self.system.given, *self.system.open, *self.system.solved}
        unknown = [str(name) for name in sizes if str(name) not in known]
        if unknown and any(name not in sizes for name in self.system.given):
            known_names = ", ".join(self.symbols) or "none"
            raise problems.unknown_symbols(names=", ".join(unknown), known=known_names)
        read: dict[str, int] = {}
        for name, size in sizes.items():
            if isinstance(size, bool) or not hasattr(size, "__index__") or index(size) < 1:
                raise problems.no_size(name=name, size=size)
            read[str(name)] = index(size)
        return read

    def _check_sizes(self, sizes: Mapping[str, int]) -> None:
        for condition in self.system.conditions:
            if condition.claim.symbols() <= sizes.keys() and not condition.claim.test(sizes):
                raise problems.broken_condition(condition, sizes)
        for name, dim in self.system.solved.items():
            known = name in sizes and symbols_of(dim) <= sizes.keys()
            if known and evaluate(dim, sizes) != sizes[name]:
                raise problems.broken_name(name=name, solved=dim, size=sizes[name])

    def _evaluated(self, type: Type, sizes: Mapping[str, int]) -> Any:
        def size(dim: Dim | None) -> int | None:
            if dim is None or dim.__class__ is int:
                return dim
            return evaluate(dim, sizes) if symbols_of(dim) <= sizes.keys() else None

        if isinstance(type, TensorType | ShapeType):
            return None if type.dims is None else tuple([size(dim) for dim in type.dims])
        if isinstance(type, ScalarType):
            return size(type.value)
        return None

    def show(self) -> str:
        """Returns the graph as text, with what must hold of the symbols and why."""
        conditions = [f"  # needs {c}    {c.origin}" for c in self.system.conditions]
        return "\n".join([str(self), *conditions])

    def explain(self) -> str:
        """Returns the conditions and where each comes from, a line each."""
        return "\n".join(f"{c}    {c.origin}" for c in self.system.conditions)
