"""A policy as a function, as nnScaler's users write it.

    def PAS(graph, resource):
        for node in graph.nodes():
            if node.name == "matmul_custom":
                algo = node.algorithm("dim")
                graph.partition(node, algo, idx=0, dim=1, num=resource.ngpus)
        return graph

The function is given a `PolicyGraph`: the graph, with ``partition``. What it asks for is checked by
the planner; what it leaves open follows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.graph import Graph
from dimsolve.ir.node import Algorithm, Node
from dimsolve.solver.algebra.poly import Dim, product
from dimsolve.solver.graphs.graph_problems import place
from dimsolve.solver.shapes import to_dim

from ..mesh import Mesh
from ..plan_errors import PlanError, plan_error
from .requests import Request


@dataclass(frozen=True, slots=True)
class Resource:
    """What there is to run on. ``ngpus``: ranks of all axes together; ``mesh``: sizes by axis."""

    ngpus: Dim
    mesh: dict[str, Dim]


@dataclass(frozen=True, slots=True)
class SubNode:
    """One part of a node that was partitioned. ``index`` counts from 0."""

    node: Node
    index: int


class PolicyGraph:
    """A graph as a policy sees it: everything that `dimsolve.ir.graph.Graph` has, and
    ``partition``.
    """

    def __init__(self, graph: Graph, mesh: Mesh, origin: str) -> None:
        self.graph = graph
        self.mesh = mesh
        self.origin = origin
        self.requests: list[Request] = []
        self._numbers = {id(node): number for number, node in enumerate(graph.nodes())}

    def partition(
        self,
        node: Node,
        algo: Algorithm,
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
        number = self._numbers.get(id(node))
        if number is None or not isinstance(algo, Algorithm) or algo.node is not node:
            raise _not_of_the_graph(self.origin, node, algo)
        count = self._count(node, num)
        for name in self._axes(number, node, count, axis):
            self.requests.append(Request(number, name, (idx, dim), self.origin))
        if not isinstance(count, int):
            return ()
        return tuple(SubNode(node, index) for index in range(count))

    def _count(self, node: Node, num: Any) -> Dim:
        try:
            return to_dim(num)
        except DimsolveError as error:
            raise plan_error(
                "not-a-count",
                "this is no number of parts",
                f"{self.origin} asks for {num!r:.60} parts of {place(node)}: "
                f"{error.diagnostic.reason}",
                "num is the size of an axis, or the number of all ranks",
            ) from None

    def _axes(self, number: int, node: Node, count: Dim, axis: str | None) -> list[str]:
        if axis is not None:
            if self.mesh[axis] != count:
                raise self._no_axis(node, count)
            return [axis]
        if count == 1:
            return []
        used = {request.axis for request in self.requests if request.operator == number}
        for name, size in self.mesh.axes:
            if size == count and name not in used:
                return [name]
        every = [name for name, size in self.mesh.axes if size != 1]
        if product(size for _, size in self.mesh.axes) == count and used.isdisjoint(every):
            return every
        raise self._twice(node, count, used) if used else self._no_axis(node, count)

    def _twice(self, node: Node, count: Dim, used: set[str]) -> PlanError:
        return plan_error(
            "partitioned-twice",
            "a node is partitioned twice along one axis",
            f"{self.origin} asks for {count} parts of {place(node)} again; it is partitioned along "
            f"{', '.join(sorted(used))}, and the mesh is {self.mesh}",
            "partition a node once for each axis of the mesh",
        )

    def _no_axis(self, node: Node, count: Dim) -> PlanError:
        return plan_error(
            "no-such-count",
            "no mesh axis has as many parts",
            f"{self.origin} asks for {count} parts of {place(node)}; the mesh is {self.mesh}",
            "num is the size of an axis, or the number of all ranks",
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.graph, name)


def requests_from(policy: Callable[..., Any], graph: Graph, mesh: Mesh) -> list[Request]:
    """Returns what a function ``PAS(graph, resource)`` asks for. Raises PlanError where it returns
    no graph.
    """
    origin = getattr(policy, "__name__", "the policy")
    seen = PolicyGraph(graph, mesh, origin)
    result = policy(seen, Resource(mesh.ranks, dict(mesh.axes)))
    if result is not seen and result is not graph:
        raise plan_error(
            "no-graph-returned",
            "a policy returned no graph",
            f"{origin} returned {result!r:.60}",
            "end it with: return graph",
        )
    return seen.requests


def _not_of_the_graph(origin: str, node: object, algo: object) -> PlanError:
    return plan_error(
        "not-a-node",
        "this is no node of the graph with its algorithm",
        f"{origin} partitions {node!r:.60} by {algo!r:.60}",
        'write algo = node.algorithm("dim"); graph.partition(node, algo, idx=0, dim=1, num=n)',
    )
