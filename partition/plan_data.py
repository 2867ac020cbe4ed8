"""What a plan lists: operators, conversions, inputs and outputs, each an immutable pydantic model.

Placements and lengths are texts, as `dimsolve.partition.plan` says.

    OperatorPlan     linear    tp: d    (batch, seq, 64), (32, 64) -> (batch, seq, 32)
    ConversionPlan   x@1       R -> R, shared    identity | all-reduce    for linear:0
    InputPlan        q_proj.weight    S(0)    (64, 64) -> (32, 64)

Plans that cannot be made, or do not fit: refused before anything runs, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from dimsolve.ir.characters import shown
from dimsolve.ir.errors import Diagnostic, DimsolveError
from dimsolve.ir.graph import CONTRACT, Region

from .legality import Legality

PLAN_AGAIN = "make the plan anew: dimsolve.plan(graph, mesh, policy)"


class PlanError(DimsolveError):
    """A plan that cannot be made, read or used. ``legality``: the answer that forbids it, where a
    split is to blame.
    """

    __module__ = "dimsolve"

    legality: Legality | None = None


def plan_error(
    code: str,
    title: str,
    reason: str,
    hint: str = "",
    *,
    text: str = "",
    legality: Legality | None = None,
) -> PlanError:
    """Returns the error with its diagnostic."""
    error = PlanError(Diagnostic(code, title, text=text, reason=reason, hint=hint))
    error.legality = legality
    return error


def follows_not(reason: str) -> PlanError:
    """Returns the error for a plan that says something else than what follows from its graph."""
    return plan_error("not-derived", "the plan does not follow from its graph", reason, PLAN_AGAIN)


def not_a_plan(reason: str, place: Sequence[str | int] = ()) -> PlanError:
    """Returns the error for data that are no plan. place: where in them, as keys and indices."""
    where = ".".join(shown(str(part)) for part in place)
    reason = f"at {where}: {reason}" if where else reason
    return plan_error("not-a-plan", "this is not a plan", reason, "Plan.to_json writes one")


def no_plan(value: object) -> PlanError:
    """Returns the error for a value of another type where a plan is wanted."""
    return plan_error(
        "not-a-plan",
        "this is not a plan",
        f"{value!r:.60} is a {type(value).__name__}",
        "dimsolve.plan(graph, mesh, policy) makes one, Plan.from_json reads one",
    )


Expression: TypeAlias = str
PlacementText: TypeAlias = str
Axis: TypeAlias = str
Gradient: TypeAlias = Literal["always", "inputs", "never"]
Collective: TypeAlias = Literal[
    "slice",
    "keep",
    "insert",
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "broadcast",
]


class Model(BaseModel):
    """The base of all: immutable, and no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class LocalTensor(Model):
    """A tensor as ranks have it. ``shape``: on one rank; None where it is not known."""

    value: str
    dtype: str | None
    placements: list[PlacementText]
    shape: list[Expression | None] | None


class Operand(LocalTensor):
    """One value in the arguments of a node. ``source``: the value or conversion that it is taken
    from.
    """

    source: str


class Made(LocalTensor):
    """What a node makes. ``gradient``: whether it has one in training."""

    gradient: Gradient


class Split(Model):
    """What one mesh axis does to one operator; an axis that does nothing has none.

    identifier: its name, cut into as many parts as the axis has in each of ``blocks`` blocks, and
    in each of their ``segments`` (proportions; [] is one segment); None where a partial value
    passes through a linear operator. rule: which of the declaration's transform rules is used,
    counted from 0; None: the marks of the annotation.
    """

    identifier: str | None
    blocks: Expression = "1"
    segments: list[int] = Field(default_factory=list)
    rule: int | None = None

    def __str__(self) -> str:
        name = self.identifier or "partial"
        blocks = f" in {self.blocks} blocks" if self.blocks != "1" else ""
        segments = f" in segments {':'.join(map(str, self.segments))}" if self.segments else ""
        return f"{name}{blocks}{segments}"


class Randomness(Model):
    """How ranks draw. ``differs``: the axes along which each rank draws numbers of its own; along
    the others all draw the same. stream: numbers the operators of the graph that draw.
    """

    differs: list[Axis]
    stream: int


class OperatorPlan(Model):
    """One node of the graph.

    operands: one per value in the node's arguments, in the order of ``Node.operands()``. inputs:
    for each annotated input the place in ``operands``, None for an absent one. lengths: of the
    annotation's identifiers on one rank. sizes: the size arguments on one rank, by name, from
    ``Declaration.sizes``, each as a list of lengths. skipped: its results are lengths of the
    whole tensors, known without running it.
    """

    node: str
    name: str
    operator: str
    module: str
    source: str
    annotation: str
    splits: dict[Axis, Split]
    operands: list[Operand]
    inputs: list[int | None]
    outputs: list[Made]
    lengths: dict[str, Expression]
    sizes: dict[str, list[Expression]]
    randomness: Randomness | None = None
    skipped: bool = False


class ConversionPlan(Model):
    """A change of placement along one axis, and what its gradient does on the way back.

    source: a value, or the conversion before this one. before, after: the placements of all axes;
    they differ at ``axis`` at most. forward, backward: the collectives there and on the way back;
    [] is the identity. shared_gradient: the result is replicated along the axis and used by work
    that is not, so its gradient is a sum over the ranks. gradient: the placement of
    the result's gradient along the axis, and of the source's. backward_runs: whether the value has
    a gradient in training; ``inputs``: only if the caller asks for the gradient of an input. bytes:
    what one rank sends. uses: ``node:operand`` for nodes, ``return:name`` for outputs; conversions
    that start from this one are not listed.
    """

    id: str
    value: str
    source: str
    axis: Axis
    before: list[PlacementText]
    after: list[PlacementText]
    shared_gradient: bool
    gradient: tuple[PlacementText, PlacementText]
    forward: list[Collective]
    backward: list[Collective]
    backward_runs: Gradient
    dtype: str | None
    shape_before: list[Expression | None] | None
    shape_after: list[Expression | None] | None
    bytes_forward: Expression
    bytes_backward: Expression
    uses: list[str]


class InputPlan(LocalTensor):
    """An input of the graph. ``name``: the argument's name, or the qualified name in the model.

    The caller gives inputs and constants whole and each rank cuts its part; parameters and buffers
    are held in parts. ``whole``: the shape of the whole.
    """

    name: str
    kind: Literal["input", "parameter", "buffer", "constant", "size"]
    whole: list[Expression | None] | None
    gradient: Gradient


class RegionPlan(Model):
    """Operators that are run again in the backward pass, so that what they make is not kept.

    first, last: the operators that it begins and ends with; it has all between them, and whatever
    conversions they need that are not made before. Two regions are apart, or one is a part of the
    other and stands after it. The other fields are the arguments of
    ``torch.utils.checkpoint.checkpoint``.
    """

    name: str
    first: str
    last: str
    use_reentrant: bool = False
    preserve_rng_state: bool = True
    determinism_check: Literal["default", "none"] = "default"
    early_stop: bool = True
    debug: bool = False

    def contract(self) -> Region:
        """Returns the region without its place."""
        return Region(self.name, **{name: getattr(self, name) for name in CONTRACT})


class OutputPlan(LocalTensor):
    """An output as it is made, and the ``source`` that has it whole on every rank."""

    name: str
    source: str


class GraphId(Model):
    """Which graph the plan is for. ``fingerprint`` is a hash of its nodes and types."""

    name: str
    nodes: int
    fingerprint: str
