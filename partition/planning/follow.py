"""A policy that cuts another call of a model as a plan of the same model has cut it.

    training, tp = 2     q_proj.weight S(0), o_proj.weight S(1), lm_head.weight S(0)
    decoding             the same parts are held, so what uses them is cut alike

Along an axis every parameter that the plan holds in parts is a seed, and what propagates from it is
taken where the count may be used. Along an axis of data the seeds are the dimensions of inputs that
have the length that the plan cuts there (``batch``). What this leaves whole may still follow; a
parameter that then is wanted in other parts than it is held in is converted where the program
begins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..placement import Shard, read_placement
from ..plan_data import PlanData, PlanError
from .axis_state import AxisState
from .data import data
from .planner import Policy
from .propagation import propagate
from .requirements import Requirements


def following(plan: PlanData, without: Collection[str] = ()) -> Policy:
    """Returns the policy. without: axes along which no data are cut."""
    axes = tuple(plan.mesh)
    lengths = {axis: _lengths_cut(plan, number) for number, axis in enumerate(axes)}

    def decide(state: AxisState, requirements: Requirements) -> list[str]:
        if state.axis not in plan.data_axes:
            _hold(state, requirements, _held_along(plan, axes.index(state.axis)))
            return []
        if state.axis in without:
            return []
        return _cut_data(state, requirements, lengths[state.axis])

    return Policy(f"as {plan.policy}", decide)


def _held_along(plan: PlanData, number: int) -> dict[str, Shard]:
    """The parameters that ranks hold in parts along an axis, by name."""
    found = {entry.name: read_placement(entry.placements[number]) for entry in plan.parameters}
    return {name: shard for name, shard in found.items() if isinstance(shard, Shard)}


def _lengths_cut(plan: PlanData, number: int) -> frozenset[str]:
    """The lengths of the dimensions that inputs are cut by along an axis."""
    found: set[str] = set()
    for entry in plan.inputs:
        shard = read_placement(entry.placements[number])
        if entry.kind == "input" and isinstance(shard, Shard) and entry.whole is not None:
            found.add(str(entry.whole[shard.dim]))
    return frozenset(found)


def _hold(state: AxisState, requirements: Requirements, held: dict[str, Shard]) -> None:
    for edge in state.network.parameters:
        shard = held.get(edge.target)
        if shard is not None and state.change({}).stored(edge.number) != shard:
            _take(state, requirements, [(edge.number, shard)], parameters=True)


def _cut_data(state: AxisState, requirements: Requirements, lengths: frozenset[str]) -> list[str]:
    seeds = [
        (edge.number, Shard(dim))
        for edge in state.network.edges
        if edge.kind == "input"
        for dim, length in enumerate(edge.dims or ())
        if str(length) in lengths
    ]
    if seeds:
        _take(state, requirements, seeds, parameters=False)
        return []
    try:
        return data(state, requirements)
    except PlanError:
        return []


def _take(
    state: AxisState,
    requirements: Requirements,
    seeds: Iterable[tuple[int, Shard]],
    *,
    parameters: bool,
) -> None:
    """Takes what propagates from the seeds, where all of it is legal. parameters: whether
    parameters may be cut.
    """
    network = state.network
    found = propagate(
        network,
        state.classes,
        seeds,
        state.fixed,
        enter=lambda edge: parameters or not network.edges[edge].parameter,
        past_pinned=not parameters,
    )
    if any(requirements.first_illegal(choice) for choice in found.choices.values()):
        return
    for number, choice in found.choices.items():
        requirements.rely(choice, network.operators[number].node.id)
    state.accept(state.change(found.choices))
