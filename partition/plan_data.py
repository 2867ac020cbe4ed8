"""A plan as data: how one graph is cut over one mesh, without what is asked of it.

A placement is text as it prints (``S(0)``, ``R``, ``P(sum)``); a tensor has one per mesh axis,
outer axis first. A length is text in the dimension language. All ranks run the same program, so
nothing here counts ranks:

    mesh            tp = 2
    parameters      q_proj.weight   S(0)   (64, 64) -> (32, 64)
    operators       linear          tp: d   (batch, seq, 64), (32, 64) -> (batch, seq, 32)
    conversions     x@1   R -> R, gradient P(sum) -> R   identity | all-reduce   for linear:0

A step runs the operators in order, each on local tensors. `Operand.source` names what an operand
is taken from: a value of the graph, or a conversion, which itself starts from a value or from an
earlier conversion. Planning makes a `PlanData`, sizes, memory and communication are computed from
one, and the public `dimsolve.Plan` is one with these questions as methods.
"""

from __future__ import annotations

from typing import Any, Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from dimsolve.ir.errors import Diagnostic, DimsolveError, Problem
from dimsolve.ir.graph import CONTRACT, Graph, Region

from .legality import Legality
from .machine import Machine, bytes_text
from .reshard import Collective

VERSIONS = (1, 2, 3, 4)
"""Of the schema: a plan of another version is not read. One that cuts unequal parts, or
might in the search for it, or sees an axis as two, is of version 4. One that stores parameters in
parts, or in another dtype, or in which rules communicate, is of version 3, any other with regions
of version 2, all others of version 1.
"""

REAL = ("float64", "float32", "bfloat16", "float16")
"""Dtypes in which parameters may be stored."""

PLAN_AGAIN = "make the plan anew: dimsolve.plan(graph, mesh, policy)"


class PlanError(DimsolveError):
    """A plan that cannot be made, read or used. ``legality``: the answer that forbids it, where a
    split is to blame.
    """

    __module__ = "dimsolve"

    legality: Legality | None = None


def problem(code: str, title: str, reason: str = "", hint: str = "") -> Problem[PlanError]:
    """Returns a row of a table of errors that are PlanErrors."""
    return Problem(PlanError, code, title, reason, hint)


def plan_error(
    code: str,
    title: str,
    reason: str,
    hint: str = "",
    *,
    text: str = "",
    legality: Legality | None = None,
) -> PlanError:
    """Returns the error with its diagnostic, and the answer that forbids what was asked."""
    error = PlanError(Diagnostic(code, title, text=text, reason=reason, hint=hint))
    error.legality = legality
    return error


NOT_DERIVED = problem(
    "not-derived", "the plan does not follow from its graph", "{reason}", PLAN_AGAIN
)
NOT_A_PLAN = problem("not-a-plan", "this is not a plan", "{reason}", "Plan.to_json writes one")
NO_PLAN = problem(
    "not-a-plan",
    "this is not a plan",
    "{value!r:.60} is a {kind}",
    "dimsolve.plan(graph, mesh, policy) makes one, Plan.from_json reads one",
)


def given_mesh(plan: PlanData) -> dict[Axis, int]:
    """Returns the sizes of the axes as they were asked for: what is seen as several is one."""
    whole = {part: axis for axis, parts in plan.factors.items() for part in parts}
    found: dict[Axis, int] = {}
    for axis, size in plan.mesh.items():
        if size.isdecimal():
            name = whole.get(axis, axis)
            found[name] = found.get(name, 1) * int(size)
    return found


def no_plan(value: object) -> PlanError:
    """Returns the error for a value of another type where a plan is wanted."""
    return NO_PLAN(value=value, kind=type(value).__name__)


Expression: TypeAlias = str
PlacementText: TypeAlias = str
Axis: TypeAlias = str
State: TypeAlias = Literal["optimizer", "shared"]
Gradient: TypeAlias = Literal["always", "inputs", "never"]


