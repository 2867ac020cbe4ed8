"""Policies: functions as the seeds write them, mappings, names, and what each refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import dimsolve as ds
from dimsolve.exec.graph import Graph
from dimsolve.partition.plan import Plan
from dimsolve.partition.plan_data import OperatorPlan
from tests.oracles.all_ranks import compare


def two_linears(width: int = 64, hidden: int = 128) -> Graph:
    """x -> up -> gelu -> down, batch and length symbolic."""
    with Graph("mlp") as g:
        x = g.input("x", "batch, seq, 64", "float64")
        up = g.parameter("up", (hidden, width), "float64")
        down = g.parameter("down", (width, hidden), "float64")
        bias = g.parameter("bias", (width,), "float64")
        h = g.call("torch.nn.functional.gelu", g.call("torch.nn.functional.linear", x, up))
        g.output(g.call("torch.nn.functional.linear", h, down, bias))
    return g


def split_of(plan: Plan, node: str, axis: str = "tp") -> str | None:
    found = operator(plan, node).splits.get(axis)
    return None if found is None else found.identifier or "partial"


def operator(plan: Plan, node: str) -> OperatorPlan:
    return next(o for o in plan.operators if o.node == node)


def equal(plan: Plan, graph: Graph, batch: int = 4, seq: int = 6, **sizes: int) -> bool:
    generator = torch.Generator().manual_seed(0)
    state = {
        entry.target: torch.randn(
            [int(n) for n in entry.value.dims or ()], dtype=torch.float64, generator=generator
        )
        for entry in graph.parameters()
    }
    x = torch.randn(batch, seq, 64, dtype=torch.float64, generator=generator)
    return compare(plan, graph, state, {"x": x}, {"batch": batch, "seq": seq, **sizes}).ok


# ---- functions


def PAS(graph: Any, resource: Any) -> Any:  # noqa: N802
    for node in graph.nodes():
        if node.name == "linear":
            algo = node.algorithm("dim")
            # partition kd+
            config = {"idx": 1, "dim": 0 if node.id == "linear" else 1, "num": resource.ngpus}
            subnodes = graph.partition(node, algo, **config)
            assert len(subnodes) == resource.ngpus
    return graph


def test_a_policy_as_the_seeds_write_it() -> None:
    g = two_linears()
    made = ds.plan(g, {"tp": 2}, PAS)
    assert (split_of(made, "linear"), split_of(made, "linear_1")) == ("n", "k")
    assert split_of(made, "gelu") == "c"  # what is left open follows its neighbours
    assert [e.placements for e in made.parameters] == [["S(0)"], ["S(1)"], ["R"]]
    assert equal(made, g)


def test_ngpus_counts_all_ranks_and_one_identifier_is_cut_by_several_axes() -> None:
    g = two_linears()
    made = ds.plan(g, {"a": 2, "b": 2}, PAS)
    assert [split_of(made, "linear", axis) for axis in "ab"] == ["n", "n"]
    assert operator(made, "linear").outputs[0].shape == ["batch", "seq", "32"]
    assert equal(made, g)


def test_what_is_asked_of_the_graph_itself_is_a_policy_too() -> None:
    g = two_linears()
    node = g.node("linear")
    g.partition(node, node.algorithm("dim"), idx=1, dim=0, num=4)
    assert split_of(ds.plan(g, {"tp": 4}), "linear") == "n"


def test_the_product_of_axes_must_divide() -> None:
    g = two_linears(hidden=12)
    with pytest.raises(ds.PlanError) as caught:
        ds.plan(g, {"a": 2, "b": 2, "c": 2}, PAS, uneven="refuse")
    assert "n = 12 is never a multiple of 8" in str(caught.value)


def returns_nothing(graph: Any, resource: Any) -> None:
    return None


def asks_for_three(graph: Any, resource: Any) -> Any:
    node = graph.nodes()[0]
    graph.partition(node, node.algorithm("dim"), idx=1, dim=0, num=3)
    return graph


def asks_twice(graph: Any, resource: Any) -> Any:
    node = graph.nodes()[0]
    for dim in (0, 1):
        graph.partition(node, node.algorithm("dim"), idx=1, dim=dim, num=2, axis="tp")
    return graph


def asks_for_the_fourth(graph: Any, resource: Any) -> Any:
    node = graph.nodes()[0]
    graph.partition(node, node.algorithm("dim"), idx=1, dim=3, num=2)
    return graph


def cuts_both(graph: Any, resource: Any) -> Any:
    for place, node in enumerate(each for each in graph.nodes() if each.name == "linear"):
        graph.partition(node, node.algorithm("dim"), idx=1, dim=place, num=resource.ngpus)
    return graph


@pytest.mark.parametrize("policy", [{"linear": {"tp": "n"}, "linear_1": {"tp": "k"}}, cuts_both])
def test_what_is_asked_for_is_cut_unequally_where_the_count_does_not_divide(policy: Any) -> None:
    g = two_linears()
    made = ds.plan(g, {"tp": 3}, policy)
    assert [split_of(made, n) for n in ("linear", "gelu", "linear_1")] == ["n", "c", "k"]
    who = "cuts_both" if callable(policy) else "'linear'"
    assert made.notes[0] == (
        f"tp: what {who} asks for is cut into unequal parts: of 128 units a rank has 43 at most, "
        "1.008 times an equal share"
    )
    assert ds.Plan.from_json(made.to_json()).for_graph(g) == made
    assert equal(made, g)


def test_heads_stay_whole_where_a_projection_is_asked_for() -> None:
    """The units are those of all that the cut reaches: 7 heads, not 56 rows."""
    with Graph("heads") as g:
        x = g.input("x", "batch, seq, 64", "float64")
        weight = g.parameter("weight", (56, 64), "float64")
        rows = g.call("torch.nn.functional.linear", x, weight)
        g.output(g.call("torch.unflatten", rows, 2, (7, 8)))
    made = ds.plan(g, {"tp": 3}, {"linear": {"tp": "n"}})
    assert operator(made, "linear").outputs[0].placements == ["S(2, of=56, unit=8)"]
    assert operator(made, "unflatten").outputs[0].placements == ["S(2, of=7)"]
    assert equal(made, g)


def test_a_batch_that_is_asked_for_needs_no_condition_where_parts_may_be_unequal() -> None:
    g = two_linears()
    asked = {"linear": {"dp": "a"}}
    assert ds.plan(g, {"dp": 3}, asked).conditions == ["batch % 3 == 0"]
    made = ds.plan(g, {"dp": 3}, asked, uneven="allow")
    assert made.conditions == []
    assert all(equal(made, g, batch=batch) for batch in (1, 4))


def test_what_must_be_equal_is_refused_with_both_reasons() -> None:
    with Graph("masked") as g:
        x = g.input("x", "2, 4, 10", "float64")
        g.output(g.call("torch.masked.mean", x, 2))
    with pytest.raises(ds.PlanError) as caught:
        ds.plan(g, {"tp": 3}, {"mean": {"tp": "c"}})
    assert caught.value.diagnostic.reason.endswith(
        ": c = 10 is never a multiple of 3; the parts of c must be equal: what they give is "
        "weighed alike"
    )


REFUSED: list[tuple[Callable[..., Any], str]] = [
    (
        returns_nothing,
        "a policy returned no graph\n"
        "  returns_nothing returned None\n"
        "  hint: end it with: return graph",
    ),
    (
        asks_for_three,
        "no mesh axis has as many parts\n"
        "  asks_for_three asks for 3 parts of linear at test_policies.py; the mesh is tp=2\n"
        "  hint: num is the size of an axis, or the number of all ranks",
    ),
    (
        asks_twice,
        "one operator is asked for two splits along one axis\n"
        "  * k+, n k+ -> * n\n"
        "  linear at test_policies.py: asks_twice asks for n, asks_twice asks for k, "
        "both along tp\n"
        "  hint: name two axes of the mesh, or one split",
    ),
    (
        asks_for_the_fourth,
        "asks_for_the_fourth asks for an illegal split\n"
        "  * k+, n k+ -> * n\n"
        "  linear at test_policies.py: input 1 has no dimension 3: 'n k+' has dimensions 0 to 1 "
        "(or -2 to -1)",
    ),
]


@pytest.mark.parametrize(("policy", "text"), REFUSED, ids=lambda x: getattr(x, "__name__", ""))
def test_policies_that_cannot_be_followed_are_refused(
    policy: Callable[..., Any], text: str
) -> None:
    with pytest.raises(ds.PlanError) as caught:
        ds.plan(two_linears(), {"tp": 2}, policy)
    assert without_line(str(caught.value)) == text


def without_line(text: str) -> str:
    """The text with the line of this file left out: it is the reader's, not the law's."""
    import re

    return re.sub(r"(\S*/)?test_policies\.py:\d+", "test_policies.py", text)


# ---- mappings


def test_a_mapping_names_nodes_by_pattern() -> None:
    g = two_linears()
    made = ds.plan(g, {"dp": 2, "tp": 2}, {"linear": {"tp": "n"}, "linear_1": {"tp": (1, 1)}})
    assert (split_of(made, "linear"), split_of(made, "linear_1")) == ("n", "k")
    assert equal(made, g)


def test_a_pattern_takes_every_node_that_it_matches() -> None:
    made = ds.plan(two_linears(), {"tp": 2}, {"lin*": {"tp": "k"}})
    assert (split_of(made, "linear"), split_of(made, "linear_1")) == ("k", "k")


MAPPINGS: list[tuple[Any, str]] = [
    (
        {"*.q_proj": {"tp": "n"}},
        "a pattern of the policy matches nothing\n"
        "  '*.q_proj' matches no module path, node or operator of the graph",
    ),
    (
        {"lineer": {"tp": "n"}},
        "a pattern of the policy matches nothing\n"
        "  'lineer' matches no module path, node or operator of the graph\n"
        "  hint: close are linear, linear_1",
    ),
    (
        {"gelu": {"tp": "n"}},
        "no node that a pattern matches has its split\n"
        "  * -> *\n"
        "  'gelu' matches 1 node, the first is gelu with the identifiers a, b, c; "
        "'n' is in none of them\n"
        "  hint: of gelu, by index, so many dimensions: 0 has 3, 1 has 3",
    ),
    (
        {"linear": {"pp": "n"}},
        "the mesh has no such axis\n  'pp' is no axis of the mesh; its axes are tp",
    ),
    (
        {"linear": "n"},
        "this is not a policy\n  'linear': 'n'\n"
        '  hint: write {"*.q_proj": {"tp": "n"}}: an identifier or (index, dim) for each axis',
    ),
    (
        7,
        "there is no such policy\n  7 is none\n"
        "  hint: write data, tensor, sequence, sequence+all-gather, sequence+all-to-all, "
        "experts, data+tensor, tensor+sequence, replicate, "
        "auto, a mapping from node patterns to splits, or a function PAS(graph, resource)",
    ),
]


@pytest.mark.parametrize(("policy", "text"), MAPPINGS, ids=lambda x: str(x)[:24])
def test_mappings_that_cannot_be_followed_are_refused(policy: Any, text: str) -> None:
    with pytest.raises(ds.DimsolveError) as caught:
        ds.plan(two_linears(), {"tp": 2}, policy)
    assert str(caught.value) == text


def test_an_illegal_split_is_refused_with_its_legality() -> None:
    with pytest.raises(ds.PlanError) as caught:
        ds.plan(two_linears(hidden=6), {"tp": 4}, {"linear": {"tp": "n"}}, uneven="refuse")
    error = caught.value
    assert "n = 6 is never a multiple of 4" in str(error)
    assert error.legality is not None
    assert error.legality.verdict == "illegal"


# ---- names


def test_replicate_cuts_nothing() -> None:
    made = ds.plan(two_linears(), {"dp": 2, "tp": 2}, "replicate")
    assert not made.conversions
    assert not any(o.splits for o in made.operators)


def test_data_cuts_the_batch_and_sums_the_gradients_of_parameters() -> None:
    g = two_linears()
    made = ds.plan(g, {"dp": 2}, "data")
    assert made.conditions == ["batch % 2 == 0"]
    assert [e.placements for e in made.inputs if e.kind == "input"] == [["S(0)"]]
    shared = {c.value for c in made.conversions if c.shared_gradient}
    assert shared == {e.value for e in made.parameters}
    assert equal(made, g)


def test_the_default_is_data_on_axes_that_begin_with_dp_and_tensor_on_others() -> None:
    g = two_linears()
    made = ds.plan(g, {"dp_outer": 2, "tp": 2})
    assert (split_of(made, "linear", "dp_outer"), split_of(made, "linear")) == ("a", "n")
    assert made.policy == "data+tensor"
    assert equal(made, g)


def test_tensor_cuts_columns_then_rows() -> None:
    g = two_linears()
    made = ds.plan(g, {"tp": 4}, "tensor")
    assert (split_of(made, "linear"), split_of(made, "linear_1")) == ("n", "k")
    assert equal(made, g)


def test_a_bias_that_is_a_summand_is_kept_on_one_rank() -> None:
    made = ds.plan(two_linears(), {"tp": 2}, "tensor")
    (kept,) = [c for c in made.conversions if c.value == "bias"]
    assert (kept.forward, kept.backward, kept.after) == (["keep"], [], ["P(sum)"])


def test_batch_sizes_that_a_count_cannot_cut_are_refused() -> None:
    with Graph() as g:
        x = g.input("x", (3, 5), "float32")
        g.output(g.call("torch.nn.functional.linear", x, g.parameter("w", (7, 5))))
    with pytest.raises(ds.PlanError, match="it cuts dimension 0 of x, and at linear"):
        ds.plan(g, {"dp": 2}, "data")


def test_a_graph_without_a_batch_is_refused() -> None:
    with Graph() as g:
        x = g.input("x", (), "float32")
        g.output(g.call("torch.exp", x))
    with pytest.raises(ds.PlanError) as caught:
        ds.plan(g, {"dp": 2}, "data")
    assert str(caught.value) == (
        "nothing to cut along dp\n"
        "  no dimension of an input is one that any operator can be split by\n"
        '  hint: policy "tensor" cuts parameters; "replicate" cuts nothing'
    )


MESHES: list[tuple[Any, str]] = [
    ("tp", "this is not a mesh\n  'tp' gives no size"),
    ({"tp": 0}, "this is not a mesh\n  the size of 'tp' is 0, and an axis has at least one rank"),
    ({"t p": 2}, "this is not a mesh\n  't p' is no name for an axis"),
    ("tp=2,tp=2", "this is not a mesh\n  the axis 'tp' is given twice"),
    ({"tp": 1.5}, "this is not a mesh\n  the size of 'tp' is 1.5"),
    ([2, 2], "this is not a mesh\n  [2, 2] is no mapping from axis names to sizes"),
    (
        {"tp": "batch"},
        "a mesh size and a length have one name\n"
        "  'batch' is a symbol of the graph and a size of the mesh tp=batch",
    ),
]


@pytest.mark.parametrize(("mesh", "text"), MESHES, ids=str)
def test_meshes_that_cannot_be_read_are_refused(mesh: Any, text: str) -> None:
    with pytest.raises(ds.DimsolveError) as caught:
        ds.plan(two_linears(), mesh, "tensor")
    assert str(caught.value).rpartition("\n  hint")[0] == text


def test_an_axis_of_one_rank_changes_nothing() -> None:
    made = ds.plan(two_linears(), {"dp": 1, "tp": 1})
    assert all(c.bytes_forward == c.bytes_backward == "0" for c in made.conversions)
    assert made.conditions == []


def test_a_symbolic_count_leaves_conditions() -> None:
    g = two_linears()
    made = ds.plan(g, {"tp": "n"}, "tensor")
    assert made.conditions == ["128 % n == 0"]
    assert operator(made, "linear").outputs[0].shape == ["batch", "seq", "128//n"]
    assert equal(made, g, n=4)


@pytest.mark.parametrize(
    ("axis", "more", "word"),
    [
        ("data", "", "data"),
        ("model", "", "tensor"),
        ("pp", "; a plan has no pipeline stages: give it the mesh without them", "tensor"),
        ("tpu", "", "tensor"),
    ],
)
def test_an_axis_whose_name_means_nothing_is_told_what_it_cuts(
    axis: str, more: str, word: str
) -> None:
    graph = two_linears()
    with pytest.raises(ds.PlanError) as caught:
        ds.plan(graph, {"dp": 2, axis: 2})
    assert str(caught.value) == (
        f"nothing says what the axis {axis} cuts\n"
        "  axes named dp and fsdp cut the batch, tp cuts parameters, cp and sp cut the sequence, "
        f"ep cuts experts, and '{axis}' is none of these{more}\n"
        f'  hint: say it for every axis: dimsolve.plan(graph, mesh, {{..., "{axis}": "{word}"}})'
    )
    told = ds.plan(graph, {"dp": 2, axis: 2}, {"dp": "data", axis: word})
    assert told.policy == f"dp: data, {axis}: {word}"


@pytest.mark.parametrize("axis", ["tp", "tp1", "tp_inner"])
def test_an_axis_does_what_its_name_means(axis: str) -> None:
    named, told = (ds.plan(two_linears(), {axis: 2}, policy) for policy in (None, "tensor"))
    assert named.operators == told.operators


def test_a_policy_by_axis_is_told_for_every_axis() -> None:
    for policy, words in (
        (
            {"dp": "data"},
            "the policy says nothing of the axis tp\n"
            "  it is {'dp': 'data'}\n"
            '  hint: add "tp": "data", "tensor", "sequence", "experts" or "replicate"',
        ),
        (
            {"dp": "data", "xx": "tensor", "tp": "tensor"},
            "the policy is for the axis 'xx', which the mesh lacks\n"
            "  the mesh is dp=2, tp=2\n"
            "  hint: name the mesh's axes; or a mapping from node patterns to splits: "
            '{"*.q_proj": {"tp": "n"}}',
        ),
    ):
        with pytest.raises(ds.PlanError) as caught:
            ds.plan(two_linears(), {"dp": 2, "tp": 2}, policy)
        assert str(caught.value) == words
    with pytest.raises(ds.PlanError, match="there is no such policy for the axis tp"):
        ds.plan(two_linears(), {"dp": 2, "tp": 2}, {"dp": "data", "tp": "none"})
