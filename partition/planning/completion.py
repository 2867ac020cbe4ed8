"""What a policy leaves open follows its neighbours at least cost.

An operator may take what its inputs are, give what its users want, let partial values pass, or stay
whole. It changes where that saves bytes; where it costs the same, divided work is preferred to
repeated work, and a value that is joined early to one that is joined late. Every change makes the
whole plan cheaper, or equally cheap and more divided, so the sweeps end.

    silu between two linears that are cut      S(2) -> S(2)
    x + y, both P(sum)                         P(sum), P(sum) -> P(sum), joined once
    norm between a joined sum and a linear     R -> R
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from ..dtypes import item_bytes
from ..placement import Partial, Placement, Reduction, Replicate, Shard
from .choices import Choice
from .duties import Duties
from .state import AxisState

SWEEPS = 8
TOLERANCE = 1e-6
LOOK_AHEAD = 16
"""How many operators a partial value is followed through in search of a place to join it."""


def complete(state: AxisState, duties: Duties) -> None:
    """Decides the operators that are not fixed, one after the other, until nothing improves."""
    order = range(len(state.choices))
    active = _neighbours(state, (n for n in order if not state.choices[n].whole))
    for sweep in range(SWEEPS):
        active = _sweep(state, duties, active, 1 if sweep % 2 == 0 else -1)
        if not active:
            break
    for wire, made in enumerate(state.made):
        if isinstance(made, Partial):
            _join_later(state, wire)


def _join_later(state: AxisState, wire: int) -> None:
    """Lets a partial value pass through the operators behind it as far as that saves bytes in the
    end, where no single step does: experts' outputs are joined after they are summed.
    """
    choices: dict[int, Choice] = {}
    best: tuple[float, int] = (-TOLERANCE, 0)
    made = state.made[wire]
    for _ in range(LOOK_AHEAD):
        uses = state.network.wires[wire].uses
        if len(uses) != 1 or state.network.wires[wire].returned:
            break
        number, place = uses[0]
        operator = state.network.operators[number]
        passing = None
        if not state.fixed[number] and state.choices[number].whole and not operator.pinned:
            passing = _passing(state, number, place, made)
        if passing is None or len(operator.outputs) != 1 or operator.outputs[0] is None:
            break
        choices[number] = passing
        wire = operator.outputs[0]
        sent, _ = state.change(choices).cost()
        if sent < best[0]:
            best = sent, len(choices)
    for number, choice in list(choices.items())[: best[1]]:
        state.decide(number, choice, fixed=False)


def _passing(state: AxisState, number: int, place: int, made: Placement) -> Choice | None:
    """The choice that lets a partial value pass at one input; the others stay as they are made."""
    if not isinstance(made, Partial):
        return None
    passing = state.kinds[number].passing(frozenset({place}), made.reduction)
    if passing is None or passing.inputs[place] != made or _loses_digits(state, number, place):
        return None
    return passing


def _loses_digits(state: AxisState, number: int, place: int) -> bool:
    """Whether the gradient of another input would be summed over ranks in fewer digits than the
    partial value has: one rank alone would have rounded it once.
    """
    wires = state.network.wires
    inputs = [wires[w] for w in state.network.operators[number].inputs if w is not None]
    partial = wires[state.network.operators[number].inputs[place] or 0]
    return any(
        item_bytes(other.dtype) < item_bytes(partial.dtype)
        for other in inputs
        if other is not partial and other.gradient != "never"
    )


def _sweep(state: AxisState, duties: Duties, active: set[int], direction: int) -> set[int]:
    """Goes through the graph once, in or against its order; what stands behind a change follows at
    once. Returns what the next sweep must look at.
    """
    queue = [direction * number for number in active]
    heapq.heapify(queue)
    queued = set(active)
    later: set[int] = set()
    while queue:
        number = direction * heapq.heappop(queue)
        queued.discard(number)
        if state.fixed[number] or not _improve(state, duties, number):
            continue
        for other in _neighbours(state, (number,)):
            if direction * other > direction * number:
                if other not in queued:
                    queued.add(other)
                    heapq.heappush(queue, direction * other)
            else:
                later.add(other)
    return later


def _neighbours(state: AxisState, numbers: Iterable[int]) -> set[int]:
    found: set[int] = set()
    network = state.network
    for number in numbers:
        operator = network.operators[number]
        for wire in (*operator.inputs, *operator.outputs):
            if wire is not None:
                entry = network.wires[wire]
                found.update(user for user, _ in entry.uses)
                if entry.producer is not None:
                    found.add(entry.producer[0])
    return found


def _improve(state: AxisState, duties: Duties, number: int) -> bool:
    """Takes the best choice of one operator; whether that is another one than before."""
    current = state.choices[number]
    best, best_rank = current, (0.0, 0, _preference(current))
    for choice in _candidates(state, number):
        if choice is current or not duties.implied(choice):
            continue
        sent, collectives = state.change({number: choice}).cost()
        if abs(sent) < TOLERANCE:
            sent = 0.0
        rank = (sent, collectives, _preference(choice))
        if rank < best_rank:
            best, best_rank = choice, rank
    if best is current:
        return False
    state.decide(number, best, fixed=False)
    return True


def _preference(choice: Choice) -> int:
    if choice.name is not None:
        return 0
    return 2 if choice.partial else 1


def _candidates(state: AxisState, number: int) -> Iterator[Choice]:
    operator, kind = state.network.operators[number], state.kinds[number]
    yield kind.whole
    if operator.pinned or operator.skipped:
        return
    partial: dict[Reduction, set[int]] = {}
    free: set[int] = set()
    for place, wire in enumerate(operator.inputs):
        if wire is None:
            continue
        match state.made[wire]:
            case Shard() as shard:
                yield from _found(kind.spread(place, shard))
            case Partial(reduction):
                partial.setdefault(reduction, set()).add(place)
            case Replicate():
                free.add(place)
    for place, wire in enumerate(operator.outputs):
        if wire is not None:
            for wanted, _ in state.needs[wire]:
                if isinstance(wanted, Shard):
                    yield from _found(kind.spread(kind.inputs + place, wanted))
    for reduction, places in partial.items():
        for allowed in (places, places | free):
            passing = kind.passing(frozenset(allowed), reduction)
            if passing is not None and any(
                isinstance(passing.inputs[place], Partial) for place in places
            ):
                yield passing


def _found(answer: object) -> Iterator[Choice]:
    if isinstance(answer, Choice):
        yield answer