class Model(BaseModel):
    """The base of all: immutable, and no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class LocalTensor(Model):
    """A tensor as ranks have it. ``shape``: on one rank, the first where parts are unequal; None
    where it is not known.
    """

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
    passes through a linear operator. of, unit: its length and what the parts are multiples of,
    where they are not equal, as in `dimsolve.partition.placement.Shard`; "0" where they are. rule:
    which of the declaration's transform rules is used,
    counted from 0; None: the marks of the annotation.
    """

    identifier: str | None
    blocks: Expression = "1"
    segments: list[int] = Field(default_factory=list)
    rule: int | None = None
    of: Expression = "0"
    unit: Expression = "1"

    @property
    def uneven(self) -> bool:
        """Whether the parts are not all equal."""
        return self.of != "0"

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Equal parts are written as in version 1."""
        data: dict[str, Any] = write(self)
        if not self.uneven:
            del data["of"], data["unit"]
        return data

    def __str__(self) -> str:
        name = self.identifier or "partial"
        blocks = f" in {self.blocks} blocks" if self.blocks != "1" else ""
        segments = f" in segments {':'.join(map(str, self.segments))}" if self.segments else ""
        unequal = " in unequal parts" if self.uneven else ""
        return f"{name}{blocks}{segments}{unequal}"


class Randomness(Model):
    """How ranks draw. ``differs``: the axes along which each rank draws numbers of its own; along
    the others all draw the same. stream: numbers the operators of the graph that draw.
    """

    differs: list[Axis]
    stream: int


class Sent(Model):
    """A collective inside an operator, made by the rule that splits it along this axis.

    runs: whether it is made in training, see ``ConversionPlan.backward_runs``. bytes: what one rank
    sends.
    """

    axis: Axis
    direction: Literal["forward", "backward"]
    collective: Collective
    runs: Gradient
    bytes: Expression


class OperatorPlan(Model):
    """One node of the graph.

    operands: one per value in the node's arguments, in the order of ``Node.operands()``. inputs:
    for each annotated input the place in ``operands``, None for an absent one. lengths: of the
    annotation's identifiers on one rank. sizes: the size arguments on one rank, by name, from
    ``Declaration.sizes``, each as a list of lengths. skipped: its results are lengths of the
    whole tensors, known without running it. sends: what its rules communicate themselves.
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
    sends: list[Sent] = Field(default_factory=list)

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What sends nothing is written as in version 1."""
        data: dict[str, Any] = write(self)
        if not self.sends:
            data.pop("sends", None)
        return data


class ConversionPlan(Model):
    """A change of placement along one axis, and what its gradient does on the way back.

    source: a value, or the conversion before this one. before, after: the placements of all axes;
    they differ at ``axis`` at most. forward, backward: the collectives there and on the way back;
    [] is the identity. shared_gradient: the result is replicated along the axis and used by work
    that is not, so its gradient is a sum over the ranks. gradient: the placement of
    the result's gradient along the axis, and of the source's. backward_runs: whether the value has
    a gradient in training; ``inputs``: only if the caller asks for the gradient of an input. bytes:
    what one rank sends. block: of a parameter that is stored in parts, the number of the block of
    parameters with which it is gathered; with ``state`` "shared" it is gathered again on the way
    back. uses: ``node:operand`` for nodes, ``return:name`` for outputs; conversions
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
    block: int | None = None
    uses: list[str]


