"""A policy as a function, as nnScaler's users write it.

    def PAS(graph, resource):
        for node in graph.nodes():
            if node.name == "matmul_custom":
                algo = node.algorithm("dim")
                graph.partition(node, algo, idx=0, dim=1, num=resource.ngpus)
        return graph

The function is given a `PolicyGraph`: the graph, with ``partition``, whose nodes have
``algorithm``. What it asks for is checked by the planner; what it leaves open follows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dimsolve.ir.node import Node
from dimsolve.solver.graph_problems import place
from dimsolve.solver.poly import Dim, product
from dimsolve.solver.shapes import to_dim

from ..mesh import Mesh
from ..plan_errors import PlanError, plan_error
from .network import Network
from .requests import Request


@dataclass(frozen=True, slots=True)
class Resource:
    """What there is to run on. ``ngpus``: ranks of all axes together; ``mesh``: sizes by axis."""

    ngpus: Dim
    mesh: dict[str, Dim]


@dataclass(frozen=True, slots=True)
class DimAlgorithm:
    """Partitioning along annotated dimensions: the algorithm with the tag ``"dim"``."""

    node: PolicyNode
    tag: str = "dim"


class PolicyNode:
    """A node as a policy sees it: everything that `dimsolve.ir.node.Node` has, and algorithms."""

    def __init__(self, node: Node, number: int) -> None:
        self.node = node
        self.number = number

    def algorithm(self, tag: str) -> DimAlgorithm:
        """Returns the algorithm with this tag; there is one, ``"dim"``."""
        if tag != "dim":
            raise plan_error(
                "no-such-algorithm",
                "there is no such algorithm",
                f"{place(self.node)} has no algorithm '{tag!s:.60}'",
                'write node.algorithm("dim"): partitioning along annotated dimensions',
            )
        return DimAlgorithm(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.node, name)

    def __repr__(self) -> str:
        return repr(self.node)


@dataclass(frozen=True, slots=True)
class SubNode:
    """One part of a node that was partitioned. ``index`` counts from 0."""

    node: PolicyNode
    index: int

    def __getattr__(self, name: str) -> Any:
        return getattr(self.node, name)


class PolicyGraph:
    """A graph as a policy sees it: everything that `dimsolve.ir.graph.Graph` has, and
    ``partition``.
    """

    def __init__(self, network: Network, mesh: Mesh, origin: str) -> None:
        self.graph = network.graph
        self.mesh = mesh
        self.origin = origin
        self.requests: list[Request] = []
        self._nodes = [PolicyNode(each.node, each.number) for each in network.operators]

    def nodes(self) -> list[PolicyNode]:
        """Returns the nodes in the order in which they run."""
        return list(self._nodes)

    def partition(
        self,
        node: PolicyNode,
        algo: DimAlgorithm,
        *,
        idx: int,
        dim: int,
        num: Any,
        axis: str | None = None,
    ) -> tuple[SubNode, ...]:
        """Asks for a split: dimension ``dim`` of tensor ``idx`` (outputs count on after the inputs)
        into ``num`` parts.

        axis: the mesh axis; without it the one of that size that has not been used for the node, or
        all axes together where ``num`` is the number of ranks. Returns the parts, () for a symbolic
        count. Raises PlanError where ``num`` is the size of no axis.
        """
        if not isinstance(node, PolicyNode) or not isinstance(algo, DimAlgorithm):
            raise _not_of_the_graph(self.origin, node)
        count = to_dim(num)
        for name in self._axes(node, count, axis):
            self.requests.append(Request(node.number, name, (idx, dim), self.origin))
        if not isinstance(count, int):
            return ()
        return tuple(SubNode(node, index) for index in range(count))

    def _axes(self, node: PolicyNode, count: Dim, axis: str | None) -> list[str]:
        if axis is not None:
            if self.mesh[axis] != count:
                raise self._no_axis(node, count)
            return [axis]
        if count == 1:
            return []
        used = {request.axis for request in self.requests if request.operator == node.number}
        for name, size in self.mesh.axes:
            if size == count and name not in used:
                return [name]
        if product(size for _, size in self.mesh.axes) == count:
            return [name for name, size in self.mesh.axes if size != 1]
        raise self._no_axis(node, count)

    def _no_axis(self, node: PolicyNode, count: Dim) -> PlanError:
        return plan_error(
            "no-such-count",
            "no mesh axis has as many parts",
            f"{self.origin} asks for {count} parts of {place(node.node)}; the mesh is {self.mesh}",
            "num is the size of an axis, or the number of all ranks",
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.graph, name)


def requests_from(policy: Callable[..., Any], network: Network, mesh: Mesh) -> list[Request]:
    """Returns what a function ``PAS(graph, resource)`` asks for. Raises PlanError where it returns
    no graph.
    """
    origin = getattr(policy, "__name__", "the policy")
    graph = PolicyGraph(network, mesh, origin)
    result = policy(graph, Resource(mesh.ranks, dict(mesh.axes)))
    if result is not graph:
        raise plan_error(
            "no-graph-returned",
            "a policy returned no graph",
            f"{origin} returned {result!r:.60}",
            "end it with: return graph",
        )
    return graph.requests


def _not_of_the_graph(origin: str, node: object) -> PlanError:
    return plan_error(
        "not-a-node",
        "this is no node of the graph",
        f"{origin} partitions {node!r:.60}",
        'write algo = node.algorithm("dim"); graph.partition(node, algo, idx=0, dim=1, num=n)',
    )
