"""Law: along a data axis the batch is cut: what is named so, else what comes first in most inputs,
and the plan says which it is.
"""

from __future__ import annotations

from typing import Any

import pytest

import dimsolve as ds
from dimsolve.exec.graph import Graph


def over_time(first: str, second: str, mask: str, join: Any) -> Graph:
    """A model that reduces over the second dimension: nothing is sent there but its results."""
    with Graph("over_time", facts=[]) as g:
        x = g.input("x", f"{first}, {second}, 6", "float32")
        m = g.input("mask", mask, "float32")
        h = g.call("torch.nn.functional.linear", x, g.parameter("w", "16, 6"))
        h = g.call("torch.mul", h, g.call("torch.unsqueeze", m, -1))
        g.output(g.call("torch.mean", g.call("torch.pow", join(g, h), 2)))
    return g


JOINS = {
    "amax": lambda g, h: g.call("torch.amax", h, 1),
    "sum": lambda g, h: g.call("torch.sum", h, 1),
    "mean": lambda g, h: g.call("torch.mean", h, 1),
}


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize(("first", "second"), [("b", "t"), ("i", "j"), ("n", "m"), ("batch", "n")])
def test_time_is_not_taken_for_the_batch(first: str, second: str, join: str) -> None:
    graph = over_time(first, second, f"{first}, {second}", JOINS[join])
    plan = ds.plan(graph, {"dp": 2})
    assert plan.conditions == [f"{first} % 2 == 0"]
    assert [entry.placements for entry in plan.inputs if entry.kind == "input"] == [["S(0)"]] * 2
    assert plan.notes == [f"dp: the batch is {first}, dimension 0 of x"]
    assert plan.notes[0] in plan.explain()


@pytest.mark.parametrize("name", ["b", "B", "bs", "batch", "batch_size"])
def test_a_dimension_that_is_named_a_batch_is_one_wherever_it_stands(name: str) -> None:
    graph = over_time("t", name, f"t, {name}", lambda g, h: g.call("torch.amax", h, 0))
    plan = ds.plan(graph, {"dp": 2})
    assert (plan.conditions, plan.notes) == (
        [f"{name} % 2 == 0"],
        [f"dp: the batch is {name}, dimension 1 of x"],
    )


def test_what_comes_first_is_no_batch_where_much_more_is_sent_for_it() -> None:
    with Graph("attention") as g:
        x = g.input("x", "u, v, 4, 8", "float32")
        h = g.call("torch.permute", x, (1, 2, 0, 3))
        for _ in range(4):
            h = g.call("torch.nn.functional.scaled_dot_product_attention", h, h, h)
        g.output(g.call("torch.mean", g.call("torch.pow", h, 2)))
    assert ds.plan(g, {"dp": 2}).notes == ["dp: the batch is v, dimension 1 of x"]
