"""Building a graph: inputs, calls and outputs, each with the types that are deduced for it.

    g = TypedGraph("f")
    x = g.input("x", "n, m, 2", "float32")
    y = g.call("reshape", x, ("n", "m*2"))        float32[n, 2*m]
    g.match_shape(y, "n, 64")                     2*m == 64 is asserted
    g.output(y)

`typed_graph` adds what is done with a graph that is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from dimsolve.ir.errors import ShapeError
from dimsolve.ir.expression import Relation
from dimsolve.ir.node import (
    Argument,
    ExternalCall,
    FunctionCall,
    InputKind,
    MakeShape,
    MatchShape,
    Node,
    Operation,
    OperatorCall,
    Value,
    values_in,
)
from dimsolve.ir.types import ScalarType, ShapeType, TensorType, Type

from ..algebra.poly import symbol
from . import request_problems
from .answers import Answers
from .paths import paths_of
from .propagation import Propagation
from .read_argument import SIZED, read_argument
from .read_type import read_dim, read_dims, read_input_type
from .sources import caller

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

    def _append(
        self, operation: Operation, args: tuple[Argument, ...], kwargs: dict[str, Argument]
    ) -> Any:
        node = Node("", operation, args, kwargs, source=caller())
        node.id = self.fresh_name(node.name.strip("_"))
        self.propagation.append(node)
        if node.several:
            return node.outputs
        return node.outputs[0] if node.outputs else None
