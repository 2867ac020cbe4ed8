"""A graph as planners see it: writes, gradients, nodes without annotation, unknown lengths."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dimsolve as ds
from dimsolve.exec.graph import Graph
from dimsolve.partition.planning.network import Network
from tests.oracles.all_ranks import compare


def values(graph: Graph) -> dict[str, str]:
    return {wire.value.name: wire.gradient for wire in Network(graph).edges}


def test_gradients_come_from_parameters_and_end_where_they_are_cut() -> None:
    with Graph() as g:
        ids, x = g.input("ids", "b", "int64"), g.input("x", "b, 8", "float32")
        w = g.parameter("w", (16, 8))
        e = g.call("torch.nn.functional.embedding", ids, w)
        d = g.call("torch.Tensor.detach", e)
        g.output(g.call("torch.add", d, x), g.call("torch.argmax", e, -1))
    assert values(g) == {
        "ids": "never", "x": "inputs", "w": "always", "embedding": "always", "detach": "never",
        "add": "inputs", "argmax": "never",
    }  # fmt: skip


class Written(torch.nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.w = torch.nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        h = self.w(x)
        match self.kind:
            case "returned":  # what was written is used under its new name
                y = h.add_(1.0)
                return torch.relu(y)
            case "kept":  # ... and under its old one
                h.mul_(2.0)
                return torch.relu(h)
            case "view":  # ... and through a view taken before
                v = h.view(-1, 4)
                h.add_(1.0)
                return torch.relu(v)
            case _:  # a part is written, the whole is used
                z = h.clone()
                z[:, :4] = 0.0
                return z * 2


@pytest.mark.parametrize("kind", ["returned", "kept", "view", "part"])
@pytest.mark.parametrize("policy", [{"*": {"dp": (0, 0)}}, "tensor"], ids=["rows", "tensor"])
def test_writes_are_seen_by_later_uses(kind: str, policy: Any) -> None:
    torch.manual_seed(0)
    model, x = Written(kind).double(), torch.randn(4, 8, dtype=torch.float64)
    graph = ds.trace(model, kwargs={"x": x}, dynamic={"x": {0: "batch"}})
    try:
        made = ds.plan(graph, {"dp": 2}, policy)
    except ds.PlanError as error:
        assert "writes to memory that" in str(error)
        return
    state = {name: p.detach() for name, p in model.named_parameters()}
    found = compare(made, graph, state, {"x": x}, {"batch": 4})
    assert found.ok, found


def test_memory_that_is_shared_and_written_stays_whole() -> None:
    x = torch.randn(4, 8, dtype=torch.float64)
    graph = ds.trace(Written("view").double(), kwargs={"x": x}, dynamic={"x": {0: "batch"}})
    with pytest.raises(ds.PlanError) as caught:
        ds.plan(graph, {"dp": 2}, {"add_": {"dp": (0, 0)}})
    assert "add_ writes to memory that %h shares" in str(caught.value)
    made = ds.plan(graph, {"dp": 2}, "data")  # what is made of that memory later is cut
    cut = {operator.name: bool(operator.splits) for operator in made.operators}
    assert not cut["linear"] and not cut["add_"] and not cut["view"] and cut["relu"]


def test_a_node_without_annotation_is_whole_and_says_how_to_register() -> None:
    with Graph() as g:
        x = g.input("x", "b, 8", "float32")
        y = g.external("mystery", x, shape="b, 8", dtype="float32")
        g.output(g.call("torch.relu", y))
    made = ds.plan(g, {"dp": 2}, "replicate")
    assert made.operators[0].operands[0].placements == ["R"]
    with pytest.raises(ds.PlanError) as caught:
        ds.plan(g, {"dp": 2}, {"mystery": {"dp": (0, 0)}})
    assert "it has no annotation: dimsolve.register_op gives it one" in str(caught.value)


def test_a_length_that_only_running_tells_is_not_cut() -> None:
    with Graph() as g:
        x = g.input("x", "b", "float32")
        g.output(g.call("torch.relu", g.call("torch.unique", x)))
    with pytest.raises(ds.PlanError, match="known only when it runs"):
        ds.plan(g, {"dp": 2}, {"relu": {"dp": (0, 0)}})


class Dropped(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Linear(16, 64)

    def forward(self, x: Any) -> Any:
        return torch.nn.functional.dropout(self.w(x), 0.5, True)


@pytest.mark.parametrize(("policy", "differs"), [("tensor", ["tp"]), ("replicate", [])])
def test_a_mask_differs_along_the_axes_that_cut_it(policy: str, differs: list[str]) -> None:
    x = torch.randn(4, 16, dtype=torch.float64)
    graph = ds.trace(Dropped().double(), kwargs={"x": x}, dynamic={"x": {0: "batch"}})
    made = ds.plan(graph, {"tp": 2}, policy)
    (drawing,) = [o.randomness for o in made.operators if o.randomness is not None]
    assert (drawing.differs, drawing.stream) == (differs, 0)
