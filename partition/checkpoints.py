"""Checkpoint regions: operators that are run again in the backward pass, and what is kept for that.

    layer    norm .. mlp      keeps hidden (batch/2, seq, 64), not what is made between
    mlp      up .. down       a part of it: run again when the layer has been

In a plan a region is two operators of the graph and all between them, so whoever plans can add
regions of their own. Those of the graph, which the model asked for, are always there. Regions
change what is kept and what is computed twice, never what is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dimsolve.ir.characters import shown
from dimsolve.ir.graph import CONTRACT, Graph

from .inlining import inlined
from .plan_data import NOT_DERIVED, PlanData, RegionPlan

P = TypeVar("P", bound=PlanData)


def regions_of(graph: Graph) -> list[RegionPlan]:
    """Returns the regions of a graph without calls, the outer ones first; those without nodes are
    none.
    """
    ends: dict[str, tuple[str, str]] = {}
    for node in graph.nodes():
        for region in graph.regions_around(node):
            first, _ = ends.get(region.name, (node.id, node.id))
            ends[region.name] = first, node.id
    return [
        RegionPlan(
            name=name,
            first=ends[name][0],
            last=ends[name][1],
            **{key: getattr(graph.regions[name], key) for key in CONTRACT},
        )
        for name in ends
    ]


def with_regions_of(plan: P, graph: Graph) -> P:
    """Returns a plan of version 1 with the regions of its graph; any other plan as it is."""
    found = regions_of(inlined(graph)) if plan.version == 1 else []
    return plan.model_copy(update={"version": 2, "regions": found}) if found else plan


@dataclass(frozen=True, slots=True)
class Extent:
    """Which operators a region has: those from ``start`` to before ``stop``. ``within``: the number
    of the innermost region that it is a part of.
    """

    start: int
    stop: int
    within: int | None


def first_wrong(plan: PlanData) -> tuple[int, str] | None:
    """Returns the number of the first region that is none, and why; None where all are."""
    try:
        extents(plan)
    except _Wrong as wrong:
        return wrong.number, wrong.reason
    return None


class _Wrong(Exception):
    def __init__(self, number: int, reason: str) -> None:
        self.number = number
        self.reason = reason


def extents(plan: PlanData) -> list[Extent]:
    """Returns where the regions of a plan are, in its order."""
    return extents_of([entry.node for entry in plan.operators], plan.regions)


def extents_of(nodes: Sequence[str], regions: Sequence[RegionPlan]) -> list[Extent]:
    """Returns where regions are among these operators."""
    places = {node: number for number, node in enumerate(nodes)}
    found: list[Extent] = []
    names: set[str] = set()
    for number, region in enumerate(regions):
        for end in (region.first, region.last):
            if end not in places:
                raise _Wrong(number, f"there is no operator '{shown(end)}'")
        if not region.name or region.name in names:
            raise _Wrong(number, f"'{shown(region.name)}' is no name of its own")
        names.add(region.name)
        start, stop = places[region.first], places[region.last] + 1
        if stop <= start:
            reason = f"{shown(region.last)} runs before {shown(region.first)}"
            raise _Wrong(number, reason)
        found.append(Extent(start, stop, _around(regions, start, stop, found)))
    return found


def _around(
    regions: Sequence[RegionPlan], start: int, stop: int, before: list[Extent]
) -> int | None:
    """The innermost region that has these operators."""
    around: int | None = None
    for other, extent in enumerate(before):
        if extent.start <= start and stop <= extent.stop:
            around = other
        elif start < extent.stop and extent.start < stop:
            reason = f"it has a part of {shown(regions[other].name)}, which stands before it"
            raise _Wrong(len(before), reason)
    return around


def check_regions(plan: PlanData, graph: Graph) -> None:
    """Raises PlanError where a region of the plan is none, or one of the graph's is not there."""
    wrong = first_wrong(plan)
    if wrong is not None:
        number, reason = wrong
        raise NOT_DERIVED(reason=f"region {shown(plan.regions[number].name)}: {reason}")
    said = {region.name: region for region in plan.regions}
    for region in regions_of(graph):
        if region.name not in said:
            raise NOT_DERIVED(
                reason=f"region {region.name}: the graph has it, and the plan has none"
            )
        if said[region.name] != region:
            mine, theirs = _text(said[region.name]), _text(region)
            raise NOT_DERIVED(
                reason=f"region {region.name}: the plan says {mine}, the graph {theirs}"
            )


def _text(region: RegionPlan) -> str:
    return f"{shown(region.first)} .. {shown(region.last)} as {region.contract()}"


