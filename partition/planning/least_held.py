"""What a rank holds at least while a step runs, whatever else is decided: the rows of a search.

`dimsolve.partition.memory` walks through the step of a plan. For each choice of each
operator this is a lower bound on what that walk finds, a sum that counts no memory twice: no plan
that fits is left out, and *nothing fits* is a theorem. What depends on two choices together, such
as what a value is converted to while its operator runs, is left out.

    linear(x, w)   made     linear      from the operator on, until its last use
                   given    x           as it is used here, until the backward pass of the operator
                   back                 gradients of linear, x and w, while that runs

Views share memory, and so may what is converted: of all names of one memory one counts at a time.
Times are the operators as they run, forward, and backward the last one first; regions run again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dimsolve.ir.types import TensorType

from ..aliasing import VIEWS
from ..checkpoints import Extent
from ..memory import ATTENTION, EXACT, IN_ORDER, MOVES, STRIDED, TIMES, picks
from ..saved import Saved, saved_by
from .network import Edge, Network, Operator

What: TypeAlias = Literal["made", "kept", "whole", "fused", "given", "extra", "gradients"]
"""Of an operator's choice: an output as it is made, or as it is where what sums it up is done
before a region, or whole, as it is returned, or as a fused attention keeps it; an input as it is
used; what nobody else sees; the gradients of its backward pass, and what that makes.
"""


@dataclass(frozen=True, slots=True)
class Hold:
    """Something that one operator's choice says the size of, from a time to before another."""

    operator: int
    what: What
    place: int
    start: int
    stop: int


@dataclass(slots=True)
class Times:
    """When operators run: forward and, in regions, again; and backward. ``end``: after all."""

    runs: list[list[int]]
    back: list[int]
    turn: int = 0
    end: int = 0

    @classmethod
    def of(cls, count: int, extents: Sequence[Extent]) -> Times:
        """Returns the times of so many operators."""
        found = cls([[] for _ in range(count)], [0] * count)
        found._forward(0, count)
        found.turn = found._next()
        found._backward(0, count, None, extents)
        return found

    def _next(self) -> int:
        self.end += 1
        return self.end - 1

    def _forward(self, start: int, stop: int) -> None:
        for number in range(start, stop):
            self.runs[number].append(self._next())

    def _backward(
        self, start: int, stop: int, within: int | None, extents: Sequence[Extent]
    ) -> None:
        again = {
            extent.stop: (number, extent)
            for number, extent in enumerate(extents)
            if extent.within == within and start <= extent.start < stop
        }
        number = stop
        while number > start:
            if number in again:
                region, extent = again[number]
                self._forward(extent.start, extent.stop)
                self._backward(extent.start, extent.stop, region, extents)
                number = extent.start
            else:
                number -= 1
                self.back[number] = self._next()


@dataclass(slots=True)
class _Memory:
    """All names of one memory. given: it is the caller's or the model's, and counts elsewhere.
    until: the time before which all of it counts as one; after it its parts do.
    """

    given: bool = False
    start: int = 0
    parts_at: int | None = None
    found: list[tuple[int, Hold]] = field(default_factory=list)


