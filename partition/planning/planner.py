"""`plan`: from a graph, a mesh and a policy to a plan, one axis after the other.

What an axis leaves a rank with is a graph again: the same operators with shorter lengths. So the
axes are planned in order, outer axis first, each as if it were alone.
"""

from __future__ import annotations

from typing import Any

from dimsolve.ir.graph import Graph

from ..fingerprint import graph_id
from ..inline import inlined
from ..mesh import Mesh, MeshLike
from ..plan import Plan
from ..plan_errors import plan_error
from .assemble import Assembly
from .completion import complete
from .duties import Duties
from .network import Network
from .policy import policy_of
from .state import AxisState
from .uncollected import uncollected


def plan(graph: Graph, mesh: MeshLike, policy: Any = None) -> Plan:
    """Returns how the graph is cut over the mesh.

    mesh: axis names and sizes, outer axis first; a size may be a symbol. policy: ``"data"``,
    ``"tensor"``, ``"data+tensor"`` (also the default), ``"replicate"``, a mapping from patterns of
    node names to splits per axis, or a function ``PAS(graph, resource)``. Raises PlanError for what
    is illegal, before anything runs, and MeshError for a mesh that cannot be read.
    """
    require_graph(graph)
    with uncollected():
        return _planned(inlined(graph), Mesh.with_axes(mesh), policy)


def _planned(graph: Graph, devices: Mesh, policy: Any) -> Plan:
    network = Network(graph)
    check_symbols(devices, network)
    decide = policy_of(policy, network, devices)
    kinds = [operator.kind for operator in network.operators]
    decided: list[tuple[AxisState, Duties]] = []
    conditions: dict[str, str] = {}
    notes: list[str] = []
    for axis, count in devices.axes:
        state = AxisState(network, axis, count, kinds)
        duties = Duties(count, network.facts, conditions)
        notes += decide(state, duties)
        complete(state, duties)
        kinds = state.local_kinds()
        decided.append((state, duties))
    assembly = Assembly(network, devices, decided, kinds)
    return assembly.plan(graph_id(graph), decide.name, notes)


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
    both = sorted(mesh.symbols & network.kinds.known)
    if both:
        raise plan_error(
            "symbol-clash",
            "a mesh size and a length have one name",
            f"'{both[0]}' is a symbol of the graph and a size of the mesh {mesh}",
            "give the mesh's size another name",
        )
