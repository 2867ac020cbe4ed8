"""The graph: a function in SSA form, its inputs and outputs, and the functions of its module.

    shape_example(%x: float32[n, m, 2]):
      %lv0: float32[n, m*2] = torch.reshape(%x, (n, m*2))
      %lv1: float32[2*n*m] = torch.flatten(%lv0)
      return %lv1

This class holds structure only: what was built, in which order, and that it is well formed. Types
are filled in by the solver's `TypedGraph`, which the public ``dimsolve.Graph`` is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from .errors import Diagnostic
from .errors import GraphError as GraphError
from .node import Argument, Input, InputKind, MatchShape, Node, Value, map_argument, values_in
from .types import Computed, TensorType, Type


class Graph:
    """A function of typed values. ``functions`` are the graphs of the module that its nodes call,
    by name.

    ``result`` is what the function returns, a tree whose leaves are values; ``outputs`` are these
    values by name. ``container`` is the import path of the class that the tree was taken from, or
    ``""``. ``settings`` are the arguments of the traced call that are no tensors: they are part of
    the graph.
    """

    def __init__(self, name: str = "main") -> None:
        self.name = name
        self.values: dict[str, Value] = {}
        self.inputs: list[Input] = []
        self.result: Argument = ()
        self.outputs: dict[str, Value] = {}
        self.container = ""
        self.facts: list[str] = []
        self.checks: list[tuple[str, str]] = []
        self.strict = False
        self.attachments: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}
        self.functions: dict[str, Graph] = {}
        self._nodes: list[Node] = []
        self._silent: set[str] = set()

    def nodes(self) -> list[Node]:
        """Returns the nodes in the order in which they run."""
        return list(self._nodes)

    def node(self, id: str) -> Node:
        """Returns the node with this id; KeyError where there is none."""
        for node in self._nodes:
            if node.id == id:
                return node
        raise KeyError(id)

    def users(self, value: Value) -> list[Node]:
        """Returns the nodes that use a value, in order."""
        return [node for node in self._nodes if value in node.operands()]

    def parameters(self) -> Iterator[Input]:
        """Yields the inputs that are parameters of the model."""
        return (entry for entry in self.inputs if entry.kind == "parameter")

    def fresh_name(self, wish: str) -> str:
        """Returns the name, numbered where it is taken: ``add``, ``add_1``, ``add_2``.

        ``chunk`` is taken too where ``chunk.0`` is a value: the first of a call with several; and
        ``setitem`` by a node of this id, which makes no value.
        """
        name, number = wish, 0
        while name in self.values or f"{name}.0" in self.values or name in self._silent:
            number += 1
            name = f"{wish}_{number}"
        return name

    def add_input(
        self, name: str, type: Type, kind: InputKind = "input", target: str | None = None
    ) -> Value:
        """Appends an input of this type and returns its value."""
        value = self._add_value(name, type, None)
        self.inputs.append(Input(value, kind, name if target is None else target))
        return value

    def add_node(self, node: Node, types: tuple[Type, ...], names: tuple[str, ...] = ()) -> Node:
        """Appends a node that makes values of these types, named after its id unless names are
        given.
        """
        if not names:
            names = (
                (node.id,)
                if not node.several and len(types) == 1
                else tuple(f"{node.id}.{i}" for i in range(len(types)))
            )
        node.outputs = tuple(
            [self._add_value(n, t, node) for n, t in zip(names, types, strict=True)]
        )
        if not node.outputs:
            self._silent.add(node.id)
        self._nodes.append(node)
        return node

    def _add_value(self, name: str, type: Type, producer: Node | None) -> Value:
        if name in self.values:
            raise _malformed(f"two values are named %{name}")
        value = self.values[name] = Value(self, name, type, producer)
        return value

    def set_result(self, result: Argument, outputs: dict[str, Value]) -> None:
        """Says what the function returns."""
        self.result = result
        self.outputs = outputs

    def call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Appends a call; only graphs that deduce types can."""
        raise NotImplementedError("build with dimsolve.Graph, which deduces types")

    def verify(self) -> None:
        """Checks that the graph is well formed; raises GraphError naming what is not.

        Every value is made once, before its uses, by the node it names; names are unique; outputs
        exist; called functions exist and call no function that calls them.
        """
        made: dict[str, Value] = {}
        for entry in self.inputs:
            self._verify_made(entry.value, None, made)
        ids: set[str] = set()
        for node in self._nodes:
            if node.id in ids:
                raise _malformed(f"two nodes are named {node.id}")
            ids.add(node.id)
            for value in node.operands():
                if made.get(value.name) is not value:
                    raise _malformed(f"{node.id} uses %{value.name} before it is made")
            for value in node.outputs:
                self._verify_made(value, node, made)
            if isinstance(node.operation, MatchShape) and len(node.operands()) != 1:
                raise _malformed(f"{node.id} matches {len(node.operands())} values, not one")
        for value in self.outputs.values():
            if made.get(value.name) is not value:
                raise _malformed(f"the output %{value.name} is made by no node")
        returned = set(values_in(self.result))
        for name, value in self.outputs.items():
            if value not in returned:
                raise _malformed(f"the output {name} is %{value.name}, which is not returned")
        for value in returned:
            if made.get(value.name) is not value:
                raise _malformed(f"%{value.name} is returned and made by no node")
        if set(made) != set(self.values):
            stray = sorted(set(self.values) - set(made))
            raise _malformed(f"%{stray[0]} is made by no node and is no input")
        self._verify_functions((self.name,))

    def _verify_made(self, value: Value, producer: Node | None, made: dict[str, Value]) -> None:
        if value.name in made:
            raise _malformed(f"%{value.name} is made twice")
        if value.producer is not producer or value.graph is not self:
            raise _malformed(f"%{value.name} is not a value of this node")
        if self.values.get(value.name) is not value:
            raise _malformed(f"%{value.name} is not listed among the values")
        made[value.name] = value

    def _verify_functions(self, path: tuple[str, ...]) -> None:
        from .node import FunctionCall

        for node in self._nodes:
            if isinstance(node.operation, FunctionCall):
                called = self.functions.get(node.operation.function)
                if called is None:
                    raise _malformed(
                        f"{node.id} calls {node.operation.function}, which the module lacks"
                    )
                if called.name in path:
                    raise _malformed(f"{called.name} calls itself through {' -> '.join(path)}")
                called._verify_functions((*path, called.name))

    def drop_inputs(self, entries: list[Input]) -> None:
        """Removes inputs that nothing uses."""
        for entry in entries:
            self.inputs.remove(entry)
            del self.values[entry.value.name]

    def replace_uses(self, old: Value, new: Value) -> None:
        """Makes every node and output that used ``old`` use ``new``."""

        def change(leaf: Any) -> Any:
            return new if leaf is old else leaf

        for node in self._nodes:
            node.args = map_argument(node.args, change)
            node.kwargs = map_argument(node.kwargs, change)
        self.result = map_argument(self.result, change)
        self.outputs = {name: change(value) for name, value in self.outputs.items()}

    def erase(self, node: Node) -> None:
        """Removes a node whose values nothing uses; GraphError where something does."""
        for value in node.outputs:
            used = self.users(value)
            if used or value in self.outputs.values():
                by = used[0].id if used else "the output"
                raise _malformed(f"{node.id} cannot be removed: {by} uses %{value.name}")
        for value in node.outputs:
            del self.values[value.name]
        self._nodes.remove(node)

    def rename(self, value: Value, name: str) -> None:
        """Gives a value another name, which must be free."""
        if name in self.values:
            raise _malformed(f"two values are named %{name}")
        old = value.name
        self.values = {name if v is value else n: v for n, v in self.values.items()}
        value.name = name
        for other in self.values.values():
            other.type = _renamed(other.type, old, name)

    def move(self, node: Node, before: Node) -> None:
        """Moves a node to stand just before another one."""
        self._nodes.remove(node)
        self._nodes.insert(self._nodes.index(before), node)

    def map_nodes(self, visit: Callable[[Node], None]) -> None:
        """Visits every node in order, also those of the functions of the module, each function
        once.
        """
        for node in self.nodes():
            visit(node)
        for function in self.functions.values():
            function.map_nodes(visit)

    def __str__(self) -> str:
        from .graph_text import graph_text

        return graph_text(self)

    def __repr__(self) -> str:
        return f"<Graph {self.name}: {len(self._nodes)} nodes>"

    def _repr_svg_(self) -> str:
        from .draw_graph import graph_svg

        return graph_svg(self)

    def __rich__(self) -> Any:
        from .terminal import graph_text

        return graph_text(self)

    def show(self) -> str:
        """Returns the graph as text: one line per node, with the type of every value."""
        return str(self)


def _renamed(type: Type, old: str, new: str) -> Type:
    """The type with a value's name replaced where a shape is computed from it."""
    if isinstance(type, TensorType) and isinstance(type.shape, Computed):
        arguments = tuple(new if a == old else a for a in type.shape.arguments)
        return replace(type, shape=replace(type.shape, arguments=arguments))
    return type


def _malformed(reason: str) -> GraphError:
    return GraphError(Diagnostic("malformed-graph", "the graph is not well formed", reason=reason))
