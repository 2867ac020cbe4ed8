"""What cannot be planned is refused before anything runs, with the reason and what is legal."""

from __future__ import annotations

import json
from collections.abc import Callable
from re import sub
from typing import Any

import pytest

import dimsolve as ds
from dimsolve.cli.answers import Exit, exit_of_error
from dimsolve.exec.graph import Graph

from .test_policies import two_linears, without_line


def partitions(name: str = "PAS", **given: Any) -> Callable[..., Any]:
    """A policy that partitions the first node."""

    def policy(graph: Any, resource: Any) -> Any:
        node = graph.nodes()[0]
        graph.partition(node, node.algorithm("dim"), **{"idx": 1, "dim": 0, "num": 2, **given})
        return graph

    policy.__name__ = name
    return policy


def another_node(graph: Any, resource: Any) -> Any:
    node, other = graph.nodes()[:2]
    graph.partition(node, other.algorithm("dim"), idx=0, dim=0, num=2)
    return graph


def twice(graph: Any, resource: Any) -> Any:
    node = graph.nodes()[0]
    for _ in range(2):
        graph.partition(node, node.algorithm("dim"), idx=1, dim=0, num=2)
    return graph


def softmax_rows() -> Graph:
    with Graph("rows") as g:
        x = g.input("x", "batch, 64", "float32")
        g.output(g.call("torch.softmax", x, -1))
    return g


NUM = "  hint: num is the size of an axis, or the number of all ranks"
PARTITIONS: list[tuple[Any, str]] = [
    (
        partitions(idx=9),
        "PAS asks for a split that does not exist\n"
        "  * k+, n k+ -> * n\n"
        "  linear at test_policies.py: index 9 names no tensor: 0 to 1 are the inputs and 2 is the "
        "output\n"
        '  hint: name an identifier, such as "k", or give (index, dim)',
    ),
    (
        partitions(dim=-3),
        "PAS asks for an illegal split\n"
        "  * k+, n k+ -> * n\n"
        "  linear at test_policies.py: input 1 has no dimension -3: 'n k+' has dimensions 0 to 1 "
        "(or -2 to -1)",
    ),
    (
        partitions(num=3),
        "no mesh axis has as many parts\n"
        "  PAS asks for 3 parts of linear at test_policies.py; the mesh is tp=2\n" + NUM,
    ),
    (
        partitions(num="n"),
        "no mesh axis has as many parts\n"
        "  PAS asks for n parts of linear at test_policies.py; the mesh is tp=2\n" + NUM,
    ),
    (
        partitions(num=1.5),
        "this is no number of parts\n"
        "  PAS asks for 1.5 parts of linear at test_policies.py: it is 1.5, a float\n" + NUM,
    ),
    (
        partitions(num=-2),
        "this is no number of parts\n"
        "  PAS asks for -2 parts of linear at test_policies.py: -2 is less than 0\n" + NUM,
    ),
    (
        partitions(axis="pp"),
        "the mesh has no such axis\n  'pp' is no axis of the mesh; its axes are tp",
    ),
    (
        partitions(axis="tp", num=4),
        "no mesh axis has as many parts\n"
        "  PAS asks for 4 parts of linear at test_policies.py; the mesh is tp=2\n" + NUM,
    ),
    (
        twice,
        "a node is partitioned twice along one axis\n"
        "  twice asks for 2 parts of linear at test_policies.py again; it is partitioned along tp, "
        "and the mesh is tp=2\n"
        "  hint: partition a node once for each axis of the mesh",
    ),
]


@pytest.mark.parametrize(("policy", "text"), PARTITIONS, ids=range(len(PARTITIONS)))
def test_partitions_that_cannot_be_followed_are_refused(policy: Any, text: str) -> None:
    with pytest.raises(ds.DimsolveError) as caught:
        ds.plan(two_linears(), {"tp": 2}, policy)
    assert without_line(str(caught.value)) == text


def test_an_algorithm_of_another_node_is_refused() -> None:
    with pytest.raises(ds.PlanError) as caught:
        ds.plan(two_linears(), {"tp": 2}, another_node)
    first, _, hint = str(caught.value).splitlines()
    assert first == "this is no node of the graph with its algorithm"
    assert hint == (
        '  hint: write algo = node.algorithm("dim"); '
        "graph.partition(node, algo, idx=0, dim=1, num=n)"
    )


