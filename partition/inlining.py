"""The graph without calls of functions of its module: each call replaced by what it does.

    def block(%x: [b, d], %w: [d, d]):  y = linear(x, w)
    main: h = block(x, w0), block(h, w1)     becomes     linear(x, w0), linear(linear(..), w1)

A plan speaks of operators, so it is made for the graph without calls; a block that is called twice
may be cut in two ways. A function's symbols become lengths of the caller. What has no calls stays
as it is, the same object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dimsolve.ir.graph import (
    FunctionCall,
    Graph,
    Left,
    MakeShape,
    MatchShape,
    Node,
    Value,
    map_argument,
    values_in,
)
from dimsolve.ir.types import ScalarType, ShapeType, TensorType
from dimsolve.solver.algebra.dims import substitute, symbols_of
from dimsolve.solver.algebra.poly import Dim, Poly, symbol
from dimsolve.solver.graphs.builder import TypedGraph
from dimsolve.solver.graphs.functions import bind_arguments, callee_of
from dimsolve.solver.graphs.match import match
from dimsolve.solver.graphs.symbolic_graph import SymbolicGraph


def inlined(graph: Graph) -> Graph:
    """Returns the graph without calls of functions of its module; itself where it has none.

    Inputs, outputs and the names of its own values stay, and so do the splits that were asked of
    its nodes. Raises ShapeError where an argument can never be what a function's parameter
    says.
    """
    if not isinstance(graph, TypedGraph):
        return graph
    if not any(isinstance(node.operation, FunctionCall) for node in graph.nodes()):
        return graph
    return _Inlining(graph).run()


@dataclass(frozen=True)
class _Frame:
    """One call. ``twins``: the copies of its values; ``lengths``: of its function's symbols, None
    for the graph itself; ``path``: the ids of the calls on the way to it; ``around``: the region
    that it is called in; ``regions``: the copies of its regions, by name.
    """

    graph: SymbolicGraph
    twins: dict[Any, Any]
    lengths: Mapping[str, Dim] | None = None
    path: tuple[str, ...] = ()
    around: str = ""
    regions: dict[str, str] = field(default_factory=dict)

    def of(self, leaf: Any) -> Any:
        """Returns the copy of a value, and a length in the symbols of the caller."""
        leaf = self.twins[leaf] if isinstance(leaf, Value) else leaf
        if not isinstance(leaf, Poly) or self.lengths is None:
            return leaf
        return substitute(leaf, {n: d for n, d in self.lengths.items() if n in symbols_of(leaf)})


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
        made.autocast, made.dtype_reads = dict(graph.autocast), dict(graph.dtype_reads)
        made.attachments, made.objects = dict(graph.attachments), dict(graph.objects)
        twins: dict[Any, Any] = {
            entry.value: made.input(
                entry.value.name, entry.value.type, kind=entry.kind, target=entry.target
            )
            for entry in graph.inputs
        }
        frame = _Frame(graph, twins)
        self._copy_all(frame)
        for name, value in graph.values.items():
            twin = twins[value]
            if twin.name != name and name not in made.values:
                made.rename(twin, name)
        result = map_argument(graph.result, frame.of)
        made.set_result(result, {name: twins[v] for name, v in graph.outputs.items()})
        made.left = {
            place: Left(map_argument(left.parts, frame.of), left.removed)
            for place, left in graph.left.items()
        }
        made.verify()
        hand_on = getattr(graph, "hand_on", None)
        if hand_on is not None:
            hand_on(made, self.copies)
        return made

    def _copy_all(self, frame: _Frame) -> None:
        names = frame.regions
        names[""] = frame.around
        for name, region in frame.graph.regions.items():
            names[name] = self.made.fresh_region("_".join((*frame.path, name)))
            self.made.add_region(replace(region, name=names[name], within=names[region.within]))
        for node in frame.graph.nodes():
            if isinstance(node.operation, FunctionCall):
                self._call(node, node.operation, frame)
                continue
            copied = self._copied(node, frame)
            for old, new in zip(node.outputs, copied.outputs, strict=True):
                if frame.lengths is None:
                    origin = f"the type of %{old.name} is kept"
                    self.made.propagation.refine(new, old.type, origin)
                frame.twins[old] = new

    def _copied(self, node: Node, frame: _Frame) -> Node:
        operation, declared = node.operation, node.declared
        if isinstance(operation, MatchShape):
            operation = MatchShape(tuple([frame.of(dim) for dim in operation.pattern]))
        elif isinstance(operation, MakeShape):
            operation = MakeShape(tuple([frame.of(dim) for dim in operation.dims]))
        if declared is not None:
            arguments = {name: frame.of(item) for name, item in declared.arguments.items()}
            declared = replace(declared, arguments=arguments)
        copied = Node(
            self.made.fresh_name("_".join((*frame.path, node.id))),
            operation,
            map_argument(node.args, frame.of),
            map_argument(node.kwargs, frame.of),
            several=node.several,
            source=node.source,
            module=".".join(filter(None, (*frame.path, node.module))),
            name=node.name,
            declared=declared,
            region=frame.regions[node.region],
            order=node.order,
        )
        self.made.propagation.append(copied)
        self.copies.setdefault(node, []).append(copied)
        return copied

    def _call(self, node: Node, call: FunctionCall, frame: _Frame) -> None:
        callee = callee_of(frame.graph, call.function)
        given = {name: frame.of(dim) for name, dim in call.symbols}
        inner: dict[Any, Any] = {
            parameter: frame.of(argument) for parameter, argument in bind_arguments(callee, node)
        }
        lengths = self._lengths(callee, inner, given)
        self.made.attachments = {**callee.attachments, **self.made.attachments}
        path, around = (*frame.path, node.id), frame.regions[node.region]
        self._copy_all(_Frame(callee, inner, lengths, path, around))
        for old, result in zip(node.outputs, values_in(callee.result), strict=True):
            frame.twins[old] = inner[result]

    def _lengths(
        self, callee: SymbolicGraph, arguments: Mapping[Any, Any], given: Mapping[str, Dim]
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
