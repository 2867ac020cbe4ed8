"""What a run reports, as data and for people.

    {"ok": true, "ranks": 2, "mesh": {"tp": 2}, "steps": [{"loss": 5.54, ...}], ...}

`dimsolve run --json` prints one `RunReport`. The `overview` is the plan in short:

    input    input_ids            int64[batch, seq]
    output   logits               float64[batch, seq, 256]
    legal    tp                   always 1, 2
    cut      tp = 2               30 of 185 operators, 20 of 21 parameters
    sends    all-reduce along tp  4 forward, 5 backward
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from dimsolve.ir.errors import DimsolveError
from dimsolve.partition.plan import Plan
from dimsolve.partition.plan_data import InputPlan

from ..graph import Graph


class Model(BaseModel):
    """The base of all: immutable, and no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StepReport(Model):
    """One training step: the loss, the seconds it took on the first rank, the symbols' sizes.

    loss: None where there is nothing to train.
    """

    loss: float | None
    seconds: float
    sizes: dict[str, int]


class Float64Report(Model):
    """The largest relative distances from one device in float64, of the steps that were beyond what
    is allowed.

    one_device: in the model's dtype, and of float64 where its weights move by roundings. ranks: in
    the model's dtype. exact: of the ranks' program in float64. See
    `dimsolve.exec.running.against_float64` for when they are equal.
    """

    one_device: float
    ranks: float
    exact: float


class FirstReport(Model):
    """What differs first; see `dimsolve.exec.running.first_difference.FirstDifference`."""

    kind: str
    name: str = ""
    node: str = ""
    operator: str = ""
    module: str = ""
    source: str = ""
    line: str = ""
    values: dict[str, str] = Field(default_factory=dict)
    off: float = 0.0
    one_device: float = 0.0
    dtype: str = ""
    rank: int | None = None
    reason: str = ""


class DifferencesReport(Model):
    """The largest relative differences from one device, over all steps and ranks.

    allowed: what rounding explains, of the widest dtype that the model's parameters have. float64:
    where a step was beyond that: how far both are from float64, by which it was judged. None where
    no step was, or where the model does not run in float64. first: what differs first, in the first
    step that is not equal.
    """

    outputs: float
    loss: float
    gradients: float
    allowed: float
    float64: Float64Report | None = None
    first: FirstReport | None = None


class BytesReport(Model):
    """Bytes of the parameters: of the whole model, and of the part on one rank."""

    whole: int
    per_rank: int


class ErrorReport(Model):
    """Why a run failed: on which rank, in which operator, with which local shapes."""

    rank: int | None = None
    operator: str = ""
    node: str = ""
    source: str = ""
    shapes: dict[str, str] = Field(default_factory=dict)
    reason: str


class RunReport(Model):
    """A run. ``ok``: whether it ended and, where it was compared, was equal to one device.

    differences: None where it was not compared, or failed before. notes: what else is to be known
    of the run, such as an axis that cuts nothing. overview: for people: shapes,
    legal counts and the plan in short.
    """

    ok: bool
    ranks: int
    mesh: dict[str, int]
    steps: list[StepReport] = Field(default_factory=list)
    differences: DifferencesReport | None = None
    parameter_bytes: BytesReport | None = None
    conditions: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    error: ErrorReport | None = None
    overview: list[list[list[str]]] = Field(default_factory=list, exclude=True)
    exit_code: int = Field(default=0, exclude=True)


class RunOptions(Model):
    """What to run. ``timeout``: seconds that a rank waits for another one.

    dtype: of the model's real parameters and inputs, as in torch; None leaves them as they are.
    at: sizes of dynamic dimensions in every step; the others are those of the example. profile: a
    database that what operators and collectives take is written to, before the steps.
    """

    target: str
    mesh: str
    plan: str | None = None
    policy: str | None = None
    state: str | None = None
    uneven: str = "parameters"
    steps: int = 3
    verify: bool = True
    seed: int = 0
    timeout: float = 60.0
    device: str | None = None
    dtype: str | None = None
    at: dict[str, int] = Field(default_factory=dict)
    profile: str | None = None


LOCAL = frozenset({"slice", "keep", "insert"})
"""What a conversion does without sending anything."""

MOST = 16
"""So many kinds of weights are listed."""

Row = list[str]


def overview(graph: Graph, plan: Plan, policy: Any) -> list[list[Row]]:
    """Returns blocks of rows; a row's first cell says what it is about, and only where that
    changes.
    """
    first = [
        *_shapes(graph),
        *_legal_counts(graph, plan, policy),
        *[["needs", text, plan.reasons.get(text, "")] for text in plan.conditions],
        *_cuts(plan),
        *_traffic(plan),
    ]
    return [_said_once(first), _said_once(_weights(plan))]


def _said_once(rows: Iterable[Row]) -> list[Row]:
    said, shown = "", []
    for label, *rest in rows:
        shown.append(["" if label == said else label, *rest])
        said = label
    return shown


def _shapes(graph: Graph) -> Iterator[Row]:
    for entry in graph.inputs:
        if entry.kind == "input":
            yield ["input", entry.target, str(entry.value.type)]
    for name, value in graph.outputs.items():
        yield ["output", name, str(value.type)]


def _legal_counts(graph: Graph, plan: Plan, policy: Any) -> Iterator[Row]:
    for axis in plan.mesh:
        try:
            counts = graph.legal_parts(axis, policy, up_to=16, uneven="refuse")
        except DimsolveError as error:
            yield ["legal", axis, f"not known: {error.diagnostic.title}"]
            continue
        always = ", ".join(map(str, counts.always)) or "none"
        yield ["legal", axis, f"always {always}"]
        for count, condition in counts.conditional.items():
            yield ["legal", "", f"{count} if {condition}"]


def _cuts(plan: Plan) -> Iterator[Row]:
    for place, (axis, size) in enumerate(plan.mesh.items()):
        cut = sum(axis in operator.splits for operator in plan.operators)
        held = sum(entry.placements[place] != "R" for entry in plan.parameters)
        text = (
            f"{cut} of {len(plan.operators)} operators, {held} of {len(plan.parameters)} parameters"
        )
        if not cut and not held:
            text = "nothing: every rank along it computes the same"
        yield ["cut", f"{axis} = {size}", text]


def _traffic(plan: Plan) -> Iterator[Row]:
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


def _weights(plan: Plan) -> Iterator[Row]:
    """The parameters that are cut: those of all layers, where they are cut alike, as one."""
    kinds: dict[tuple[str, ...], None] = {}
    for entry in plan.parameters:
        if any(placement != "R" for placement in entry.placements):
            name = re.sub(r"(?<=\.)\d+(?=\.)|^\d+(?=\.)", "*", entry.name)
            kinds[name, *_cut_of(entry)] = None
    for kind in list(kinds)[:MOST]:
        yield ["weights", *kind]
    if len(kinds) > MOST:
        yield ["weights", f"and {len(kinds) - MOST} more kinds"]


def _cut_of(entry: InputPlan) -> tuple[str, str, str]:
    whole, local = (
        ", ".join("?" if length is None else str(length) for length in shape or ())
        for shape in (entry.whole, entry.shape)
    )
    return whole, " ".join(entry.placements), local
