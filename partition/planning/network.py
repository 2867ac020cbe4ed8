"""A graph as planners see it: operators that have kinds, joined by values.

    values    0 x   1 weight   2 linear
    operators 0 linear: kind "* k+, n k+ -> * n", inputs (0, 1), outputs (2,)

Values and operators are numbered in the order of the graph. A node without an annotation has the
kind "?, ? -> ?": whole on every rank. Where an operator writes to its input, later uses of that
value are uses of what it wrote, so a value has one writer here too.

Whether gradients are recorded, from node to node of a graph.

torch._C._set_grad_enabled(False)      no longer
torch._C._set_grad_enabled(%outer)     as outside of the model: planned for training, they are

What runs inside ``torch.vmap``: nodes between two calls of torch that say so.

    _vmap_increment_nesting(batch, "error")
    row = _add_batch_dim(x, 0, 1)              (batch, d) -> (d)
    tanh = row.tanh()                          (d)
    whole = _remove_batch_dim(tanh, 1, batch, 0)
    _vmap_decrement_nesting()

In between, a tensor hides the dimension that is mapped over, and no conversion can be recorded. So
these nodes stay whole, and what they take from outside is converted before the first of them.

Which results may share memory with what they were made of.

    view(x, ...)                x, always or sometimes: reshape copies only where it must
    broadcast_tensors(x, y)     both, each result with any of them
    add_(x, 1)                  x
    "m k+, k n -> m n"          nothing, whatever the function: its results are sums
    "* -> *", registered        x, if nobody tells: only torch's own functions are known

Where it is not known it may be: a rank that takes a copy for a view is wrong, one that takes a view
for a copy is slow.

Which values have a gradient: in training always, only if the caller asks for an input's, never.

A whole number has none, nor has what is computed from such values only, what is detached, and what
is computed where gradients are switched off.

    ids: int64          never       weight: a parameter    always
    pixels: float32     inputs      linear(pixels, weight) always

Operators that write to their inputs, put into a form in which every value is written once.

    y = add_(x, 1)      later uses of x are uses of y
    setitem(x, 0, 1)    later uses of x are uses of what setitem was given

A view shares its memory with what it was taken from. Where one of the two is written to and the
other one used later, what is read depends on the memory being shared, and a rank that works on a
copy would read something else. All operators on such memory stay whole: then nothing is copied. So
it is with what the caller gave, who sees what was written, and with what is written to where
gradients are switched off, which keeps the gradient that it had.

Calls of functions of the module, replaced by what the functions do.

    def block(%x: [b, d], %w: [d, d]):  y = linear(x, w)
    main: h = block(x, w0), block(h, w1)     becomes     linear(x, w0), linear(linear(..), w1)

A plan speaks of operators, so it is made for the graph without calls; a block that is called twice
may be cut in two ways. A function's symbols become lengths of the caller. What has no calls stays
as it is, the same object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, Literal

from dimsolve.ir.graph import (
    ExternalCall,
    FunctionCall,
    Graph,
    Left,
    MakeShape,
    MatchShape,
    Node,
    OperatorCall,
    Value,
    map_argument,
    values_in,
)
from dimsolve.ir.operator import Declaration
from dimsolve.ir.types import ScalarType, ShapeType, TensorType
from dimsolve.solver.algebra.dims import evaluate, substitute, symbols_of
from dimsolve.solver.algebra.poly import Dim, Poly, symbol
from dimsolve.solver.graphs.builder import TypedGraph
from dimsolve.solver.graphs.functions import bind_arguments, callee_of
from dimsolve.solver.graphs.match import match
from dimsolve.solver.infer import infer_sizes
from dimsolve.solver.proof.facts import NO_FACTS, Facts, read_facts

from ..rules.table import rules_for
from .choices import Contract, Kind, SlicedValues, Windows

SWITCH = "torch._C._set_grad_enabled"


def recorded_after(node: Node, recorded: bool) -> bool:
    """Returns whether gradients are recorded after a node, given whether they were before it."""
    if node.signature != SWITCH or not node.args:
        return recorded
    return node.args[0] is not False


HOME = "torch._functorch.predispatch."
BEGIN, END = f"{HOME}_vmap_increment_nesting", f"{HOME}_vmap_decrement_nesting"
CALLS = frozenset(
    {
        BEGIN,
        END,
        f"{HOME}lazy_load_decompositions",
        f"{HOME}_add_batch_dim",
        f"{HOME}_remove_batch_dim",
    }
)
"""What torch.vmap calls, by import path."""

REASON = "it runs inside torch.vmap"


def mapped_from(nodes: Sequence[Node], start: int) -> Sequence[Node]:
    """Returns the nodes from one that begins a mapping to the one that ends it."""
    depth = 0
    for position in range(start, len(nodes)):
        depth += (nodes[position].signature == BEGIN) - (nodes[position].signature == END)
        if depth == 0:
            return nodes[start : position + 1]
    return nodes[start:]


def mapped_nodes(nodes: Sequence[Node]) -> frozenset[int]:
    """Returns the nodes, by ``id``, that are inside a mapping."""
    found: set[int] = set()
    for position, node in enumerate(nodes):
        if node.signature == BEGIN:
            found.update(map(id, mapped_from(nodes, position)))
    return frozenset(found)


_VIEWS = """
view view_as reshape reshape_as transpose swapaxes swapdims permute movedim moveaxis T mT H mH
adjoint t getattr getitem __getitem__ select narrow expand expand_as broadcast_to squeeze unsqueeze
flatten unflatten split split_with_sizes unsafe_split unsafe_split_with_sizes chunk unsafe_chunk
unbind tensor_split hsplit vsplit dsplit diagonal unfold real imag conj conj_physical resolve_conj
resolve_neg view_as_real view_as_complex detach detach_ data contiguous to type type_as float double
half bfloat16 int long short char byte bool cfloat cdouble chalf cpu cuda pin_memory positive pos
as_strided as_tensor asarray ravel atleast_1d atleast_2d atleast_3d squeeze_ unsqueeze_
transpose_ swapaxes_ swapdims_ t_ as_strided_ requires_grad_ identity dropout coalesce values
indices to_dense
"""
VIEWS = frozenset(_VIEWS.split())
"""Functions of torch, by name, that take no memory of their own, or need none."""

_SOMETIMES = """
einsum dropout1d dropout2d dropout3d alpha_dropout feature_dropout feature_alpha_dropout
"""
_SHARING = VIEWS | frozenset(_SOMETIMES.split())
"""Those whose results may share memory with their first argument."""

_VIEWS_OF_ALL = frozenset({"broadcast_tensors", "meshgrid", "cartesian_prod"})
"""Those whose results may share memory with any of their arguments."""


def memory_of(graph: Graph) -> dict[Value, frozenset[Value]]:
    """Returns for each value those that may share memory with it, itself among them."""
    parents: dict[Value, Value] = {}

    def root(value: Value) -> Value:
        while parents.get(value, value) is not value:
            value = parents[value]
        return value

    for node in graph.nodes():
        for output, source in shares(node):
            parents[root(output)] = root(source)
    groups: dict[Value, set[Value]] = {}
    for value in graph.values.values():
        groups.setdefault(root(value), set()).add(value)
    return {value: frozenset(group) for group in groups.values() for value in group}


def shares(node: Node) -> Iterator[tuple[Value, Value]]:
    """Yields outputs of a node with the operands whose memory they may share."""
    for place in node.declaration.mutates if node.declaration is not None else ():
        output = written_value(node, place)
        if output is not None and node.declaration is not None:
            yield output, node.declaration.inputs[place]
    sources = list(_sources(node))
    for output in node.outputs:
        if isinstance(output.type, TensorType):
            yield from ((output, source) for source in sources)


def written_value(node: Node, place: int) -> Value | None:
    """Returns the output that is the input written to; None where it is none of them: a function
    returns its first input where it writes to that, and nothing but what it writes to otherwise.
    """
    declaration = node.declaration
    assert declaration is not None
    number = declaration.mutates.index(place)
    target = declaration.inputs[place]
    returned = declaration.returns == "nothing" or place == number == 0
    if not isinstance(target, Value) or number >= len(node.outputs) or not returned:
        return None
    output = node.outputs[number]
    same = isinstance(output.type, TensorType) and output.type.dims == target.dims
    return output if same else None


def written_by(node: Node) -> Iterator[tuple[Value, int | None]]:
    """Yields the values that a node writes to, with the input of its declaration that each is; None
    where nothing is known of it.
    """
    declaration = node.declaration
    mutates = () if declaration is None else declaration.mutates
    for place in mutates:
        value = declaration.inputs[place] if declaration is not None else None
        if isinstance(value, Value):
            yield value, place
    out = node.kwargs.get("out")
    if isinstance(out, Value):
        yield out, None
    elif not mutates and _named_as_writer(node) and node.operands():
        yield node.operands()[0], None


def _named_as_writer(node: Node) -> bool:
    """Whether a function changes its first argument, as names in torch tell; ``operator.and_``
    does not.
    """
    name = node.name
    return name[-1:] == "_" and name[-2:] != "__" and node.signature.startswith("torch.")


def _sources(node: Node) -> Iterator[Value]:
    """The operands whose memory the results may share."""
    operands = [value for value in node.operands() if isinstance(value.type, TensorType)]
    match node.operation:
        case OperatorCall(path) if not _of_torch(path):
            if node.declaration is not None and node.declaration.separate:
                return
            yield from (value for value in operands if not _summed(node, value))
        case FunctionCall() | ExternalCall():
            yield from operands
        case _ if node.name in _VIEWS_OF_ALL:
            yield from operands
        case _ if node.name in _SHARING or not isinstance(node.operation, OperatorCall):
            yield from operands[:1]


def _of_torch(path: str) -> bool:
    from dimsolve.solver.operators import find

    return path.startswith(("torch.", "_operator.", "operator.")) or find(path) is not None


def _summed(node: Node, value: Value) -> bool:
    """Whether what a function makes of an input is sums over it, by its annotation."""
    from dimsolve.ir.annotation import Mark
    from dimsolve.solver.layout import layout_of

    declaration = node.declaration
    if declaration is None:
        return False
    layout = layout_of(declaration.annotation, None)
    rows = zip(declaration.inputs, layout.inputs, strict=False)
    names = {n for given, row in rows if given is value for p in row or () for n in p.names}
    return any(layout.marks[name] is Mark.SUM for name in names)


CUT = frozenset({"detach", "detach_", "no_grad", "argmax", "argmin", "argsort"})
"""Operators, by their names, whose results have no gradient whatever their dtype."""

_OF_INPUT: dict[str, Gradient] = {"parameter": "always", "input": "inputs"}
_ORDER: tuple[Gradient, ...] = ("never", "inputs", "always")


def gradient_flags(network: Network) -> None:
    """Fills in the gradient of every value of a network."""
    for wire in network.wires:
        if differentiable(wire.dtype):
            wire.gradient = _OF_INPUT.get(wire.kind, "never")
    recorded = True
    for operator in network.operators:
        recorded = recorded_after(operator.node, recorded)
        if not recorded:
            _keep(network, operator)
        if not recorded or operator.node.name in CUT:
            continue
        flags = [network.wires[wire].gradient for wire in operator.inputs if wire is not None]
        most: Gradient = max(flags, key=_ORDER.index, default="never")
        for value, number in zip(operator.node.outputs, operator.outputs, strict=False):
            if number is not None and differentiable(value.dtype):
                network.wires[number].gradient = most
        if most != "never":
            _pass_on(network, operator, most)


def _pass_on(network: Network, operator: Operator, gradient: Gradient) -> None:
    """What is written to has the gradient of what is written, under every name of its memory."""
    for written, place in written_by(operator.node):
        known = place is not None and bool(operator.node.outputs)
        if known and written_value(operator.node, place or 0) is None:
            continue  # statistics, which batch_norm notes beside its result and does not record
        for value in network.memory[written]:
            wire = network.wire_of(value)
            if differentiable(wire.dtype):
                wire.gradient = max(wire.gradient, gradient, key=_ORDER.index)


def _keep(network: Network, operator: Operator) -> None:
    """What is written to where nothing is recorded keeps the gradient that it had."""
    declaration = operator.declaration
    for place in declaration.mutates:
        wire, value = operator.inputs[place], written_value(operator.node, place)
        if wire is not None and value is not None:
            number = operator.outputs[operator.node.outputs.index(value)]
            if number is not None:
                network.wires[number].gradient = network.wires[wire].gradient


def differentiable(dtype: str | None) -> bool:
    """Whether a tensor of this dtype can have a gradient; one that is not known might.

    >>> differentiable("int64"), differentiable("bfloat16"), differentiable(None)
    (False, True, True)
    """
    return dtype is None or dtype.startswith(("float", "bfloat", "complex"))


@dataclass(slots=True)
class Writes:
    """``versions``: for a value that is written to, (position of the writer, value that has it
    from then on; None: no value has it but the value itself). shared: nodes on shared memory.
    kept: inputs, by number, that a node writes to for the model's next call.
    """

    order: dict[int, int] = field(default_factory=dict)
    versions: dict[Value, list[tuple[int, Value]]] = field(default_factory=dict)
    shared: dict[int, str] = field(default_factory=dict)
    kept: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def version(self, value: Value, node: Node | None, numbers: Mapping[Value, int]) -> int:
        """Returns the number of the value that a node reads under a name; None: after the last."""
        position = len(self.order) if node is None else self.order[id(node)]
        while value in self.versions:
            later = [new for writer, new in self.versions[value] if writer < position]
            if not later or later[-1] is value:
                break
            value = later[-1]
        return numbers[value]

    def pinned(self, node: Node) -> str:
        """Returns why a node stays whole, ``""`` where it need not."""
        return self.shared.get(id(node), "")


@dataclass(frozen=True, slots=True)
class _Write:
    """One write. ``place``: the input of the declaration, None where nothing is known of it."""

    position: int
    node: Node
    value: Value
    place: int | None
    recorded: bool


def find_writes(graph: Graph) -> Writes:
    """Returns what the nodes of a graph write to."""
    writes = Writes({id(node): number for number, node in enumerate(graph.nodes())})
    written = list(_written(graph))
    for write in written:
        new = None if write.place is None else written_value(write.node, write.place)
        if new is not None:
            writes.versions.setdefault(write.value, []).append((write.position, new))
    if written:
        _Sharing(graph, writes).pin(written)
    return writes


def _written(graph: Graph) -> Iterator[_Write]:
    """Yields what is written to, in the order of the graph."""
    recorded = True
    for position, node in enumerate(graph.nodes()):
        recorded = recorded_after(node, recorded)
        for value, place in written_by(node):
            yield _Write(position, node, value, place, recorded)


class _Sharing:
    """Finds what must stay whole because memory is written to that is read elsewhere."""

    def __init__(self, graph: Graph, writes: Writes) -> None:
        self.graph, self.writes = graph, writes
        self.nodes = graph.nodes()
        self.groups = memory_of(graph)
        self.last_use = {v: n for n, node in enumerate(self.nodes) for v in node.operands()}
        self.last_use.update({value: len(self.nodes) for value in graph.outputs.values()})
        self.made = {value: n for n, node in enumerate(self.nodes) for value in node.outputs}
        self.uses = Counter(value for node in self.nodes for value in node.operands())
        self.inputs = {entry.value: entry.kind for entry in graph.inputs}
        self.recorded = _made_recorded(graph)

    def pin(self, written: Sequence[_Write]) -> None:
        """Pins the nodes on memory that is written to and then read under a name it had before;
        where only the written value itself is read later, those up to the writer.
        """
        for write in written:
            group = self.groups[write.value]
            reason = f"{write.node.id} writes to memory that %{write.value.name} shares"
            last = max(each.position for each in written if each.value in group)
            if write.place is None or self._read_elsewhere(write, group):
                self._pin(last, group, reason)
            elif self._keeps_gradient(write, group):
                reason = f"{write.node.id} writes to %{write.value.name} without its gradient"
                self._pin(last, group, reason)
            else:
                self._keep(write, group)
                versions = self.writes.versions.get(write.value, ())
                named = any(position == write.position for position, _ in versions)
                if not named and self.last_use.get(write.value, -1) > write.position:
                    self._pin(write.position, group, reason)

    def _keep(self, write: _Write, group: AbstractSet[Value]) -> None:
        if write.place is not None and group & self.inputs.keys():
            kept = self.writes.kept.get(id(write.node), ())
            self.writes.kept[id(write.node)] = (*kept, write.place)

    def _read_elsewhere(self, write: _Write, group: AbstractSet[Value]) -> bool:
        value, position = write.value, write.position
        before = [v for v in group if v is not value and self.made.get(v, -1) < position]
        if any(self.last_use.get(other, -1) > position for other in before):
            return True
        kinds = {self.inputs[each] for each in group if each in self.inputs}
        # An input is written to in place: no copy of it may stand between it and the writer.
        return bool(kinds - {"buffer"}) or (bool(kinds) and bool(before or self.uses[value] > 1))

    def _keeps_gradient(self, write: _Write, group: AbstractSet[Value]) -> bool:
        """Whether a write that is not recorded is to a value that has a gradient, and keeps it."""
        return not write.recorded and not self.recorded.isdisjoint(group)

    def _pin(self, last: int, values: AbstractSet[Value], reason: str) -> None:
        """Pins what makes such memory or takes views of it, and what uses it up to the last write:
        later uses may take copies.
        """
        for position, node in enumerate(self.nodes):
            uses = position <= last and not values.isdisjoint(node.operands())
            if uses or not values.isdisjoint(node.outputs):
                self.writes.shared.setdefault(id(node), reason)


def _made_recorded(graph: Graph) -> frozenset[Value]:
    """The values that nodes made while gradients were recorded, and that may have one."""
    found: set[Value] = set()
    recorded = True
    for node in graph.nodes():
        recorded = recorded_after(node, recorded)
        if recorded:
            found.update(value for value in node.outputs if differentiable(value.dtype))
    return frozenset(found)


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
        made.attachments, made.objects = dict(graph.attachments), dict(graph.objects)
        twins: dict[Any, Any] = {
            entry.value: made.input(
                entry.value.name, entry.value.type, kind=entry.kind, target=entry.target
            )
            for entry in graph.inputs
        }
        self._copy_all(graph, twins, None, (), "")
        for name, value in graph.values.items():
            twin = twins[value]
            if twin.name != name and name not in made.values:
                made.rename(twin, name)
        result = map_argument(graph.result, lambda leaf: _twin(leaf, twins))
        made.set_result(result, {name: twins[v] for name, v in graph.outputs.items()})
        made.left = {
            place: Left(map_argument(left.parts, lambda leaf: _twin(leaf, twins)), left.removed)
            for place, left in graph.left.items()
        }
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
        around: str,
    ) -> None:
        """Copies the nodes of a function. lengths: of its symbols, None for the graph itself;
        path: the ids of the calls on the way to it; around: the region that it is called in.
        """
        regions = {"": around}
        for name, region in graph.regions.items():
            regions[name] = self.made.fresh_region("_".join((*path, name)))
            self.made.add_region(replace(region, name=regions[name], within=regions[region.within]))
        for node in graph.nodes():
            if isinstance(node.operation, FunctionCall):
                self._call(graph, node, twins, lengths, path, regions[node.region])
                continue
            copied = self._copied(node, twins, lengths, path, regions[node.region])
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
        region: str,
    ) -> Node:
        def leaf(item: Any) -> Any:
            return _told(_twin(item, twins), lengths)

        operation = node.operation
        if isinstance(operation, MatchShape | MakeShape):
            values = [_told(dim, lengths) for dim in _dims(operation)]
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
            declared=_promise(node, lengths),
            region=region,
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
        around: str,
    ) -> None:
        assert isinstance(node.operation, FunctionCall)
        callee = callee_of(graph, node.operation.function)
        given = {name: _told(dim, lengths) for name, dim in node.operation.symbols}
        inner: dict[Any, Any] = {
            parameter: _told(_twin(argument, twins), lengths)
            for parameter, argument in bind_arguments(callee, node)
        }
        found = self._lengths(callee, inner, given)
        self.made.attachments = {**callee.attachments, **self.made.attachments}
        self._copy_all(callee, inner, found, (*path, node.id), around)
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


def _told(leaf: Any, lengths: Mapping[str, Dim] | None) -> Any:
    """A length of a function in the caller's symbols."""
    if not isinstance(leaf, Poly) or lengths is None:
        return leaf
    return substitute(leaf, {n: dim for n, dim in lengths.items() if n in symbols_of(leaf)})


def _promise(node: Node, lengths: Mapping[str, Dim] | None) -> Declaration | None:
    """What the graph says that the call promises, in the caller's symbols."""
    if node.declared is None:
        return None
    arguments = {name: _told(item, lengths) for name, item in node.declared.arguments.items()}
    return replace(node.declared, arguments=arguments)


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
