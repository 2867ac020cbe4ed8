"""Two dozen further architectures under ``"tensor"``: no names are looked at, so none is special.

What a rank holds, what a layer communicates, and that all ranks together compute what one device
computes, forward and backward.
"""

from __future__ import annotations

import pytest

from dimsolve.partition.plan import Plan, plan
from tests.oracles.all_ranks import compare

from .models import held, traced
from .more_models import MORE
from .test_architectures import TOLERANCE

pytest.importorskip("transformers")

HELD = dict.fromkeys(MORE, 0.6) | {"convnext": 0.65}
"""Convolutions of one channel each, and norms between them, are most of a small ConvNeXt."""

PARALLEL = ("phi", "gptj", "cohere", "falcon_multi_head")
"""Attention and MLP stand beside each other: their sums are joined together."""

TWO_NORMS = ("gpt_neox", "falcon_new")
"""... and each has a norm of its own, whose gradients are two."""

SEQUENTIAL = (
    "gemma", "gemma2", "starcoder2", "stablelm", "glm", "granite", "distilbert",
    "roberta", "electra", "deit", "clip_text", "mpt", "gpt_neo", "phi3",
)  # fmt: skip
FUSED = {
    "phi3": "S(0, segments=2:1:1)",  # (h + 2 g) e, sliced
    "gpt_neox": "S(0)",  # (h 3 e)
    "bloom": "S(0)",  # (h 3 e)
    "falcon_new": "S(0)",  # (g (h/g + 2) e)
    "falcon_multi_head": "S(0)",  # (h 3 e)
    "mpt": "S(0, blocks=3)",  # (3 h e), chunked
}


@pytest.mark.parametrize("name", MORE)
def test_ranks_hold_half_and_equal_one_device(name: str) -> None:
    graph, state, inputs, sizes = traced(name)
    made = plan(graph, {"tp": 2}, "tensor")
    assert held(made) <= HELD[name]
    found = compare(made, graph, state, inputs, sizes)
    assert max(found.outputs, found.gradients) < TOLERANCE, found


# GPT-Neo cuts its mask at 64, and the length min(64, seq) hides the batch of the loss.
@pytest.mark.parametrize("name", [name for name in MORE if name != "gpt_neo"])
def test_the_batch_is_cut_beside_the_parameters(name: str) -> None:
    graph, *_ = traced(name)
    for mesh in ({"dp": 2}, {"dp": 2, "tp": 2}):
        made = plan(graph, mesh, "data" if len(mesh) == 1 else "data+tensor")
        given = [entry for entry in made.inputs if entry.kind == "input"]
        assert given
        assert {entry.placements[0] for entry in given} == {"S(0)"}
        assert "batch % 2 == 0" in made.conditions
        assert held(made) <= (1.0 if len(mesh) == 1 else HELD[name])


def joined(made: Plan) -> tuple[int, int]:
    """All-reduces of activations in the layers, forward and backward."""
    parameters = {entry.value for entry in made.parameters}
    layer = {
        o.node: o.module for o in made.operators if any(map(str.isdecimal, o.module.split(".")))
    }
    makers = {out.value: o.node for o in made.operators for out in o.outputs}
    forward = backward = 0
    for conversion in made.conversions:
        if conversion.value in parameters:
            continue
        forward += conversion.forward == ["all-reduce"] and makers[conversion.value] in layer
        users = {use.rpartition(":")[0] for use in conversion.uses}
        backward += conversion.backward == ["all-reduce"] and users <= layer.keys()
    return forward, backward


LAYERS = (
    [(name, 2, 2) for name in SEQUENTIAL]
    + [(name, 1, 1) for name in PARALLEL]
    + [(name, 1, 2) for name in TWO_NORMS]
)


@pytest.mark.parametrize(("name", "forward", "backward"), LAYERS)
def test_a_layer_costs_two_all_reduces_and_a_parallel_one_costs_one(
    name: str, forward: int, backward: int
) -> None:
    graph, *_ = traced(name)
    assert joined(plan(graph, {"tp": 2}, "tensor")) == (2 * forward, 2 * backward)


@pytest.mark.parametrize("name", FUSED)
def test_fused_projections_are_cut_by_heads_and_not_gathered(name: str) -> None:
    graph, *_ = traced(name)
    made = plan(graph, {"tp": 2}, "tensor")
    fused = [e for e in made.parameters if "qkv" in e.name.lower() or "query_key_value" in e.name]
    weights = [e for e in fused if e.name.endswith("weight")]
    assert [e.placements for e in weights] == [[FUSED[name]]] * 2
    layer = {out.value for o in made.operators if "attn" in o.module or "attention" in o.module
             for out in o.outputs}  # fmt: skip
    assert not [c for c in made.conversions if c.value in layer and "all-gather" in c.forward]
