"""A plan in short, for people: shapes, legal counts, what is cut, what is communicated.

input     input_ids               int64[batch, seq]
output    logits                  float64[batch, seq, 256]
legal     tp                      1, 2
plan      tp = 2                  30 of 185 operators cut, 20 of 21 parameters
sends     all-reduce along tp     4 forward, 5 backward
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from dimsolve.ir.errors import DimsolveError
from dimsolve.partition.plan import Plan

from ..graph import Graph

LOCAL = frozenset({"slice", "keep", "insert"})
"""What a conversion does without sending anything."""


def overview(graph: Graph, plan: Plan, policy: Any) -> list[list[str]]:
    """Returns the rows of a table."""
    return [
        *_shapes(graph),
        *_legal_counts(graph, plan, policy),
        *_cuts(plan),
        *_traffic(plan),
        *[["needs", condition, plan.reasons.get(condition, "")] for condition in plan.conditions],
    ]


def _shapes(graph: Graph) -> Iterator[list[str]]:
    for entry in graph.inputs:
        if entry.kind == "input":
            yield ["input", entry.target, str(entry.value.type)]
    for name, value in graph.outputs.items():
        yield ["output", name, str(value.type)]


def _legal_counts(graph: Graph, plan: Plan, policy: Any) -> Iterator[list[str]]:
    for axis in plan.mesh:
        try:
            counts = graph.legal_parts(axis, policy, up_to=16)
        except DimsolveError as error:
            yield ["legal", axis, f"not known: {error.diagnostic.title}"]
            continue
        always = ", ".join(map(str, counts.always)) or "none"
        yield ["legal", axis, f"always {always}"]
        for count, condition in counts.conditional.items():
            yield ["", "", f"{count} if {condition}"]


def _cuts(plan: Plan) -> Iterator[list[str]]:
    for place, (axis, size) in enumerate(plan.mesh.items()):
        cut = sum(axis in operator.splits for operator in plan.operators)
        held = sum(entry.placements[place] != "R" for entry in plan.parameters)
        text = f"{cut} of {len(plan.operators)} operators, {held} of {len(plan.parameters)}"
        yield ["cuts", f"{axis} = {size}", f"{text} parameters"]


def _traffic(plan: Plan) -> Iterator[list[str]]:
    counts: dict[str, Counter[str]] = {}
    for entry in plan.conversions:
        ways = [("forward", entry.forward)]
        if entry.backward_runs == "always":
            ways.append(("backward", entry.backward))
        for direction, collectives in ways:
            for collective in collectives:
                if collective not in LOCAL:
                    found = counts.setdefault(f"{collective} along {entry.axis}", Counter())
                    found[direction] += 1
    for what, found in counts.items():
        yield ["sends", what, ", ".join(f"{n} {direction}" for direction, n in found.items())]
