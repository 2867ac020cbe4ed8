"""Law: a graph is well formed or says what is not; rewriting keeps it so; JSON gives the same
graph back.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from dimsolve import Graph, GraphError
from dimsolve.ir.graph import (
    Device,
    FunctionCall,
    Node,
    OperatorCall,
    Value,
    map_argument,
    values_in,
)
from dimsolve.ir.graph_json import graph_to_json
from dimsolve.ir.types import tensor


def example() -> Graph:
    with Graph("example") as g:
        x = g.input("x", "n, 4", "float32")
        y = g.call("exp", x)
        z = g.call("torch.cat", [x, y], dim=0)
        g.output(z, y)
    return g


def test_text_has_a_line_per_node_with_every_type() -> None:
    assert str(example()) == "\n".join(
        [
            "example(%x: float32[n, 4]):",
            "  %exp: float32[n, 4] = exp(%x)    # * -> *",
            "  %cat: float32[2*n, 4] = cat([%x, %exp], dim=0)    # a b, a b -> (2 a) b",
            "  return (%cat, %exp)",
        ]
    )


def test_a_value_has_no_truth_and_says_so() -> None:
    with pytest.raises(TypeError, match="what a graph does cannot depend on data"):
        bool(example().values["exp"])


def break_use_before_making(g: Graph) -> None:
    g._nodes.reverse()


def break_two_makers(g: Graph) -> None:
    g._nodes.append(g._nodes[0])


def break_lost_output(g: Graph) -> None:
    g.outputs = {"y": Value(g, "stray", tensor(()))}


def break_stray_value(g: Graph) -> None:
    g.values["stray"] = Value(g, "stray", tensor(()))


def break_missing_function(g: Graph) -> None:
    node = Node("call", FunctionCall("nowhere"), (), {})
    g.add_node(node, (tensor(()),))


def break_foreign_value(g: Graph) -> None:
    other = example()
    g._nodes[0].args = (other.values["x"],)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (break_use_before_making, "cat uses %exp before it is made"),
        (break_two_makers, "two nodes are named exp"),
        (break_lost_output, "the output %stray is made by no node"),
        (break_stray_value, "%stray is made by no node and is no input"),
        (break_missing_function, "call calls nowhere, which the module lacks"),
        (break_foreign_value, "exp uses %x before it is made"),
    ],
)
def test_verify_names_what_is_not_well_formed(damage: Callable[[Graph], None], reason: str) -> None:
    g = example()
    g.verify()
    damage(g)
    with pytest.raises(GraphError, match=reason.replace("%", "%")) as caught:
        g.verify()
    assert str(caught.value) == f"the graph is not well formed\n  {reason}"


def test_two_values_cannot_have_one_name() -> None:
    g = example()
    with pytest.raises(GraphError, match="two values are named %x"):
        g.input("x", "n")


def test_a_node_that_is_used_cannot_be_removed() -> None:
    g = example()
    with pytest.raises(GraphError, match="exp cannot be removed: cat uses %exp"):
        g.erase(g.node("exp"))


def test_replacing_uses_and_removing_keeps_it_well_formed() -> None:
    g = example()
    g.replace_uses(g.values["exp"], g.values["x"])
    g.erase(g.node("exp"))
    g.verify()
    assert [node.id for node in g.nodes()] == ["cat"]
    assert list(g.outputs.values()) == [g.values["cat"], g.values["x"]]


def test_renaming_a_value_renames_the_shapes_computed_from_it() -> None:
    with Graph() as g:
        shape = g.external("shape_of_it")
        y = g.external("f", shape=shape, dtype="float32")
        g.rename(shape, "lv3")
        g.output(y)
    assert str(y.type) == "float32[%lv3]"
    assert g.values["lv3"] is shape


def through_json(g: Graph) -> Graph:
    return Graph.from_json(json.loads(json.dumps(g.to_json())))


def test_json_gives_the_same_graph_back() -> None:
    g = example()
    back = through_json(g)
    assert str(back) == str(g)
    assert back.to_json() == g.to_json()


def test_json_holds_every_kind_of_argument() -> None:
    with Graph("arguments") as g:
        x = g.input("x", "n, m, 8", "float32")
        torch_dtype = g.call("torch.Tensor.to", x, Device("model"))
        part = torch_dtype[..., 1:3]
        shape = g.shape("n, 2*m")
        viewed = g.call("view", part, ("n", "2*m"))
        full = g.call("full", (2, "n"), float("-inf"))
        matched = g.match_shape(g.call("nonzero", x), "k, 3")
        g.external("opaque", shape, matched, dtype="float16", shape="k")
        g.output(a=viewed, b=full)
    back = through_json(g)
    assert str(back) == str(g)
    assert back.to_json() == g.to_json()
    assert back.outputs.keys() == {"a", "b"}


def test_json_keeps_functions_facts_and_conditions() -> None:
    with Graph("inner") as f:
        a = f.input("a", "h*t", "float32")
        f.output(f.call("reshape", a, ("h", "t")))
    with Graph("outer", facts=["n >= 2"]) as g:
        x = g.input("x", "n, k", "float32")
        w = g.input("w", "l, 3", "float32")
        g.output(g.call("matmul", x, w), g.call(f, g.input("y", "768"), h=12))
    back = through_json(g)
    assert back.conditions == g.conditions == ("k == l",)
    assert back.prove("n > 1").verdict == "proved"
    assert str(back.functions["inner"]) == str(f)
    assert back.to_json() == g.to_json()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (None, "this reader knows versions 1 and 2, the data say 'NoneType'"),
        ({"version": 3}, "this reader knows versions 1 and 2, the data say 3"),
        ({"version": True}, "this reader knows versions 1 and 2, the data say True"),
        ({"version": 1}, "the data: 'name' is missing"),
        ({**example().to_json(), "nodes": [{"id": "a", "args": []}]}, "node a calls nothing"),
        (
            {**example().to_json(), "result": {"value": "no"}},
            "the result: %no is made by nothing before",
        ),
        ({**example().to_json(), "nodes": [7]}, "node 0: the data have another form"),
    ],
)
def test_data_that_are_no_graph_are_refused(data: Any, reason: str) -> None:
    with pytest.raises(GraphError) as caught:
        Graph.from_json(data)
    assert reason in str(caught.value)


def test_json_is_deterministic_and_plain() -> None:
    texts = {json.dumps(graph_to_json(example())) for _ in range(3)}
    assert len(texts) == 1


def test_arguments_are_trees() -> None:
    g = example()
    x, y = g.values["x"], g.values["exp"]
    tree = ((x, [1, {"k": y}]), slice(None, x, 2))
    assert list(values_in(tree)) == [x, y, x]
    swapped = map_argument(tree, lambda leaf: y if leaf is x else leaf)
    assert list(values_in(swapped)) == [y, y, y]


def test_the_signature_is_the_full_name_and_the_name_is_its_last_word() -> None:
    node = Node("a", OperatorCall("torch.nn.functional.linear"), (), {})
    assert (node.signature, node.name) == ("torch.nn.functional.linear", "linear")
    assert node.annotation == ""


def test_data_that_nest_too_deeply_are_no_graph() -> None:
    with Graph("main") as g:
        g.output(g.call("exp", g.input("x", "n")))
    data = g.to_json()
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    data["nodes"][0]["args"] = deep
    with pytest.raises(GraphError) as caught:
        Graph.from_json(data)
    assert str(caught.value) == (
        "this is not a graph\n  the data: arrays and objects nest more than 64 deep"
    )
