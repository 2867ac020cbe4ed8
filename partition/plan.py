"""`plan` makes the plan of a graph; a `Plan` answers questions about it.

    plan = dimsolve.plan(graph, {"dp": 2, "tp": 4}, "data+tensor")
    plan.explain()                          a table of operators, conversions and parameters
    plan.memory(batch=8, seq=128).total     bytes of one rank in a training step
    plan.communication(batch=8, seq=128)    the collectives of a step, with bytes

`dimsolve.partition.plan_data` says what the fields mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from dimsolve.ir.display import Displayed, render
from dimsolve.ir.graph import Graph

from .checkpoints import with_regions_of
from .communication import Traffic, communication_of
from .compare import diff
from .engines.torch_tp import ParallelizeModule, to_parallelize_module
from .engines.write import to_tp_plan
from .memory import Memory, memory_of
from .mesh import MeshLike
from .plan_data import PlanData
from .planning.derive import check_derived
from .planning.planner import plan_as, require_graph
from .read_plan import file_text, read_plan
from .sizes import Sizes, check_conditions, read_sizes


class Plan(PlanData, Displayed):
    """How a graph is cut over a mesh. Made by `dimsolve.plan`."""

    def for_graph(self, graph: Graph) -> Self:
        """Returns the plan with its graph.

        Raises PlanError where it was made for another graph, and where it says anything else than
        what the planner's rules derive from the graph with this mesh and these splits: a plan that
        was edited is refused, and the error names the first difference. A plan of version 1 says
        nothing of regions that are run again in the backward pass: it is given those of the graph.
        """
        require_graph(graph)
        plan = with_regions_of(self, graph)
        check_derived(plan, graph)
        plan._planned = graph
        return plan

    def to_json(self, *, indent: int | None = 1) -> str:
        """Returns the plan as JSON text: the same plan is the same text."""
        return self.model_dump_json(indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Plan:
        """Returns the plan that was written; raises PlanError for another version, or no plan."""
        return read_plan(text, Plan)

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
        return memory_of(self, Sizes(self, sizes, named, "memory"), optimizer_states)

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
        known = Sizes(self, sizes, named, "communication")
        return communication_of(self, known, input_gradients)

    def check(self, sizes: Mapping[str, int] | None = None, **named: int) -> None:
        """Raises PlanError for the first condition that does not hold at these sizes, and where one
        of its sizes is missing; `memory` says how they are given.
        """
        check_conditions(self, read_sizes(self, sizes, named, "check"))

    def to_tp_plan(self, axis: str | None = None) -> dict[str, str]:
        """Returns the plan as a ``tp_plan``, which transformers, vLLM and SGLang read: a style for
        every module that is cut, ``{"model.layers.*.self_attn.q_proj": "colwise"}``.

        axis: of the mesh. Raises PlanError, with the operator, for what the format cannot say.
        Whether an engine that runs the model's own code gets the same numbers is asked of
        `dimsolve.audit`.
        """
        return to_tp_plan(self, axis)

    def to_parallelize_module(self, axis: str | None = None) -> ParallelizeModule:
        """Returns the plan for torch's ``parallelize_module``: ``.text`` is the call as Python,
        ``.objects()`` the styles. Raises PlanError, with the operator, for what it cannot say.
        """
        return to_parallelize_module(self, axis)

    def diff(self, other: Plan) -> str:
        """Returns what differs, a line each; ``""`` for equal plans. PlanError for no plan."""
        return diff(self, other)

    def __str__(self) -> str:
        return self.explain()


def plan(graph: Graph, mesh: MeshLike, policy: Any = None) -> Plan:
    """Returns how the graph is cut over the mesh.

    mesh: axis names and sizes, outer axis first; a size may be a symbol. policy: ``"data"``,
    ``"tensor"``, ``"data+tensor"`` (also the default), ``"replicate"``, a mapping from patterns of
    node names to splits per axis, or a function ``PAS(graph, resource)``. Raises PlanError for what
    is illegal, before anything runs, and MeshError for a mesh that cannot be read.
    """
    return plan_as(Plan, graph, mesh, policy)


def read_plan_file(path: str | Path) -> Plan:
    """Returns the plan in a file; raises PlanError where it cannot be read, or holds no plan."""
    return Plan.from_json(file_text(path))
