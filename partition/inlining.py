"""The graph without calls of functions of its module: each call replaced by what it does.

    def block(%x: [b, d], %w: [d, d]):  y = linear(x, w)
    main: h = block(x, w0), block(h, w1)     becomes     linear(x, w0), linear(linear(..), w1)

A plan speaks of operators, so it is made for the graph without calls; a block that is called twice
may be cut in two ways. A function's symbols become lengths of the caller. What has no calls stays
as it is, the same object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dimsolve.ir.graph import (
    FunctionCall,
    Graph,
    MakeShape,
    MatchShape,
    Node,
    Value,
    map_argument,
    values_in,
)
from dimsolve.ir.operator import Declaration
from dimsolve.ir.types import ScalarType, ShapeType, TensorType
from dimsolve.solver.algebra.dims import substitute, symbols_of
from dimsolve.solver.algebra.poly import Dim, Poly, symbol
from dimsolve.solver.graphs.builder import TypedGraph
from dimsolve.solver.graphs.functions import bind_arguments, callee_of
from dimsolve.solver.graphs.match import match


def inlined(graph: Graph) -> Graph:
    """Returns the graph without calls of functions of its module; itself where it has none.

    Inputs, outputs and the names of its own values stay, and so do the splits that were asked of
    its nodes. Raises ShapeError where an argument can
    never be what a function's parameter says.
    """
    if not isinstance(graph, TypedGraph):
        return graph
    if not any(isinstance(node.operation, FunctionCall) for node in graph.nodes()):
        return graph
    return _Inlining(graph).run()


class _Inlining:
    """Copies a graph node by node. ``copies``: those of every node, one for each call."""

    def __init__(self, graph: TypedGraph) -> None:
        self.graph = graph
        self.copies: dict[Node, list[Node]] = {}
        self.made = type(graph)(graph.name, strict=graph.strict)

    def run(self) -> TypedGraph:
        graph, made = self.graph, self.made
        for fact in graph.facts:
            made.assume(fact)
        made.container, made.settings = graph.container, dict(graph.settings)
        made.autocast = dict(graph.autocast)
        made.attachments = dict(graph.attachments)
        twins: dict[Any, Any] = {
            entry.value: made.input(
                entry.value.name, entry.value.type, kind=entry.kind, target=entry.target
            )
            for entry in graph.inputs
        }
        self._copy_all(graph, twins, None, ())
        for name, value in graph.values.items():
            twin = twins[value]
            if twin.name != name and name not in made.values:
                made.rename(twin, name)
        result = map_argument(graph.result, lambda leaf: _twin(leaf, twins))
        made.set_result(result, {name: twins[v] for name, v in graph.outputs.items()})
        made.verify()
        hand_on = getattr(graph, "hand_on", None)
        if hand_on is not None:
            hand_on(made, self.copies)
        return made

    def _copy_all(
        self,
        graph: TypedGraph,
        twins: dict[Any, Any],
        lengths: Mapping[str, Dim] | None,
        path: tuple[str, ...],
    ) -> None:
        """Copies the nodes of a function. lengths: of its symbols, None for the graph itself;
        path: the ids of the calls on the way to it.
        """
        for node in graph.nodes():
            if isinstance(node.operation, FunctionCall):
                self._call(graph, node, twins, lengths, path)
                continue
            copied = self._copied(node, twins, lengths, path)
            for old, new in zip(node.outputs, copied.outputs, strict=True):
                if lengths is None:
                    origin = f"the type of %{old.name} is kept"
                    self.made.propagation.refine(new, old.type, origin)
                twins[old] = new

    def _copied(
        self,
        node: Node,
        twins: Mapping[Any, Any],
        lengths: Mapping[str, Dim] | None,
        path: tuple[str, ...],
    ) -> Node:
        def leaf(item: Any) -> Any:
            return _in_caller_symbols(_twin(item, twins), lengths)

        operation = node.operation
        if isinstance(operation, MatchShape | MakeShape):
            values = [_in_caller_symbols(dim, lengths) for dim in _dims(operation)]
            operation = type(operation)(tuple(values))
        copied = Node(
            self.made.fresh_name("_".join((*path, node.id))),
            operation,
            map_argument(node.args, leaf),
            map_argument(node.kwargs, leaf),
            several=node.several,
            source=node.source,
            module=".".join(filter(None, (*path, node.module))),
            name=node.name,
            told=_declared(node, lengths),
        )
        self.made.propagation.append(copied)
        self.copies.setdefault(node, []).append(copied)
        return copied

    def _call(
        self,
        graph: TypedGraph,
        node: Node,
        twins: dict[Any, Any],
        lengths: Mapping[str, Dim] | None,
        path: tuple[str, ...],
    ) -> None:
        assert isinstance(node.operation, FunctionCall)
        callee = callee_of(graph, node.operation.function)
        given = {name: _in_caller_symbols(dim, lengths) for name, dim in node.operation.symbols}
        inner: dict[Any, Any] = {
            parameter: _in_caller_symbols(_twin(argument, twins), lengths)
            for parameter, argument in bind_arguments(callee, node)
        }
        found = self._lengths(callee, inner, given)
        self.made.attachments = {**callee.attachments, **self.made.attachments}
        self._copy_all(callee, inner, found, (*path, node.id))
        for old, result in zip(node.outputs, values_in(callee.result), strict=True):
            twins[old] = inner[result]

    def _lengths(
        self, callee: TypedGraph, arguments: Mapping[Any, Any], given: Mapping[str, Dim]
    ) -> dict[str, Dim]:
        """The lengths of a function's symbols, solved from those of its arguments."""
        names = (*callee.system.given, *callee.system.open)
        apart = {name: symbol(f"{callee.name}.{name}") for name in names}
        patterns: list[Dim | None] = []
        lengths: list[Dim | None] = []
        for parameter, argument in arguments.items():
            for pattern, length in zip(_dims_of(parameter), _dims_of(argument), strict=False):
                patterns.append(None if pattern is None else substitute(pattern, apart))
                lengths.append(length)
        known = {f"{callee.name}.{name}": dim for name, dim in given.items()}
        unknown = {f"{callee.name}.{name}" for name in names}
        found = match(patterns, lengths, unknown, known=known, facts=self.made.system.facts)
        return {
            name: found.bindings[f"{callee.name}.{name}"]
            for name in names
            if f"{callee.name}.{name}" in found.bindings
        }


