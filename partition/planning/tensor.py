"""The policy ``"tensor"``: parameters are cut where the least is communicated for it.

What propagates from a dimension of a parameter is a group: it says which operators work on parts,
which parameters are stored in parts, and what is communicated at its ends. Groups are taken by the
least communication for a byte of parameters that a rank need not store, as long as they help, and
none is taken that contradicts one before. Nothing else is known: no names, no architectures.

    a Llama layer     heads       q, k, v, o             1 all-reduce forward, 1 backward
                      d_ff        gate, up, down         1 all-reduce forward, 1 backward
                      d_model     everything else        many: not taken
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from math import gcd

from ..placement import Shard
from ..plan_data import PlanError
from .axis_state import AxisState, Change
from .choices import Choice, Refusal, Requirement
from .illegal import group_error, too_fine
from .network import Edge
from .propagation import Propagation, propagate
from .requirements import Requirements, common_length, share_text

BYTES_PER_BYTE = 16
"""A group helps where a rank sends at most so many bytes for a byte that it need not hold, ..."""

OPERATIONS_PER_BYTE = 4
"""... or where it saves at least so many operations for a byte that it sends; ..."""

MOST_WASTE = 1.5
"""What is cut into unequal parts, the longest at most so many times an equal share, comes before
what is cut equally and gathered again."""

COLLECTIVES_PER_USE = 3
"""... and where it adds at most so many collectives for each use of a matrix that it cuts."""


class SeenAsTwo(Exception):
    """An axis is to be seen as two: the first cuts ``units``, of which each is held by all ranks
    of the second, which may cut what has more of them. 2 key-value heads over 4 ranks, with 8 query
    heads: the first axis, of 2, cuts both; the second, of 2, the query heads that share one.
    """

    def __init__(self, axis: str, units: int) -> None:
        super().__init__(axis, units)
        self.axis = axis
        self.units = units


@dataclass(eq=False, slots=True)
class Group:
    """The propagation of some seeds, and what it is worth."""

    number: int
    seeds: list[tuple[int, Shard]]
    propagation: Propagation
    shallow: bool = False
    change: Change | None = None
    sent: float = 0.0
    collectives: int = 0
    uses: int = 0
    saved: float = 0.0
    work: float = 0.0

    @property
    def ratio(self) -> float:
        """Bytes sent for a byte saved."""
        return self.sent / self.saved

    @property
    def helps(self) -> bool:
        """Whether it is worth taking."""
        if self.saved <= 0 or self.collectives > COLLECTIVES_PER_USE * self.uses:
            return False
        cheap = self.sent <= BYTES_PER_BYTE * self.saved
        return cheap or OPERATIONS_PER_BYTE * self.sent <= self.work

    @property
    def requirements(self) -> list[Requirement]:
        """What must hold for all its operators."""
        choices = self.propagation.choices.values()
        return [each for choice in choices for each in choice.requirements]


def tensor(state: AxisState, requirements: Requirements) -> list[str]:
    """Decides the operators of all groups that help; returns notes on what was left whole. Raises
    `SeenAsTwo` where the axis has to be seen as two.
    """
    policy = TensorPolicy(state, requirements)
    policy.run()
    return policy.notes


@dataclass(slots=True)
class TensorPolicy:
    """Takes groups along one axis. ``notes``: what was left whole, and why."""

    state: AxisState
    requirements: Requirements
    notes: list[str] = field(default_factory=list)
    taken: list[Group] = field(default_factory=list)
    blocked: list[Group] = field(default_factory=list)
    _heap: list[tuple[float, int, Group]] = field(default_factory=list)
    _number: int = 0

    def run(self) -> None:
        """Decides the operators of all groups that help: as far as they propagate first, then, for
        parameters that are still whole, also what cuts only the operators that use them.
        """
        network = self.state.network
        for shallow in (False, True):
            if shallow:
                self._deal(MOST_WASTE)
            seeds = [
                (edge.number, Shard(dim))
                for edge in network.parameters
                if not self._cut(edge.number) and not (shallow and self._is_held(edge))
                for dim in range(len(edge.dims or ()))
            ]
            self._offer(seeds, shallow)
            while self._heap:
                _, _, group = heapq.heappop(self._heap)
                self._consider(group, again=shallow)
        self._deal(float("inf"))
        self._settle()

    def _is_held(self, edge: Edge) -> bool:
        """Whether a parameter is cut by the first of the axes that the given one is seen as, and
        held by all ranks of this one: gathering what each computes would cost more.
        """
        if not self.requirements.holds:
            return False
        uses = [(self.state.classes[number], place) for number, place in edge.uses]
        return any(op_class.dims(place) not in (None, edge.dims) for op_class, place in uses)

    def _cut(self, edge: int) -> bool:
        return isinstance(self.state.change({}).stored(edge), Shard)

    def _offer(self, seeds: list[tuple[int, Shard]], shallow: bool) -> None:
        """Propagates from seeds that no earlier propagation has reached, and queues what helps."""
        reached: set[tuple[int, Shard]] = set()
        for seed in seeds:
            if seed not in reached:
                group = self._group(seed, False)
                reached.update(group.seeds)
                self._queue(group)
            if shallow:
                self._queue(self._group(seed, True))

    def _group(self, seed: tuple[int, Shard], shallow: bool) -> Group:
        state = self.state
        found = propagate(state.network, state.classes, [seed], state.fixed, shallow=shallow)
        placed = [(w, p) for w, p in found.placed.items() if isinstance(p, Shard)]
        own = [pair for pair in placed if state.network.edges[pair[0]].parameter]
        self._number += 1
        return Group(self._number, own, found, shallow)

    def _queue(self, group: Group) -> None:
        if not group.propagation.choices:
            return
        self._weigh(group)
        group.change = None
        if group.helps:
            heapq.heappush(self._heap, (group.ratio, group.number, group))

    def _weigh(self, group: Group) -> None:
        state = self.state
        change = group.change = state.change(group.propagation.choices)
        sent, group.collectives = change.cost()
        group.sent = max(sent, 0.0)
        group.saved, group.uses = saved(change)
        part = 1 - 1 / state.nominal
        group.work = part * sum(
            state.work(number)
            for number, choice in group.propagation.choices.items()
            if choice.name
        )

    def _consider(self, group: Group, again: bool) -> None:
        """Takes a group that still helps; one that another has cut into is propagated again."""
        if any(self.state.fixed[number] for number in group.propagation.choices):
            if again and not group.shallow:
                self._offer(group.seeds, False)
            return
        before = group.ratio
        self._weigh(group)
        if not group.helps:
            return
        if group.ratio > before:
            heapq.heappush(self._heap, (group.ratio, group.number, group))
            return
        if self._legal(group):
            self._take(group)

    def _legal(self, group: Group) -> bool:
        """Whether the count may be used; a group whose parameters the count divides, and a coarser
        count of the same kind what is in them, is an error; another is put aside.
        """
        facts = self.state.network.facts
        common = common_length(group.requirements, facts)
        illegal = self._illegal(group)
        count = self.state.count
        if illegal and isinstance(count, int):
            if self._is_multiple(group, common):
                raise SeenAsTwo(self.state.axis, common)
            if self.requirements.uneven == "refuse" and self.is_coarse(group, common):
                raise self._error(group, common)
            self.blocked.append(group)
            return False
        if not isinstance(count, int):
            taken = [each for other in self.taken for each in other.requirements]
            others = common_length(taken, facts)
            if gcd(others, common) == 1:
                self.blocked.append(group)
                return False
        return not illegal

    def _is_multiple(self, group: Group, common: int) -> bool:
        """Whether the count is a multiple of what may be cut, which the model fixes: every part of
        it may be held by several ranks, which share the matrices in it.
        """
        fixed = all(isinstance(each.length, int) for each in group.requirements)
        count, allowed = self.state.count, self.requirements.uneven != "refuse"
        if not (allowed and fixed and common > 1 and isinstance(count, int)):
            return False
        return count % common == 0 and self._of_matrices(group, common)

    def _of_matrices(self, group: Group, common: int) -> bool:
        """Whether one of so many parts of a parameter is a matrix, as a head's is; that of one of
        two labels is a row, of which nothing is left to cut.
        """
        for edge, place in group.seeds:
            dims = list(self.state.network.edges[edge].dims or ())
            own = dims[place.dim]
            dims[place.dim] = own // common if isinstance(own, int) else None
            if sum(1 for dim in dims if dim != 1) > 1:
                return True
        return False

    def is_coarse(self, group: Group, common: int) -> bool:
        """Whether the count divides the parameters of a group but not what is in them, as 64 rows
        of 4 heads over 8 ranks, and a coarser one would: then that one is meant.
        """
        count, edges = self.state.count, self.state.network.edges
        assert isinstance(count, int)
        dims = [(edges[edge].dims or ())[place.dim] for edge, place in group.seeds]
        return gcd(count, common) > 1 and any(
            not isinstance(dim, int) or dim % count == 0 for dim in dims
        )

    def _illegal(self, group: Group) -> list[int]:
        """The operators that the count cannot cut so."""
        choices = group.propagation.choices.items()
        return [number for number, choice in choices if self.requirements.first_illegal(choice)]

    def _error(self, group: Group, common: int) -> PlanError:
        illegal = self._illegal(group)
        return group_error(self.state, self.requirements, group.propagation, illegal, common)

    def _take(self, group: Group) -> None:
        self.taken.append(group)
        for number, choice in group.propagation.choices.items():
            self.requirements.rely(choice, self.state.network.operators[number].node.id)
        assert group.change is not None
        self.state.accept(group.change)
        group.change = None

    def _dealt(self, propagation: Propagation, common: int) -> dict[int, Choice] | None:
        """The choices of a group that deal out so many units, where that is allowed: they are more
        than one, what they are cut of is fixed by the model, and no rule forbids it.
        """
        requirements, state = self.requirements, self.state
        if requirements.uneven == "refuse" or common < 2 or not isinstance(state.count, int):
            return None
        found: dict[int, Choice] = {}
        for number, choice in propagation.choices.items():
            if not choice.requirements:
                found[number] = choice
                continue
            if not all(isinstance(need.length, int) for need in choice.requirements):
                return None
            dealt = state.classes[number].uneven(choice, common)
            if isinstance(dealt, Refusal) or requirements.lacks_units(dealt):
                return None
            found[number] = dealt
        return found

    def _deal(self, most: float) -> None:
        """Cuts into unequal parts what the count does not divide, as far as it helps, and the
        longest has at most so many times an equal share.
        """
        count = self.state.count
        if not isinstance(count, int):
            return
        for group in sorted(self.blocked, key=self._promise):
            for seed in group.seeds:
                if self._cut(seed[0]):
                    continue
                again = self._group(seed, group.shallow)
                common = common_length(again.requirements, self.state.network.facts)
                choices = self._dealt(again.propagation, common)
                if not choices or -(-common // count) * count > most * common:
                    continue
                again.propagation.choices = choices
                self._weigh(again)
                if again.helps:
                    self._take(again)
                    self.notes.append(self._unequal(again, common))

    def _promise(self, group: Group) -> tuple[bool, float, int]:
        """The least first: what a group sends for a byte that the fullest rank need not hold."""
        units, count = common_length(group.requirements, self.state.network.facts), self.state.count
        assert isinstance(count, int)
        held = -(-units // count) / units if units else 1.0
        saved = (1 - held) / (1 - 1 / count)
        return group.shallow, group.ratio / saved if saved > 0 else float("inf"), group.number

    def _unequal(self, group: Group, units: int) -> str:
        """What is cut into unequal parts, and what that wastes."""
        count = self.state.count
        assert isinstance(count, int)
        names = list(
            dict.fromkeys(self.state.network.edges[edge].target for edge, _ in group.seeds)
        )
        listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        return (
            f"{self.state.axis}: {listed} {'is' if len(names) == 1 else 'are'} cut into unequal "
            f"parts: {share_text(units, count)}"
        )

    def _settle(self) -> None:
        """Groups put aside are an error, unless their parameters were cut in another way, or no
        smaller count would do, or the first of the axes that this one is a part of cuts them. Where
        parts may be unequal they are one only if nothing can be cut; else a note says what stays
        whole.
        """
        for group in self.blocked:
            left = [edge for edge, _ in group.seeds if not self._cut(edge)]
            bytes_left = sum(self.state.bytes[edge] for edge in left) * (1 - 1 / self.state.nominal)
            common = common_length(group.requirements, self.state.network.facts)
            fine = too_fine(self.state.count, common) and not self.requirements.holds
            meant = self.requirements.uneven == "refuse" or not self.taken
            if meant and fine and not self._may_be_dealt(group) and 2 * bytes_left > group.saved:
                raise self._error(group, common)
            if left:
                self.notes.append(self._note(group, left, common))

    def _may_be_dealt(self, group: Group) -> bool:
        """Whether some parameter of a group may be cut into unequal parts, helpful or not."""
        for seed in group.seeds:
            again = self._group(seed, group.shallow).propagation
            choices = again.choices.values()
            requirements = [each for choice in choices for each in choice.requirements]
            common = common_length(requirements, self.state.network.facts)
            if self._dealt(again, common):
                return True
        return False

    def _note(self, group: Group, left: list[int], common: int) -> str:
        """Which parameters stay whole, and the operator that forbids the count."""
        names = list(dict.fromkeys(self.state.network.edges[edge].target for edge in left))
        listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        stay = "stays" if len(names) == 1 else "stay"
        reason = f"they could be cut into parts that divide {common}"
        if self._illegal(group):
            reason = self._error(group, common).diagnostic.reason.partition(", cut with ")[0]
        return f"{self.state.axis}: {listed} {stay} whole: {reason}"


def saved(change: Change) -> tuple[float, int]:
    """Returns the bytes of parameters that a rank would no longer hold, and how many uses the
    matrices among them have. A parameter that is gathered again before its use saves nothing.
    """
    state = change.state
    part = 1 - 1 / state.nominal
    total, uses = 0.0, 0
    for edge in change.touched:
        entry = state.network.edges[edge]
        if entry.parameter:
            now = isinstance(change.stored(edge), Shard)
            before = isinstance(change.stored_before(edge), Shard)
            total += (now - before) * state.bytes[edge] * part
            if sum(dim != 1 for dim in entry.dims or ()) > 1:
                uses += (now - before) * len(entry.uses)
        elif entry.weight:
            total -= (
                (change.gathered(edge) - change.gathered_before(edge)) * state.bytes[edge] * part
            )
    return total, uses
