"""A graph that deduces types while it is built, and what is done with it then: it is rewritten,
outlined, written as JSON.

    with TypedGraph("f") as g:
        x = g.input("x", "n, m, 2", "float32")
        y = g.call("reshape", x, ("n", "m*2"))        float32[n, 2*m]
        g.output(g.call("flatten", y))                float32[2*m*n]
    g.dim(y, 1)                  2*m
    g.prove("n*m == m*n")        proved

The public ``dimsolve.Graph`` is this class with what running and partitioning add.

Functions taken out of a graph: what computes its shapes, and what computes a part of it.

shape_function(g)            (n, m) -> (m + 2, n)    from input shapes to result shapes, no data
outline(g, nodes, "fused")   the nodes become a function, called in their place, types kept

What a graph answers at any time: a dimension, a claim, its conditions, its sizes.

g.dim("y", 1)                2*m
g.prove("n*m == m*n")        proved
g.conditions                 ("k == l",)
g.evaluate({"n": 4})         {"x": (4, 8), ...}

Building a graph: inputs, calls and outputs, each with the types that are deduced for it.

    g = TypedGraph("f")
    x = g.input("x", "n, m, 2", "float32")
    y = g.call("reshape", x, ("n", "m*2"))        float32[n, 2*m]
    g.match_shape(y, "n, 64")                     2*m == 64 is asserted
    g.output(y)

`typed_graph` adds what is done with a graph that is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import index
from typing import TYPE_CHECKING, Any, Self

from dimsolve.ir.errors import ShapeError
from dimsolve.ir.expression import Relation
from dimsolve.ir.graph import (
    Argument,
    ExternalCall,
    FunctionCall,
    Graph,
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
from dimsolve.ir.types import Dim, ScalarType, ShapeType, TensorType, Type

from ..algebra.dims import evaluate, symbols_of
from ..algebra.poly import symbol
from ..proof.verdict import Proof
from . import problems as graph_problems
from . import problems as request_problems
from .deduction import symbols_in
from .names import caller, path_of, paths_of
from .propagation import Propagation
from .reading import SIZED, read_argument, read_dim, read_dims, read_input_type
from .system import System

if TYPE_CHECKING:
    import sympy


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
    Raises GraphError where they are in different regions that are run again in the backward pass.
    """
    inside = set(nodes)
    ordered = [node for node in graph.nodes() if node in inside]
    other = next((node for node in ordered if node.region != ordered[0].region), None)
    if other is not None:
        raise request_problems.several_regions(name, ordered[0], other)
    made = {value for node in ordered for value in node.outputs}
    needed = list(dict.fromkeys(v for node in ordered for v in node.operands() if v not in made))
    callee = type(graph)(name, strict=graph.strict)
    callee.autocast = dict(graph.autocast)
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
        declared=node.declared,
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
    call = FunctionCall(callee.name, known)
    region = ordered[0].region
    node = Node(graph.fresh_name(callee.name), call, tuple(needed), {}, region=region)
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


class Answers(Graph):
    """A graph with a system of equations over its symbols, and the questions that it answers."""

    def __init__(self, name: str = "main") -> None:
        super().__init__(name)
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
            raise request_problems.no_such_value(self.name, value, self.values)
        found = self.values[value] if isinstance(value, str) else value
        dims = found.dims
        if dims is None:
            return None
        if not -len(dims) <= index < len(dims):
            raise request_problems.no_such_dim(found, index)
        known: Any = dims[index]
        if known is None:
            return None
        return to_sympy(known)

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
            raise request_problems.unknown_symbols(unknown, self.symbols)
        read: dict[str, int] = {}
        for name, size in sizes.items():
            if isinstance(size, bool) or not hasattr(size, "__index__") or index(size) < 1:
                raise request_problems.no_size(str(name), size)
            read[str(name)] = index(size)
        return read

    def _check_sizes(self, sizes: Mapping[str, int]) -> None:
        for condition in self.system.conditions:
            if condition.claim.symbols() <= sizes.keys() and not condition.claim.test(sizes):
                raise graph_problems.broken_condition(condition, sizes)
        for name, dim in self.system.solved.items():
            known = name in sizes and symbols_of(dim) <= sizes.keys()
            if known and evaluate(dim, sizes) != sizes[name]:
                raise graph_problems.broken_name(name, dim, sizes)

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


NAME = re.compile(r"\w+(\.\w+)*")
"""What names a value: a word, and items of it."""

ShapeText = str | Sequence[Any] | None


class GraphBuilder(Answers):
    """A graph that grows by calls, each with deduced types. ``facts`` are what is known of the
    symbols from outside.

    strict: operators that combine tensors element by element take tensors of one dtype, and promote
    none.
    """

    def __init__(
        self, name: str = "main", *, facts: Iterable[str | Relation] = (), strict: bool = False
    ) -> None:
        super().__init__(name)
        self.strict = strict
        self.propagation = Propagation(self)
        self._region = ""
        for fact in facts:
            self.assume(fact)

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
            raise request_problems.no_name(name)
        type = read_input_type(shape, dtype)
        value = self.add_input(name, self.propagation.opened(type, name), kind, target)
        self.propagation.note_symbols(value.type, f"{kind} %{name}")
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
        if isinstance(function, GraphBuilder):
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

    def _call_graph(self, function: GraphBuilder, args: Any, kwargs: dict[str, Any]) -> Any:
        if function is self or function.calls(self):
            raise request_problems.calls_itself(self.name, function.name)
        known = self.functions.setdefault(function.name, function)
        if known is not function:
            raise request_problems.two_functions(function.name)
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

    def calls(self, other: GraphBuilder) -> bool:
        """Returns whether a function of this module calls the other graph."""
        return any(
            function is other or (isinstance(function, GraphBuilder) and function.calls(other))
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
        return outline(self, list(nodes), name)

    def shape_function(self) -> TypedGraph:
        """Returns the function from the shapes of the inputs to those of the results, without data.

        Raises DimsolveError where a result's shape depends on data.
        """
        return shape_function(self)

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
