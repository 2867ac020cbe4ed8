"""What is decided along one axis so far, and what it costs at nominal sizes.

Every operator starts whole. Deciding one changes what it makes and what it needs; a value that is
made in one placement and needed in another is converted, once for all uses with the same need.

    o_proj decided: k       its output is P(sum), needed R by the residual sum: an all-reduce
    q_proj decided: n       its input is needed R by sharded work: an all-reduce of the gradient

Whether a count may be used: the duties of choices, decided.

Duty h = 32, count 8       legal
Duty g = 8, count 16       never
Duty b = batch, count 2    only if batch % 2 == 0
Duty g = 8, count n        only if 8 % n == 0

Flooding: what follows from cutting one value, as far as operators can take it.

A placement at one tensor of an operator gives those of all its other tensors (`Kind.spread`), and
these are tensors of the neighbours. So a seed spreads through the graph in both directions, until
an operator cannot take it (what is refused is kept with the reason), or turns it into a partial
value. The flood of the rows of ``o_proj.weight`` is the Megatron pattern of one attention layer:

    o_proj.weight S(1)  <- input S(2) <- reshape <- attention S(1) <- view <- q_proj.weight S(0)
                                                    attention S(1) <- view <- k_proj.weight S(0)
    o_proj's output P(sum)

A flood does not depend on the count: whether it divides the lengths is asked of `Flood.duties`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd, prod

from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.proof.divisibility import fixed_divisor
from dimsolve.solver.proof.facts import Facts
from dimsolve.solver.proof.prove import decide_divides
from dimsolve.solver.proof.verdict import Always, Decision, Never, Sometimes, Undecided

from ..placement import Placement, Replicate, Shard
from ..reshard import item_bytes, relative_cost
from .choices import Choice, Duty, Kind, Need, R, Refusal
from .network import Network, Operator, Wire


@dataclass(slots=True)
class Duties:
    """Decides duties for one count, each once. ``conditions``: what was relied on, with reasons."""

    count: Dim
    facts: Facts
    conditions: dict[str, str] = field(default_factory=dict)
    _decided: dict[tuple[Dim, Dim], Decision] = field(default_factory=dict)

    def decide(self, duty: Duty) -> Decision:
        """Returns whether the count, times the duty's divisor, divides its length."""
        key = (duty.length, duty.divisor)
        if key not in self._decided:
            divisor = self.count * duty.divisor
            self._decided[key] = decide_divides(divisor, duty.length, self.facts)
        return self._decided[key]

    def conditions_of(self, choice: Choice) -> tuple[str, ...] | None:
        """Returns the conditions under which a choice is legal, None where it is not, or where
        nobody can tell.
        """
        found: list[str] = []
        for duty in choice.duties:
            match self.decide(duty):
                case Always():
                    continue
                case Sometimes(_, _, conditions) if conditions:
                    found.extend(conditions)
                case _:
                    return None
        return tuple(found)

    def implied(self, choice: Choice) -> bool:
        """Whether a choice is legal for all values, or under conditions that hold anyway."""
        conditions = self.conditions_of(choice)
        return conditions is not None and all(each in self.conditions for each in conditions)

    def rely(self, choice: Choice, reason: str) -> None:
        """Takes the conditions of a choice into the plan's."""
        for condition in self.conditions_of(choice) or ():
            self.conditions.setdefault(condition, reason)

    def is_undecided(self, duty: Duty) -> bool:
        """Whether nobody can tell when a duty is met."""
        match self.decide(duty):
            case Undecided():
                return True
            case Sometimes(_, _, conditions):
                return not conditions
            case _:
                return False

    def first_illegal(self, choice: Choice) -> Duty | None:
        """Returns the first duty that is never met, else the first of which nobody can tell."""
        never = (duty for duty in choice.duties if isinstance(self.decide(duty), Never))
        unknown = (duty for duty in choice.duties if self.is_undecided(duty))
        return next(never, None) or next(unknown, None)