def test_an_algorithm_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ds.GraphError) as caught:
        two_linears().node("linear").algorithm("pipeline")
    assert str(caught.value) == (
        "there is no such algorithm\n"
        "  linear has no algorithm 'pipeline'\n"
        '  hint: write node.algorithm("dim"): along annotated dimensions'
    )


SPLITS: list[tuple[Any, Any, str]] = [
    (
        {"linear": {"tp": "n"}},
        3,
        "'linear' asks for an illegal split: n into 3 parts\n"
        "  * k+, n k+ -> * n\n"
        "  linear at test_policies.py: n = 128 is never a multiple of 3\n"
        "  hint: the counts that divide 128 are legal there: 1, 2, 4, 8, 16, 32, 64, 128",
    ),
    (
        {"linear": {"tp": (5, 0)}},
        2,
        "no node that a pattern matches has its split\n"
        "  * k+, n k+ -> * n\n"
        "  'linear' matches 2 nodes, the first is linear with the identifiers k, n, a, b; (5, 0) "
        "is in none of them\n"
        "  hint: of linear, by index, so many dimensions: 0 has 3, 1 has 2, 2 has 3",
    ),
    (
        {"gelu": {"tp": "n"}},
        2,
        "no node that a pattern matches has its split\n"
        "  * -> *\n"
        "  'gelu' matches 1 node, the first is gelu with the identifiers a, b, c; 'n' is in none "
        "of them\n"
        "  hint: of gelu, by index, so many dimensions: 0 has 3, 1 has 3",
    ),
    (
        {"nothing*": {"tp": "n"}},
        2,
        "a pattern of the policy matches nothing\n"
        "  'nothing*' matches no module path, node or operator of the graph",
    ),
]


@pytest.mark.parametrize(("policy", "count", "text"), SPLITS, ids=range(len(SPLITS)))
def test_splits_that_are_illegal_say_what_is_legal(policy: Any, count: int, text: str) -> None:
    with pytest.raises(ds.PlanError) as caught:
        ds.plan(two_linears(), {"tp": count}, policy, uneven="refuse")
    assert without_line(str(caught.value)) == text


def test_a_frozen_identifier_is_refused_with_those_that_may_be_cut() -> None:
    with pytest.raises(ds.PlanError) as caught:
        ds.plan(softmax_rows(), {"tp": 2}, {"softmax": {"tp": "b"}})
    lines = str(caught.value).splitlines()
    assert lines[0] == "'softmax' asks for an illegal split: b into 2 parts"
    assert lines[-1] == "  hint: identifiers that may be cut there: a"


@pytest.mark.parametrize("given", ["llama", None, 3], ids=repr)
def test_what_is_no_graph_is_refused(given: Any) -> None:
    with pytest.raises(ds.PlanError) as caught:
        ds.plan(given, {"tp": 2})
    assert str(caught.value) == (
        f"this is not a graph\n  {given!r} is a {type(given).__name__}\n"
        "  hint: dimsolve.trace(model, args) returns one"
    )


def test_a_mesh_axis_that_does_not_exist_is_refused() -> None:
    graph = two_linears()
    with pytest.raises(ds.MeshError) as caught:
        ds.plan(graph, {"tp": 2}, {"linear": {"pp": "n"}})
    assert str(caught.value) == (
        "the mesh has no such axis\n  'pp' is no axis of the mesh; its axes are tp"
    )
    with pytest.raises(ds.MeshError, match="'tp' is no axis of the mesh; its axes are pp"):
        graph.legal_parts("pp", {"linear": {"tp": "n"}})


# ---- plans that do not fit


def test_a_plan_for_another_graph_is_refused() -> None:
    made = ds.plan(two_linears(), {"tp": 2})
    other = two_linears(hidden=256)
    with pytest.raises(ds.PlanError) as caught:
        made.for_graph(other)
    there = ds.plan(other, {"tp": 2}).graph.fingerprint
    assert str(caught.value) == (
        "the plan was made for another graph\n"
        f"  it is for mlp with 3 nodes (fingerprint {made.graph.fingerprint}); this is mlp with 3 "
        f"nodes (fingerprint {there})\n"
        "  hint: make the plan anew: dimsolve.plan(graph, mesh, policy)"
    )


