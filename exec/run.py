"""Runs a graph on one device, node by node: the safety net, and the reference for everything that
is planned.

Nothing has to be known for a graph to run. What is known is checked: inputs bind the symbols of
their shapes, patterns are matched, and the shape of every result is compared with its type. A
broadcast of shapes that were not known goes through the shape function that its type names.

    g.run(torch.ones(3, 4))      n = 3 from the input float32[n, 4]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from dimsolve.ir.node import (
    ExternalCall,
    FunctionCall,
    MakeShape,
    MatchShape,
    Node,
    OperatorCall,
    Value,
    map_argument,
)
from dimsolve.ir.types import SHAPE, Computed, Dim, ScalarType, ShapeType, TensorType
from dimsolve.solver.graphs.graph_problems import place
from dimsolve.solver.graphs.match import Mismatch
from dimsolve.solver.graphs.typed_graph import TypedGraph

from . import run_errors as errors
from .frame import Externals, State, Values, shape_of
from .modes import restoring
from .resolve import resolve


def run(
    graph: TypedGraph,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    state: State = None,
    externals: Externals | None = None,
) -> Any:
    """Returns what the graph returns for these inputs. See `dimsolve.exec.graph.Graph.run`."""
    frame = Frame(graph, state, externals or {})
    frame.bind_inputs(args, kwargs)
    return _computed(graph, frame)


@restoring
def _computed(graph: TypedGraph, frame: Frame) -> Any:
    for node in graph.nodes():
        frame.run(node)
    return map_argument(graph.result, frame.value)


class Frame(Values):
    """One run of one function: its nodes, in order."""

    def run(self, node: Node) -> None:
        """Runs one node and checks what it made."""
        args = tuple(map_argument(argument, self.value) for argument in node.args)
        kwargs = {
            name: map_argument(argument, self.value) for name, argument in node.kwargs.items()
        }
        result = self._computed(node, args, kwargs)
        made = _leaves(result) if node.several else (result,)
        for value, item in zip(node.outputs, made, strict=len(node.outputs) > 0):
            self.env[value] = item
            self._check(node, value, item)

    def _computed(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        match node.operation:
            case OperatorCall(path):
                return resolve(path)(*args, **kwargs)
            case FunctionCall(function, symbols):
                sizes = {name: self._size(dim) for name, dim in symbols}
                return self._called(function, sizes, args, kwargs)
            case ExternalCall(function):
                if function not in self.externals:
                    raise errors.no_external(function)
                return self.externals[function](*args, **kwargs)
            case MatchShape(pattern):
                self._match_shape(node, pattern, args[0])
                return args[0]
            case MakeShape(dims):
                return tuple(self._size(self.graph.system.current(dim)) for dim in dims)
            case _:
                assert_never(node.operation)

    def _called(
        self, name: str, sizes: dict[str, int], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        callee: Any = self.graph.functions[name]
        frame = Frame(callee, self.state, self.externals)
        frame.sizes.update(sizes)
        frame.bind_inputs(args, kwargs)
        for node in callee.nodes():
            frame.run(node)
        return map_argument(callee.result, frame.value)

    def _match_shape(self, node: Node, pattern: tuple[Dim | None, ...], value: Any) -> None:
        actual = shape_of(value)
        if actual is None or len(actual) != len(pattern):
            raise errors.pattern(node, pattern, actual, "the ranks differ")
        try:
            self._bind(pattern, actual)
        except Mismatch as mismatch:
            raise errors.pattern(node, pattern, actual, mismatch.reason) from None

    def _check(self, node: Node, value: Value, item: Any) -> None:
        """The shape of a result is what its type says; symbols that only running tells are
        bound here.
        """
        type = value.type
        actual = shape_of(item)
        if actual is None or not isinstance(type, TensorType | ShapeType):
            if isinstance(type, ScalarType) and type.value is not None:
                self._match([type.value], [int(item)], f"%{value.name}, {place(node)}")
            return
        if isinstance(type, TensorType) and isinstance(type.shape, Computed):
            self._check_computed(node, value, type.shape, actual)
        dims = type.dims
        if dims is None:
            return
        what = f"%{value.name}: {type}, {place(node)}"
        if len(dims) != len(actual):
            raise errors.broken_type(what, dims, actual, "the ranks differ")
        self._match(dims, actual, what)

    def _check_computed(
        self, node: Node, value: Value, shape: Computed, actual: Sequence[int]
    ) -> None:
        arguments = [
            self._shape_value(self.graph.values[a]) if isinstance(a, str) else self._sizes(a)
            for a in shape.arguments
        ]
        if shape.function == SHAPE:
            wanted = tuple(arguments[0])
        elif shape.function in self.externals:
            wanted = tuple(self.externals[shape.function](*arguments))
        elif shape.function == "broadcast_shapes":
            import torch

            wanted = tuple(torch.broadcast_shapes(*arguments))
        else:
            return
        if wanted != tuple(actual):
            what = f"%{value.name}: {value.type}, {place(node)}"
            raise errors.broken_type(what, wanted, actual, f"{shape} is {wanted}")

    def _shape_value(self, value: Value) -> tuple[int, ...]:
        shape = shape_of(self.env[value])
        assert shape is not None
        return shape


def _leaves(result: Any) -> tuple[Any, ...]:
    """The values of a function's result, in the order in which a call makes them."""
    if isinstance(result, Mapping):
        return tuple(leaf for item in result.values() for leaf in _leaves(item))
    if isinstance(result, tuple | list):
        return tuple(leaf for item in result for leaf in _leaves(item))
    return (result,)
