"""Propagation: what follows from cutting one value, as far as operators can take it.

A placement at one tensor of an operator gives those of all its other tensors
(`OperatorClass.spread`), and these are tensors of the neighbours. So a seed spreads through the
graph in both directions, until an operator refuses it, or turns it into a partial value. From the
rows of ``o_proj.weight`` follows the Megatron pattern of one attention layer:

    o_proj.weight S(1)  <- input S(2) <- reshape <- attention S(1) <- view <- q_proj.weight S(0)
                                                    attention S(1) <- view <- k_proj.weight S(0)
    o_proj's output P(sum)

It does not depend on the count; whether that divides the lengths is asked of `Requirements`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..placement import Placement, Shard
from .choices import Choice, OperatorClass, Refusal
from .network import Network, Operator


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where a propagation ends: an operator that cannot take a placement at one of its tensors."""

    operator: int
    tensor: int
    placement: Shard
    refusal: Refusal


@dataclass(eq=False, slots=True)
class Propagation:
    """``choices`` of operators and ``placed`` values, in the order in which they were reached."""

    choices: dict[int, Choice] = field(default_factory=dict)
    placed: dict[int, Placement] = field(default_factory=dict)
    boundaries: list[Boundary] = field(default_factory=list)


def propagate(
    network: Network,
    classes: Sequence[OperatorClass],
    seeds: Iterable[tuple[int, Shard]],
    taken: Sequence[bool],
    *,
    enter: Callable[[int], bool] = lambda edge: True,
    shallow: bool = False,
    past_pinned: bool = False,
) -> Propagation:
    """Returns what follows from placing values: seeds are (value, placement).

    classes: of every operator, as outer axes left it. taken: of every operator, whether it is
    decided already and stays as it is. enter: which inputs of the graph may be placed. shallow:
    only the operators that use the seeds are asked. past_pinned: what operators that must stay
    whole make is cut after them.
    """
    running = _Propagating(network, classes, taken, enter, past_pinned)
    return running.run(seeds, 1 if shallow else None)


class _Propagating:
    def __init__(
        self,
        network: Network,
        classes: Sequence[OperatorClass],
        taken: Sequence[bool],
        enter: Callable[[int], bool],
        past_pinned: bool,
    ) -> None:
        self.network = network
        self.classes = classes
        self.taken = taken
        self.enter = enter
        self.past_pinned = past_pinned
        self.passed: set[int] = set()
        self.found = Propagation()
        self.queue: deque[int] = deque()

    def run(self, seeds: Iterable[tuple[int, Shard]], steps: int | None) -> Propagation:
        for edge, shard in seeds:
            self.want(edge, shard)
        while self.queue and steps != 0:
            self.push(self.queue.popleft())
            steps = None if steps is None else steps - 1
        return self.found

    def want(self, edge: int, shard: Shard) -> None:
        """A value is wanted in this placement: its producer is asked to make it so."""
        if edge in self.found.placed:
            return
        producer = self.network.edges[edge].producer
        if producer is None:
            if self.network.edges[edge].kind and self.enter(edge):
                self.place(edge, shard)
            return
        number, output = producer
        self.ask(number, self.classes[number].inputs + output, shard)

    def place(self, edge: int, placement: Placement) -> None:
        if edge not in self.found.placed:
            self.found.placed[edge] = placement
            if isinstance(placement, Shard):
                self.queue.append(edge)

    def push(self, edge: int) -> None:
        """A value is placed: its users are asked to take it so."""
        placement = self.found.placed[edge]
        assert isinstance(placement, Shard)
        choices, taken = self.found.choices, self.taken
        for number, place in self.network.edges[edge].uses:
            if number not in choices and not taken[number]:
                self.ask(number, place, placement)

    def ask(self, number: int, tensor: int, shard: Shard) -> None:
        operator = self.network.operators[number]
        if self.taken[number] or number in self.found.choices:
            return
        answer = self.answer(operator, tensor, shard)
        if operator.pinned and self.past_pinned and number not in self.passed:
            self.pass_by(operator, tensor, shard)
        if isinstance(answer, Refusal):
            self.found.boundaries.append(Boundary(number, tensor, shard, answer))
            return
        self.found.choices[number] = answer
        for edge, placement in zip(operator.outputs, answer.outputs, strict=True):
            if edge is not None:
                self.place(edge, placement)
        for edge, placement in zip(operator.inputs, answer.inputs, strict=True):
            if edge is not None and isinstance(placement, Shard):
                self.want(edge, placement)

    def pass_by(self, operator: Operator, tensor: int, shard: Shard) -> None:
        """An operator that stays whole: what it makes is cut after it, as it would have been."""
        self.passed.add(operator.number)
        answer = self.classes[operator.number].spread(tensor, shard)
        if isinstance(answer, Choice):
            for edge, placement in zip(operator.outputs, answer.outputs, strict=True):
                if edge is not None:
                    self.place(edge, placement)

    def answer(self, operator: Operator, tensor: int, shard: Shard) -> Choice | Refusal:
        if operator.pinned:
            return Refusal(operator.pinned)
        return self.classes[operator.number].spread(tensor, shard)
