"""The plan: how one graph is cut over one mesh, as data.

A placement is text as it prints (``S(0)``, ``R``, ``P(sum)``), a tensor has one per mesh axis,
outer axis first. A length is text in the dimension language. What a rank runs is the same on all
ranks, so nothing here counts ranks:

    mesh            tp = 2
    parameters      q_proj.weight   S(0)   (64, 64) -> (32, 64)
    operators       linear          tp: d   (batch, seq, 64), (32, 64) -> (batch, seq, 32)
    conversions     c1  x   R -> R, gradient P(sum) -> R   identity | all-reduce   for linear:0, ...

A step runs the nodes of the graph in order, each on local tensors. What a node takes is named by
`Operand.source`: a value of the graph, or a conversion, which itself starts from a value or from
another conversion. Conversions stand in an order in which each comes after its source.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

if TYPE_CHECKING:
    from dimsolve.ir.graph import Graph

    from .communication import Traffic
    from .memory import Memory

VERSION = 1
"""Of the schema: a plan of another version is not read."""

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


class OutputPlan(LocalTensor):
    """An output as it is made, and the ``source`` that has it whole on every rank."""

    name: str
    source: str


class GraphId(Model):
    """Which graph the plan is for. ``fingerprint`` is a hash of its nodes and types."""

    name: str
    nodes: int
    fingerprint: str


class Plan(Model):
    """How a graph is cut over a mesh. Made by `dimsolve.plan`.

    mesh: sizes by axis name, outer axis first. symbols, facts: those of the graph. conditions: what
    must hold of the symbols for this plan, checked before a run. reasons: for each condition where
    it comes from. notes: what was left whole although it might have been cut, and why.
    """

    version: Literal[1] = 1
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

    _planned: Any = PrivateAttr(default=None)

    @property
    def parameters(self) -> list[InputPlan]:
        """The inputs that are parameters of the model."""
        return [entry for entry in self.inputs if entry.kind == "parameter"]

    @property
    def planned(self) -> Graph | None:
        """The graph that it was made for, or given to `for_graph`; None for a plan that was read
        and has met none.
        """
        graph: Graph | None = self._planned
        return graph

    def for_graph(self, graph: Graph) -> Self:
        """Returns the plan with its graph; raises PlanError where it was made for another one."""
        from .fingerprint import check_fingerprint

        check_fingerprint(self, graph)
        self._planned = graph
        return self

    def to_json(self, *, indent: int | None = 1) -> str:
        """Returns the plan as JSON text: the same plan is the same text."""
        return self.model_dump_json(indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Plan:
        """Returns the plan that was written; raises PlanError for another version, or no plan."""
        from .read_plan import read_plan

        return read_plan(text)

    def explain(self) -> str:
        """Returns the plan as a table."""
        from .explain import explain

        return explain(self)

    def memory(
        self, sizes: Mapping[str, int] | None = None, *, optimizer_states: int = 2
    ) -> Memory:
        """Returns the bytes that one rank needs at these sizes: parameters, gradients, optimiser
        state, and activations at their peak.

        optimizer_states: how many numbers the optimiser keeps for each parameter; Adam keeps two.
        """
        from .memory import memory_of

        return memory_of(self, sizes or {}, optimizer_states)

    def communication(self, sizes: Mapping[str, int] | None = None) -> list[Traffic]:
        """Returns the collectives of a training step and the bytes that one rank sends, at these
        sizes.
        """
        from .communication import communication_of

        return communication_of(self, sizes or {})

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raises PlanError for the first condition that does not hold at these sizes."""
        from .conditions import check_conditions

        check_conditions(self, sizes)

    def diff(self, other: Plan) -> str:
        """Returns what differs, a line each; ``""`` for equal plans."""
        from .diff import diff

        return diff(self, other)

    def __str__(self) -> str:
        return self.explain()

    def _repr_svg_(self) -> str:
        from .draw_plan import plan_svg

        return plan_svg(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        from .explain import summary

        printer.text(summary(self))

    def __rich__(self) -> Any:
        from .terminal import plan_view

        return plan_view(self)

    def __eq__(self, other: object) -> bool:
        """Plans are equal where they say the same, whichever graph they have met."""
        return isinstance(other, Plan) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]