class InputPlan(LocalTensor):
    """An input of the graph. ``name``: the argument's name, or the qualified name in the model.

    The caller gives inputs and constants whole and each rank cuts its part; parameters and buffers
    are stored in parts. ``whole``: the shape of the whole.
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


class Precision(Model):
    """In which dtype parameters are stored and their gradients are summed over ranks; they are used
    in that of the graph.
    """

    stored: str
    reduced: str


class CaseRecord(Model):
    """How parameters are stored, and whether repeated blocks run again in the backward pass, in one
    case of a search; and what was proved of it.

    limited: whether the proof takes the limit of memory into account. dearer_than: the number of a
    case that costs no more without a limit, or more by a known number at most, whatever the
    operators do; its proof is one for this case too. proof: the steps that
    `dimsolve.partition.search.check` checks, of every round. free: where that takes the limit into
    account, or another case has it, and others go by this one, a proof without a limit.
    """

    mesh: dict[Axis, int]
    state: dict[Axis, State]
    recompute: bool
    limited: bool = False
    dearer_than: int | None = None
    proof: list[Any] = Field(default_factory=list, repr=False)
    free: list[Any] = Field(default_factory=list, repr=False)


class SearchRecord(Model):
    """What a search for the plan of least time has proved, under its cost model.

    machine, sizes, memory, optimizer_states: what was asked; memory in bytes of a rank, None for
    no limit; storage: the axes along which it was to decide how parameters are stored. ranks: of
    which all meshes with one axis or two were searched; None where the mesh was given. cost: of the
    plan, in picoseconds. bound: what every plan costs at least. cases: all, with their proofs.
    uneven: what might be cut into unequal parts; "refuse" where nothing could be.
    """

    machine: Machine
    sizes: dict[str, int]
    memory: int | None
    optimizer_states: int
    storage: list[Axis] = Field(default_factory=list)
    ranks: int | None = None
    uneven: Literal["allow", "parameters", "refuse"] = "refuse"
    cost: int
    bound: int = Field(ge=0)
    cases: list[CaseRecord] = Field(repr=False)

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A search of equal parts is written as in version 1."""
        data: dict[str, Any] = write(self)
        if self.uneven == "refuse":
            del data["uneven"]
        return data

    @property
    def seconds(self) -> float:
        """The time of a step."""
        return self.cost / 1e12

    @property
    def gap(self) -> float:
        """How much less such a plan could take, as a part of this one's time; 0: it is the best."""
        return 1 - self.bound / self.cost if self.cost else 0.0

    @property
    def optimal(self) -> bool:
        """Whether it is proved that no plan is faster, of those that store parameters alike where
        the search was not to decide that (`storage`).
        """
        return self.bound >= self.cost

    def explain(self) -> str:
        """Returns what was asked, and what is proved of the answer, in a few lines."""
        sizes = ", ".join(f"{name}={size}" for name, size in sorted(self.sizes.items()))
        nodes = f", {self.machine.nodes} nodes" if self.machine.nodes > 1 else ""
        among = "" if self.storage else " that stores parameters alike"
        lines = [
            f"{seconds_text(self.cost)} for a training step on {self.machine.name}{nodes}"
            f"{f' at {sizes}' if sizes else ''}, under this cost model",
            f"proved: no plan{among} is faster"
            if self.optimal
            else f"within {self.gap:.2%} of the best: every plan{among} takes at least "
            f"{seconds_text(self.bound)}",
        ]
        if self.ranks is not None:
            count = len({tuple(each.mesh.items()) for each in self.cases})
            lines.append(f"of {count} mesh{'es' * (count != 1)} of {self.ranks} ranks")
        if self.uneven != "refuse":
            lines.append("unequal parts have whole units of an operator, or of one beside it")
        if self.memory is not None:
            lines.append(
                f"within {bytes_text(self.memory)} of a rank, with {self.optimizer_states} "
                "optimiser states for each parameter"
            )
        return "\n".join(lines)


def seconds_text(picoseconds: int) -> str:
    """Returns a time as people read it.

    >>> seconds_text(1_272_326_870_064), seconds_text(5_000_000)
    ('1.272 s', '5 us')
    """
    for unit, size in (("s", 10**12), ("ms", 10**9), ("us", 10**6)):
        if picoseconds >= size:
            return f"{picoseconds / size:.4g} {unit}"
    return f"{picoseconds} ps"


