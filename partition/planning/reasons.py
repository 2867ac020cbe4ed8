"""The conditions of a plan, each with the cut that needs it.

    batch % 2 == 0     dp cuts dimension 0 of input_ids
    8 % n == 0         tp cuts c of view_2

They follow from the choices alone, whoever made them: a policy, or a plan that is read.
"""

from __future__ import annotations

from collections.abc import Sequence

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
        seen: set[Choice] = set()
        for number, choice in enumerate(state.choices):
            if choice not in seen:
                seen.add(choice)
                for condition in duties.conditions_of(choice) or ():
                    found.setdefault(condition, _reason(state, number, choice))
    own = list(getattr(network.graph, "conditions", ()))
    facts = [str(fact) for fact in network.graph.facts]
    kept = essential([*own, *found], facts) if found else own
    return {text: found.get(text, "the graph") for text in kept}


def _reason(state: AxisState, number: int, choice: Choice) -> str:
    """What is cut: of an input that a caller gives, where the operator takes one, else of the
    operator.
    """
    operator = state.network.operators[number]
    for wire, placement in zip(operator.inputs, choice.inputs, strict=True):
        entry = None if wire is None else state.network.wires[wire]
        if entry is not None and entry.kind == "input" and isinstance(placement, Shard):
            return f"{state.axis} cuts dimension {placement.dim} of {entry.target}"
    return f"{state.axis} cuts {choice.name} of {operator.node.id}"
