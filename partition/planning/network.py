"""A graph as planners see it: operators of a few classes, joined by edges, one for each value.

    edges     0 x   1 weight   2 linear
    operators 0 linear: class "* k+, n k+ -> * n", inputs (0, 1), outputs (2,)

Edges and operators are numbered in the order of the graph. A node without an annotation has the
class "?, ? -> ?": whole on every rank. Where an operator writes to its input, later uses of that
value are uses of what it wrote, so a value has one writer here too.

A value has a gradient in training always, only if the caller asks for an input's, or never. A whole
number has none, nor has what is computed from such values only, what is detached, and what is
computed where gradients are switched off.

    ids: int64          never       weight: a parameter    always
    pixels: float32     inputs      linear(pixels, weight) always
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

from dimsolve.ir.graph import (
    Graph,
    Node,
    Value,
)
from dimsolve.ir.operator import Declaration
from dimsolve.ir.types import ScalarType, ShapeType, TensorType
from dimsolve.solver.algebra.dims import evaluate, symbols_of
from dimsolve.solver.algebra.poly import Dim, symbol
from dimsolve.solver.infer import infer_sizes
from dimsolve.solver.layout import layout_of
from dimsolve.solver.proof.facts import NO_FACTS, Facts, read_facts

from ..aliasing import aliases_of, written_by, written_value
from ..mesh import is_dealt
from ..plan_data import Gradient
from ..regions import VMAPPED, mapped_nodes, recorded_after
from ..rules.nothing import empty_of
from ..rules.table import rules_for
from .choices import Contract, OperatorClass
from .windows import SlicedValues, Windows
from .writes import Writes, differentiable, find_writes

NOMINAL = 16
"""What a symbol counts for where costs are compared; a plan's legality never depends on it."""


@dataclass(eq=False, slots=True)
class Operator:
    """One node. ``inputs`` and ``outputs`` are numbers of values, beside the class's tensors; None
    for what is no tensor.
    """

    number: int
    node: Node
    declaration: Declaration
    op_class: OperatorClass
    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    skipped: bool = False
    pinned: str = ""


@dataclass(eq=False, slots=True)
class Edge:
    """One value. ``uses``: (operator, input) in order. dims: its whole shape. weight: it is a
    parameter, or made of parameters alone.
    """

    number: int
    value: Value
    dims: tuple[Dim | None, ...] | None
    dtype: str | None
    producer: tuple[int, int] | None = None
    uses: list[tuple[int, int]] = field(default_factory=list)
    returned: bool = False
    kind: str = ""
    target: str = ""
    gradient: Gradient = "never"
    weight: bool = False

    @property
    def parameter(self) -> bool:
        """Whether it is a parameter of the model."""
        return self.kind == "parameter"


