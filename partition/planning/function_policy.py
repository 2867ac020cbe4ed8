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

import inspect
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.node import Algorithm, Node
from dimsolve.solver.algebra.poly import Dim, product
from dimsolve.solver.graphs.graph_problems import place
from dimsolve.solver.shapes import to_dim

from ..mesh import Mesh
from ..plan_errors import PlanError, plan_error
from .network import Network
from .requests import Request, named


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

    def __init__(self, network: Network, mesh: Mesh, origin: str) -> None:
        self.graph = network.graph
        self.network = network
        self.mesh = mesh
        self.origin = origin
        self.requests: list[Request] = []
        self._numbers = {id(node): number for number, node in enumerate(self.graph.nodes())}

    def partition(
        self,
        node: Node,
        algo: Algorithm,
        *,
        idx: int,
        dim: int,
        num: Any = None,
        axis: str | None = None,
    ) -> tuple[SubNode, ...]:
        """Asks for a split: dimension ``dim`` of tensor ``idx`` (outputs count on after the inputs;
        a negative ``dim`` counts from the end) into ``num`` parts.

        axis: the mesh axis; without it the one of that size that has not been used for the node, or
        all axes together where ``num`` is the number of ranks. num: without it the size of the
        axis. Returns the parts, () for a symbolic count. Raises PlanError where ``num`` is the size
        of no axis, or of several.
        """
        number = self._numbers.get(id(node))
        if number is None or not isinstance(algo, Algorithm) or algo.node is not node:
            raise not_of_the_graph(self.origin, node, algo)
        named(self.network.operators[number], (idx, dim), self.origin)
        if num is None:
            axis = self._only_axis(node) if axis is None else axis
            num = self.mesh[axis]
        count = counted(self.origin, node, num)
        for name in self._axes(number, node, count, axis):
            self.requests.append(Request(number, name, (idx, dim), self.origin))
        if not isinstance(count, int):
            return ()
        return tuple(SubNode(node, index) for index in range(count))

    def _only_axis(self, node: Node) -> str:
        if len(self.mesh.axes) > 1:
            raise self._which_axis(node, "some", self.mesh.names)
        return self.mesh.names[0]

    def _axes(self, number: int, node: Node, count: Dim, axis: str | None) -> list[str]:
        if axis is not None:
            if self.mesh[axis] != count:
                raise self._no_axis(node, count)
            return [axis]
        if count == 1:
            return []
        used = {request.axis for request in self.requests if request.operator == number}
        fitting = [name for name, size in self.mesh.axes if size == count and name not in used]
        if len(fitting) > 1:
            raise self._which_axis(node, str(count), fitting)
        if fitting:
            return fitting
        every = [name for name, size in self.mesh.axes if size != 1]
        if product(size for _, size in self.mesh.axes) == count and used.isdisjoint(every):
            return every
        raise self._twice(node, count, used) if used else self._no_axis(node, count)

    def _which_axis(self, node: Node, count: str, names: Sequence[str]) -> PlanError:
        return plan_error(
            "several-axes",
            "several mesh axes have as many parts",
            f"{self.origin} asks for {count} parts of {place(node)}; {' and '.join(names)} of the "
            f"mesh {self.mesh} may be meant",
            f'name the axis: graph.partition(..., axis="{names[0]}")',
        )

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


def requests_from(policy: Callable[..., Any], network: Network, mesh: Mesh) -> list[Request]:
    """Returns what a function ``PAS(graph, resource)`` asks for. Raises PlanError where it does not
    take the two, fails, or returns no graph.
    """
    origin = getattr(policy, "__name__", "the policy")
    seen = PolicyGraph(network, mesh, origin)
    resource = Resource(mesh.ranks, dict(mesh.axes))
    _check_takes(policy, origin, seen, resource)
    try:
        result = policy(seen, resource)
    except DimsolveError:
        raise
    except Exception as error:
        raise _failed(origin, policy, error) from error
    if result is not seen and result is not network.graph:
        raise plan_error(
            "no-graph-returned",
            "a policy returned no graph",
            f"{origin} returned {result!r:.60}",
            "end it with: return graph",
        )
    return seen.requests


def _check_takes(policy: Callable[..., Any], origin: str, *given: Any) -> None:
    try:
        signature = inspect.signature(policy)
    except (TypeError, ValueError):  # a function of C tells nothing
        return
    try:
        signature.bind(*given)
    except TypeError as error:
        raise plan_error(
            "not-a-policy",
            "this function is no policy",
            f"{origin}{signature} is called with a graph and a resource: {error}",
            "write def PAS(graph, resource): ... return graph",
        ) from None


def _failed(origin: str, policy: Callable[..., Any], error: Exception) -> PlanError:
    """The error of a policy that raised; names the last line of its file that was run."""
    file = getattr(getattr(policy, "__code__", None), "co_filename", "")
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    where = f", at {Path(file).name}:{lines[-1]}" if lines else ""
    return plan_error(
        "policy-failed",
        "a policy failed",
        f"{origin} raised {type(error).__name__}: {error!s:.200}{where}",
    )


def counted(origin: str, node: Node, num: Any) -> Dim:
    """Returns a number of parts. Raises PlanError for what is none."""
    reason = f"it is {num}, a bool"
    if not isinstance(num, bool):
        try:
            count = to_dim(num)
        except DimsolveError as error:
            reason = error.diagnostic.reason
        else:
            if count != 0:
                return count
            reason = "nothing is cut in no parts"
    raise plan_error(
        "not-a-count",
        "this is no number of parts",
        f"{origin} asks for {num!r:.60} parts of {place(node)}: {reason}",
        "num is the size of an axis, or the number of all ranks",
    ) from None


def not_of_the_graph(origin: str, node: object, algo: object) -> PlanError:
    """Returns the error for a node, or an algorithm, that is not of the graph."""
    return plan_error(
        "not-a-node",
        "this is no node of the graph with its algorithm",
        f"{origin} partitions {node!r:.60} by {algo!r:.60}",
        'write algo = node.algorithm("dim"); graph.partition(node, algo, idx=0, dim=1, num=n)',
    )