def _twin(leaf: Any, twins: Mapping[Any, Any]) -> Any:
    return twins[leaf] if isinstance(leaf, Value) else leaf


def _in_caller_symbols(leaf: Any, lengths: Mapping[str, Dim] | None) -> Any:
    """A length of a function in the caller's symbols."""
    if not isinstance(leaf, Poly) or lengths is None:
        return leaf
    return substitute(leaf, {n: dim for n, dim in lengths.items() if n in symbols_of(leaf)})


def _declared(node: Node, lengths: Mapping[str, Dim] | None) -> Declaration | None:
    """What the graph says that the call promises, in the caller's symbols."""
    if node.told is None:
        return None
    arguments = {
        name: _in_caller_symbols(item, lengths) for name, item in node.told.arguments.items()
    }
    return replace(node.told, arguments=arguments)


def _dims(operation: MatchShape | MakeShape) -> tuple[Dim | None, ...]:
    return operation.pattern if isinstance(operation, MatchShape) else operation.dims


def _dims_of(value: Any) -> tuple[Dim | None, ...]:
    """The lengths that a value is of, or is."""
    match getattr(value, "type", value):
        case TensorType() | ShapeType() as type:
            return type.dims or ()
        case ScalarType(_, dim):
            return (dim,)
        case int() | Poly() as dim:
            return (dim,)
        case _:
            return ()
