"""Operators that write to their inputs, put into a form in which every value is written once.

    y = add_(x, 1)      later uses of x are uses of y
    setitem(x, 0, 1)    later uses of x are uses of what setitem was given

A view shares its memory with what it was taken from. Where one of the two is written to and the
other one used later, what is read depends on the memory being shared, and a rank that works on a
copy would read something else. All operators on such memory stay whole: then nothing is copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from dimsolve.ir.graph import Graph
from dimsolve.ir.node import Node, Value
from dimsolve.ir.types import TensorType

_VIEWS = """
view view_as reshape reshape_as transpose swapaxes swapdims permute movedim moveaxis T mT H mH
t getitem select narrow expand expand_as broadcast_to squeeze unsqueeze flatten unflatten
split chunk unbind tensor_split hsplit vsplit dsplit diagonal unfold real imag detach
contiguous to type type_as float double half bfloat16 int long bool positive as_strided ravel
squeeze_ unsqueeze_ transpose_ t_ identity dropout
"""
VIEWS = frozenset(_VIEWS.split())
"""Functions, by name, whose result may share memory with their first argument."""


@dataclass(slots=True)
class Writes:
    """``versions``: for a value that is written to, (position of the writer, value that has it
    from then on; None: no value has it but the value itself). shared: nodes on shared memory.
    """

    order: dict[int, int] = field(default_factory=dict)
    versions: dict[Value, list[tuple[int, Value]]] = field(default_factory=dict)
    shared: dict[int, str] = field(default_factory=dict)

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


def find_writes(graph: Graph) -> Writes:
    """Returns what the nodes of a graph write to."""
    writes = Writes({id(node): number for number, node in enumerate(graph.nodes())})
    written: list[tuple[int, Node, Value]] = []
    for number, node in enumerate(graph.nodes()):
        declaration = node.declaration
        for place in declaration.mutates if declaration is not None else ():
            value = declaration.inputs[place] if declaration is not None else None
            if isinstance(value, Value):
                written.append((number, node, value))
                new = _written_value(node, place)
                if new is not None:
                    writes.versions.setdefault(value, []).append((number, new))
    if written:
        _pin_shared(graph, writes, written)
    return writes


def _written_value(node: Node, place: int) -> Value | None:
    """The output that is the input written to: in the order of ``mutates``, of the same type."""
    declaration = node.declaration
    assert declaration is not None
    number = declaration.mutates.index(place)
    target = declaration.inputs[place]
    if not isinstance(target, Value) or number >= len(node.outputs):
        return None
    output = node.outputs[number]
    same = isinstance(output.type, TensorType) and output.type.dims == target.dims
    return output if same else None


def _pin_shared(graph: Graph, writes: Writes, written: list[tuple[int, Node, Value]]) -> None:
    """Pins all nodes on memory that is written to and then read under a name it had before; where
    only the written value itself is read later, all nodes up to the writer.
    """
    groups = _memory(graph)
    nodes = graph.nodes()
    last_use = {v: n for n, node in enumerate(nodes) for v in node.operands()}
    last_use.update({value: len(nodes) for value in graph.outputs.values()})
    made = {value: n for n, node in enumerate(nodes) for value in node.outputs}
    uses = Counter(value for node in nodes for value in node.operands())
    inputs = {entry.value for entry in graph.inputs}
    for position, writer, value in written:
        group = groups[value]
        before = [other for other in group if other is not value and made.get(other, -1) < position]
        stale = any(last_use.get(other, -1) > position for other in before)
        # An input is written to in place: no copy of it may stand between it and the writer.
        copied = bool(group & inputs) and (len(before) > 0 or uses[value] > 1)
        reason = f"{writer.id} writes to memory that %{value.name} shares"
        if stale or copied:
            _pin(nodes, writes, group, reason)
        elif value not in writes.versions and last_use.get(value, -1) > position:
            _pin(nodes[: position + 1], writes, {value}, reason)


def _pin(nodes: Sequence[Node], writes: Writes, values: AbstractSet[Value], reason: str) -> None:
    for node in nodes:
        if not values.isdisjoint((*node.operands(), *node.outputs)):
            writes.shared.setdefault(id(node), reason)


def _memory(graph: Graph) -> dict[Value, frozenset[Value]]:
    """The values that may share memory with each value."""
    parents: dict[Value, Value] = {}

    def root(value: Value) -> Value:
        while parents.get(value, value) is not value:
            value = parents[value]
        return value

    for node in graph.nodes():
        for output, source in _shares(node):
            parents[root(output)] = root(source)
    groups: dict[Value, set[Value]] = {}
    for value in graph.values.values():
        groups.setdefault(root(value), set()).add(value)
    return {value: frozenset(group) for group in groups.values() for value in group}


def _shares(node: Node) -> Iterator[tuple[Value, Value]]:
    """Yields outputs of a node with the operand whose memory they may share."""
    if node.declaration is not None:
        for place in node.declaration.mutates:
            output = _written_value(node, place)
            if output is not None:
                yield output, node.declaration.inputs[place]
    operands = node.operands()
    if operands and node.name in VIEWS:
        for output in node.outputs:
            yield output, operands[0]
