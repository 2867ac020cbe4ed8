"""A block that is a function of the module, called twice: planned inside, equal to one device."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dimsolve as ds
from dimsolve.exec.graph import Graph
from dimsolve.partition.inlining import inlined
from tests.oracles.all_ranks import compare


def block() -> Graph:
    """An attention over h heads of width t, whose sizes are the function's own symbols."""
    with Graph("block") as f:
        x = f.input("x", "b, s, h*t", "float64")
        up, down = f.input("up", "m, h*t", "float64"), f.input("down", "h*t, m", "float64")
        heads = f.call("torch.reshape", x, ("b", "s", "h", "t"))
        flat = f.call("torch.reshape", f.call("torch.tanh", heads), ("b", "s", "h*t"))
        hidden = f.call("torch.nn.functional.gelu", f.call("torch.nn.functional.linear", flat, up))
        f.output(f.call("torch.add", x, f.call("torch.nn.functional.linear", hidden, down)))
    return f


def twice() -> Graph:
    """The same block with two sets of weights, and once more with the first."""
    f = block()
    with Graph("twice") as g:
        x = g.input("x", "batch, seq, 32", "float64")
        weights = [
            (g.parameter(f"up{n}", (m, 32), "float64"), g.parameter(f"down{n}", (32, m), "float64"))
            for n, m in enumerate((64, 96))
        ]
        y = g.call(f, x, *weights[0], h=4)
        y = g.call(f, y, *weights[1], h=8)
        g.output(g.call("torch.sin", g.call(f, y, *weights[0], h=4)))
    return g


def nested() -> Graph:
    """A function that calls a function."""
    f = block()
    with Graph("pair") as pair:
        x = pair.input("x", "n, s, d", "float64")
        up, down = pair.input("up", "m, d", "float64"), pair.input("down", "d, m", "float64")
        y = pair.call(f, x, up, down, h=1)
        pair.output(pair.call(f, y, up, down, h=1))
    with Graph("nested") as g:
        x = g.input("x", "batch, seq, 32", "float64")
        up, down = (
            g.parameter("up0", (64, 32), "float64"),
            g.parameter("down0", (32, 64), "float64"),
        )
        g.output(g.call(pair, x, up, down))
    return g


GRAPHS = {"twice": twice, "nested": nested}


def state_of(graph: Graph) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        entry.target: torch.randn(
            [int(n) for n in entry.value.dims or ()], dtype=torch.float64, generator=generator
        )
        * 0.2
        for entry in graph.parameters()
    }


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("mesh", [{"tp": 2}, {"dp": 2, "tp": 2}], ids=str)
def test_blocks_are_cut_inside_and_equal_one_device(name: str, mesh: dict[str, Any]) -> None:
    graph = GRAPHS[name]()
    made = ds.plan(graph, mesh)
    placements = {entry.name: entry.placements[-1] for entry in made.parameters}
    assert placements["up0"] == "S(0)"
    assert placements["down0"] == "S(1)"
    x = torch.randn(2, 6, 32, dtype=torch.float64)
    found = compare(made, graph, state_of(graph), {"x": x}, {"batch": 2, "seq": 6})
    assert found.ok, found


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_without_calls_computes_the_same(name: str) -> None:
    graph = GRAPHS[name]()
    flat = inlined(graph)
    assert not flat.functions
    assert [str(v.type) for v in flat.outputs.values()] == [
        str(v.type) for v in graph.outputs.values()
    ]
    x, state = torch.randn(3, 5, 32, dtype=torch.float64), state_of(graph)
    assert torch.equal(flat.run(x=x, state=state), graph.run(x=x, state=state))  # type: ignore[attr-defined]


def test_a_graph_without_calls_is_left_alone() -> None:
    graph = block()
    assert inlined(graph) is graph


def test_a_plan_fits_the_graph_with_its_calls() -> None:
    graph = twice()
    again = ds.Plan.from_json(ds.plan(graph, {"tp": 2}).to_json())
    assert again.for_graph(twice()).planned is not None
    with pytest.raises(ds.PlanError, match="another graph"):
        again.for_graph(nested())


def test_counts_look_into_functions() -> None:
    assert twice().legal_parts("tp", "tensor", up_to=4).always[:3] == (1, 2, 4)
