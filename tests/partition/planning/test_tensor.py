"""``"tensor"`` on models written by hand: what it finds, and what it refuses with which reason."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

import dimsolve as ds
from dimsolve.exec.graph import Graph
from dimsolve.partition.plan import Plan
from tests.oracles.all_ranks import compare


def traced(model: nn.Module, *shape: int, ids: int = 0) -> tuple[Graph, dict[str, Any]]:
    """The graph of a model on one input, (batch, seq, ...), and what it was traced with."""
    torch.manual_seed(0)
    x = torch.randint(0, ids, shape) if ids else torch.randn(*shape, dtype=torch.float64)
    dynamic = {"x": {0: "batch", 1: "seq"}}
    return ds.trace(model.double(), kwargs={"x": x}, dynamic=dynamic), {"x": x}


def placements(plan: Plan) -> dict[str, str]:
    return {entry.name: ", ".join(entry.placements) for entry in plan.parameters}


def assert_equal(plan: Plan, graph: Graph, model: nn.Module, inputs: dict[str, Any]) -> None:
    state = {name: p.detach() for name, p in model.named_parameters(remove_duplicate=False)}
    sizes = {"batch": inputs["x"].shape[0], "seq": inputs["x"].shape[1]}
    found = compare(plan, graph, state, inputs, sizes)
    assert found.ok, found


class Fused(nn.Module):
    """Attention whose three projections are one, seen as (3, heads, width): ``(q h e)``."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.a = nn.Linear(width, 3 * width)
        self.b = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        b, s, w = x.shape
        fused = self.a(x).view(b, s, 3, self.heads, w // self.heads)
        q, k, v = (part.transpose(1, 2) for part in fused.unbind(2))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.b(out.transpose(1, 2).reshape(b, s, w))


def test_a_fused_view_is_cut_by_heads_without_a_gather() -> None:
    model = Fused()
    graph, inputs = traced(model, 2, 6, 32)
    made = ds.plan(graph, {"tp": 2}, "tensor")
    assert placements(made) == {
        "a.weight": "S(0, blocks=3)",
        "a.bias": "S(0, blocks=3)",
        "b.weight": "S(1)",
        "b.bias": "R",
    }
    assert not [c for c in made.conversions if "all-gather" in c.forward]
    assert_equal(made, graph, model, inputs)


class Grouped(nn.Module):
    """Grouped heads: 8 query heads share 2 key-value heads."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(32, 32), nn.Linear(32, 8), nn.Linear(32, 8)
        self.o = nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        b, s, w = x.shape
        q, k, v = (f(x).view(b, s, -1, 4).transpose(1, 2) for f in (self.q, self.k, self.v))
        out = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return self.o(out.transpose(1, 2).reshape(b, s, w))


def test_grouped_heads_are_cut_by_key_value_heads() -> None:
    model = Grouped()
    graph, inputs = traced(model, 2, 6, 32)
    made = ds.plan(graph, {"tp": 2}, "tensor")
    found = placements(made)
    assert [found[f"{n}.weight"] for n in "qkvo"] == ["S(0)", "S(0)", "S(0)", "S(1)"]
    assert_equal(made, graph, model, inputs)


def test_a_count_above_the_key_value_heads_is_refused_and_says_so() -> None:
    graph, _ = traced(Grouped(), 2, 6, 32)
    with pytest.raises(ds.PlanError) as caught:
        ds.plan(graph, {"tp": 4}, "tensor", uneven="refuse")
    text = str(caught.value)
    assert text.startswith("tp = 4 is illegal\n")
    assert "= 2 is never a multiple of 4; these are the key-value heads" in text
    assert "that 8 query heads share" in text
    assert text.endswith("hint: the counts that divide 2 are legal there: 1, 2")


def test_a_count_with_nothing_in_common_is_refused_where_a_smaller_one_would_do() -> None:
    graph, _ = traced(Grouped(), 2, 6, 32)
    with pytest.raises(ds.PlanError, match="never a multiple of 3"):
        ds.plan(graph, {"tp": 3}, "tensor", uneven="refuse")


class Vocabulary(nn.Module):
    """A table used to look up and to project, as language models tie them."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, 64)
        self.norm = nn.LayerNorm(64)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.norm(self.table(x)), self.table.weight)


@pytest.mark.parametrize(("rows", "placement"), [(256, "S(0)"), (255, "S(1)")])
def test_a_tied_vocabulary_is_cut_by_rows_else_by_columns(rows: int, placement: str) -> None:
    model = Vocabulary(rows)
    graph, inputs = traced(model, 2, 6, ids=rows)
    made = ds.plan(graph, {"tp": 2}, "tensor")
    assert placements(made)["table.weight"] == placement
    assert_equal(made, graph, model, inputs)


class Mixed(nn.Module):
    """One pair of layers that two ranks can cut, one that they cannot."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(16, 64), nn.Linear(64, 16)
        self.c = nn.Linear(16, 15, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.c(torch.tanh(self.b(torch.relu(self.a(x)))))


def test_what_no_smaller_count_cuts_is_cut_otherwise_or_left_whole() -> None:
    model = Mixed()
    graph, inputs = traced(model, 2, 6, 16)
    made = ds.plan(graph, {"tp": 2}, "tensor")
    assert placements(made)["a.weight"] == "S(0)"
    assert placements(made)["c.weight"] in ("S(1)", "R")
    assert_equal(made, graph, model, inputs)


class Convolutions(nn.Module):
    """Channels: out of the one, into the other."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 8, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.relu(self.a(x)))


def test_convolutions_are_cut_by_channels() -> None:
    model = Convolutions()
    torch.manual_seed(0)
    x = torch.randn(2, 3, 6, 6, dtype=torch.float64)
    graph = ds.trace(model.double(), kwargs={"x": x}, dynamic={"x": {0: "batch"}})
    made = ds.plan(graph, {"tp": 2}, "tensor")
    found = placements(made)
    assert (found["a.weight"], found["b.weight"]) == ("S(0)", "S(1)")
    state = {name: p.detach() for name, p in model.named_parameters()}
    assert compare(made, graph, state, {"x": x}, {"batch": 2}).ok


def test_planning_depends_on_nothing_but_the_graph() -> None:
    """Twice the same plan, to the letter."""
    graph, _ = traced(Grouped(), 2, 6, 32)
    assert ds.plan(graph, {"tp": 2}).to_json() == ds.plan(graph, {"tp": 2}).to_json()
    again, _ = traced(Grouped(), 2, 6, 32)
    assert ds.plan(again, {"tp": 2}).to_json() == ds.plan(graph, {"tp": 2}).to_json()
