"""Random small graphs and random plans for them: what the simulation is fed with.

A graph grows by one call after the other, each of a random family on random values made before. All
lengths divide by 8, so that most splits into 2, 4 and 8 parts are legal.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from dimsolve.ir.graph import Value
from dimsolve.partition.placement import Partial, Shard
from dimsolve.partition.planning.axis_state import AxisState
from dimsolve.partition.planning.choices import Choice
from dimsolve.partition.planning.planner import Policy
from dimsolve.partition.planning.requirements import Requirements
from dimsolve.solver.proof.divisibility import exact_quotient

from .growing import ROOM, Growing, is_float, shape_of
from .more_calls import MORE_FAMILIES
from .random_calls import FAMILIES


def random_graph(random: Random, calls: int) -> Growing:
    """A graph of about so many calls; it returns what nothing uses, and one value more."""
    g = Growing(random)
    for _ in range(calls):
        small = [v for v in g.values if _elements(v) <= ROOM]
        g.values = small or g.values
        random.choice(random.choice((FAMILIES, MORE_FAMILIES)))(g)
    used = {v for node in g.graph.nodes() for v in node.operands()}
    ends = [v for v in g.graph.values.values() if v not in used and is_float(v)]
    extra = [v for v in g.values if v not in ends][-1:]
    g.graph.output(*dict.fromkeys([*ends, *extra]))
    return g


def _elements(value: Value) -> int:
    total = 1
    for length in shape_of(value):
        total *= length
    return total


# ---- random plans


def chaos(random: Random, share: float = 0.7) -> Policy:
    """Decides operators at random: any split, with and without blocks, partial values passed on."""

    def decide(state: AxisState, duties: Requirements) -> list[str]:
        for operator in state.network.operators:
            if operator.pinned or operator.skipped or random.random() > share:
                continue
            every = _all_choices(state, operator.number)
            choices = [c for c in every if _legal(c, duties)]
            if duties.uneven == "allow":
                choices += [c for own in every for c in _dealt(state, own, operator.number, duties)]
            if choices:
                state.decide(operator.number, random.choice(choices))
        return []

    return Policy("chaos", decide)


def _all_choices(state: AxisState, number: int) -> list[Choice]:
    kind, operator = state.classes[number], state.network.operators[number]
    found = [kind.whole, *kind.choices()]
    for choice in list(found):
        if choice.name is not None:
            for blocks, segments in ((2, ()), (3, ()), (1, (3, 1)), (1, (2, 1, 1)), (2, (1, 3))):
                answer = kind.split(choice.name, blocks, segments)
                if isinstance(answer, Choice):
                    found.append(answer)
    for windows in kind.windows:
        for part in windows.parts:
            answer = kind.spread(part.tensor, Shard(part.dim))
            found += [answer] * 3 if isinstance(answer, Choice) else []
    for place, wire in enumerate(operator.inputs):
        if wire is None:
            continue
        made = state.made[wire]
        if isinstance(made, Shard):
            answer = kind.spread(place, made)
            if isinstance(answer, Choice):
                found += [answer] * 3
        if isinstance(made, Partial):
            passing = kind.passing(frozenset(range(kind.inputs)), made.reduction)
            found += [passing] * 3 if passing is not None else []
    passing = kind.passing(frozenset(range(kind.inputs)))
    return [*found, passing] if passing is not None else found


def _dealt(state: AxisState, choice: Choice, number: int, duties: Requirements) -> Iterator[Choice]:
    """The choice that deals out one by one what the count need not divide."""
    if choice.requirements and not choice.units and not _legal(choice, duties):
        need = choice.requirements[0]
        units = exact_quotient(need.length, need.divisor, state.network.facts)
        found = None if units in (None, 1) else state.classes[number].uneven(choice, units)
        if isinstance(found, Choice) and _legal(found, duties):
            yield found


def _legal(choice: Choice, duties: Requirements) -> bool:
    return duties.conditions_of(choice) == ()


def random_mesh(random: Random) -> dict[str, int]:
    names = random.choice([("tp",), ("dp", "tp"), ("dp", "tp"), ("dp", "tp", "tp2")])
    return dict.fromkeys(names, 2)
