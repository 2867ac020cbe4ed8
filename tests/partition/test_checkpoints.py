"""Law: a plan has the regions of its graph, may have more, and counts what they keep."""

from __future__ import annotations

import json
from typing import Any

import pytest

import dimsolve as ds
from dimsolve.ir.graph import Region
from dimsolve.partition.checkpoints import regions_of

WIDTH = 64


def layers(count: int = 2, *, regions: bool = True, name: str = "main") -> ds.Graph:
    """Linear, gelu, linear, as often; each a region."""
    g = ds.Graph(name)
    x = g.input("x", f"batch, {WIDTH}", "float32")
    for layer in range(count):
        up = g.parameter(f"{layer}.up", f"{4 * WIDTH}, {WIDTH}")
        down = g.parameter(f"{layer}.down", f"{WIDTH}, {4 * WIDTH}")
        if regions:
            with g.checkpoint("layer"):
                x = mlp(g, x, up, down)
        else:
            x = mlp(g, x, up, down)
    g.output(loss=g.call("torch.Tensor.sum", x))
    return g


def mlp(g: ds.Graph, x: Any, up: Any, down: Any) -> Any:
    h = g.call("torch.nn.functional.gelu", g.call("torch.nn.functional.linear", x, up))
    return g.call("torch.nn.functional.linear", h, down)


def test_a_graph_shows_its_regions_and_reads_as_it_was_written() -> None:
    g = layers(1)
    assert str(g).splitlines()[3:8] == [
        "  checkpoint layer(use_reentrant=False):",
        "    %linear: float32[batch, 256] = linear(%x, %0_up)    # * k+, n k+ -> * n",
        "    %gelu: float32[batch, 256] = gelu(%linear)    # * -> *",
        "    %linear_1: float32[batch, 64] = linear(%gelu, %0_down)    # * k+, n k+ -> * n",
        "  %sum: float32[] = .sum(%linear_1)    # a+ b+ -> ()",
    ]
    data = json.loads(json.dumps(g.to_json()))
    assert data["version"] == 2 and layers(regions=False).to_json()["version"] == 1
    read = ds.Graph.from_json(data)
    assert str(read) == str(g) and read.to_json() == g.to_json() and read.regions == g.regions


def test_regions_stand_within_regions() -> None:
    g = ds.Graph()
    x = g.input("x", "n", "float32")
    with g.checkpoint("outer", use_reentrant=True):
        y = g.call("torch.exp", x)
        with g.checkpoint("inner", preserve_rng_state=False):
            y = g.call("torch.sin", y)
        y = g.call("torch.cos", y)
    g.output(y)
    g.verify()
    assert [region.name for region in g.regions_around(g.node("sin"))] == ["outer", "inner"]
    assert [(r.name, r.first, r.last) for r in regions_of(g)] == [
        ("outer", "exp", "cos"),
        ("inner", "sin", "sin"),
    ]
    assert "    checkpoint inner(use_reentrant=False, preserve_rng_state=False):" in str(g)
    assert str(ds.Graph.from_json(g.to_json())) == str(g)


REGION = {"name": "layer", "within": ""}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 1}, "main, region 0: a graph of version 1 has no regions"),
        ({"regions": [REGION, REGION]}, "two regions are named layer"),
        ({"regions": []}, "linear is in the region layer, which there is not"),
        (
            {"regions": [{**REGION, "within": "x"}]},
            "layer is within x, which is no region before",
        ),
        ({"regions": [{**REGION, "kept": 1}]}, "main, region 0: a region has no 'kept'"),
        (
            {"regions": [{**REGION, "early_stop": "no"}]},
            "main, region 0: early_stop is true or false, and not 'no'",
        ),
        (
            {"regions": [{**REGION, "determinism_check": "all"}]},
            "main, region 0: determinism_check is 'default' or 'none', and not 'all'",
        ),
    ],
)
def test_what_is_no_region_is_not_read(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ds.GraphError) as caught:
        ds.Graph.from_json({**layers(1).to_json(), **change})
    assert reason in str(caught.value)


def test_the_nodes_of_a_region_stand_together() -> None:
    g = layers(1)
    g.node("gelu").region = ""
    with pytest.raises(ds.GraphError) as caught:
        g.verify()
    assert "linear_1 is in the region layer, which has ended before it" in str(caught.value)


def test_a_function_is_taken_out_of_one_region() -> None:
    g = layers(1)
    with pytest.raises(ds.GraphError) as caught:
        g.outline([g.node("linear_1"), g.node("sum")], "part")
    assert str(caught.value) == (
        "these nodes cannot become the function part\n"
        "  linear_1 is in the region layer and sum in no region: what is run again in the "
        "backward pass would be another part of the graph\n"
        "  hint: outline nodes of one region"
    )
    assert g.outline([g.node("gelu"), g.node("linear_1")], "part").region == "layer"
    g.verify()


def test_regions_of_called_functions_are_regions_of_the_caller() -> None:
    inner = layers(1, name="block")
    g = ds.Graph()
    x = g.input("x", f"rows, {WIDTH}", "float32")
    weights = [g.parameter("up", f"256, {WIDTH}"), g.parameter("down", f"{WIDTH}, 256")]
    first = g.call(inner, x, *weights)
    with g.checkpoint("outer"):
        second = g.call(inner, x, *weights)
    g.output(first, second)
    plan = ds.plan(g, {"tp": 2})
    assert [(r.name, r.first, r.last) for r in plan.regions] == [
        ("block_layer", "block_linear", "block_linear_1"),
        ("outer", "block_1_linear", "block_1_sum"),
        ("block_1_layer", "block_1_linear", "block_1_linear_1"),
    ]
    assert ds.Plan.from_json(plan.to_json()).for_graph(g) == plan