class LeastHeld:
    """Finds the holds of a graph's operators. sizes: bytes of every value as a whole."""

    def __init__(self, network: Network, extents: Sequence[Extent], sizes: Sequence[int]) -> None:
        self.network, self.extents, self.sizes = network, extents, sizes
        self.times = Times.of(len(network.operators), extents)
        self.reached = _reached(network)
        self.last = [self._last(edge) for edge in network.edges]
        self.within: list[list[Extent]] = [[] for _ in network.operators]
        for extent in extents:  # the outer ones first
            for number in range(extent.start, extent.stop):
                self.within[number].append(extent)
        self.memory: list[_Memory] = []
        self.inflated: set[int] = set()

    def holds(self) -> list[Hold]:
        """Returns all of them."""
        for edge in self.network.edges:
            self.memory.append(self._memory(edge))
        found: list[Hold] = []
        for edge in self.network.edges:
            if edge.producer is not None and edge.number not in self.inflated:
                self._made(edge, *edge.producer)
        for operator in self.network.operators:
            self._saved(operator)
            found += self._alone(operator)
        seen: set[int] = set()
        for memory in self.memory:
            if id(memory) not in seen and not memory.given:
                seen.add(id(memory))
                found += _apart(memory)
        return found

    @property
    def brought(self) -> int | None:
        """The value that is brought to the caller after all others, when all operators have run:
        what holds meanwhile holds beside all that is there at the turn. None where it has no memory
        of its own, or is counted otherwise.
        """
        results = [v for v in self.network.graph.outputs.values() if isinstance(v.type, TensorType)]
        if not results:
            return None
        *before, last = [self.network.number_of(value, None) for value in results]
        edge = self.network.edges[last]
        skipped = any(self.network.operators[n].skipped for n, _ in edge.uses)
        if skipped or last in (*before, *self.inflated) or self.memory[last].given:
            return None
        return last

    def runs_backward(self, operator: Operator) -> bool:
        """Whether an operator has a backward pass in the step."""
        return any(out in self.reached for out in operator.outputs if out is not None)

    def _last(self, edge: Edge) -> int:
        last = max([number for number, _ in edge.uses], default=-1)
        if edge.producer is not None:
            last = max(last, edge.producer[0])
        return len(self.network.operators) if edge.returned else last

    # memory --------------------------------------------------------------------------------------

    def _memory(self, edge: Edge) -> _Memory:
        """The memory that a value has, of its own or that of what it may be a view of."""
        if edge.producer is None:
            return _Memory(given=True)
        operator = self.network.operators[edge.producer[0]]
        start = self.times.runs[operator.number][0]
        source = self._viewed(operator, edge)
        if source is None:
            return _Memory(start=start)
        before = self.memory[source]
        if self.sizes[edge.number] > self.sizes[source] or source in self.inflated:
            self.inflated.add(edge.number)
        if before.given or sum(out is not None for out in operator.outputs) == 1:
            return before
        # Parts of one memory are apart; from here on they count, and the whole does not.
        before.parts_at = min(before.parts_at or start, start)
        return _Memory(start=start + 1)

    def _viewed(self, operator: Operator, edge: Edge) -> int | None:
        """What an output may be a view of; None where it surely has memory of its own."""
        name = operator.node.name
        edges = self.network.edges
        given = [edges[e] for e in operator.inputs if e is not None and edges[e].dims is not None]
        if operator.skipped or name not in VIEWS or not given:
            return None
        source = given[0]
        if source.dtype != edge.dtype or picks(name, _tensors(operator)):
            return None
        if self._copied(operator, source):
            return None
        return source.number

    def _copied(self, operator: Operator, source: Edge) -> bool:
        """Whether a function copies because its input, which only it uses, is a strided view."""
        if operator.node.name not in IN_ORDER or source.producer is None or source.returned:
            return False
        before = self.network.operators[source.producer[0]]
        if before.node.name not in STRIDED or len(source.uses) != 1:
            return False
        return self._viewed(before, source) is not None

    # what is held --------------------------------------------------------------------------------

    def _made(self, edge: Edge, number: int, output: int) -> None:
        """A value from its operator to its last use, in every run; and what regions keep of it."""
        runs, last, memory = self.times.runs, self.last[edge.number], self.memory[edge.number]
        if edge.returned:
            hold = Hold(number, "whole", output, self.times.turn, self.times.end + 1)
            self._note(memory, edge, hold)
        for turn, start in enumerate(runs[number]):
            stop = self.times.end + 1
            if last < len(runs):
                inside = last
                if turn:
                    inside = min(last, self.within[number][turn - 1].stop - 1)
                stop = runs[inside][turn if turn < len(runs[inside]) else 0] + 1
            elif turn:
                continue
            self._note(memory, edge, Hold(number, "made", output, start, stop))
        users = [self.network.operators[n] for n, _ in edge.uses]
        if len(users) == 1 and self._copied(users[0], edge):
            return
        for user in users:
            for depth, extent in enumerate(self.within[user.number]):
                if number < extent.start and not user.skipped:
                    start = max(runs[extent.start][depth], runs[number][0])
                    hold = Hold(number, "kept", output, start, self.times.back[extent.start] + 1)
                    self._note(memory, edge, hold)

    def _saved(self, operator: Operator) -> None:
        """What an operator keeps for its backward pass."""
        edges = self.network.edges
        if not self._keeps(operator):
            return
        number, kind = operator.number, saved_by(operator.node.name)
        start, stop = self.times.runs[number][-1], self.times.back[number] + 1
        given = [(place, edges[e]) for place, e in enumerate(operator.inputs) if e is not None]
        count = _tensors(operator)
        for place, edge in given:
            others = [e for p, e in given if p != place]
            keeps = kind in (Saved.INPUTS, Saved.ALL) or (edge.dtype or "").startswith(EXACT)
            if kind is Saved.OTHERS:
                alone = count == 1 and operator.node.name not in TIMES
                keeps |= alone or any(e.gradient == "always" for e in others)
            if keeps and edge.number not in self.inflated:
                hold = Hold(number, "given", place, start, stop)
                self._note(self.memory[edge.number], edge, hold)
        for output, out in enumerate(operator.outputs):
            if out is None or out in self.inflated:
                continue
            if kind in (Saved.OUTPUTS, Saved.ALL):
                # An attention that is not fused keeps copies of what it is given, and no result.
                what: What = "fused" if operator.node.name == ATTENTION else "made"
                if what == "fused" and operator.declaration.random:
                    continue
                hold = Hold(number, what, output, start, stop)
                self._note(self.memory[out], edges[out], hold)

    def _alone(self, operator: Operator) -> Iterator[Hold]:
        """What no other operator has to do with."""
        number, times = operator.number, self.times
        if operator.skipped:
            return
        if self._keeps(operator):
            yield Hold(number, "extra", 0, times.runs[number][-1], times.back[number] + 1)
        if not self.runs_backward(operator):
            return
        yield Hold(number, "gradients", 0, times.back[number], times.back[number] + 1)
        for output, out in enumerate(operator.outputs):
            if out is None or out not in self.reached or not self.summed(out):
                continue
            users = [self.network.operators[n] for n, _ in self.network.edges[out].uses]
            behind = [times.back[u.number] for u in users if self.runs_backward(u)]
            if behind:
                yield Hold(number, "made", output, max(behind) + 1, times.back[number])

    def _keeps(self, operator: Operator) -> bool:
        outputs = [self.network.edges[out] for out in operator.outputs if out is not None]
        return not operator.skipped and any(out.gradient == "always" for out in outputs)

    def summed(self, edge: int) -> bool:
        """Whether a value surely has a gradient of its own, not that of another value."""
        found = self.network.edges[edge]
        if found.returned and found.dims == ():
            return True
        return any(
            self.runs_backward(self.network.operators[n])
            and (place == 0 or self.network.operators[n].node.name not in MOVES)
            for n, place in found.uses
        )

    def _note(self, memory: _Memory, edge: Edge, hold: Hold) -> None:
        if hold.start < hold.stop and self.sizes[edge.number]:
            memory.found.append((self.sizes[edge.number], hold))


