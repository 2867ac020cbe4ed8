"""The public ``dimsolve.Graph``: a graph that deduces its types, and that can be run, checked for
legality and cut.

with dimsolve.Graph("f") as g:
    x = g.input("x", "n, 4", "float32")
    g.output(g.call("exp", x))
g.run(torch.ones(3, 4))          runs it on this device, shapes checked
g.legal_parts("tp", "tensor")    which counts an axis may have under a policy
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from dimsolve.ir.graph import Algorithm, Node
from dimsolve.solver.graphs.builder import TypedGraph

if TYPE_CHECKING:
    from dimsolve.partition.legality import LegalParts


class Graph(TypedGraph):
    """A function of typed values: `dimsolve.solver.graphs.builder` builds it and asks."""

    _requests: list[dict[str, Any]] | None = None
    traced: Mapping[str, Any] = MappingProxyType({})
    """What the model was when it was traced (`dimsolve.exec.capture.traced_model`)."""

    def legal_parts(
        self,
        axis: str = "tp",
        policy: Any = None,
        *,
        up_to: int | None = None,
        uneven: str = "parameters",
    ) -> LegalParts:
        """Returns which counts a mesh axis may have for this graph under a policy: always, in
        unequal parts with what the fullest rank holds, under a condition, never; all but the first
        up to ``up_to`` (16; 64 with uneven="refuse"). Policies and uneven are as for
        `dimsolve.plan`: what it plans is listed here.
        """
        from dimsolve.partition.planning.counts import graph_legal_parts

        return graph_legal_parts(self, axis, policy, up_to=up_to, uneven=uneven)

    def partition(
        self,
        node: Node,
        algo: Algorithm,
        *,
        idx: int,
        dim: int,
        num: Any = None,
        axis: str | None = None,
    ) -> None:
        """Asks for a split, as a policy ``PAS(graph, resource)`` does: a plan of this graph that is
        given no other policy makes it. A node of a function that the graph calls is cut in all
        calls.

        Raises PlanError for what can be no split of the node, and leaves the graph as it was.
        """
        from dimsolve.partition.planning.requests import check_request

        check_request(self, node, algo, idx=idx, dim=dim, num=num, axis=axis)
        request = {"node": node, "algo": algo, "idx": idx, "dim": dim, "num": num, "axis": axis}
        self._requests = [*(self._requests or ()), request]

    def hand_on(self, other: Graph, copies: Mapping[Node, Sequence[Node]]) -> None:
        """Gives the splits of `partition`, and what is known of the model, to a graph that has
        copies of the nodes.
        """
        other.traced = self.traced
        for request in self._requests or ():
            for copy in copies.get(request["node"], ()):
                algorithm = copy.algorithm(request["algo"].tag)
                other._requests = [
                    *(other._requests or ()),
                    {**request, "node": copy, "algo": algorithm},
                ]

    @property
    def requested(self) -> Any:
        """The policy that asks for the splits of `partition`; None where there were none."""
        requests = self._requests
        if not requests:
            return None

        def requested(graph: Any, resource: Any) -> Any:
            for request in requests:
                graph.partition(**request)
            return graph

        return requested

    def run(self, *args: Any, state: Any = None, externals: Any = None, **kwargs: Any) -> Any:
        """Runs the graph on one device and returns what it returns.

        args, kwargs: its inputs, by position or by name; what the graph leaves of objects among
        them, such as a cache that has grown, they are given. state: the module, or the mapping of
        qualified names to tensors, that gives parameters and buffers. externals: the functions that
        are known by name only. Raises ShapeError where a shape is not what a pattern or a parameter
        says.
        """
        from .run import run

        return run(self, args, kwargs, state=state, externals=externals)

    @classmethod
    def from_json(cls, data: Any, *, trust: Collection[str] = ()) -> Self:
        """Returns the graph that JSON data describe; GraphError where they describe none.

        It may call operators of the library, registered ones, torch's own tensor functions, and the
        functions whose import paths ``trust`` names: GraphError for any other.
        """
        from .trust import require_trust

        graph = super().from_json(data)
        require_trust(graph, trust)
        return graph
