"""The symbols of a program: each is read once, from the mesh, an input, or a result that tells it.

batch                 input_ids.size(0)
u0, of nonzero(x)     nonzero.size(0), times the parts that its rows are cut in
n, of the mesh tp=n   4, known when the program is made
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dimsolve.ir.node import Node
from dimsolve.ir.types import TensorType
from dimsolve.partition.plan import OperatorPlan
from dimsolve.solver.algebra.dims import symbols_of
from dimsolve.solver.algebra.poly import Dim, Poly

from .input_lengths import InputLengths
from .lengths import Length, Lengths
from .lowering_errors import unreadable
from .program import Origin
from .setting import Setting, identifier

if TYPE_CHECKING:
    from torch import fx


class Symbols:
    """``lengths`` makes the nodes of lengths. inputs: the dimensions of the inputs, as given."""

    def __init__(self, setting: Setting, whole: Mapping[str, fx.Node]) -> None:
        self.setting = setting
        self.inputs = InputLengths(setting.graph.inputs)
        self.lengths = Lengths(setting.fx, self._read)
        self._mesh = setting.mesh
        self._whole = whole
        self._told: dict[str, tuple[fx.Node, int, int]] = {}

    def knows(self, dim: Dim) -> bool:
        """Whether the length can be computed by now."""
        return all(self._is_known(name) for name in symbols_of(dim))

    def tell(self, node: Node, plan: OperatorPlan | None, made: Mapping[str, Any]) -> None:
        """Notes the symbols that only the shapes of a node's results tell; ``made`` holds them."""
        placements = {out.value: out.placements for out in plan.outputs} if plan else {}
        for value in node.outputs:
            dims = value.dims if isinstance(value.type, TensorType) else None
            for index, dim in enumerate(dims or ()):
                name = _lone_symbol(dim)
                if name and name not in self._told and self.inputs.reading(name) is None:
                    times = self.setting.parts(placements.get(value.name, []), index)
                    self._told[name] = (made[value.name], index, times)

    def _is_known(self, name: str) -> bool:
        return name in self._mesh or name in self._told or self.inputs.reading(name) is not None

    def _read(self, name: str) -> Length:
        """The node of a symbol."""
        if name in self._mesh:
            return self._mesh[name]
        if name in self._told:
            node, index, times = self._told[name]
            return self._calculated(operator.mul, self._size(node, index, name), times, 1)
        found = self.inputs.reading(name)
        if found is None:
            raise unreadable(name)
        size = self._size(self._whole[found.value], found.index, name)
        size = self._calculated(operator.sub, size, self.lengths(found.rest), 0)
        return self._calculated(operator.floordiv, size, self.lengths(found.divisor), 1)

    def _size(self, node: fx.Node, index: int, name: str) -> fx.Node:
        graph = self.setting.fx
        made = graph.create_node("call_method", "size", (node, index), {}, name=identifier(name))
        made.meta["origin"] = Origin("size", name)
        return made

    def _calculated(self, function: Any, size: fx.Node, other: Length, neutral: int) -> fx.Node:
        if other is neutral:
            return size
        return self.setting.fx.call_function(function, (size, other))


def _lone_symbol(dim: Dim | None) -> str | None:
    """The symbol that a dimension is, where it is nothing else."""
    if not isinstance(dim, Poly) or len(dim.terms) != 1:
        return None
    ((monomial, coefficient),) = dim.terms.items()
    if coefficient != 1 or len(monomial) != 1 or monomial[0][1] != 1:
        return None
    name = monomial[0][0]
    return name if name.isidentifier() else None
