"""The policy ``"data"``: the batch is cut.

Which dimension that is nobody says: every dimension of every input is flooded, and the one that
divides the work for the least communication of activations is the batch. Parameters stay whole;
their gradients are summed.

    input_ids (batch, seq)    dim 0    all the work, a loss to join           the batch
                              dim 1    all the work, keys and values to join
"""

from __future__ import annotations

from dataclasses import dataclass

from dimsolve.solver.graphs.problems import place

from ..placement import Shard
from ..plan_data import PlanError, plan_error
from .choices import Choice
from .illegal import legality_of
from .propagation import AxisState, Change, Duties, Edge, Flood, flood

SHARE = 0.5
"""A batch divides at least this share of the work that the best dimension divides."""


@dataclass(eq=False, slots=True)
class _Candidate:
    wire: int
    dim: int
    flood: Flood
    change: Change
    work: float
    sent: float


def data(state: AxisState, duties: Duties) -> list[str]:
    """Decides the operators that work on the batch. Raises PlanError where the count cannot cut it,
    and where no input has a dimension that can be cut.
    """
    candidates, edges = _candidates(state)
    if not candidates:
        raise _no_batch(state, edges)
    most = max(candidate.work for candidate in candidates)
    batch = min(
        (c for c in candidates if c.work >= SHARE * most),
        key=lambda c: (c.sent, -c.work, c.wire, c.dim),
    )
    choices = dict.fromkeys(batch.flood.choices.values())
    if any(duties.first_illegal(choice) is not None for choice in choices):
        for number, choice in batch.flood.choices.items():
            if duties.first_illegal(choice) is not None:
                raise _illegal(state, batch, number, choice)
    entry = state.network.wires[batch.wire]
    for choice in choices:
        duties.rely(choice, f"{state.axis} cuts dimension {batch.dim} of {entry.target}")
    state.accept(batch.change)
    return []


def _candidates(state: AxisState) -> tuple[list[_Candidate], list[Edge]]:
    """The floods of all dimensions of all inputs, and where they ended."""
    network = state.network
    found: list[_Candidate] = []
    edges: list[Edge] = []
    reached: set[tuple[int, Shard]] = set()
    for wire in network.wires:
        if wire.kind != "input":
            continue
        for dim, length in enumerate(wire.dims or ()):
            seed = (wire.number, Shard(dim))
            if length == 1 or seed in reached:
                continue
            spread = flood(
                network,
                state.kinds,
                [seed],
                state.fixed,
                enter=lambda w: not network.wires[w].parameter,
                past_pinned=True,
            )
            reached.update((w, p) for w, p in spread.placed.items() if isinstance(p, Shard))
            edges += spread.edges
            if spread.choices:
                found.append(_weighed(state, wire.number, dim, spread))
    return found, edges


def _weighed(state: AxisState, wire: int, dim: int, spread: Flood) -> _Candidate:
    change = state.change(spread.choices)
    network = state.network
    activations = [w for w in change.touched if not network.wires[w].parameter]
    work = sum(state.work(number) for number in spread.choices)
    return _Candidate(wire, dim, spread, change, work, change.cost(activations)[0])


def _no_batch(state: AxisState, edges: list[Edge]) -> PlanError:
    nodes = [state.network.operators[edge.operator].node for edge in edges[:3]]
    reasons = [f"{place(n)}: {e.refusal.reason}" for n, e in zip(nodes, edges, strict=False)]
    listed = "; ".join(dict.fromkeys(reasons))
    return plan_error(
        "no-batch",
        f"nothing to cut along {state.axis}",
        "no dimension of an input is one that any operator can be split by"
        + (f" ({listed})" if listed else ""),
        'policy "tensor" cuts parameters; "replicate" cuts nothing',
    )


def _illegal(state: AxisState, batch: _Candidate, number: int, choice: Choice) -> PlanError:
    entry = state.network.wires[batch.wire]
    legality = legality_of(state, number, choice)
    node = state.network.operators[number].node
    return plan_error(
        "illegal-count",
        f"{state.axis} = {state.count} is illegal",
        f"it cuts dimension {batch.dim} of {entry.target}, and at {place(node)} {legality.reason}",
        text=legality.solution.text,
        legality=legality,
    )