def test_a_plan_of_version_1_has_the_regions_of_its_graph() -> None:
    g = layers()
    plan = ds.plan(g, {"tp": 2})
    old = json.loads(plan.to_json())
    assert old.pop("regions") and old["version"] == 2
    old["version"] = 1
    read = ds.Plan.from_json(json.dumps(old))
    assert read.regions == [] and read.for_graph(g) == plan


def test_what_has_no_regions_is_written_as_before() -> None:
    data = json.loads(ds.plan(layers(regions=False), {"tp": 2}).to_json())
    assert data["version"] == 1 and "regions" not in data


def changed(plan: ds.Plan, **regions: dict[str, Any]) -> str:
    """The plan with its regions changed, by their names; those of other names are added."""
    data = json.loads(plan.to_json())
    for region in data["regions"]:
        region.update(regions.pop(region["name"], {}))
    data["regions"] += [
        {**data["regions"][0], "name": name, **new} for name, new in regions.items()
    ]
    return json.dumps(data)


def test_whoever_plans_may_add_regions() -> None:
    g = layers(4, regions=False)
    bare = ds.plan(g, {"tp": 2})
    ends = [("linear", "linear_1"), ("linear_2", "linear_3"), ("linear", "linear_3")]
    order = [ends[2], ends[0], ends[1]]
    made = [{"name": f"r{n}", "first": a, "last": b} for n, (a, b) in enumerate(order)]
    data = {**json.loads(bare.to_json()), "version": 2, "regions": made}
    plan = ds.Plan.from_json(json.dumps(data)).for_graph(g)
    assert [region.name for region in plan.regions] == ["r0", "r1", "r2"]
    assert plan.memory(batch=512).activations < bare.memory(batch=512).activations


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"layer": {"first": "no"}}, "at regions.0: there is no operator 'no'"),
        ({"layer": {"first": "sum"}}, "at regions.0: linear_1 runs before sum"),
        ({"layer_1": {"name": "layer"}}, "at regions.1: 'layer' is no name of its own"),
        (
            {"layer_1": {"first": "gelu"}},
            "at regions.1: it has a part of layer, which stands before it",
        ),
    ],
)
def test_what_is_no_region_of_a_plan_is_refused(changes: Any, reason: str) -> None:
    with pytest.raises(ds.PlanError) as caught:
        ds.Plan.from_json(changed(ds.plan(layers(), {"tp": 2}), **changes))
    assert str(caught.value).splitlines()[1].strip() == reason


def test_the_regions_of_the_graph_are_always_there() -> None:
    g = layers()
    plan = ds.plan(g, {"tp": 2})
    for changes, reason in (
        ({"layer": {"name": "mine"}}, "region layer: the graph has it, and the plan has none"),
        (
            {"layer": {"early_stop": False}},
            "region layer: the plan says linear .. linear_1 as checkpoint layer(use_reentrant="
            "False, early_stop=False), the graph linear .. linear_1 as checkpoint "
            "layer(use_reentrant=False)",
        ),
    ):
        with pytest.raises(ds.PlanError) as caught:
            ds.Plan.from_json(changed(plan, **changes)).for_graph(g)
        assert str(caught.value).splitlines()[1].strip() == reason


def test_a_plan_says_what_is_run_again_and_what_is_kept_for_it() -> None:
    plan = ds.plan(layers(), {"tp": 2})
    title, *rows = plan.explain().split("\n\n")[-1].splitlines()
    assert title == "run again in the backward pass 2"
    assert [" ".join(row.split()) for row in rows] == [
        "layer 3 operators, linear .. linear_1 use_reentrant=False keeps x (batch, 64)",
        "layer_1 3 operators, linear_2 .. linear_3 use_reentrant=False "
        "keeps linear_1@1 (batch, 64)",
    ]
    other = ds.plan(layers(regions=False), {"tp": 2})
    assert other.diff(plan).splitlines() == [
        "+ region layer linear .. linear_1 checkpoint layer(use_reentrant=False)",
        "+ region layer_1 linear_2 .. linear_3 checkpoint layer_1(use_reentrant=False)",
    ]


@pytest.mark.parametrize("count", [1, 7])
def test_activations_are_what_regions_keep_and_one_of_them(count: int) -> None:
    """On one rank a layer more keeps what it is given, (batch, 64), and without a region two of
    (batch, 256); the last one needs as much in either way.
    """
    batch, row = 1000, 4 * WIDTH

    def activations(count: int, regions: bool) -> int:
        plan = ds.plan(layers(count, regions=regions), {"tp": 1}, "replicate")
        return plan.memory(batch=batch).activations

    kept, within = row * batch, 2 * 4 * row * batch
    assert activations(1, True) == activations(1, False)
    assert activations(count + 1, True) - activations(count, True) == kept
    assert activations(count + 1, False) - activations(count, False) == kept + within


def test_a_region_is_named_once() -> None:
    g = layers(1)
    with pytest.raises(ds.GraphError, match="two regions are named layer"):
        g.add_region(Region("layer"))
