"""Fused projections whose parts have unequal lengths: each segment is cut on its own, whichever way
the model takes them apart, and all ranks together compute what one device computes.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

import dimsolve as ds
from dimsolve.exec.graph import Graph
from dimsolve.partition.placement import Shard, read_placement
from dimsolve.partition.planning.axis_state import AxisState
from dimsolve.partition.planning.choices import Choice, Refusal
from dimsolve.partition.planning.network import Network
from dimsolve.partition.planning.planner import Policy
from dimsolve.partition.planning.requirements import Requirements
from tests.oracles.all_ranks import compare

from .test_tensor import assert_equal, placements, traced

HEADS, GROUPS, WIDTH = 8, 2, 4


def slices(x: Tensor, sizes: list[int]) -> list[Tensor]:
    ends = [sum(sizes[: n + 1]) for n in range(len(sizes))]
    return [x[..., end - size : end] for size, end in zip(sizes, ends, strict=True)]


def narrows(x: Tensor, sizes: list[int]) -> list[Tensor]:
    starts = [sum(sizes[:n]) for n in range(len(sizes))]
    return [x.narrow(-1, start, size) for start, size in zip(starts, sizes, strict=True)]


def splits(x: Tensor, sizes: list[int]) -> list[Tensor]:
    return list(x.split(sizes, -1))


def nested(x: Tensor, sizes: list[int]) -> list[Tensor]:
    """Queries first, then keys and values together, which are chunked."""
    queries, rest = x.split([sizes[0], sizes[1] + sizes[2]], -1)
    return [queries, *rest.chunk(2, -1)]


class FusedGroups(nn.Module):
    """Grouped heads from one projection of (h + 2 g) e columns."""

    def __init__(self, apart: Any, groups: int = GROUPS) -> None:
        super().__init__()
        self.sizes = [HEADS * WIDTH, groups * WIDTH, groups * WIDTH]
        self.qkv = nn.Linear(32, sum(self.sizes))
        self.o = nn.Linear(HEADS * WIDTH, 32)
        self.apart = apart

    def forward(self, x: Tensor) -> Tensor:
        b, s, _ = x.shape
        parts = self.apart(self.qkv(x), self.sizes)
        q, k, v = (part.view(b, s, -1, WIDTH).transpose(1, 2) for part in parts)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o(out.transpose(1, 2).reshape(b, s, HEADS * WIDTH))


@pytest.mark.parametrize("apart", [slices, narrows, splits, nested], ids=lambda f: f.__name__)
def test_grouped_heads_of_one_projection_are_cut_without_a_gather(apart: Any) -> None:
    model = FusedGroups(apart)
    graph, inputs = traced(model, 2, 6, 32)
    made = ds.plan(graph, {"tp": 2}, "tensor")
    assert placements(made) == {
        "qkv.weight": "S(0, segments=4:1:1)",
        "qkv.bias": "S(0, segments=4:1:1)",
        "o.weight": "S(1)",
        "o.bias": "R",
    }
    assert not [c for c in made.conversions if "all-gather" in (*c.forward, *c.backward)]
    assert_equal(made, graph, model, inputs)


def test_a_plan_tells_its_segments_and_is_read_back() -> None:
    graph, _ = traced(FusedGroups(slices), 2, 6, 32)
    made = ds.plan(graph, {"tp": 2}, "tensor")
    (split,) = [o.splits["tp"] for o in made.operators if o.module.endswith("qkv")]
    assert (split.identifier, split.blocks, split.segments) == ("n", "1", [4, 1, 1])
    assert "tp: n in segments 4:1:1" in made.explain()
    assert ds.Plan.from_json(made.to_json()) == made
    whole = ds.plan(graph, {"tp": 2}, "replicate")
    assert "tp: n in segments 4:1:1" in whole.diff(made)


@pytest.mark.parametrize("mesh", [{"tp": 2, "tp2": 2}, {"dp": 2, "tp": 2}], ids=str)
def test_segments_are_cut_by_several_axes(mesh: dict[str, Any]) -> None:
    model = FusedGroups(slices, groups=4)
    graph, inputs = traced(model, 2, 6, 32)
    made = ds.plan(graph, mesh)
    assert "S(0, segments=2:1:1)" in placements(made)["qkv.weight"]
    assert_equal(made, graph, model, inputs)


def test_a_count_that_a_segment_cannot_take_is_refused() -> None:
    graph, _ = traced(FusedGroups(slices), 2, 6, 32)
    with pytest.raises(ds.PlanError, match="never a multiple of 4"):
        ds.plan(graph, {"tp": 4}, "tensor", uneven="refuse")


class Together(nn.Module):
    """Three weights put together before they are used."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (
            nn.Parameter(torch.randn(n * WIDTH, 32)) for n in (HEADS, GROUPS, GROUPS)
        )
        self.o = nn.Linear(HEADS * WIDTH, 32)

    def forward(self, x: Tensor) -> Tensor:
        b, s, _ = x.shape
        fused = F.linear(x, torch.cat([self.q, self.k, self.v]))
        sizes = [HEADS * WIDTH, GROUPS * WIDTH, GROUPS * WIDTH]
        q, k, v = (p.view(b, s, -1, WIDTH).transpose(1, 2) for p in fused.split(sizes, -1))
        out = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return self.o(out.transpose(1, 2).reshape(b, s, -1))


