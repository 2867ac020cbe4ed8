"""Operators that write to their inputs, put into a form in which every value is written once.

    y = add_(x, 1)      later uses of x are uses of y
    setitem(x, 0, 1)    later uses of x are uses of what setitem was given

A view shares its memory with what it was taken from. Where one of the two is written to and the
other one used later, what is read depends on the memory being shared, and a rank that works on a
copy would read something else. All operators on such memory stay whole: then nothing is copied. So
it is with what is written to where gradients are switched off, which keeps the gradient that it
had. A tensor that the caller gave may be cut: in the end what was written is copied back into it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from dimsolve.ir.graph import (
    Graph,
    Node,
    Value,
)

from ..aliasing import aliases_of, written_by, written_value
from ..regions import recorded_after


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
        self.groups = aliases_of(graph)
        self.last_use = {v: n for n, node in enumerate(self.nodes) for v in node.operands()}
        self.last_use.update({value: len(self.nodes) for value in graph.outputs.values()})
        self.made = {value: n for n, node in enumerate(self.nodes) for value in node.outputs}
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
        used = sum(node.operands().count(value) for node in self.nodes[: position + 1])
        return bool(kinds - {"buffer", "input"}) or (bool(kinds) and bool(before or used > 1))

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


def differentiable(dtype: str | None) -> bool:
    """Whether a tensor of this dtype can have a gradient; one that is not known might.

    >>> differentiable("int64"), differentiable("bfloat16"), differentiable(None)
    (False, True, True)
    """
    return dtype is None or dtype.startswith(("float", "bfloat", "complex"))
