"""A graph that deduces types while it is built, and what is done with it then: it is rewritten,
outlined, written as JSON.

    with TypedGraph("f") as g:
        x = g.input("x", "n, m, 2", "float32")
        y = g.call("reshape", x, ("n", "m*2"))        float32[n, 2*m]
        g.match_shape(y, "n, 64")                     2*m == 64 is asserted
        g.output(g.call("flatten", y))                float32[2*m*n]

    g.shape_function()                   (n, m) -> (2*m*n,)    no data
    g.outline(nodes, "fused")            the nodes become a function, called in their place

The public ``dimsolve.Graph`` is this class with what running and partitioning add.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from dimsolve.ir.errors import ShapeError
from dimsolve.ir.expression import Relation
from dimsolve.ir.graph import (
    Argument,
    ExternalCall,
    FunctionCall,
    InputKind,
    MakeShape,
    MatchShape,
    Node,
    Operation,
    OperatorCall,
    Region,
    Value,
    map_argument,
    values_in,
)
from dimsolve.ir.graph_json import graph_from_json, graph_to_json
from dimsolve.ir.types import ScalarType, ShapeType, TensorType, Type

from ..algebra.dims import symbols_of
from ..algebra.poly import symbol
from . import problems
from .deduction import symbols_in
from .names import caller, path_of, paths_of
from .propagation import Propagation
from .reading import (
    SIZED,
    note_symbols,
    opened,
    read_argument,
    read_dim,
    read_dims,
    read_input_type,
)
from .symbolic_graph import SymbolicGraph

NAME = re.compile(r"\w+(\.\w+)*")
"""What names a value: a word, and items of it."""

ShapeText = str | Sequence[Any] | None


class TypedGraph(SymbolicGraph):
    """A graph that grows by calls, each with deduced types; a ``with`` block checks at its end that
    it is well formed.

    facts: what is known of the symbols from outside. strict: operators that combine tensors element
    by element take tensors of one dtype, and promote none.
    """

    def __init__(
        self, name: str = "main", *, facts: Iterable[str | Relation] = (), strict: bool = False
    ) -> None:
        super().__init__(name, strict=strict)
        self.propagation = Propagation(self)
        self._region = ""
        for fact in facts:
            self.assume(fact)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.verify()

    def input(
        self,
        name: str,
        shape: ShapeText | Type = None,
        dtype: str | None = None,
        *,
        kind: InputKind = "input",
        target: str | None = None,
    ) -> Value:
        """Adds an input and returns its value.

        shape: text (``"n, m, 2"``; ``?`` for an unknown dimension), a sequence (None for an unknown
        one), None for an unknown rank, or a type. dtype: ``"float32"``, or None where it is not
        known.
        """
        if not NAME.fullmatch(name):
            raise problems.no_name(name=name)
        type = read_input_type(shape, dtype)
        value = self.add_input(name, opened(self.system, type, name), kind, target)
        note_symbols(self.system, value.type, f"{kind} %{name}")
        return value

    def parameter(self, name: str, shape: ShapeText, dtype: str = "float32") -> Value:
        """Adds a parameter of the model and returns its value."""
        return self.input(name.replace(".", "_"), shape, dtype, kind="parameter", target=name)

    def size(self, name: str) -> Value:
        """Adds an integer input that is the length named so."""
        return self.input(name, ScalarType("int", symbol(name)), kind="size", target=name)

    def assume(self, fact: str | Relation) -> None:
        """Takes a fact about the symbols for granted; ShapeError where it contradicts what is
        known.
        """
        self.system.assume(fact)
        self.facts.append(str(fact))

    def call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Appends a call of an operator, a torch function, or another graph; returns its value, or
        values.

        function: a path (``"torch.exp"``), a short name (``"exp"``), a torch function, a registered
        operator, or a graph. For a graph, keyword arguments that name its symbols give their
        lengths: ``g.call(f, x, h=12)``.
        """
        if isinstance(function, TypedGraph):
            return self._call_graph(function, args, kwargs)
        refusal: ShapeError | None = None
        for path in paths_of(function):
            try:
                return self._call_path(path, args, kwargs)
            except ShapeError as error:
                refusal = refusal or error
        assert refusal is not None
        raise refusal

    def _call_path(self, path: str, args: Any, kwargs: dict[str, Any]) -> Any:
        sized = path.rpartition(".")[2] in SIZED
        arguments = tuple(read_argument(argument, nested=sized) for argument in args)
        named = {name: read_argument(argument) for name, argument in kwargs.items()}
        return self._append(OperatorCall(path), arguments, named)

    def _call_graph(self, function: TypedGraph, args: Any, kwargs: dict[str, Any]) -> Any:
        if function is self or function.calls(self):
            raise problems.calls_itself(caller=self.name, function=function.name)
        known = self.functions.setdefault(function.name, function)
        if known is not function:
            raise problems.two_functions(name=function.name)
        names = {entry.target for entry in function.inputs}
        symbols = {
            name: read_dim(value)
            for name, value in kwargs.items()
            if name not in names and name in function.system.given
        }
        self.system.name(symbols.values(), f"call of {function.name}")
        rest = {name: value for name, value in kwargs.items() if name not in symbols}
        operation = FunctionCall(function.name, tuple(symbols.items()))
        return self._append(operation, tuple(args), rest)

    def calls(self, other: TypedGraph) -> bool:
        """Returns whether a function of this module calls the other graph."""
        return any(
            function is other or (isinstance(function, TypedGraph) and function.calls(other))
            for function in self.functions.values()
        )

    def external(
        self,
        function: str,
        *args: Any,
        shape: ShapeText | Value = None,
        dtype: str | None = None,
        result: Type | None = None,
    ) -> Value:
        """Appends a call of a function that is known by its name only; what it returns is said
        here.

        shape: the shape of the tensor that it returns, or a value that holds it. result: its type,
        where that is no tensor. Without either it returns a shape of unknown length.
        """
        if result is None and shape is None and dtype is None:
            result = ShapeType(None)
        if result is None:
            result = self._external_tensor(shape, dtype)
        value: Value = self._append(ExternalCall(function, result), tuple(args), {})
        return value

    def _external_tensor(self, shape: ShapeText | Value, dtype: str | None) -> TensorType:
        if isinstance(shape, Value):
            return self.propagation.tensor_of_shape(shape, dtype)
        type = read_input_type(shape, dtype)
        assert isinstance(type, TensorType)
        return type

    def match_shape(self, value: Value, pattern: ShapeText) -> Value:
        """Matches a tensor's shape, or a shape, to a pattern and returns the same value with the
        pattern as its shape.

        A symbol that the graph has not seen yet is bound to the length that it stands beside;
        everything else is asserted: proved away, refuted with a ShapeError, or left as a check for
        run time.
        """
        dims = read_dims(pattern)
        assert dims is not None
        result: Value = self._append(MatchShape(dims), (value,), {})
        return result

    def shape(self, dims: ShapeText) -> Value:
        """Appends a shape made of dimensions."""
        read = read_dims(dims)
        if read is None or None in read:
            raise ValueError("every dimension of a shape must be given")
        value: Value = self._append(MakeShape(read), (), {})
        return value

    def shape_of(self, value: Value) -> Value:
        """Appends the shape of a tensor as a value."""
        result: Value = self.call("torch.Tensor.size", value)
        return result

    def output(self, *values: Argument, **named: Value) -> None:
        """Says what the graph returns: one value, several, or named ones."""
        result: Argument = dict(named) if named else values[0] if len(values) == 1 else values
        outputs = dict(named)
        for value in values_in(result if not named else ()):
            outputs.setdefault(value.name, value)
        self.set_result(result, outputs)

    @contextmanager
    def checkpoint(self, name: str = "checkpoint", **arguments: Any) -> Iterator[Region]:
        """Puts the nodes that are made meanwhile into a region, which is run again in the backward
        pass: what they make is not kept until then. Regions may stand inside of one another.

        arguments: those of ``torch.utils.checkpoint.checkpoint``, with ``use_reentrant=False``.
        """
        outer = self._region
        region = Region(self.fresh_region(name), outer, **arguments)
        self.add_region(region)
        self._region = region.name
        try:
            yield region
        finally:
            self._region = outer

    def _append(
        self, operation: Operation, args: tuple[Argument, ...], kwargs: dict[str, Argument]
    ) -> Any:
        node = Node("", operation, args, kwargs, source=caller(), region=self._region)
        node.id = self.fresh_name(node.name.strip("_"))
        self.propagation.append(node)
        if node.several:
            return node.outputs
        return node.outputs[0] if node.outputs else None

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
            self._put(new, node, old)
        except ShapeError:
            self.erase(new)
            raise
        self.erase(node)
        self.propagation.settle()
        return new

    def outline(self, nodes: Sequence[Node], name: str) -> Node:
        """Moves nodes into a function of their own and calls it in their place; returns the call.

        Function and call keep the types that were known. Nothing between the nodes may need what
        they make. Raises GraphError where they are in different regions that are run again in the
        backward pass.
        """
        inside = set(nodes)
        ordered = [node for node in self.nodes() if node in inside]
        region = ordered[0].region
        other = next((node for node in ordered if node.region != region), None)
        if other is not None:
            raise problems.several_regions(name, ordered[0], other)
        made = {value for node in ordered for value in node.outputs}
        needed = list(dict.fromkeys(v for node in ordered for v in node.operands()))
        needed = [value for value in needed if value not in made]
        callee = type(self)(name, strict=self.strict, facts=self.system.assumptions)
        callee.autocast = dict(self.autocast)
        twins = {value: callee.input(value.name, value.type) for value in needed}
        for node in ordered:
            _copy(node, callee, twins)
        results = [
            value
            for node in ordered
            for value in node.outputs
            if value in self.outputs.values() or set(self.users(value)) - inside
        ]
        callee.output(*[twins[value] for value in results])
        self.functions[name] = callee
        known = [(s, symbol(s)) for s in callee.system.given if s in self.system.given]
        function = FunctionCall(name, tuple(known))
        call = Node(self.fresh_name(name), function, tuple(needed), {}, region=region)
        self.propagation.append(call)
        self._put(call, ordered[-1], results)
        for node in reversed(ordered):
            self.erase(node)
        for old, new in zip(results, call.outputs, strict=True):
            self.rename(new, old.name)
        return call

    def _put(self, new: Node, place: Node, results: Sequence[Value]) -> None:
        """Moves a new node to a place; its values keep the types of the results that they stand
        for.
        """
        for old, value in zip(results, new.outputs, strict=True):
            self.propagation.refine(value, old.type, f"the type of %{old.name} is kept")
        self.move(new, place)
        for old, value in zip(results, new.outputs, strict=True):
            self.replace_uses(old, value)

    def shape_function(self) -> TypedGraph:
        """Returns the function from the shapes of the inputs to those of the results, without data.

        Raises DimsolveError where a result's shape depends on data, or is not known.
        """
        made = type(self)(f"{self.name}_shape", facts=self.system.assumptions)
        bound: set[str] = set()
        for entry in self.inputs:
            if isinstance(entry.value.type, TensorType) and entry.value.dims is not None:
                dims = entry.value.dims
                shape = made.input(entry.value.name, ShapeType((None,) * len(dims)))
                made.match_shape(shape, dims)
                bound |= set().union(*[symbols_of(dim) for dim in dims if dim is not None])
            elif isinstance(entry.value.type, ScalarType) and entry.value.type.value is not None:
                made.input(entry.value.name, entry.value.type, kind="size")
                bound |= symbols_of(entry.value.type.value)

        def shape_of(leaf: Any) -> Any:
            if not isinstance(leaf, Value):
                return leaf
            if leaf.dims is None or None in leaf.dims:
                why = f"the shape of %{leaf.name} is not known"
                raise problems.no_shape_function(name=self.name, why=why)
            loose = symbols_in(leaf.type) - bound
            if loose:
                why = f"%{leaf.name} has the length {min(loose)}, which depends on data"
                raise problems.no_shape_function(name=self.name, why=why)
            return made.shape(leaf.dims)

        result = map_argument(self.result, shape_of)
        made.output(*result) if isinstance(result, tuple) else made.output(result)
        made.verify()
        return made

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
        declared=node.declared,
        order=node.order,
    )
    callee.propagation.append(copied)
    for old, new in zip(node.outputs, copied.outputs, strict=True):
        callee.propagation.refine(new, old.type, f"the type of %{old.name} is kept")
        twins[old] = new
