"""A graph that deduces types while it is built, and what is done with it then: it is rewritten,
outlined, written as JSON.

    with TypedGraph("f") as g:
        x = g.input("x", "n, m, 2", "float32")
        y = g.call("reshape", x, ("n", "m*2"))        float32[n, 2*m]
        g.output(g.call("flatten", y))                float32[2*m*n]
    g.dim(y, 1)                  2*m
    g.prove("n*m == m*n")        proved

The public ``dimsolve.Graph`` is this class with what running and partitioning add.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from dimsolve.ir.errors import ShapeError
from dimsolve.ir.graph_json import graph_from_json, graph_to_json
from dimsolve.ir.node import Node, OperatorCall, Value

from . import outline
from .graph_builder import GraphBuilder, ShapeText
from .paths import path_of
from .read_type import read_dim, read_input_type


class TypedGraph(GraphBuilder):
    """A graph with deduced types; a ``with`` block checks at its end that it is well formed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.verify()

    def deduce(self) -> None:
        """Deduces all types again; what was known before is kept, and must agree."""
        self.propagation.run()

    def refine(self, value: Value, shape: ShapeText, dtype: str | None = None) -> None:
        """Adds what an analysis found out about a value; facts flow on from there. ShapeError where
        it contradicts.
        """
        type = read_input_type(shape, dtype)
        self.propagation.refine(value, type, f"refinement of %{value.name}")
        self.propagation.settle()

    def replace(self, node: Node, function: Any, *args: Any, **kwargs: Any) -> Node:
        """Puts another call in a node's place. Its values keep the types that were known, and gain
        what the new call tells.
        """
        old = node.outputs
        self._append(OperatorCall(path_of(function)), args, kwargs)
        new = self._nodes[-1]
        try:
            for before, after in zip(old, new.outputs, strict=True):
                self.propagation.refine(after, before.type, f"the type of %{before.name} is kept")
        except ShapeError:
            self.erase(new)
            raise
        self.move(new, node)
        for before, after in zip(old, new.outputs, strict=True):
            self.replace_uses(before, after)
        self.erase(node)
        self.propagation.settle()
        return new

    def outline(self, nodes: Sequence[Node], name: str) -> Node:
        """Moves nodes into a function of their own and calls it in their place; returns the call.

        Function and call keep the types that were known. Nothing between the nodes may need what
        they make.
        """
        return outline.outline(self, list(nodes), name)

    def shape_function(self) -> TypedGraph:
        """Returns the function from the shapes of the inputs to those of the results, without data.

        Raises DimsolveError where a result's shape depends on data.
        """
        return outline.shape_function(self)

    def to_json(self) -> dict[str, Any]:
        """Returns the graph as JSON data; `from_json` reads it."""
        self._write_checks()
        return graph_to_json(self)

    def _write_checks(self) -> None:
        self.checks = [(str(c), c.origin) for c in self.system.conditions]
        for function in self.functions.values():
            if isinstance(function, TypedGraph):
                function._write_checks()

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Returns the graph that JSON data describe; GraphError where they describe none."""
        graph = graph_from_json(data, read_dim, cls)
        graph.propagation.restore()
        return graph

    def __repr__(self) -> str:
        return f"<Graph {self.name}: {len(self._nodes)} nodes, {len(self.symbols)} symbols>"
