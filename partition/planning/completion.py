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

from ..placement import Partial, Reduction, Replicate, Shard
from ..reshard import item_bytes
from .axis_state import AxisState
from .choices import Choice, R
from .network import Network
from .requirements import Requirements

SWEEPS = 8
TOLERANCE = 1e-6
LOOK_AHEAD = 16
"""How many operators a partial value is followed through in search of a place to join it, ..."""
LOOK_BACK = 4
"""... and how many lie between an addition there and another partial value."""


def complete(state: AxisState, requirements: Requirements) -> None:
    """Decides the operators that are not fixed, one after the other, until nothing improves."""
    active = _beside_parts(state)
    for sweep in range(SWEEPS):
        active = _sweep(state, requirements, active, 1 if sweep % 2 == 0 else -1)
        if not active:
            break
    for edge, made in enumerate(state.made):
        if isinstance(made, Partial):
            join_later(state, edge)


def join_later(state: AxisState, edge: int, *, fixed: bool = False) -> None:
    """Lets a partial value pass through the operators behind it as far as that saves bytes in the
    end, where no single step does: experts' outputs are joined after they are summed, and so are
    those of an attention and an MLP beside it, ``(x + attention(x)) + mlp(x)``.
    """
    choices: dict[int, Choice] = {}
    best: tuple[float, int] = (-TOLERANCE, 0)
    made = state.made[edge]
    assert isinstance(made, Partial)
    for _ in range(LOOK_AHEAD):
        uses = state.network.edges[edge].uses
        if len(uses) != 1 or state.network.edges[edge].returned:
            break
        number, place = uses[0]
        output = _sole_output(state, number)
        passing = None if output is None else _passing(state, number, place, made)
        if passing is None or output is None:
            break
        for other, wanted in enumerate(passing.inputs):
            if other != place and isinstance(wanted, Partial):
                choices.update(_partial_too(state, number, other, made))
        choices[number] = passing
        edge = output
        sent, _ = state.change(choices).cost()
        if sent < best[0]:
            best = sent, len(choices)
    for number, choice in list(choices.items())[: best[1]]:
        state.decide(number, choice, fixed=fixed)


def _sole_output(state: AxisState, number: int) -> int | None:
    """The one value that an operator makes, which is whole and may still become partial."""
    operator = state.network.operators[number]
    open_ = not state.fixed[number] and state.choices[number].whole and not operator.pinned
    return operator.outputs[0] if open_ and len(operator.outputs) == 1 else None


def _partial_too(
    state: AxisState, number: int, place: int, made: Partial, depth: int = LOOK_BACK
) -> dict[int, Choice]:
    """The choices that let another partial value reach an addition too: operators between it and
    the addition that nothing else uses; {} where there is no such value, or it is there already.
    """
    edge = state.network.operators[number].inputs[place]
    entry = state.network.edges[edge or 0]
    if edge is None or state.made[edge] == made or entry.producer is None or not depth:
        return {}
    number = entry.producer[0]
    if len(entry.uses) != 1 or entry.returned or _sole_output(state, number) is None:
        return {}
    for other, before in enumerate(state.network.operators[number].inputs):
        passing = None if before is None else _passing(state, number, other, made)
        if passing is not None and before is not None:
            choices = _partial_too(state, number, other, made, depth - 1)
            if choices or state.made[before] == made:
                return {**choices, number: passing}
    return {}


def _passing(state: AxisState, number: int, place: int, made: Partial) -> Choice | None:
    """The choice that lets a partial value pass at one input. What is added to it is partial too,
    or kept on one rank; what it is multiplied with stays as it is made.
    """
    addable = {place}
    for other, edge in enumerate(state.network.operators[number].inputs):
        if edge is not None and (state.made[edge] == made or state.made[edge] == R):
            addable.add(other)
    for places in ({place}, addable):
        passing = state.classes[number].passing(frozenset(places), made.reduction)
        if passing is not None and passing.inputs[place] == made:
            return None if loses_digits(state.network, number, passing) else passing
    return None


def loses_digits(network: Network, number: int, passing: Choice) -> bool:
    """Returns whether a sum over ranks would be taken in fewer digits than one rank alone has
    there: what comes out has fewer, or another input that has a gradient.
    """
    edges, operator = network.edges, network.operators[number]
    inputs = [
        (edges[w], p) for w, p in zip(operator.inputs, passing.inputs, strict=True) if w is not None
    ]
    digits = max(item_bytes(edge.dtype) for edge, p in inputs if isinstance(p, Partial))
    others = [w for w, p in inputs if not isinstance(p, Partial) and w.gradient != "never"]
    made = [edges[w] for w in operator.outputs if w is not None]
    return any(item_bytes(edge.dtype) < digits for edge in (*others, *made))


def _sweep(
    state: AxisState, requirements: Requirements, active: set[int], direction: int
) -> set[int]:
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
        if state.fixed[number] or not _improve(state, requirements, number):
            continue
        for other in _neighbours(state, (number,)):
            if direction * other > direction * number:
                if other not in queued:
                    queued.add(other)
                    heapq.heappush(queue, direction * other)
            else:
                later.add(other)
    return later


def _beside_parts(state: AxisState) -> set[int]:
    """The open operators with a neighbour that is not whole."""
    choices = state.choices
    return {
        number
        for number, fixed in enumerate(state.fixed)
        if not fixed and any(not choices[n].whole for n in _neighbours(state, (number,)))
    }


def _neighbours(state: AxisState, numbers: Iterable[int]) -> set[int]:
    found: set[int] = set()
    network = state.network
    for number in numbers:
        operator = network.operators[number]
        for edge in (*operator.inputs, *operator.outputs):
            if edge is not None:
                entry = network.edges[edge]
                found.update(user for user, _ in entry.uses)
                if entry.producer is not None:
                    found.add(entry.producer[0])
    return found


def _improve(state: AxisState, requirements: Requirements, number: int) -> bool:
    """Takes the best choice of one operator; whether that is another one than before."""
    current = state.choices[number]
    best, best_rank = current, (0.0, 0, _preference(current))
    for choice in _candidates(state, number):
        if choice is current or not requirements.implied(choice):
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
    operator, op_class = state.network.operators[number], state.classes[number]
    yield op_class.whole
    if operator.pinned or operator.skipped:
        return
    partial: dict[Reduction, set[int]] = {}
    free: set[int] = set()
    for place, edge in enumerate(operator.inputs):
        if edge is None:
            continue
        match state.made[edge]:
            case Shard() as shard:
                yield from _found(op_class.spread(place, shard))
            case Partial(reduction):
                partial.setdefault(reduction, set()).add(place)
            case Replicate():
                free.add(place)
    for place, edge in enumerate(operator.outputs):
        if edge is not None:
            for wanted, _ in state.needs[edge]:
                if isinstance(wanted, Shard):
                    yield from _found(op_class.spread(op_class.inputs + place, wanted))
    for reduction, places in partial.items():
        for allowed in (places, places | free):
            passing = op_class.passing(frozenset(allowed), reduction)
            if passing is None or loses_digits(state.network, number, passing):
                continue
            if any(isinstance(passing.inputs[place], Partial) for place in places):
                yield passing


def _found(answer: object) -> Iterator[Choice]:
    if isinstance(answer, Choice):
        yield answer