def common_length(duties: Iterable[Duty], facts: Facts) -> int:
    """Returns the greatest count that meets all duties for all values; 0 where every count does."""
    common = 0
    for duty in duties:
        divisor = duty.divisor if isinstance(duty.divisor, int) else 1
        fixed = fixed_divisor(duty.length, facts)
        common = gcd(common, fixed // divisor if fixed % divisor == 0 else 1)
        if common == 1:
            break
    return common


@dataclass(frozen=True, slots=True)
class Edge:
    """Where a flood ends: an operator that cannot take a placement at one of its tensors."""

    operator: int
    tensor: int
    placement: Shard
    refusal: Refusal


@dataclass(eq=False, slots=True)
class Flood:
    """``choices`` of operators and ``placed`` values, in the order in which they were reached."""

    choices: dict[int, Choice] = field(default_factory=dict)
    placed: dict[int, Placement] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)


def flood(
    network: Network,
    kinds: Sequence[Kind],
    seeds: Iterable[tuple[int, Shard]],
    taken: Sequence[bool],
    *,
    enter: Callable[[int], bool] = lambda wire: True,
    shallow: bool = False,
    past_pinned: bool = False,
) -> Flood:
    """Returns what follows from placing values: seeds are (value, placement).

    kinds: of every operator, as outer axes left it. taken: of every operator, whether it is decided
    already and stays as it is. enter: which inputs of the graph may be placed. shallow: only the
    operators that use the seeds are asked. past_pinned: what operators that must stay whole make is
    cut after them.
    """
    flooding = _Flooding(network, kinds, taken, enter, past_pinned)
    return flooding.run(seeds, 1 if shallow else None)


class _Flooding:
    def __init__(
        self,
        network: Network,
        kinds: Sequence[Kind],
        taken: Sequence[bool],
        enter: Callable[[int], bool],
        past_pinned: bool,
    ) -> None:
        self.network = network
        self.kinds = kinds
        self.taken = taken
        self.enter = enter
        self.past_pinned = past_pinned
        self.passed: set[int] = set()
        self.found = Flood()
        self.queue: deque[int] = deque()

    def run(self, seeds: Iterable[tuple[int, Shard]], steps: int | None) -> Flood:
        for wire, shard in seeds:
            self.want(wire, shard)
        while self.queue and steps != 0:
            self.push(self.queue.popleft())
            steps = None if steps is None else steps - 1
        return self.found

    def want(self, wire: int, shard: Shard) -> None:
        """A value is wanted in this placement: its producer is asked to make it so."""
        if wire in self.found.placed:
            return
        producer = self.network.wires[wire].producer
        if producer is None:
            if self.network.wires[wire].kind and self.enter(wire):
                self.place(wire, shard)
            return
        number, output = producer
        self.ask(number, self.kinds[number].inputs + output, shard)

    def place(self, wire: int, placement: Placement) -> None:
        if wire not in self.found.placed:
            self.found.placed[wire] = placement
            if isinstance(placement, Shard):
                self.queue.append(wire)

    def push(self, wire: int) -> None:
        """A value is placed: its users are asked to take it so."""
        placement = self.found.placed[wire]
        assert isinstance(placement, Shard)
        choices, taken = self.found.choices, self.taken
        for number, place in self.network.wires[wire].uses:
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
            self.found.edges.append(Edge(number, tensor, shard, answer))
            return
        self.found.choices[number] = answer
        for wire, placement in zip(operator.outputs, answer.outputs, strict=True):
            if wire is not None:
                self.place(wire, placement)
        for wire, placement in zip(operator.inputs, answer.inputs, strict=True):
            if wire is not None and isinstance(placement, Shard):
                self.want(wire, placement)

    def pass_by(self, operator: Operator, tensor: int, shard: Shard) -> None:
        """An operator that stays whole: what it makes is cut after it, as it would have been."""
        self.passed.add(operator.number)
        answer = self.kinds[operator.number].spread(tensor, shard)
        if isinstance(answer, Choice):
            for wire, placement in zip(operator.outputs, answer.outputs, strict=True):
                if wire is not None:
                    self.place(wire, placement)

    def answer(self, operator: Operator, tensor: int, shard: Shard) -> Choice | Refusal:
        if operator.pinned:
            return Refusal(operator.pinned)
        return self.kinds[operator.number].spread(tensor, shard)


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