def runs_of(plan: PlanData) -> dict[str, int]:
    """Returns how often operators, by node, and conversions, by id, run forward in a step: once,
    and again for every region that they are in; those that run once are left out.
    """
    places = extents(plan)
    if not places:
        return {}
    around: dict[int, list[Extent]] = {}
    for extent in places:
        for number in range(extent.start, extent.stop):
            around.setdefault(number, []).append(extent)
    found = {plan.operators[number].node: 1 + len(each) for number, each in around.items()}
    uses = Uses(plan)
    for number, operator in enumerate(plan.operators):
        for operand in operator.operands:
            source = operand.source
            while source in uses.conversions and source not in found:
                made = uses.made[source]
                found[source] = 1 + sum(each.start <= made for each in around.get(number, ()))
                source = uses.conversions[source].source
    return {name: runs for name, runs in found.items() if runs > 1}


def region_texts(plan: PlanData) -> Iterator[tuple[str, str, str, str]]:
    """Yields for each region its name, its operators, how it is run, and what it keeps."""
    uses = Uses(plan)
    for region, extent in zip(plan.regions, extents(plan), strict=True):
        settings = ", ".join(f"{k}={v}" for k, v in region.contract().arguments().items())
        kept = [f"{name} ({_shape(shape)})" for name, shape in uses.kept_by(extent).items()]
        yield (
            region.name,
            f"{extent.stop - extent.start} operators, {region.first} .. {region.last}",
            settings,
            f"keeps {', '.join(kept) or 'nothing'}",
        )


def _shape(shape: list[str | None] | None) -> str:
    return "?" if shape is None else ", ".join(text or "?" for text in shape)


def stays_out(before: str, after: str, *, shared: bool) -> bool:
    """Returns whether a conversion of what a region takes is made before the region, and is not
    run again: where its result needs no more memory than what it is made of, which need not be kept
    then. A gathered tensor is larger, and is gathered again; so is a sum of what the region takes
    for other work, too.

    >>> stays_out("P(sum)", "R", shared=True), stays_out("S(0)", "R", shared=True)
    (True, False)
    """
    return before.startswith("P(") or (before == after == "R" and shared)


class Uses:
    """Where each value and conversion of a plan is made. ``made``: the number of its operator; of a
    conversion the first that it is for, or the last before the regions that it stays out of; -1 for
    an input.
    """

    def __init__(self, plan: PlanData) -> None:
        self.plan = plan
        self.conversions = {entry.id: entry for entry in plan.conversions}
        self.made = {entry.value: -1 for entry in plan.inputs}
        self._inputs = {entry.value: entry for entry in plan.inputs}
        self._shapes = {entry.value: entry.shape for entry in plan.inputs}
        self._around: dict[int, list[tuple[int, set[str]]]] = {}
        for extent in extents(plan):
            operators = plan.operators[extent.start : extent.stop]
            taken = {operand.source for entry in operators for operand in entry.operands}
            for number in range(extent.start, extent.stop):
                self._around.setdefault(number, []).append((extent.start, taken))
        for number, operator in enumerate(plan.operators):
            for operand in operator.operands:
                self._convert(operand.source, number)
            for output in operator.outputs:
                self.made.setdefault(output.value, number)
                self._shapes[output.value] = output.shape
        for entry in plan.conversions:
            self._shapes[entry.id] = entry.shape_after
        for result in plan.outputs:
            self._convert(result.source, len(plan.operators))

    def _convert(self, source: str, number: int) -> None:
        entry = self.conversions.get(source)
        if entry is None or source in self.made:
            return
        self._convert(entry.source, number)
        self.made[source] = number
        axis = list(self.plan.mesh).index(entry.axis)
        if stays_out(entry.before[axis], entry.after[axis], shared=entry.shared_gradient):
            given = self.made[entry.source]
            starts = [
                start
                for start, taken in self._around.get(number, ())
                if start > given and (not entry.forward or entry.source not in taken)
            ]
            self.made[source] = min([number, *(start - 1 for start in starts)])

    def kept_by(self, extent: Extent) -> dict[str, list[str | None] | None]:
        """Returns what a region keeps to be run again, with its shape on a rank: the tensors that
        it takes and that are made before it, other than parameters, buffers and constants.
        """
        found: dict[str, list[str | None] | None] = {}
        for operator in self.plan.operators[extent.start : extent.stop]:
            for operand in operator.operands:
                source = operand.source
                while source in self.conversions and (
                    self.made[source] >= extent.start or not self.conversions[source].forward
                ):
                    source = self.conversions[source].source
                entry = self._inputs.get(source)
                held = entry is not None and entry.kind not in ("input", "size")
                if not held and self.made[source] < extent.start and operand.shape is not None:
                    found[source] = self._shapes[source]
        return found
