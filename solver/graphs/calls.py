"""What is known of a node's results: one call, deduced under what the graph knows by now.

Calls with equal arguments have equal results and are deduced once: a layer that is repeated is
solved once.

    calls.outcome(node)     types float32[batch, 64], the declaration, conditions, new symbols by
    the graph's own names
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dimsolve.ir.errors import ShapeError
from dimsolve.ir.node import (
    ExternalCall,
    FunctionCall,
    MakeShape,
    MatchShape,
    Node,
    OperatorCall,
    map_argument,
)
from dimsolve.ir.operator import Declaration
from dimsolve.ir.told_promise import operator_of_told
from dimsolve.ir.types import (
    ANY,
    Dim,
    Known,
    ScalarType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    Unknown,
)

from ..algebra.poly import Poly
from . import functions, graph_problems
from .autocast import Autocast
from .deduction import OPEN, Outcome, deduce, find_operator
from .partial import deduce_partial, merged, with_computed_shapes
from .scalars import fold
from .stand_ins import Call, SomeNumber, StandIn, by_place, encode

if TYPE_CHECKING:
    from .graph_builder import GraphBuilder

GETITEM = "_operator.getitem"


class Calls:
    """The calls of one graph. ``outcomes`` keeps what calls with equal arguments gave."""

    def __init__(self, graph: GraphBuilder) -> None:
        self.graph = graph
        self.outcomes: dict[Any, Outcome] = {}
        self._fresh: dict[tuple[str, str], Dim] = {}
        self._autocast = Autocast(graph)

    def outcome(self, node: Node) -> Outcome:
        """Returns what is known of a call, with the node's own names for its new symbols."""
        try:
            match node.operation:
                case OperatorCall(path):
                    call = encode(self._current(node.args), self._current(node.kwargs))
                    key = (path, call.key)
                    found = self.outcomes.get(key) if node.told is None else None
                    if found is None:
                        found = self._operator(path, call, node.told)
                        if node.told is None:
                            self.outcomes[key] = found
                case FunctionCall():
                    found = functions.call(self.graph, node)
                case ExternalCall(_, result):
                    found = Outcome((result,))
                case MatchShape(pattern):
                    found = functions.match_shape(self.graph, node, pattern)
                case MakeShape(dims):
                    current = tuple(self.graph.system.current(dim) for dim in dims)
                    found = Outcome((ShapeType(current),))
        except ShapeError as error:
            raise graph_problems.wrong_call(node, error) from error
        if found.fresh:
            found = found.renamed({name: self.name_of(node, name) for name in found.fresh})
        if any(isinstance(t, TensorType) and t.dims is None for t in found.types):
            found = with_computed_shapes(found, node)
        return self._autocast.without_dtypes(node, found)

    def _current(self, arguments: Any) -> Any:
        """The arguments with everything that is solved put in."""
        system = self.graph.system
        if not system.solved:
            return arguments
        return map_argument(
            arguments, lambda leaf: system.current(leaf) if isinstance(leaf, Poly) else leaf
        )

    def name_of(self, node: Node, fresh: str) -> Dim:
        """The graph's own symbol for a new one of a call; the same whenever the call is deduced
        again.
        """
        key = (node.id, fresh)
        if key not in self._fresh:
            wish = f"_{node.id}_{fresh.removeprefix(OPEN)}"
            self._fresh[key] = self.graph.system.fresh(wish, graph_problems.place(node))
        return self.graph.system.current(self._fresh[key])

    def _operator(self, path: str, call: Call, told: Declaration | None) -> Outcome:
        if not any(isinstance(value.type, TensorType) for value in call.values):
            number = fold(path, call.args, self.graph.system.facts)
            if number is not None:
                return Outcome((number,))
        if path == "torch.Size" and _is_shape(call.args):
            return Outcome((ShapeType(tuple(call.args[0])),))
        if path == GETITEM and isinstance(call.args[0], tuple | list):
            return Outcome((_item(call),))
        operator = find_operator(path)
        if operator is None and told is not None:
            operator = operator_of_told(path, told, by_place)
        if operator is None:
            return Outcome((_unannotated(path),), missing="no annotation is known")
        outcome = deduce(operator, call)
        if any(isinstance(v.type, TensorType | ShapeType) and v.dims is None for v in call.values):
            return merged(outcome, deduce_partial(operator, call))
        return outcome


def _is_shape(args: tuple[Any, ...]) -> bool:
    return (
        len(args) == 1
        and isinstance(args[0], tuple | list)
        and all(isinstance(item, int | Poly) for item in args[0])
    )


def _item(call: Call) -> Type:
    """The type of one item, or a slice, of a shape or a tuple."""
    items, index = call.args[0], call.args[1]
    if not isinstance(index, int | slice):
        return ANY
    try:
        picked = items[index]
    except (IndexError, TypeError):
        return ANY
    return _type_of_item(picked)


def _type_of_item(item: Any) -> Type:
    if isinstance(item, StandIn):
        dims = item.shape
        shape = Unknown() if dims is None else Known(dims)
        return TensorType(None, item.dtype, shape)
    if isinstance(item, SomeNumber):
        return ScalarType(item.dtype_name)
    if isinstance(item, int | Poly):
        return ScalarType("int", item)
    if isinstance(item, tuple | list):
        if all(isinstance(i, int | Poly) for i in item):
            return ShapeType(tuple(item))
        return TupleType(tuple(_type_of_item(i) for i in item))
    return ANY


def _unannotated(path: str) -> Type:
    """What is known of the result of a function without an annotation: torch's return tensors, most
    of the time.
    """
    return TensorType(None, None) if path.startswith("torch") else ANY