class Network:
    """All operators and values of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.facts = facts_of(graph)
        self.classes = OperatorClasses(self.facts, known_symbols(graph))
        self.edges: list[Edge] = []
        self.operators: list[Operator] = []
        self._numbers: dict[Value, int] = {}
        self._sizes: dict[Any, float] = {}
        self.writes: Writes = find_writes(graph)
        self.mapped = mapped_nodes(graph.nodes())
        self.sliced = SlicedValues(graph.nodes())
        self._read()
        gradient_flags(self)

    def _read(self) -> None:
        for entry in self.graph.inputs:
            edge = self._edge(entry.value)
            edge.kind, edge.target = entry.kind, entry.target
            edge.weight = edge.parameter
        for node in self.graph.nodes():
            self._read_node(node)
        for value in self.graph.outputs.values():
            self.edges[self.number_of(value, None)].returned = True
        for entry in self.graph.inputs:
            last = self.number_of(entry.value, None)
            if entry.kind == "input" and last != self._numbers[entry.value]:
                self.edges[last].returned = True  # the caller sees what is written to it

    def _edge(self, value: Value) -> Edge:
        dims = value.dims if isinstance(value.type, TensorType) else None
        edge = Edge(len(self.edges), value, dims, value.dtype)
        self._numbers[value] = edge.number
        self.edges.append(edge)
        return edge

    def _read_node(self, node: Node) -> None:
        declaration, skipped = declaration_of(node, self.classes.known)
        rules = rules_for(node, declaration)
        if rules:
            declaration = replace(declaration, transform_rules=rules)
        empty = empty_of(node.signature, declaration)
        if empty:
            declaration = replace(declaration, empty=empty)
        number = len(self.operators)
        inputs = tuple(
            [
                self.number_of(value, node)
                if value is not None and isinstance(value.type, TensorType)
                else None
                for value in declaration.inputs
            ]
        )
        kept = self.writes.kept.get(id(node), ())
        op_class = self.classes.of(declaration, node, self.sliced.of(node), kept)
        made = {value: self._edge(value) for value in node.outputs}
        outputs: list[int | None] = [
            made[value].number if isinstance(value.type, TensorType) else None
            for value in node.outputs
        ]
        outputs += [None] * (len(op_class.tensors) - op_class.inputs - len(outputs))
        operator = Operator(number, node, declaration, op_class, inputs, tuple(outputs), skipped)
        operator.pinned = VMAPPED if id(node) in self.mapped else self.writes.pinned(node)
        for place, edge in enumerate(inputs):
            if edge is not None:
                self.edges[edge].uses.append((number, place))
        given = [self.edges[edge].weight for edge in inputs if edge is not None]
        for place, edge in enumerate(outputs):
            if edge is not None:
                self.edges[edge].producer = (number, place)
                self.edges[edge].weight = bool(given) and all(given)
        self.operators.append(operator)

    def edge_of(self, value: Value) -> Edge:
        """Returns the value as it was made, whatever was written to it later."""
        return self.edges[self._numbers[value]]

    def number_of(self, value: Value, node: Node | None) -> int:
        """Returns the number of the value that a node reads under this name; None: at the end."""
        return self.writes.version(value, node, self._numbers)

    def size(self, dim: Dim) -> float:
        """Returns a length at nominal sizes."""
        if dim.__class__ is int:
            return float(dim)
        if dim not in self._sizes:
            # Of unequal parts the first is the longest.
            values = {name: 1 if is_dealt(symbol(name)) else NOMINAL for name in symbols_of(dim)}
            try:
                self._sizes[dim] = float(max(evaluate(dim, values), 1))
            except ZeroDivisionError:
                self._sizes[dim] = float(NOMINAL)
        return self._sizes[dim]

    def elements(self, dims: tuple[Dim | None, ...] | None) -> float:
        """Returns the number of elements of a shape at nominal sizes."""
        if dims is None:
            return float(NOMINAL)
        return prod(float(NOMINAL) if dim is None else self.size(dim) for dim in dims)

    @cached_property
    def memory(self) -> dict[Value, frozenset[Value]]:
        """For each value those that may share memory with it."""
        return aliases_of(self.graph)

    @cached_property
    def parameters(self) -> list[Edge]:
        """The parameters, largest first, equal ones in the order of the graph."""
        found = [edge for edge in self.edges if edge.parameter]
        return sorted(found, key=lambda edge: (-self.elements(edge.dims), edge.number))


CUT = frozenset({"detach", "detach_", "no_grad", "argmax", "argmin", "argsort"})
"""Operators, by their names, whose results have no gradient whatever their dtype."""

_OF_INPUT: dict[str, Gradient] = {"parameter": "always", "input": "inputs"}
_ORDER: tuple[Gradient, ...] = ("never", "inputs", "always")


def gradient_flags(network: Network) -> None:
    """Fills in the gradient of every value of a network."""
    for edge in network.edges:
        if differentiable(edge.dtype):
            edge.gradient = _OF_INPUT.get(edge.kind, "never")
    recorded = True
    for operator in network.operators:
        recorded = recorded_after(operator.node, recorded)
        if not recorded:
            _keep(network, operator)
        if not recorded or operator.node.name in CUT:
            continue
        flags = [network.edges[edge].gradient for edge in operator.inputs if edge is not None]
        most: Gradient = max(flags, key=_ORDER.index, default="never")
        for value, number in zip(operator.node.outputs, operator.outputs, strict=False):
            if number is not None and differentiable(value.dtype):
                network.edges[number].gradient = most
        if most != "never":
            _pass_on(network, operator, most)


def _pass_on(network: Network, operator: Operator, gradient: Gradient) -> None:
    """What is written to has the gradient of what is written, under every name of its memory."""
    for written, place in written_by(operator.node):
        known = place is not None and bool(operator.node.outputs)
        if known and written_value(operator.node, place or 0) is None:
            continue  # statistics, which batch_norm notes beside its result and does not record
        for value in network.memory[written]:
            edge = network.edge_of(value)
            if differentiable(edge.dtype):
                edge.gradient = max(edge.gradient, gradient, key=_ORDER.index)


def _keep(network: Network, operator: Operator) -> None:
    """What is written to where nothing is recorded keeps the gradient that it had."""
    declaration = operator.declaration
    for place in declaration.mutates:
        edge, value = operator.inputs[place], written_value(operator.node, place)
        if edge is not None and value is not None:
            number = operator.outputs[operator.node.outputs.index(value)]
            if number is not None:
                network.edges[number].gradient = network.edges[edge].gradient


class OperatorClasses:
    """The operator classes of a graph, each made once."""

    def __init__(self, facts: Facts, known: frozenset[str]) -> None:
        self.facts = facts
        self.known = known
        self._made: dict[Any, OperatorClass] = {}

    def of(
        self,
        declaration: Declaration,
        node: Node,
        windows: tuple[Windows, ...] = (),
        kept: tuple[int, ...] = (),
    ) -> OperatorClass:
        """Returns the class of a call. kept: inputs that it writes to for the model's next call."""
        shapes = tuple([_shape(value) for value in declaration.inputs])
        arguments = dict(declaration.arguments)
        if declaration.fresh:
            outputs = tuple([_shape(value) for value in node.outputs])
            arguments.update(_fresh_lengths(declaration, outputs))
        contract = Contract.of(declaration, kept)
        key = (declaration.annotation, shapes, tuple(arguments.items()), contract, windows)
        found = self._made.get(key)
        if found is None:
            solution = infer_sizes(declaration.annotation, shapes, arguments=arguments)
            found = self._made[key] = OperatorClass(
                solution, contract, self.facts, self.known, windows
            )
        return found


