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
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, PrivateAttr, SerializerFunctionWrapHandler, model_serializer

from dimsolve.ir.display import Displayed, render

from .plan_data import (
    Axis,
    Collective,
    ConversionPlan,
    Expression,
    Gradient,
    GraphId,
    InputPlan,
    LocalTensor,
    Made,
    Model,
    Operand,
    OperatorPlan,
    OutputPlan,
    PlacementText,
    Randomness,
    RegionPlan,
    Split,
)

if TYPE_CHECKING:
    from dimsolve.ir.graph import Graph

    from .plan_queries import Memory, Traffic


VERSIONS = (1, 2)
"""Of the schema: a plan of another version is not read. One with regions is of version 2, all
others are of version 1.
"""

__all__ = [
    "VERSIONS",
    "Axis",
    "Collective",
    "ConversionPlan",
    "Expression",
    "Gradient",
    "GraphId",
    "InputPlan",
    "LocalTensor",
    "Made",
    "Model",
    "Operand",
    "OperatorPlan",
    "OutputPlan",
    "PlacementText",
    "Plan",
    "Randomness",
    "RegionPlan",
    "Split",
]


class Plan(Model, Displayed):
    """How a graph is cut over a mesh. Made by `dimsolve.plan`.

    mesh: sizes by axis name, outer axis first. symbols, facts: those of the graph. conditions: what
    must hold of the symbols for this plan, checked before a run. reasons: for each condition where
    it comes from. notes: which dimension was taken for the batch, and what was left whole although
    it might have been cut, and why. regions: what is run again in the backward pass, the outer ones
    first: those of the graph, and any that whoever made the plan added.
    """

    version: Literal[1, 2] = 1
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

    _planned: Any = PrivateAttr(default=None)

    @property
    def parameters(self) -> list[InputPlan]:
        """The inputs that are parameters of the model."""
        return [entry for entry in self.inputs if entry.kind == "parameter"]

    @property
    def data_axes(self) -> tuple[Axis, ...]:
        """The axes that cut data: along which some input of the caller is cut, and no parameter.

        Along the others all ranks work on the same data.
        """
        cut = {"input": set[Axis](), "parameter": set[Axis]()}
        for entry in self.inputs:
            for axis, text in zip(self.mesh, entry.placements, strict=True):
                if entry.kind in cut and text.startswith("S"):
                    cut[entry.kind].add(axis)
        return tuple(a for a in self.mesh if a in cut["input"] and a not in cut["parameter"])

    @property
    def planned(self) -> Graph | None:
        """The graph that it was made for, or given to `for_graph`; None for a plan that was read
        and has met none.
        """
        graph: Graph | None = self._planned
        return graph

    def for_graph(self, graph: Graph) -> Plan:
        """Returns the plan with its graph.

        Raises PlanError where it was made for another graph, and where it says anything else than
        what the planner's rules derive from the graph with this mesh and these splits: a plan that
        was edited is refused, and the error names the first difference. A plan of version 1 says
        nothing of regions that are run again in the backward pass: it is given those of the graph.
        """
        from .planning.derive import check_derived
        from .regions import with_regions_of

        plan = with_regions_of(self, graph)
        check_derived(plan, graph)
        plan._planned = graph
        return plan

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What has no regions is written as in version 1."""
        data: dict[str, Any] = write(self)
        if not self.regions:
            data.pop("regions", None)
        return data

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
        return str(render(self, "text"))

    def memory(
        self,
        sizes: Mapping[str, int] | None = None,
        *,
        optimizer_states: int = 2,
        **named: int,
    ) -> Memory:
        """Returns the bytes that one rank needs at these sizes: parameters, gradients, optimiser
        state, and activations at their peak.

        sizes: of the plan's symbols, as a mapping or by keyword: ``memory({"batch": 4})``,
        ``memory(batch=4)``. optimizer_states: how many numbers the optimiser keeps for each
        parameter; Adam keeps two. Raises PlanError for a size that is missing, of no symbol of the
        plan, or one that breaks a condition of the plan.
        """
        from .plan_queries import Sizes, memory_of, read_sizes

        given = read_sizes(self, sizes, named, "memory")
        return memory_of(self, Sizes(self, given, "memory"), optimizer_states)

    def communication(
        self,
        sizes: Mapping[str, int] | None = None,
        *,
        input_gradients: bool = False,
        **named: int,
    ) -> list[Traffic]:
        """Returns the collectives of a training step and the bytes that one rank sends, at these
        sizes; `memory` says how they are given.

        input_gradients: whether inputs of the caller require gradients: what is sent backward only
        for them is left out otherwise, as it is in the run.
        """
        from .plan_queries import Sizes, communication_of, read_sizes

        given = read_sizes(self, sizes, named, "communication")
        return communication_of(self, Sizes(self, given, "communication"), input_gradients)

    def check(self, sizes: Mapping[str, int] | None = None, **named: int) -> None:
        """Raises PlanError for the first condition that does not hold at these sizes, and where one
        of its sizes is missing; `memory` says how they are given.
        """
        from .plan_queries import check_conditions, read_sizes

        check_conditions(self, read_sizes(self, sizes, named, "check"))

    def diff(self, other: Plan) -> str:
        """Returns what differs, a line each; ``""`` for equal plans. PlanError for no plan."""
        from .plan_queries import diff

        return diff(self, other)

    def __str__(self) -> str:
        return self.explain()

    def __eq__(self, other: object) -> bool:
        """Plans are equal where they say the same, whichever graph they have met."""
        return isinstance(other, Plan) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]
