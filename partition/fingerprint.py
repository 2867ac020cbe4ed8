"""Which graph a plan is for: a hash of what the graph computes and of its types.

Where the code of the model stands does not count: the same model traced on another machine has the
same fingerprint.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from dimsolve.ir.characters import shown
from dimsolve.ir.graph import Graph, MakeShape, MatchShape, Value, map_argument

from .inlining import inlined
from .plan_data import PLAN_AGAIN, GraphId, PlanData, plan_error


def fingerprint(graph: Graph) -> str:
    """Returns 32 hexadecimal digits. Calls of functions count as what they do."""
    return sha256("\n".join(graph_lines(graph)).encode()).hexdigest()[:32]


def graph_lines(graph: Graph) -> Iterator[str]:
    """Yields what the fingerprint is made of: a line for every input, every node and the result."""
    graph = inlined(graph)
    for kind, dtype in sorted(graph.autocast.items()):
        yield f"autocast {kind} {dtype}"
    for entry in graph.inputs:
        yield f"{entry.kind} {entry.target} {entry.value.name} {entry.value.type}"
    for node in graph.nodes():
        args = map_argument((node.args, node.kwargs), _leaf)
        types = ", ".join([f"{value.name}: {value.type}" for value in node.outputs])
        shape = ""
        if isinstance(node.operation, MatchShape | MakeShape):
            shape = str(node.operation)
        yield f"{node.id} {node.signature}{args} {shape} {node.annotation} -> {types}"
    yield str(map_argument(graph.returned(), _leaf))


def _leaf(leaf: object) -> object:
    return f"%{leaf.name}" if isinstance(leaf, Value) else leaf


def graph_id(graph: Graph) -> GraphId:
    """Returns what a plan says of the graph that it is for: one without calls of functions."""
    return GraphId(name=graph.name, nodes=len(graph.nodes()), fingerprint=fingerprint(graph))


def check_graph(plan: PlanData, graph: Graph) -> GraphId:
    """Returns what a plan says of a graph without calls; raises PlanError where this plan was made
    for another one.
    """
    found = graph_id(graph)
    if found.fingerprint != plan.graph.fingerprint:
        raise plan_error(
            "another-graph",
            "the plan was made for another graph",
            f"it is for {shown(plan.graph.name)} with {plan.graph.nodes} nodes (fingerprint "
            f"{shown(plan.graph.fingerprint)}); this is {found.name} with {found.nodes} nodes "
            f"(fingerprint {found.fingerprint})",
            PLAN_AGAIN,
        )
    return found