class GraphId(Model):
    """Which graph the plan is for. ``fingerprint`` is a hash of its nodes and types."""

    name: str
    nodes: int
    fingerprint: str


class PlanData(Model):
    """The fields of a plan.

    mesh: sizes by axis name, outer axis first. symbols, facts: those of the graph. conditions: what
    must hold of the symbols for this plan, checked before a run. reasons: where each condition
    comes from. notes: which dimension is the batch, and what was left whole although it
    might have been cut, and why. regions: what is run again in the backward pass, the outer ones
    first: those of the graph, and any that whoever made the plan added. state: how parameters are
    stored along an axis on which they are used whole: ``optimizer``, in parts that are gathered
    once, or ``shared``, in parts that are gathered for each use; an axis that is not there stores
    them as they are used. precision: of parameters, where it is not that of the graph. factors:
    axes that were asked for and are seen as several of the mesh, outer axis first. search: what
    is proved of a plan that was searched for.
    """

    version: Literal[1, 2, 3, 4] = 1
    graph: GraphId
    mesh: dict[Axis, Expression]
    policy: str
    symbols: list[str]
    facts: list[str]
    conditions: list[Expression]
    reasons: dict[Expression, str]
    inputs: list[InputPlan]
    operators: list[OperatorPlan]
    conversions: list[ConversionPlan]
    outputs: list[OutputPlan]
    notes: list[str] = Field(default_factory=list)
    regions: list[RegionPlan] = Field(default_factory=list)
    state: dict[Axis, State] = Field(default_factory=dict)
    precision: Precision | None = None
    factors: dict[Axis, list[Axis]] = Field(default_factory=dict)
    search: SearchRecord | None = None

    _planned: Any = PrivateAttr(default=None)

    @property
    def uneven(self) -> bool:
        """Whether some operator is cut into parts that are not all equal."""
        return any(split.uneven for entry in self.operators for split in entry.splits.values())

    @property
    def parameters(self) -> list[InputPlan]:
        """The inputs that are parameters of the model."""
        return [entry for entry in self.inputs if entry.kind == "parameter"]

    def stored_dtype(self, dtype: str | None) -> str | None:
        """Returns in which dtype a parameter is stored that is used in this one."""
        precision = self.precision
        return precision.stored if precision is not None and dtype in REAL else dtype

    @property
    def data_axes(self) -> tuple[Axis, ...]:
        """The axes that cut data: along which some input of the caller is cut, and no operator uses
        a parameter in parts.

        Along the others all ranks work on the same data.
        """
        parameters = {entry.value for entry in self.parameters}
        given = [entry.placements for entry in self.inputs if entry.kind == "input"]
        used = [
            operand.placements
            for entry in self.operators
            for operand in entry.operands
            if operand.value in parameters
        ]
        data, weights = (
            {axis for each in found for axis, p in zip(self.mesh, each, strict=True) if p[0] == "S"}
            for found in (given, used)
        )
        return tuple(axis for axis in self.mesh if axis in data - weights)

    @property
    def planned(self) -> Graph | None:
        """The graph that it was made for, or given to `for_graph`; None for a plan that was read
        and has met none.
        """
        graph: Graph | None = self._planned
        return graph

    def searched(self, record: SearchRecord | None) -> Self:
        """Returns the plan with what a search for it has proved."""
        deals = record is not None and record.uneven != "refuse"
        version = 4 if deals else self.version
        return self.model_copy(update={"search": record, "version": version})

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What an older version has no word for is not written where there is none of it."""
        data: dict[str, Any] = write(self)
        for name in ("regions", "state", "precision", "factors", "search"):
            if not getattr(self, name):
                data.pop(name, None)
        for entry in data.get("conversions", ()):
            if entry["block"] is None:
                del entry["block"]
        return data

    def __eq__(self, other: object) -> bool:
        """Plans are equal where they say the same, whichever graph they have met."""
        return isinstance(other, PlanData) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]