def test_weights_put_together_are_cut_one_by_one() -> None:
    model = Together()
    graph, inputs = traced(model, 2, 6, 32)
    made = ds.plan(graph, {"tp": 2}, "tensor")
    assert placements(made) == {
        "q": "S(0)",
        "k": "S(0)",
        "v": "S(0)",
        "o.weight": "S(1)",
        "o.bias": "R",
    }
    assert_equal(made, graph, model, inputs)


# ---- one operator: every placement that it takes, against brute force

CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("operator.getitem", (slice(None), slice(0, 48))),
    ("operator.getitem", (slice(None), slice(48, 72))),
    ("operator.getitem", (slice(None), slice(72, None))),
    ("operator.getitem", (slice(None), slice(-24, None))),
    ("operator.getitem", (slice(None), None, slice(24, 72))),
    ("torch.narrow", (1, 24, 48)),
    ("torch.split", ([48, 24, 24], 1)),
    ("torch.split", (24, 1)),
    ("torch.chunk", (2, -1)),
    ("torch.tensor_split", (4, 1)),
    ("torch.hsplit", (3,)),
]
SHARDS = [
    "S(0)", "S(1)", "S(1, blocks=2)", "S(1, blocks=4)", "S(1, blocks=8)", "S(1, segments=2:1:1)",
    "S(1, segments=1:3)", "S(1, blocks=2, segments=1:3)", "S(1, segments=1:2:1)", "S(2)",
    "S(1, segments=3:1)", "S(2, blocks=2)", "S(2, segments=1:3)",
]  # fmt: skip


def graph_of(path: str, arguments: tuple[Any, ...]) -> tuple[Graph, dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    with Graph() as g:
        x = g.input("x", (4, 96), "float64")
        given = (arguments,) if path == "operator.getitem" else arguments
        result = g.call(path, x, *given)
        g.output(*(result if isinstance(result, tuple) else (result,)))
    return g, {"x": torch.randn(4, 96, dtype=torch.float64, generator=generator)}


@pytest.mark.parametrize(("path", "arguments"), CALLS, ids=str)
def test_windows_are_cut_as_the_whole_and_the_whole_as_windows(
    path: str, arguments: tuple[Any, ...]
) -> None:
    graph, inputs = graph_of(path, arguments)
    kind = Network(graph).operators[0].op_class
    taken = 0
    for tensor, row in enumerate(kind.tensors):
        for text in SHARDS:
            shard = read_placement(text)
            assert isinstance(shard, Shard)
            if shard.dim >= len(row or ()):
                continue
            choice = kind.spread(tensor, shard)
            if isinstance(choice, Refusal):
                assert choice.reason
                continue
            assert choice.at(tensor) == shard
            for count in (2, 3):
                if Requirements(count, kind.facts).first_illegal(choice) is None:
                    made = ds.plan(graph, {"tp": count}, _policy(choice))
                    assert compare(made, graph, {}, inputs, {}).ok, (tensor, text, count)
                    taken += 1
    assert taken >= 8


def _policy(choice: Choice) -> Policy:
    """The same choice by its placements: every planning makes kinds of its own."""

    def decide(state: AxisState, duties: Requirements) -> list[str]:
        kind = state.classes[0]
        places = [
            n for n, p in enumerate((*choice.inputs, *choice.outputs)) if isinstance(p, Shard)
        ]
        found = [kind.spread(n, choice.at(n)) for n in places]  # type: ignore[arg-type]
        same = [c for c in found if isinstance(c, Choice) and c.inputs == choice.inputs]
        state.decide(0, next(c for c in same if c.outputs == choice.outputs))
        return []

    return Policy("forced", decide)


def test_a_part_in_two_windows_is_refused_with_the_reason() -> None:
    graph, _ = graph_of("torch.split", ([48, 24, 24], 1))
    answer = Network(graph).operators[0].op_class.spread(0, Shard(1))
    assert isinstance(answer, Refusal)
    assert answer.reason == "S(1) has a part that lies in two windows"