def _shape(value: Value | None) -> tuple[Dim | None, ...] | None:
    if value is None or not isinstance(value.type, TensorType):
        return None
    return value.type.dims


def _fresh_lengths(
    declaration: Declaration, outputs: tuple[tuple[Dim | None, ...] | None, ...]
) -> dict[str, Dim]:
    """Lengths that are known only when it runs have the symbols that the graph gave them."""
    found: dict[str, Dim] = {}
    rows = layout_of(declaration.annotation, None).outputs
    for row, dims in zip(rows, outputs, strict=False):
        for pattern, dim in zip(row or (), dims or (), strict=False):
            if (
                len(pattern.atoms) == 1
                and pattern.atoms[0] in declaration.fresh
                and dim is not None
            ):
                found.setdefault(str(pattern.atoms[0]), dim)
    return found


def declaration_of(node: Node, known: frozenset[str]) -> tuple[Declaration, bool]:
    """Returns what is promised for a node, and whether its results are lengths that are known
    without running it.
    """
    declared = node.declaration
    if declared is None:
        return _opaque(node, "it has no annotation: dimsolve.register_op gives it one"), False
    if declared.returns == "value":
        # What makes no value is called for what it does: it switches gradients on or off.
        if node.outputs and all(_known_number(value, known) for value in node.outputs):
            return replace(_opaque(node, ""), annotation="-> ?", inputs=()), True
        tensors = any(isinstance(value.type, TensorType) for value in node.operands())
        return _opaque(node, "its result is read from the whole tensor" if tensors else ""), False
    return declared, False


def _opaque(node: Node, reason: str) -> Declaration:
    places = tuple(range(len(node.operands())))
    inputs = ", ".join("?" for _ in places)
    outputs = ", ".join("?" for _ in node.outputs)
    return Declaration(
        f"{inputs} -> {outputs or '?'}", tuple(node.operands()), frozen=reason, places=places
    )


def _known_number(value: Value, known: frozenset[str]) -> bool:
    match value.type:
        case ScalarType(_, number):
            return number is not None and symbols_of(number) <= known
        case ShapeType(dims):
            return dims is not None and all(d is not None and symbols_of(d) <= known for d in dims)
        case _:
            return False


def known_symbols(graph: Graph) -> frozenset[str]:
    """Returns the symbols whose values a caller's inputs give."""
    system = getattr(graph, "system", None)
    if system is not None:
        return frozenset(system.given)
    dims = [dim for entry in graph.inputs for dim in entry.value.dims or () if dim is not None]
    return frozenset().union(*(symbols_of(dim) for dim in dims))


def facts_of(graph: Graph) -> Facts:
    """Returns what is known of the symbols of a graph: its facts and its conditions."""
    system = getattr(graph, "system", None)
    if system is not None:
        facts: Facts = system.facts
        return facts
    texts = [*graph.facts, *[claim for claim, _ in graph.checks]]
    return read_facts(texts) if texts else NO_FACTS
