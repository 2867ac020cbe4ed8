"""The conditions of a plan, each with the cut that needs it.

    batch % 2 == 0     dp cuts dimension 0 of input_ids
    8 % n == 0         tp cuts c of view_2

They follow from the choices alone, whoever made them: a policy, or a plan that is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..conditions import essential
from ..placement import Shard
from .choices import Choice
from .duties import Duties
from .network import Network
from .state import AxisState

Decided = Sequence[tuple[AxisState, Duties]]
"""The axes, outer axis first, all operators decided, with what decides their duties."""


def reasons_of(network: Network, decided: Decided) -> dict[str, str]:
    """Returns the conditions of the graph and of the choices with their reasons, without those that
    follow from others.
    """
    found: dict[str, str] = {}
    for state, duties in decided:
        for choice, reason in (*_of_inputs(state), *_of_operators(state)):
            for condition in duties.conditions_of(choice) or ():
                found.setdefault(condition, reason)
    own = list(getattr(network.graph, "conditions", ()))
    facts = [str(fact) for fact in network.graph.facts]
    kept = essential([*own, *found], facts) if found else own
    return {text: found.get(text, "the graph") for text in kept}


def _of_inputs(state: AxisState) -> Iterator[tuple[Choice, str]]:
    """The choices that cut what a caller gives, which says most to who reads it."""
    for wire in state.network.wires:
        for number, place in wire.uses if wire.kind == "input" else ():
            choice = state.choices[number]
            placement = choice.inputs[place]
            if isinstance(placement, Shard):
                yield choice, f"{state.axis} cuts dimension {placement.dim} of {wire.target}"


def _of_operators(state: AxisState) -> Iterator[tuple[Choice, str]]:
    """All choices, each with the first operator that makes it."""
    seen: set[Choice] = set()
    for operator, choice in zip(state.network.operators, state.choices, strict=True):
        if choice not in seen:
            seen.add(choice)
            yield choice, f"{state.axis} cuts {choice.name} of {operator.node.id}"
