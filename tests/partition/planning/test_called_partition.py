"""Law: the nodes of a function that a graph calls can be cut by hand: through the graph in all its
calls, through a policy in each call by itself.
"""

from __future__ import annotations

from typing import Any

import pytest

import dimsolve as ds
from dimsolve.exec.graph import Graph


def called_twice() -> Graph:
    with Graph("block") as block:
        x = block.input("x", "b, 64", "float32")
        w = block.input("w", "64, 64", "float32")
        block.output(block.call("torch.matmul", x, w))
    with Graph("main") as g:
        x = g.input("x", "batch, 64", "float32")
        weights = [g.parameter(f"w{n}", (64, 64), "float32") for n in range(2)]
        for weight in weights:
            x = g.call(block, x, weight)
        g.output(g.call("torch.tanh", x))
    return g


def splits(plan: ds.Plan) -> dict[str, str | None]:
    return {o.node: o.splits["tp"].identifier for o in plan.operators if "tp" in o.splits}


def test_a_node_of_a_function_is_cut_in_all_calls() -> None:
    graph = called_twice()
    (node,) = graph.functions["block"].nodes()
    graph.partition(node, node.algorithm("dim"), idx=1, dim=0, num=2)
    assert splits(ds.plan(graph, {"tp": 2})) == {"block_matmul": "b", "block_1_matmul": "b"}


def test_a_node_of_the_graph_itself_is_cut_where_it_has_calls() -> None:
    graph = called_twice()
    node = next(node for node in graph.nodes() if node.name == "tanh")
    graph.partition(node, node.algorithm("dim"), idx=0, dim=0, num=2)
    assert splits(ds.plan(graph, {"tp": 2}))["tanh"] == "a"


def test_a_policy_sees_each_call_by_itself() -> None:
    def PAS(graph: Any, resource: Any) -> Any:  # noqa: N802
        node = graph.node("block_1_matmul")
        graph.partition(node, node.algorithm("dim"), idx=1, dim=1, num=2)
        return graph

    found = splits(ds.plan(called_twice(), {"tp": 2}, PAS))
    assert found["block_1_matmul"] == "c" and "block_matmul" not in found


def test_a_call_itself_is_not_cut() -> None:
    graph = called_twice()
    node = graph.nodes()[0]
    with pytest.raises(ds.PlanError) as caught:
        graph.partition(node, node.algorithm("dim"), idx=0, dim=0, num=2)
    first, _, hint = str(caught.value).splitlines()
    assert first == "a call of a function is not cut itself"
    assert hint == (
        '  hint: cut the nodes of graph.functions["block"], in all calls alike, or write a policy '
        "PAS(graph, resource), which is given the graph with the calls written out"
    )
