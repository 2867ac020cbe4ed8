"""`plan` makes the plan of a graph; a `Plan` answers questions about it.

    plan = dimsolve.plan(graph, {"dp": 2, "tp": 4}, "data+tensor")
    plan.explain()                          a table of operators, conversions and parameters
    plan.memory(batch=8, seq=128).total     bytes of one rank in a training step
    plan.communication(batch=8, seq=128)    the collectives of a step, with bytes

`dimsolve.partition.plan_data` says what the fields mean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

from dimsolve.ir.display import Displayed, render
from dimsolve.ir.graph import Graph

from .checkpoints import with_regions_of
from .communication import Traffic, communication_of
from .compare import diff
from .cost import Cost, cost_of, formula_of
from .engines.torch_tp import ParallelizeModule, to_parallelize_module
from .engines.torchtitan import TorchTitan, to_torchtitan
from .engines.write import to_distributed_config, to_tp_plan
from .machine import Machine
from .memory import Memory, memory_of
from .mesh import MeshLike
from .plan_data import PlanData, problem
from .planning.auto import SECONDS, Asked
from .planning.derive import check_derived
from .planning.planner import plan_as, require_graph, verified_plan
from .read_plan import file_text, read_plan
from .search.check import NotProved
from .sizes import Sizes, check_conditions, read_size, read_sizes

NO_MEMORY = problem(
    "not-bytes",
    "this is no size of a memory",
    "{memory:.60}",
    'write "80 GiB", or a number of bytes',
)
NO_SECONDS = problem(
    "not-seconds",
    "this is no time to search for a plan",
    "seconds is {seconds:.60}",
    "write a number, 0 or more: seconds=60",
)


@dataclass(frozen=True, slots=True)
class PlanVerification:
    """Whether a plan's cost and bound are true; ``reason``: why not."""

    ok: bool
    reason: str = ""


