"""A graph as planners see it: operators that have kinds, joined by values.

    values    0 x   1 weight   2 linear
    operators 0 linear: kind "* k+, n k+ -> * n", inputs (0, 1), outputs (2,)

Values and operators are numbered in the order of the graph. A node without an annotation has the
kind "?, ? -> ?": whole on every rank. Where an operator writes to its input, later uses of that
value are uses of what it wrote, so a value has one writer here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, Literal

from dimsolve.ir.graph import Graph
from dimsolve.ir.node import Node, Value
from dimsolve.ir.operator import Declaration
from dimsolve.ir.types import ScalarType, ShapeType, TensorType
from dimsolve.solver.algebra.dims import evaluate, symbols_of
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.infer import infer_sizes
from dimsolve.solver.proof.facts import NO_FACTS, Facts, read_facts

from .aliases import memory_of
from .choices import Contract
from .gradients import gradient_flags
from .kinds import Kind
from .mapped import REASON, mapped_nodes
from .rules import rules_for
from .windows import SlicedValues, Windows
from .writes import Writes, find_writes

NOMINAL = 16
"""What a symbol counts for where costs are compared; a plan's legality never depends on it."""

Gradient = Literal["never", "inputs", "always"]


@dataclass(eq=False, slots=True)
class Operator:
    """One node. ``inputs`` and ``outputs`` are numbers of values, beside the kind's tensors; None
    for what is no tensor.
    """

    number: int
    node: Node
    declaration: Declaration
    kind: Kind
    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    skipped: bool = False
    pinned: str = ""


@dataclass(eq=False, slots=True)
class Wire:
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

    def __init__(self, graph: Graph, nominal: Mapping[str, int] | None = None) -> None:
        self.graph = graph
        self.facts = facts_of(graph)
        self.nominal = dict(nominal or {})
        self.kinds = Kinds(self.facts, known_symbols(graph))
        self.wires: list[Wire] = []
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
            wire = self._wire(entry.value)
            wire.kind, wire.target = entry.kind, entry.target
            wire.weight = wire.parameter
        for node in self.graph.nodes():
            self._read_node(node)
        for value in self.graph.outputs.values():
            self.wires[self.writes.version(value, None, self._numbers)].returned = True

    def _wire(self, value: Value) -> Wire:
        wire = Wire(len(self.wires), value, value.dims, value.dtype)
        if not isinstance(value.type, TensorType):
            wire.dims = None
        self._numbers[value] = wire.number
        self.wires.append(wire)
        return wire

    def _read_node(self, node: Node) -> None:
        declaration, skipped = declaration_of(node, self.kinds.known)
        rules = rules_for(node, declaration)
        if rules:
            declaration = replace(declaration, transform_rules=rules)
        number = len(self.operators)
        inputs = tuple([self._operand(value, node) for value in declaration.inputs])
        kept = self.writes.kept.get(id(node), ())
        kind = self.kinds.of(declaration, node, self.sliced.of(node), kept)
        made = {value: self._wire(value) for value in node.outputs}
        outputs: list[int | None] = [
            made[value].number if isinstance(value.type, TensorType) else None
            for value in node.outputs
        ]
        outputs += [None] * (len(kind.tensors) - kind.inputs - len(outputs))
        operator = Operator(number, node, declaration, kind, inputs, tuple(outputs), skipped)
        operator.pinned = REASON if id(node) in self.mapped else self.writes.pinned(node)
        for place, wire in enumerate(inputs):
            if wire is not None:
                self.wires[wire].uses.append((number, place))
        given = [self.wires[wire].weight for wire in inputs if wire is not None]
        for place, wire in enumerate(outputs):
            if wire is not None:
                self.wires[wire].producer = (number, place)
                self.wires[wire].weight = bool(given) and all(given)
        self.operators.append(operator)

    def _operand(self, value: Value | None, node: Node) -> int | None:
        if value is None or not isinstance(value.type, TensorType):
            return None
        return self.writes.version(value, node, self._numbers)

    def wire_of(self, value: Value) -> Wire:
        """Returns the value as it was made, whatever was written to it later."""
        return self.wires[self._numbers[value]]

    def number_of(self, value: Value, node: Node | None) -> int:
        """Returns the number of the value that a node reads under this name; None: at the end."""
        return self.writes.version(value, node, self._numbers)

    def size(self, dim: Dim) -> float:
        """Returns a length at nominal sizes."""
        if dim.__class__ is int:
            return float(dim)
        if dim not in self._sizes:
            values = {name: self.nominal.get(name, NOMINAL) for name in symbols_of(dim)}
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
        return memory_of(self.graph)

    @cached_property
    def parameters(self) -> list[Wire]:
        """The parameters, largest first, equal ones in the order of the graph."""
        found = [wire for wire in self.wires if wire.parameter]
        return sorted(found, key=lambda wire: (-self.elements(wire.dims), wire.number))


class Kinds:
    """The kinds of a graph, each made once."""

    def __init__(self, facts: Facts, known: frozenset[str]) -> None:
        self.facts = facts
        self.known = known
        self._made: dict[Any, Kind] = {}

    def of(
        self,
        declaration: Declaration,
        node: Node,
        windows: tuple[Windows, ...] = (),
        kept: tuple[int, ...] = (),
    ) -> Kind:
        """Returns the kind of a call. kept: inputs that it writes to for the model's next call."""
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
            found = self._made[key] = Kind(solution, contract, self.facts, self.known, windows)
        return found


def _shape(value: Value | None) -> tuple[Dim | None, ...] | None:
    if value is None or not isinstance(value.type, TensorType):
        return None
    return value.type.dims


def _fresh_lengths(
    declaration: Declaration, outputs: tuple[tuple[Dim | None, ...] | None, ...]
) -> dict[str, Dim]:
    """Lengths that only running can tell have the symbols that the graph gave them."""
    from dimsolve.solver.layout import layout_of

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