def _apart(memory: _Memory) -> Iterator[Hold]:
    """Holds of one memory of which no two are at one time: the largest first."""
    taken: list[tuple[int, int]] = []
    stop = None if memory.parts_at is None else memory.parts_at + 1
    order = sorted(
        memory.found,
        key=lambda each: (-each[0], each[1].what != "whole", each[1].start - each[1].stop),
    )
    for _, hold in order:
        free = [
            (max(hold.start, memory.start), hold.stop if stop is None else min(hold.stop, stop))
        ]
        for a, b in taken:
            free = [
                part
                for x, y in free
                for part in ((x, min(y, a)), (max(x, b), y))
                if part[0] < part[1]
            ]
        for x, y in free:
            if x < y:
                taken.append((x, y))
                yield Hold(hold.operator, hold.what, hold.place, x, y)


def _tensors(operator: Operator) -> int:
    """The number of an operator's operands whose shapes are known."""
    given = [v for v in operator.node.operands() if isinstance(v.type, TensorType)]
    return sum(value.dims is not None for value in given)


def _reached(network: Network) -> set[int]:
    """The values that have a gradient in the step."""
    results = [e for e in network.edges if e.returned and e.gradient == "always"]
    losses = [e for e in results if e.dims == ()]
    reached = {e.number for e in losses or results}
    for operator in reversed(network.operators):
        if any(out in reached for out in operator.outputs if out is not None):
            for number in operator.inputs:
                if number is not None and network.edges[number].gradient == "always":
                    reached.add(number)
    return reached
