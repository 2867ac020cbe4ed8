"""What is decided along one axis so far, and what it costs at nominal sizes.

Every operator starts whole. Deciding one changes what it makes and what it needs; a value that is
made in one placement and needed in another is converted, once for all uses with the same need.

    o_proj decided: k       its output is P(sum), needed R by the residual sum: an all-reduce
    q_proj decided: n       its input is needed R by sharded work: an all-reduce of the gradient
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from math import prod

from dimsolve.solver.algebra.poly import Dim

from ..placement import Placement, Replicate, Shard
from ..reshard import item_bytes, relative_cost
from .choices import Choice, Need, OperatorClass, R
from .network import Edge, Network

WHOLE_NEED: Need = (R, False)

NOMINAL_COUNT = 2


class AxisState:
    """Choices of all operators along one axis of ``count`` ranks."""

    def __init__(
        self, network: Network, axis: str, count: Dim, classes: list[OperatorClass]
    ) -> None:
        self.network = network
        self.axis = axis
        self.count = count
        self.nominal = count if isinstance(count, int) else NOMINAL_COUNT
        self.classes = classes
        self.choices: list[Choice] = [op_class.whole for op_class in classes]
        self.fixed: list[bool] = [False] * len(classes)
        self.made: list[Placement] = [R] * len(network.edges)
        self.needs: list[dict[Need, int]] = [_initial(edge) for edge in network.edges]
        self._sizes: dict[tuple[OperatorClass, int], float] = {}
        self._work: dict[OperatorClass, float] = {}
        self.bytes = [self._size(edge) for edge in network.edges]
        self._costs: dict[int, tuple[float, int]] = {}

    def _size(self, edge: Edge) -> float:
        """Bytes of a value as outer axes left it, where its producer made it."""
        if edge.producer is None:
            return self.network.elements(edge.dims) * item_bytes(edge.dtype)
        operator, output = edge.producer
        op_class = self.classes[operator]
        if op_class.tensors[op_class.inputs + output] is None:
            return self.network.elements(edge.dims) * item_bytes(edge.dtype)
        elements = self._sizes.get((op_class, output))
        if elements is None:
            dims = op_class.dims(op_class.inputs + output)
            elements = self._sizes[op_class, output] = self.network.elements(dims)
        return elements * item_bytes(edge.dtype)

    def local_classes(self) -> list[OperatorClass]:
        """Returns the classes of what one rank is left with."""
        pairs = zip(self.classes, self.choices, strict=True)
        return [k.local(choice, self.count, self.axis) for k, choice in pairs]

    def copy(self) -> AxisState:
        """Returns a state in which other choices can be tried."""
        other = copy(self)
        other.choices, other.fixed = self.choices.copy(), self.fixed.copy()
        other.made, other.needs = self.made.copy(), self.needs.copy()
        other._costs = self._costs.copy()
        return other

    def decide(self, operator: int, choice: Choice, *, fixed: bool = True) -> None:
        """Makes a choice, in place of the one before."""
        self.accept(self.change({operator: choice}), fixed=fixed)

    def accept(self, change: Change, *, fixed: bool = True) -> None:
        """Makes the choices of a change that was asked for since the last choice was made."""
        for edge in change.touched:
            self._costs.pop(edge, None)
        for edge, counts in change.needs.items():
            self.needs[edge] = counts
        for edge, placement in change.made.items():
            self.made[edge] = placement
        for operator, choice in change.choices.items():
            self.choices[operator] = choice
            self.fixed[operator] = self.fixed[operator] or fixed

    def change(self, choices: Mapping[int, Choice]) -> Change:
        """Returns what other choices of some operators would change."""
        change = Change(self)
        for number, choice in choices.items():
            change.add(number, choice)
        return change

    def cost(self, edge: int, made: Placement, needs: Iterable[Need]) -> tuple[float, int]:
        """Returns the bytes that a rank sends for one value in one step, and in how many
        collectives.
        """
        entry = self.network.edges[edge]
        gradient = entry.gradient == "always"
        if entry.kind:
            made = stored(needs)
        sent, collectives = 0.0, 0
        for wanted, shared in needs:
            each = relative_cost(made, wanted, shared, gradient, self.nominal)
            sent, collectives = sent + each[0], collectives + each[1]
        return self.bytes[edge] * sent, collectives

    def cost_now(self, edge: int) -> tuple[float, int]:
        """Returns the cost of a value as things stand."""
        found = self._costs.get(edge)
        if found is None:
            found = self._costs[edge] = self.cost(edge, self.made[edge], self.needs[edge])
        return found

    def work(self, operator: int) -> float:
        """Returns the size of the index space of an operator at nominal sizes: of a matrix product
        m*k*n.
        """
        op_class = self.classes[operator]
        if op_class not in self._work:
            self._work[op_class] = prod(
                self.network.size(each) for each in op_class.lengths.values()
            )
        return self._work[op_class]


def stored(needs: Iterable[Need]) -> Placement:
    """Returns how an input of the graph is stored: cut, where all its uses want the same part.

    >>> print(stored([(Shard(0), False)]), stored([(Shard(0), False), (Replicate(), True)]))
    S(0) R
    """
    wanted = {placement for placement, _ in needs}
    if len(wanted) == 1:
        (only,) = wanted
        if isinstance(only, Shard):
            return only
    return R


def data_axes(states: Iterable[AxisState]) -> list[str]:
    """Returns the axes along which some input of the caller is cut, and no parameter is used in
    parts.
    """
    found = []
    for state in states:
        cut = {"input": False, "parameter": False}
        for edge in state.network.edges:
            if edge.kind in cut and any(isinstance(p, Shard) for p, _ in state.needs[edge.number]):
                cut[edge.kind] = True
        if cut["input"] and not cut["parameter"]:
            found.append(state.axis)
    return found


def _gathered(made: Placement, needs: Iterable[Need]) -> bool:
    return isinstance(made, Shard) and any(isinstance(wanted, Replicate) for wanted, _ in needs)


def _initial(edge: Edge) -> dict[Need, int]:
    count = len(edge.uses) + edge.returned
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
        for edge, old, new in zip(operator.inputs, before.needs, choice.needs, strict=True):
            if edge is not None:
                counts = self.needs.get(edge)
                if counts is None:
                    counts = self.needs[edge] = state.needs[edge].copy()
                    self.touched[edge] = None
                left = counts[old] - 1
                if left:
                    counts[old] = left
                else:
                    del counts[old]
                counts[new] = counts.get(new, 0) + 1
        for edge, placement in zip(operator.outputs, choice.outputs, strict=True):
            if edge is not None:
                self.made[edge] = placement
                self.touched[edge] = None

    def stored(self, edge: int) -> Placement:
        """Returns how an input of the graph would be stored."""
        return stored(self.needs.get(edge, self.state.needs[edge]))

    def stored_before(self, edge: int) -> Placement:
        """Returns how an input of the graph is stored without these choices."""
        return stored(self.state.needs[edge])

    def gathered(self, edge: int) -> bool:
        """Returns whether a value would be made in parts and needed whole."""
        needs = self.needs.get(edge, self.state.needs[edge])
        return _gathered(self.made.get(edge, self.state.made[edge]), needs)

    def gathered_before(self, edge: int) -> bool:
        """Returns whether it is, without these choices."""
        return _gathered(self.state.made[edge], self.state.needs[edge])

    def cost(self, edges: Iterable[int] | None = None) -> tuple[float, int]:
        """Returns how many more bytes a rank would send in one step, and in how many more
        collectives, for these values; for all that the change touches where none are given.
        """
        state = self.state
        sent, collectives = 0.0, 0
        for edge in self.touched if edges is None else edges:
            needs = self.needs.get(edge, state.needs[edge])
            made = self.made.get(edge, state.made[edge])
            new = state.cost(edge, made, needs)
            old = state.cost_now(edge)
            sent, collectives = sent + new[0] - old[0], collectives + new[1] - old[1]
        return sent, collectives
