"""The picture of a plan: each layer once, every weight with its placement, every collective."""

from __future__ import annotations

import re
from random import Random

import pytest
import torch
from torch import nn

import dimsolve as ds
from dimsolve.partition.plan import Plan
from tests.oracles.pictures import read_picture, texts, titled
from tests.partition.planning.random_graphs import random_graph, random_mesh


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))


class Stack(nn.Module):
    def __init__(self, widths: int, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block(widths) for _ in range(count)])
        self.head = nn.Linear(widths, 32, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


@pytest.fixture(scope="module")
def plan() -> Plan:
    graph = ds.trace(Stack(16, 5), (torch.randn(4, 16),), dynamic={"x": {0: "batch"}})
    return ds.plan(graph, "dp=2, tp=4")


def test_equal_layers_are_drawn_once_with_their_number(plan: Plan) -> None:
    shown = texts(read_picture(plan._repr_svg_()))
    assert shown.count("5 times") >= 1 and "layers.0 to 4" in shown
    assert shown.count("up") == 1 and shown.count("down") == 1


def test_every_weight_of_a_layer_and_its_placement_is_shown(plan: Plan) -> None:
    shown = titled(read_picture(plan._repr_svg_()), "weight: ")
    expected = {
        f"{entry.name}: {', '.join(entry.placements)}"
        for entry in plan.parameters
        if entry.name.startswith(("layers.0.", "head"))
    }
    assert {title for title, _ in shown} == expected


def test_the_collectives_of_a_layer_stand_after_what_makes_the_value(plan: Plan) -> None:
    shown = texts(read_picture(plan._repr_svg_()))
    start = shown.index("down")
    assert "all-reduce" in shown[start : start + 16]
    assert "P(sum) → R" in shown[start : start + 16]


def test_the_numbers_below_are_those_of_the_plan(plan: Plan) -> None:
    shown = texts(read_picture(plan._repr_svg_()))
    traffic = [
        (each.axis, each.collective, each.direction, each.count)
        for each in plan.communication({"batch": 8})
    ]
    foot = shown[shown.index("collectives in a step") + 1 :]
    rows = [tuple(foot[start : start + 4]) for start in range(0, 4 * len(traffic), 4)]
    expected = [
        (axis, name, way, "once" if count == 1 else f"{count} times")
        for axis, name, way, count in traffic
    ]
    assert sorted(rows) == sorted(expected)


def test_the_picture_is_the_same_for_a_plan_that_was_read_back(plan: Plan) -> None:
    assert Plan.from_json(plan.to_json())._repr_svg_() == plan._repr_svg_()


@pytest.mark.parametrize("whole", ["[2]", "[05]", "[345]", "[!3]"])
def test_layers_drawn_as_one_are_cut_alike(whole: str) -> None:
    graph = ds.trace(Stack(16, 6), (torch.randn(4, 16),), dynamic={"x": {0: "batch"}})
    others = "[!" + whole.strip("[!]") + "]" if "!" not in whole else "[3]"
    cut = {f"layers.{others}.up": {"tp": "n"}, f"layers.{others}.down": {"tp": "k"}}
    plan = ds.plan(graph, "tp=2", cut)
    ways: dict[str, list[tuple[str, ...]]] = {}
    for entry in plan.parameters:
        ways.setdefault(entry.name.rpartition(".")[0], []).append(tuple(entry.placements))
    layers = [(ways[f"layers.{n}.up"], ways[f"layers.{n}.down"]) for n in range(6)]
    assert layers.count(layers[0]) < 6, "the policy cuts them otherwise"
    found = re.findall(r"layers\.(\d) to (\d)", " ".join(texts(read_picture(plan._repr_svg_()))))
    assert found or whole == "[05]"
    for first, last in found:
        alike = layers[int(first) : int(last) + 1]
        assert all(each == alike[0] for each in alike)


@pytest.mark.parametrize("mesh", ["tp=n", "a=2, b=2, c=2", "tp=64"])
def test_any_mesh_has_a_picture(mesh: str) -> None:
    graph = ds.trace(Stack(64, 2), (torch.randn(4, 64),), dynamic={"x": {0: "batch"}})
    read_picture(ds.plan(graph, mesh, "data")._repr_svg_())


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_and_their_plans_have_pictures(seed: int) -> None:
    random = Random(seed)
    graph = random_graph(random, random.randint(1, 60)).graph
    read_picture(graph._repr_svg_())
    read_picture(ds.plan(graph, random_mesh(random), "data+tensor")._repr_svg_())


def test_hostile_names_are_text() -> None:
    with ds.Graph('<img src="x">&') as graph:
        x = graph.input("x", "n, 4", "float32")
        graph.output(graph.call("torch.exp", x))
    plan = ds.plan(graph, "tp=2", "data")
    for svg in (graph._repr_svg_(), plan._repr_svg_()):
        assert '<img src="x">&' in texts(read_picture(svg))
