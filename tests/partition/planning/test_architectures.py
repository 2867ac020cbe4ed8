"""Public architectures under the named policies: what a rank holds, what is communicated, and that
all ranks together compute what one device computes, forward and backward.
"""

from __future__ import annotations

from typing import Any

import pytest

from dimsolve.partition.plan import plan
from tests.oracles.all_ranks import compare

from .models import EIGHT, OTHERS, all_reduces, held, traced

pytest.importorskip("transformers")

TOLERANCE = 1e-6
"""Some models round to float32 inside, whatever the dtype of their parameters."""


@pytest.mark.parametrize("name", [*EIGHT, *OTHERS])
def test_tensor_parallel_ranks_hold_half_and_equal_one_device(name: str) -> None:
    graph, state, inputs, sizes = traced(name)
    made = plan(graph, {"tp": 2}, "tensor")
    assert held(made) <= 0.6
    found = compare(made, graph, state, inputs, sizes)
    assert max(found.outputs, found.gradients) < TOLERANCE, found


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "vit", "tied_llama"])
@pytest.mark.parametrize("mesh", [{"dp": 2}, {"dp": 2, "tp": 2}, {"tp": 2, "tp2": 2}], ids=str)
def test_several_axes_equal_one_device(name: str, mesh: dict[str, Any]) -> None:
    graph, state, inputs, sizes = traced(name)
    made = plan(graph, mesh)
    found = compare(made, graph, state, inputs, sizes)
    assert max(found.outputs, found.gradients) < TOLERANCE, found


@pytest.mark.parametrize("name", ["llama", "qwen2", "mistral", "gpt2", "opt", "bert", "vit"])
def test_a_layer_costs_two_all_reduces_forward_and_two_backward(name: str) -> None:
    graph, *_ = traced(name)
    made = plan(graph, {"tp": 2}, "tensor")
    layers = sorted({_layer(o.module) for o in made.operators} - {""})
    assert len(layers) == 2
    assert [all_reduces(made, layer) for layer in layers] == [(2, 2), (2, 2)]


def _layer(module: str) -> str:
    """The path of the layer that a module belongs to: up to the first number."""
    parts = module.split(".")
    numbers = [i for i, part in enumerate(parts) if part.isdecimal()]
    return ".".join(parts[: numbers[0] + 1]) if numbers else ""


def test_nothing_else_in_a_llama_layer_is_communicated() -> None:
    graph, *_ = traced("llama")
    made = plan(graph, {"tp": 2}, "tensor")
    values = {v.value for o in made.operators for v in o.outputs if ".layers." in o.module}
    moved = [c for c in made.conversions if c.value in values]
    ways = {(tuple(c.forward), tuple(c.backward)) for c in moved}
    assert ways == {(("all-reduce",), ()), ((), ("all-reduce",))}
    assert len(moved) == 8


def test_a_fused_projection_is_cut_by_heads_in_three_blocks_and_never_gathered() -> None:
    graph, *_ = traced("gpt2")
    made = plan(graph, {"tp": 2}, "tensor")
    fused = [e for e in made.parameters if e.name.endswith("c_attn.weight")]
    assert [e.placements for e in fused] == [["S(1, blocks=3)"]] * 2
    inside = {v.value for o in made.operators for v in o.outputs if ".attn" in o.module}
    assert not [c for c in made.conversions if c.value in inside and "all-gather" in c.forward]


def test_names_do_not_matter() -> None:
    """The same model with modules and nodes named otherwise has the same placements."""
    graph, *_ = traced("llama")
    before = plan(graph, {"tp": 2}, "tensor")
    modules = [node.module for node in graph.nodes()]
    try:
        for number, node in enumerate(graph.nodes()):
            node.module = f"m{number}"
        after = plan(graph, {"tp": 2}, "tensor")
    finally:
        for node, module in zip(graph.nodes(), modules, strict=True):
            node.module = module
    assert [e.placements for e in after.inputs] == [e.placements for e in before.inputs]
    assert [o.splits for o in after.operators] == [o.splits for o in before.operators]