NOT_PLANS: list[tuple[Any, str]] = [
    ("[]", "it is a JSON list, not an object"),
    (None, "it is a NoneType, not text"),
    ("{", "it is no JSON: expecting property name enclosed in double quotes (line 1, column 2)"),
    ('{"version": 1}', "at graph: Field required"),
]


@pytest.mark.parametrize(("text", "reason"), NOT_PLANS, ids=[repr(text) for text, _ in NOT_PLANS])
def test_what_is_no_plan_is_refused(text: Any, reason: str) -> None:
    with pytest.raises(ds.PlanError) as caught:
        ds.Plan.from_json(text)
    lines = str(caught.value).splitlines()
    assert lines[0] == "this is not a plan"
    assert lines[1].startswith(f"  {reason}")
    assert lines[2] == "  hint: Plan.to_json writes one"


@pytest.mark.parametrize("version", [0, 5, "1", None])
def test_another_version_of_the_schema_is_refused(version: Any) -> None:
    data = json.loads(ds.plan(two_linears(), {"tp": 2}).to_json())
    data["version"] = version
    with pytest.raises(ds.PlanError) as caught:
        ds.Plan.from_json(json.dumps(data))
    assert str(caught.value) == (
        "the plan has another version\n"
        f"  its version is {version!r}; this dimsolve reads versions 1, 2, 3 and 4\n"
        "  hint: make the plan anew: dimsolve.plan(graph, mesh, policy)"
    )


SIZES: list[tuple[Any, str]] = [
    (
        {"batchh": 2},
        "the plan has no such symbol\n  'batchh' is none; its symbols are batch, seq\n"
        "  hint: did you mean 'batch'?",
    ),
    (
        {"batch": 2.5, "seq": 3},
        "this is not a size\n  batch = 2.5\n  hint: a size is a whole number, 0 or more",
    ),
    (
        {"batch": -1, "seq": 3},
        "this is not a size\n  batch = -1\n  hint: a size is a whole number, 0 or more",
    ),
]


@pytest.mark.parametrize(("sizes", "text"), SIZES, ids=str)
def test_sizes_that_mean_nothing_are_refused(sizes: Any, text: str) -> None:
    made = ds.plan(two_linears(), {"tp": 2})
    for ask in (made.memory, made.communication):
        with pytest.raises(ds.PlanError) as caught:
            ask(sizes)
        assert str(caught.value) == text


def fermat() -> Graph:
    """Rows of a length of which nobody here can tell whether it exists."""
    with Graph("rows", facts=["b*b*b + y*y*y == z*z*z"]) as g:
        x = g.input("x", "b, 63", "float32")
        g.output(g.call("torch.softmax", x, -1))
    return g


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (
            "data",
            "whether dp = 2 is legal is unknown\n"
            "  a b^ -> a b^\n"
            "  it cuts dimension 0 of x, and at softmax at test_refusals.py it is not decided "
            "whether a = b is a multiple of 2: neither a proof nor a counterexample of b % 2 == 0 "
            "was found",
        ),
        (
            {"softmax": {"dp": "a"}},
            "'softmax' asks for a split that is not known to be legal: a into 2 parts\n"
            "  a b^ -> a b^\n"
            "  softmax at test_refusals.py: it is not decided whether a = b is a multiple of 2: "
            "neither a proof nor a counterexample of b % 2 == 0 was found\n"
            "  hint: the counts that divide 1 are legal there: 1",
        ),
    ],
)
def test_where_nobody_can_tell_a_plan_says_unknown(policy: Any, text: str) -> None:
    with pytest.raises(ds.PlanError) as caught:
        ds.plan(fermat(), {"dp": 2}, policy)
    assert sub(r"[^ ]*/test_refusals.py:\d+", "test_refusals.py", str(caught.value)) == text
    assert caught.value.legality is not None and caught.value.legality.verdict == "unknown"
    assert exit_of_error(caught.value) is Exit.GAVE_UP
    assert fermat().legal_parts("dp", policy="data", up_to=2).unknown


def test_a_plan_is_made_under_facts_of_other_symbols() -> None:
    with Graph("rows", facts=["h*w == n*k", "h >= 70"]) as g:
        x = g.input("x", "b, 63", "float32")
        g.output(g.call("torch.softmax", x, -1))
    assert ds.plan(g, {"dp": 2}).conditions == ["b % 2 == 0"]
