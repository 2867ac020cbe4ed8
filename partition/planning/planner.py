"""From a graph, a mesh and a policy to a plan, one axis after the other.

What an axis leaves a rank with is a graph again: the same operators with shorter lengths. So the
axes are planned in order, outer axis first, each as if it were alone.

Policies: who decides what is cut along which axis.

"data"           every axis cuts the batch
"tensor"         every axis cuts parameters
"data+tensor"    axes whose names begin with dp cut the batch, the others parameters (the default)
"replicate"      nothing is cut
"auto"           the plan of least time: not axis after axis, but all at once (`auto`)
{"*.q_proj": {"tp": "n"}}      splits by name
PAS(graph, resource)           a function that calls graph.partition
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from dimsolve.ir.graph import Graph

from ..fingerprint import graph_id
from ..gc_paused import gc_paused
from ..inlining import inlined
from ..machine import Machine
from ..mesh import Mesh, MeshLike
from ..plan_data import PlanData, plan_error, problem
from .assemble import Assembly
from .auto import Asked, search, verified
from .axis_state import AxisState
from .completion import complete
from .data import data
from .network import Network
from .requests import obey, requests_from, requests_of
from .requirements import Requirements
from .tensor import tensor

AUTO = "auto"
DEFAULT = "data+tensor"
DATA_AXIS = "dp"

NO_SEARCH = problem(
    "no-search",
    "there is no proof to verify",
    "the plan was not searched for, or has not met its graph",
    'make it with the policy "auto"; give a plan that was read its graph: plan.for_graph(graph)',
)

P = TypeVar("P", bound=PlanData)
Decide: TypeAlias = Callable[[AxisState, Requirements], list[str]]


def _data_and_tensor(state: AxisState, requirements: Requirements) -> list[str]:
    return (data if state.axis.startswith(DATA_AXIS) else tensor)(state, requirements)


def _replicate(state: AxisState, requirements: Requirements) -> list[str]:
    return []


NAMED: dict[str, Decide] = {
    "data": data,
    "tensor": tensor,
    "data+tensor": _data_and_tensor,
    "replicate": _replicate,
}
"""Policies by name."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Decides operators along one axis; returns notes on what was decided. ``name``: what the plan
    says about it.
    """

    name: str
    decide: Decide

    def __call__(self, state: AxisState, requirements: Requirements) -> list[str]:
        return self.decide(state, requirements)

    def decides(self, axis: str) -> Decide:
        """Returns what decides along an axis."""
        if self.decide is _data_and_tensor:
            return data if axis.startswith(DATA_AXIS) else tensor
        return self.decide


def policy_of(policy: Any, network: Network, mesh: Mesh) -> Policy:
    """Returns the policy for a graph and a mesh. Raises PlanError for what is none."""
    if isinstance(policy, Policy):
        return policy
    if policy is None:
        policy = getattr(network.graph, "requested", None) or DEFAULT
    if isinstance(policy, str):
        if policy not in NAMED:
            raise _unknown(policy)
        return Policy(policy, NAMED[policy])
    if isinstance(policy, Mapping):
        requests = requests_of(policy, network, mesh)
        name = ", ".join(f"{pattern}: {dict(splits)}" for pattern, splits in policy.items())
    elif callable(policy):
        requests = requests_from(policy, network, mesh)
        name = getattr(policy, "__name__", "function")
    else:
        raise _unknown(policy)

    def decide(state: AxisState, requirements: Requirements) -> list[str]:
        obey(requests, state, requirements)
        return []

    return Policy(name, decide)


def _unknown(policy: object) -> Exception:
    return plan_error(
        "unknown-policy",
        "there is no such policy",
        f"{policy!r:.60} is none",
        f"write {', '.join([*NAMED, AUTO])}, a mapping from node patterns to splits, or a function "
        "PAS(graph, resource)",
    )


def plan_as(
    make: type[P], graph: Graph, mesh: MeshLike, policy: Any = None, asked: Asked | None = None
) -> P:
    """Returns how the graph is cut over the mesh, as data of this class; see `dimsolve.plan`.

    asked: what a search needs to know, for the policy ``"auto"``.
    """
    require_graph(graph)
    with gc_paused():
        graph, devices = inlined(graph), Mesh.with_axes(mesh)
        network = Network(graph)
        check_symbols(devices, network)
        if policy == AUTO:
            found = search(network, devices, asked or Asked(Machine.named("h100"), {}))
            assembly = Assembly(network, devices, found.decided, found.classes)
            made = assembly.plan(make, graph_id(graph), AUTO, [])
            return made.model_copy(update={"search": found.record})
        decide = policy_of(policy, network, devices)
        classes = [operator.op_class for operator in network.operators]
        decided: list[tuple[AxisState, Requirements]] = []
        conditions: dict[str, str] = {}
        notes: list[str] = []
        for axis, count in devices.axes:
            state = AxisState(network, axis, count, classes)
            requirements = Requirements(count, network.facts, conditions)
            notes += decide(state, requirements)
            complete(state, requirements)
            classes = state.local_classes()
            decided.append((state, requirements))
        assembly = Assembly(network, devices, decided, classes)
        return assembly.plan(make, graph_id(graph), decide.name, notes)


def verified_plan(plan: PlanData) -> None:
    """Raises NotProved unless what a plan says of its search is so: its cost and that it fits are
    added up anew, and its bound is checked by the proof. Raises PlanError for a plan without one.
    """
    if plan.search is None or plan.planned is None:
        raise NO_SEARCH()
    with gc_paused():
        verified(plan, Network(inlined(plan.planned)), Mesh.with_axes(dict(plan.mesh)))


def require_graph(graph: object) -> None:
    """Raises PlanError for what is no graph."""
    if not isinstance(graph, Graph):
        raise plan_error(
            "not-a-graph",
            "this is not a graph",
            f"{graph!r:.60} is a {type(graph).__name__}",
            "dimsolve.trace(model, args) returns one",
        )


def check_symbols(mesh: Mesh, network: Network) -> None:
    """Raises PlanError where a size of the mesh has the name of a length."""
    both = sorted(mesh.symbols & network.classes.known)
    if both:
        raise plan_error(
            "symbol-clash",
            "a mesh size and a length have one name",
            f"'{both[0]}' is a symbol of the graph and a size of the mesh {mesh}",
            "give the mesh's size another name",
        )
