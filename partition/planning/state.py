"""What is decided along one axis so far, and what it costs at nominal sizes.

Every operator starts whole. Deciding one changes what it makes and what it needs; a value that is
made in one placement and needed in another is converted, once for all uses with the same need.

    o_proj decided: k       its output is P(sum), needed R by the residual sum: an all-reduce
    q_proj decided: n       its input is needed R by sharded work: an all-reduce of the gradient
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from dimsolve.solver.algebra.poly import Dim

from ..dtypes import item_bytes
from ..placement import Placement, Replicate, Shard
from ..reshard import relative_cost
from .choices import Choice, Need, R
from .kinds import Kind
from .network import Network, Wire

WHOLE_NEED: Need = (R, False)
NOMINAL_COUNT = 2


class AxisState:
    """Choices of all operators along one axis of ``count`` ranks."""

    def __init__(self, network: Network, axis: str, count: Dim, kinds: list[Kind]) -> None:
        self.network = network
        self.axis = axis
        self.count = count
        self.nominal = count if isinstance(count, int) else NOMINAL_COUNT
        self.kinds = kinds
        self.choices: list[Choice] = [kind.whole for kind in kinds]
        self.fixed: list[bool] = [False] * len(kinds)
        self.made: list[Placement] = [R] * len(network.wires)
        self.needs: list[dict[Need, int]] = [_initial(wire) for wire in network.wires]
        self._sizes: dict[tuple[Kind, int], float] = {}
        self._work: dict[Kind, float] = {}
        self.bytes = [self._size(wire) for wire in network.wires]
        self._costs: dict[int, tuple[float, int]] = {}

    def _size(self, wire: Wire) -> float:
        """Bytes of a value as outer axes left it, where its producer made it."""
        if wire.producer is None:
            return self.network.elements(wire.dims) * item_bytes(wire.dtype)
        operator, output = wire.producer
        kind = self.kinds[operator]
        if kind.tensors[kind.inputs + output] is None:
            return self.network.elements(wire.dims) * item_bytes(wire.dtype)
        elements = self._sizes.get((kind, output))
        if elements is None:
            dims = kind.dims(kind.inputs + output)
            elements = self._sizes[kind, output] = self.network.elements(dims)
        return elements * item_bytes(wire.dtype)

    def local_kinds(self) -> list[Kind]:
        """Returns the kinds of what one rank is left with."""
        return [k.local(c, self.count) for k, c in zip(self.kinds, self.choices, strict=True)]

    def decide(self, operator: int, choice: Choice, *, fixed: bool = True) -> None:
        """Makes a choice, in place of the one before."""
        self.accept(self.change({operator: choice}), fixed=fixed)

    def accept(self, change: Change, *, fixed: bool = True) -> None:
        """Makes the choices of a change that was asked for since the last choice was made."""
        for wire in change.touched:
            self._costs.pop(wire, None)
        for wire, counts in change.needs.items():
            self.needs[wire] = counts
        for wire, placement in change.made.items():
            self.made[wire] = placement
        for operator, choice in change.choices.items():
            self.choices[operator] = choice
            self.fixed[operator] = self.fixed[operator] or fixed

    def change(self, choices: Mapping[int, Choice]) -> Change:
        """Returns what other choices of some operators would change."""
        change = Change(self)
        for number, choice in choices.items():
            change.add(number, choice)
        return change

    def cost(self, wire: int, made: Placement, needs: Iterable[Need]) -> tuple[float, int]:
        """Returns the bytes that a rank sends for one value in one step, and in how many
        collectives.
        """
        entry = self.network.wires[wire]
        gradient = entry.gradient == "always"
        if entry.kind:
            made = stored(needs)
        sent, collectives = 0.0, 0
        for wanted, shared in needs:
            each = relative_cost(made, wanted, shared, gradient, self.nominal)
            sent, collectives = sent + each[0], collectives + each[1]
        return self.bytes[wire] * sent, collectives

    def cost_now(self, wire: int) -> tuple[float, int]:
        """Returns the cost of a value as things stand."""
        found = self._costs.get(wire)
        if found is None:
            found = self._costs[wire] = self.cost(wire, self.made[wire], self.needs[wire])
        return found

    def work(self, operator: int) -> float:
        """Returns the size of the index space of an operator at nominal sizes: of a matrix product
        m*k*n.
        """
        kind = self.kinds[operator]
        if kind not in self._work:
            self._work[kind] = prod(self.network.size(each) for each in kind.lengths.values())
        return self._work[kind]


def stored(needs: Iterable[Need]) -> Placement:
    """Returns how an input of the graph is held: cut, where all its uses want the same part.

    >>> print(stored([(Shard(0), False)]), stored([(Shard(0), False), (Replicate(), True)]))
    S(0) R
    """
    wanted = {placement for placement, _ in needs}
    if len(wanted) == 1:
        (only,) = wanted
        if isinstance(only, Shard):
            return only
    return R


def _gathered(made: Placement, needs: Iterable[Need]) -> bool:
    return isinstance(made, Shard) and any(isinstance(wanted, Replicate) for wanted, _ in needs)


def _initial(wire: Wire) -> dict[Need, int]:
    count = len(wire.uses) + wire.returned
    return {WHOLE_NEED: count} if count else {}


class Change:
    """The values that some choices would change. ``made`` and ``needs``: as they would be, the
    needs with how many uses have them.
    """

    def __init__(self, state: AxisState) -> None:
        self.state = state
        self.choices: dict[int, Choice] = {}
        self.made: dict[int, Placement] = {}
        self.needs: dict[int, dict[Need, int]] = {}
        self.touched: dict[int, None] = {}

    def add(self, number: int, choice: Choice) -> None:
        """Takes one more choice into account."""
        state = self.state
        operator = state.network.operators[number]
        before = self.choices.get(number, state.choices[number])
        self.choices[number] = choice
        for wire, old, new in zip(operator.inputs, before.needs, choice.needs, strict=True):
            if wire is not None:
                counts = self.needs.get(wire)
                if counts is None:
                    counts = self.needs[wire] = state.needs[wire].copy()
                    self.touched[wire] = None
                left = counts[old] - 1
                if left:
                    counts[old] = left
                else:
                    del counts[old]
                counts[new] = counts.get(new, 0) + 1
        for wire, placement in zip(operator.outputs, choice.outputs, strict=True):
            if wire is not None:
                self.made[wire] = placement
                self.touched[wire] = None

    def stored(self, wire: int) -> Placement:
        """Returns how an input of the graph would be held."""
        return stored(self.needs.get(wire, self.state.needs[wire]))

    def stored_before(self, wire: int) -> Placement:
        """Returns how an input of the graph is held without these choices."""
        return stored(self.state.needs[wire])

    def gathered(self, wire: int) -> bool:
        """Returns whether a value would be made in parts and needed whole."""
        needs = self.needs.get(wire, self.state.needs[wire])
        return _gathered(self.made.get(wire, self.state.made[wire]), needs)

    def gathered_before(self, wire: int) -> bool:
        """Returns whether it is, without these choices."""
        return _gathered(self.state.made[wire], self.state.needs[wire])

    def cost(self, wires: Iterable[int] | None = None) -> tuple[float, int]:
        """Returns how many more bytes a rank would send in one step, and in how many more
        collectives, for these values; for all that the change touches where none are given.
        """
        state = self.state
        sent, collectives = 0.0, 0
        for wire in self.touched if wires is None else wires:
            needs = self.needs.get(wire, state.needs[wire])
            made = self.made.get(wire, state.made[wire])
            new = state.cost(wire, made, needs)
            old = state.cost_now(wire)
            sent, collectives = sent + new[0] - old[0], collectives + new[1] - old[1]
        return sent, collectives