class Plan(PlanData, Displayed):
    """How a graph is cut over a mesh. Made by `dimsolve.plan`."""

    def for_graph(self, graph: Graph) -> Self:
        """Returns the plan with its graph.

        Raises PlanError where it was made for another graph, and where it says anything else than
        what the planner's rules derive from the graph with this mesh and these splits: a plan that
        was edited is refused, and the error names the first difference. A plan of version 1 says
        nothing of regions that are run again in the backward pass: it is given those of the graph;
        one of version 1 or 2 is given what rules communicate.
        """
        require_graph(graph)
        plan = check_derived(with_regions_of(self, graph), graph)
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

    def cost(
        self,
        sizes: Mapping[str, int] | None = None,
        *,
        machine: Machine | str | None = None,
        **named: int,
    ) -> Cost:
        """Returns the seconds of a training step on a machine, at these sizes; `memory` says how
        they are given. machine: one, or the name of a known one; None: that of the plan's search,
        or an H100. A plan that was searched for has the sizes of its search where none are given;
        of any other the cost then is an expression in its symbols, ``cost.expression``, in
        picoseconds.
        """
        found = machine_of(machine, self)
        if sizes is None and not named:
            if self.search is None:
                return formula_of(self, found)
            sizes = self.search.sizes
        return cost_of(self, Sizes(self, sizes, named, "cost"), found)

    def verification(self) -> PlanVerification:
        """Returns whether what the plan says of its search is true: what it costs and holds is
        added up anew, and its bound follows from its proof. Raises PlanError for one that was not
        searched for, or has not met its graph.
        """
        try:
            verified_plan(self)
        except NotProved as reason:
            return PlanVerification(False, str(reason))
        return PlanVerification(True)

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
        ``.apply(model, mesh)`` makes it, ``.objects()`` are the styles. Raises PlanError, with the
        operator, for what it cannot say.
        """
        return to_parallelize_module(self, axis)

    def to_torchtitan(self, axis: str | None = None) -> TorchTitan:
        """Returns the plan as torchtitan's ``ShardingConfig``s: ``.text`` is Python, ``.objects()``
        are they, ``.apply(model)`` sets them on torchtitan's modules. Raises PlanError, with the
        operator, for what they cannot say.
        """
        return to_torchtitan(self, axis)

    def to_distributed_config(self, model: Any, axis: str | None = None) -> Any:
        """Returns the plan as transformers' ``DistributedConfig``, for ``from_pretrained``. model:
        of transformers; rules of its own plan that this one does not have leave modules whole.

        Raises PlanError, with the operator, for what it cannot say.
        """
        return to_distributed_config(self, model, axis)

    def diff(self, other: Plan) -> str:
        """Returns what differs, a line each; ``""`` for equal plans. PlanError for no plan."""
        return diff(self, other)

    def __str__(self) -> str:
        return self.explain()


def machine_of(machine: Machine | str | None, plan: PlanData | None = None) -> Machine:
    """Returns a machine that is given as itself or by its name."""
    if isinstance(machine, Machine):
        return machine
    if machine is None and plan is not None and plan.search is not None:
        return plan.search.machine
    return Machine.named(machine or "h100")


def plan(
    graph: Graph,
    mesh: MeshLike | int,
    policy: Any = None,
    state: Any = None,
    precision: Any = None,
    *,
    machine: Machine | str | None = None,
    memory: int | str | None = None,
    sizes: Mapping[str, int] | None = None,
    optimizer_states: int = 2,
    seconds: float = SECONDS,
    progress: bool = True,
    uneven: str = "parameters",
) -> Plan:
    """Returns how the graph is cut over the mesh.

    mesh: axis names and sizes, outer axis first; a size may be a symbol. For the policy ``"auto"``
    also a number of ranks: all meshes of so many with one axis or two are searched, whose axes
    are called ``ranks``, or ``outer`` and ``inner``.

    policy: ``"data"`` cuts the batch, ``"tensor"`` parameters, ``"sequence"`` the sequence,
    ``"experts"`` experts and elsewhere the batch, ``"replicate"`` nothing, along every axis.
    ``"sequence+all-gather"`` and ``"sequence+all-to-all"`` say how attentions get the keys and
    values of all positions, which ``"sequence"`` decides by what is sent.
    ``"data+tensor"`` (also the default) does along each axis what its name means: ``dp`` and
    ``fsdp`` cut the batch, ``tp`` parameters, ``cp`` and ``sp`` the sequence, ``ep`` experts;
    digits and an underscore may follow (``dp_replicate``).
    ``"tensor+sequence"`` does the same, and along axes that cut parameters the sequence is cut
    where no parameter is. An axis of another name is told:
    ``{"data": "data", "model": "tensor"}``. Also a mapping from patterns of node
    names to splits per axis, or a function ``PAS(graph, resource)``.

    ``"auto"`` searches for the plan of least time on a ``machine`` (a `Machine`, or the name of a
    known one; None: an H100), at these ``sizes`` of the graph's symbols, within ``memory`` of a
    rank (bytes, or ``"80 GiB"``) with so many ``optimizer_states`` for each parameter; after so
    many ``seconds``, or Ctrl-C, the best so far. What is proved of it stands in ``plan.search``.
    ``progress``: on a terminal and in a notebook a line says meanwhile what is known. Within a
    limit of memory it also decides how parameters are stored (``state="auto"``), and whether
    repeated blocks run again in the backward pass; a ``state`` is taken as it is given, one word
    for all axes.

    state: how parameters are stored that an axis uses whole. ``"whole"``: on every rank;
    ``"optimizer"``: a rank steps on its part, so it has gradients and optimiser states of that part
    only (ZeRO-1); ``"shared"``: a rank stores its part, and parameters are gathered for their use
    and freed after it (ZeRO-3, FSDP). One word is for the axes that cut data; a mapping such as
    ``{"dp": "shared"}`` is for the axes that it names. An axis whose name begins with ``fsdp`` or
    ``dp_shard`` shares parameters, unless the mapping says otherwise.

    precision: of parameters that are used in the graph's dtype: ``{"stored": "float32"}`` stores
    them, and their gradients, in another one, and gathers them in the graph's. ``"reduced"``: in
    which dtype gradients are summed over ranks; that in which they are stored where it is not said.

    uneven: what may be cut into parts that are not all equal, of lengths as torch's ``chunk`` makes
    them. ``"parameters"``: lengths that are fixed by the model (a vocabulary, heads, widths), where
    the count does not divide them; ``"allow"``: a batch too, so that it needs no condition;
    ``"refuse"``: nothing. Where a count is a multiple of the key-value heads, the axis
    is seen as two (``plan.factors``): the first cuts them, the second the query heads that share
    one.

    Raises PlanError for what is illegal, before anything runs, and MeshError for a mesh that cannot
    be read.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise NO_SECONDS(seconds=repr(seconds))
    asked = Asked(
        machine_of(machine),
        {name: read_size(name, size, 1) for name, size in dict(sizes or {}).items()},
        bytes_of(memory),
        read_size("optimizer_states", optimizer_states),
        seconds,
        progress=progress,
    )
    return plan_as(Plan, graph, mesh, policy, state, precision, asked, uneven)


def bytes_of(memory: int | str | None) -> int | None:
    """Returns bytes from a number or a text.

    >>> bytes_of("1.5 GiB"), bytes_of("80GB"), bytes_of(64)
    (1610612736, 80000000000, 64)
    """
    if memory is None or (isinstance(memory, int) and memory >= 0):
        return memory
    text = str(memory)
    found = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([KMGT]?)(i?)B?\s*", text, re.ASCII)
    if found is None:
        raise NO_MEMORY(memory=repr(memory))
    number, letter, binary = found.groups()
    scale = (1024 if binary else 1000) ** " KMGT".index(letter or " ")
    return int(Fraction(number) * scale)


def read_plan_file(path: str | Path) -> Plan:
    """Returns the plan in a file; raises PlanError where it cannot be read, or holds no plan."""
    return Plan.from_json(file_text(path))
