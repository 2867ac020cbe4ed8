"""Functions taken out of a graph: what computes its shapes, and what computes a part of it.

shape_function(g)            (n, m) -> (m + 2, n)    from input shapes to result shapes, no data
outline(g, nodes, "fused")   the nodes become a function, called in their place, types kept
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dimsolve.ir.node import FunctionCall, Node, Value, map_argument
from dimsolve.ir.types import ScalarType, ShapeType, TensorType

from ..algebra.dims import symbols_of
from ..algebra.poly import symbol
from . import request_problems
from .deduction import symbols_in

if TYPE_CHECKING:
    from .typed_graph import TypedGraph


def shape_function(graph: TypedGraph) -> TypedGraph:
    """Returns the function from the shapes of the graph's tensor inputs to those of its results,
    without any data.

    Raises DimsolveError where a result's shape depends on data, or is not known.
    """
    made = type(graph)(f"{graph.name}_shape")
    for fact in graph.system.assumptions:
        made.assume(fact)
    bound: set[str] = set()
    for entry in graph.inputs:
        if isinstance(entry.value.type, TensorType) and entry.value.dims is not None:
            dims = entry.value.dims
            shape = made.input(entry.value.name, ShapeType((None,) * len(dims)))
            made.match_shape(shape, dims)
            bound |= set().union(*[symbols_of(dim) for dim in dims if dim is not None])
        elif isinstance(entry.value.type, ScalarType) and entry.value.type.value is not None:
            made.input(entry.value.name, entry.value.type, kind="size")
            bound |= symbols_of(entry.value.type.value)

    def shape_of(value: Value) -> Value:
        if value.dims is None or None in value.dims:
            raise request_problems.no_shape_function(
                graph.name, f"the shape of %{value.name} is not known"
            )
        loose = symbols_in(value.type) - bound
        if loose:
            why = f"%{value.name} has the length {min(loose)}, which depends on data"
            raise request_problems.no_shape_function(graph.name, why)
        return made.shape(value.dims)

    result = map_argument(
        graph.result, lambda leaf: shape_of(leaf) if isinstance(leaf, Value) else leaf
    )
    made.output(*result) if isinstance(result, tuple) else made.output(result)
    made.verify()
    return made


def outline(graph: TypedGraph, nodes: list[Node], name: str) -> Node:
    """Moves nodes into a function of their own and calls it in their place; returns the call.

    The function knows of its inputs what the graph knew, and the call gives its results the types
    that they had. The nodes must stand together: nothing between them may need what they make.
    """
    inside = set(nodes)
    ordered = [node for node in graph.nodes() if node in inside]
    made = {value for node in ordered for value in node.outputs}
    needed = list(dict.fromkeys(v for node in ordered for v in node.operands() if v not in made))
    callee = type(graph)(name, strict=graph.strict)
    for fact in graph.system.assumptions:
        callee.assume(fact)
    twins: dict[Value, Value] = {value: callee.input(value.name, value.type) for value in needed}
    for node in ordered:
        _copy(node, callee, twins)
    results = [
        value
        for node in ordered
        for value in node.outputs
        if value in graph.outputs.values() or set(graph.users(value)) - inside
    ]
    callee.output(*[twins[value] for value in results])
    return _call_instead(graph, ordered, callee, needed, results)


def _copy(node: Node, callee: TypedGraph, twins: dict[Value, Value]) -> None:
    def twin(leaf: Any) -> Any:
        return twins[leaf] if isinstance(leaf, Value) else leaf

    copied = Node(
        node.id,
        node.operation,
        map_argument(node.args, twin),
        map_argument(node.kwargs, twin),
        several=node.several,
        source=node.source,
        module=node.module,
        name=node.name,
        told=node.told,
    )
    callee.propagation.append(copied)
    for old, new in zip(node.outputs, copied.outputs, strict=True):
        callee.propagation.refine(new, old.type, f"the type of %{old.name} is kept")
        twins[old] = new


def _call_instead(
    graph: TypedGraph,
    ordered: list[Node],
    callee: TypedGraph,
    needed: list[Value],
    results: list[Value],
) -> Node:
    graph.functions[callee.name] = callee
    known = tuple(
        (name, symbol(name)) for name in callee.system.given if name in graph.system.given
    )
    node = Node(graph.fresh_name(callee.name), FunctionCall(callee.name, known), tuple(needed), {})
    graph.propagation.append(node)
    new_values = node.outputs
    for old, new in zip(results, new_values, strict=True):
        graph.propagation.refine(new, old.type, f"the type of %{old.name} is kept")
    last = ordered[-1]
    graph.move(node, last)
    for old, new in zip(results, new_values, strict=True):
        graph.replace_uses(old, new)
    for old_node in reversed(ordered):
        graph.erase(old_node)
    for old, new in zip(results, new_values, strict=True):
        graph.rename(new, old.name)
    return node
