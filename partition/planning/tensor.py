"""The policy ``"tensor"``: parameters are cut where the least is communicated for it.

The flood of every dimension of every parameter is a group: it says which operators work on parts,
which parameters are held in parts, and what is communicated at its ends. Groups are taken by the
least communication for a byte of parameters that a rank need not hold, as long as they help, and
none is taken that contradicts one before. Nothing else is known: no names, no architectures.

    a Llama layer     heads       q, k, v, o             1 all-reduce forward, 1 backward
                      d_ff        gate, up, down         1 all-reduce forward, 1 backward
                      d_model     everything else        many: not taken
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import gcd

from ..placement import Shard
from .choices import Duty
from .illegal import group_error, too_fine
from .propagation import AxisState, Change, Duties, Flood, common_length, flood

BYTES_PER_BYTE = 16
"""A group helps where a rank sends at most so many bytes for a byte that it need not hold, ..."""

OPERATIONS_PER_BYTE = 4
"""... or where it saves at least so many operations for a byte that it sends; ..."""

COLLECTIVES_PER_USE = 3
"""... and where it adds at most so many collectives for each use of a matrix that it cuts."""


@dataclass(eq=False, slots=True)
class Group:
    """The flood of some seeds, and what it is worth."""

    number: int
    seeds: list[tuple[int, Shard]]
    flood: Flood
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

    def duties(self) -> Iterator[tuple[int, Duty]]:
        """Yields what must hold, with the operator that asks for it."""
        for number, choice in self.flood.choices.items():
            for duty in choice.duties:
                yield number, duty


def tensor(state: AxisState, duties: Duties) -> list[str]:
    """Decides the operators of all groups that help; returns notes on what was left whole."""
    policy = TensorPolicy(state, duties)
    policy.run()
    return policy.notes


@dataclass(slots=True)
class TensorPolicy:
    """Takes groups along one axis. ``notes``: what was left whole, and why."""

    state: AxisState
    duties: Duties
    notes: list[str] = field(default_factory=list)
    taken: list[Group] = field(default_factory=list)
    blocked: list[Group] = field(default_factory=list)
    _heap: list[tuple[float, int, Group]] = field(default_factory=list)
    _number: int = 0

    def run(self) -> None:
        """Decides the operators of all groups that help: floods first, then, for parameters that
        are still whole, also what cuts only the operators that use them.
        """
        network = self.state.network
        for shallow in (False, True):
            seeds = [
                (wire.number, Shard(dim))
                for wire in network.parameters
                if not self._cut(wire.number)
                for dim in range(len(wire.dims or ()))
            ]
            self._offer(seeds, shallow)
            while self._heap:
                _, _, group = heapq.heappop(self._heap)
                self._consider(group, again=shallow)
        self._settle()

    def _cut(self, wire: int) -> bool:
        return isinstance(self.state.change({}).stored(wire), Shard)

    def _offer(self, seeds: list[tuple[int, Shard]], shallow: bool) -> None:
        """Floods from seeds that no earlier flood has reached, and queues what helps."""
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
        found = flood(state.network, state.kinds, [seed], state.fixed, shallow=shallow)
        placed = [(w, p) for w, p in found.placed.items() if isinstance(p, Shard)]
        own = [pair for pair in placed if state.network.wires[pair[0]].parameter]
        self._number += 1
        return Group(self._number, own, found, shallow)

    def _queue(self, group: Group) -> None:
        if not group.flood.choices:
            return
        self._weigh(group)
        group.change = None
        if group.helps:
            heapq.heappush(self._heap, (group.ratio, group.number, group))

    def _weigh(self, group: Group) -> None:
        state = self.state
        change = group.change = state.change(group.flood.choices)
        sent, group.collectives = change.cost()
        group.sent = max(sent, 0.0)
        group.saved, group.uses = saved(change)
        part = 1 - 1 / state.nominal
        group.work = part * sum(
            state.work(number) for number, choice in group.flood.choices.items() if choice.name
        )

    def _consider(self, group: Group, again: bool) -> None:
        """Takes a group that still helps; one that another has cut into is flooded again."""
        if any(self.state.fixed[number] for number in group.flood.choices):
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
        """Whether the count may be used; a group that a coarser count of the same kind would cut is
        an error, one that has nothing in common with the count is put aside.
        """
        facts = self.state.network.facts
        common = common_length((duty for _, duty in group.duties()), facts)
        illegal = [
            number
            for number, choice in group.flood.choices.items()
            if self.duties.first_illegal(choice) is not None
        ]
        count = self.state.count
        if illegal and isinstance(count, int):
            if gcd(count, common) > 1:
                raise group_error(self.state, self.duties, group.flood, illegal, common)
            self.blocked.append(group)
            return False
        if not isinstance(count, int):
            others = common_length(
                (duty for each in self.taken for _, duty in each.duties()), facts
            )
            if gcd(others, common) == 1:
                self.blocked.append(group)
                return False
        return not illegal

    def _take(self, group: Group) -> None:
        self.taken.append(group)
        for number, choice in group.flood.choices.items():
            self.duties.rely(choice, self.state.network.operators[number].node.id)
        assert group.change is not None
        self.state.accept(group.change)
        group.change = None

    def _settle(self) -> None:
        """Groups put aside are an error, unless their parameters were cut in another way, or no
        smaller count would do.
        """
        for group in self.blocked:
            lost = group.saved
            left = [wire for wire, _ in group.seeds if not self._cut(wire)]
            bytes_left = sum(self.state.bytes[wire] for wire in left) * (1 - 1 / self.state.nominal)
            common = common_length((duty for _, duty in group.duties()), self.state.network.facts)
            if 2 * bytes_left > lost and too_fine(self.state.count, common):
                illegal = [
                    number
                    for number, choice in group.flood.choices.items()
                    if self.duties.first_illegal(choice) is not None
                ]
                raise group_error(self.state, self.duties, group.flood, illegal, common)
            if left:
                self.notes.append(self._note(group, left, common))

    def _note(self, group: Group, left: list[int], common: int) -> str:
        """Which parameters stay whole, and the operator that forbids the count."""
        names = list(dict.fromkeys(self.state.network.wires[wire].target for wire in left))
        listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        stay = "stays" if len(names) == 1 else "stay"
        illegal = [n for n, c in group.flood.choices.items() if self.duties.first_illegal(c)]
        reason = f"they could be cut into parts that divide {common}"
        if illegal:
            error = group_error(self.state, self.duties, group.flood, illegal, common)
            reason = error.diagnostic.reason.partition(", cut with ")[0]
        return f"{self.state.axis}: {listed} {stay} whole: {reason}"


def saved(change: Change) -> tuple[float, int]:
    """Returns the bytes of parameters that a rank would no longer hold, and how many uses the
    matrices among them have. A parameter that is gathered again before its use saves nothing.
    """
    state = change.state
    part = 1 - 1 / state.nominal
    total, uses = 0.0, 0
    for wire in change.touched:
        entry = state.network.wires[wire]
        if entry.parameter:
            now = isinstance(change.stored(wire), Shard)
            before = isinstance(change.stored_before(wire), Shard)
            total += (now - before) * state.bytes[wire] * part
            if sum(dim != 1 for dim in entry.dims or ()) > 1:
                uses += (now - before) * len(entry.uses)
        elif entry.weight:
            total -= (
                (change.gathered(wire) - change.gathered_before(wire)) * state.bytes[wire] * part
            )
    return total, uses
