"""Splits that are asked of a graph itself, checked when they are asked: a wish that cannot be one
leaves the graph as it was.

    graph.partition(node, node.algorithm("dim"), idx=0, dim=1, num=2)

Whether the split is legal, and along which axis it goes, is asked when a plan is made: a graph
knows no mesh. A node of a function that the graph calls stands for all its copies.
"""

from __future__ import annotations

from typing import Any

from dimsolve.ir.graph import Graph
from dimsolve.ir.node import Algorithm, FunctionCall, Node
from dimsolve.solver.graphs.graph_problems import place

from ..plan_errors import PlanError, plan_error
from .function_policy import counted, not_of_the_graph
from .network import Kinds, declaration_of, facts_of, known_symbols
from .requests import named_of

ORIGIN = "graph.partition"


def check_wish(
    graph: Graph, node: Any, algo: Any, *, idx: Any, dim: Any, num: Any, axis: Any
) -> None:
    """Raises PlanError for a node or an algorithm of another graph, a tensor or a dimension that
    does not exist, what is no number of parts, and what is no name of an axis.
    """
    owner = _owner(graph, node)
    if owner is None or not isinstance(algo, Algorithm) or algo.node is not node:
        raise not_of_the_graph(ORIGIN, node, algo)
    if isinstance(node.operation, FunctionCall):
        raise _a_call(node, node.operation.function)
    kinds = Kinds(facts_of(owner), known_symbols(owner))
    declaration, _ = declaration_of(node, kinds.known)
    solution = kinds.of(declaration, node).solution
    named_of(node, solution, declaration.frozen, (idx, dim), ORIGIN)
    if num is not None:
        counted(ORIGIN, node, num)
    if axis is not None and not isinstance(axis, str):
        raise plan_error(
            "not-an-axis",
            "this is no name of a mesh axis",
            f"{ORIGIN} is given axis={axis!r:.60} for {place(node)}",
            'give the name of the axis, such as axis="tp"',
        )


def _owner(graph: Graph, node: Any) -> Graph | None:
    """The graph that has the node: this one, or a function that it calls, or those call."""
    if any(own is node for own in graph.nodes()):
        return graph
    owners = (_owner(function, node) for function in graph.functions.values())
    return next((owner for owner in owners if owner is not None), None)


def _a_call(node: Node, function: str) -> PlanError:
    return plan_error(
        "a-call",
        "a call of a function is not cut itself",
        f"{ORIGIN} is asked to cut {place(node)}, a call of @{function}",
        f'cut the nodes of graph.functions["{function}"], in all calls alike, or write a policy '
        "PAS(graph, resource), which is given the graph with the calls written out",
    )
