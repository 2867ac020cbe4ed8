"""The sequence is cut: everywhere, or between the parameters that are; equal to one device."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor, nn

import dimsolve as ds
from tests.oracles.all_ranks import compare

from .models import traced

pytest.importorskip("transformers")

TOLERANCE = 1e-6
"""Some models round to float32 inside, whatever the dtype of their parameters."""
NAMES = ["llama", "qwen2", "mistral", "gpt2", "opt", "phi3", "falcon", "tied_llama", "odd_gpt2"]


def assert_equal(name: str, plan: ds.Plan) -> None:
    graph, state, inputs, sizes = traced(name)
    found = compare(plan, graph, state, inputs, sizes)
    assert max(found.outputs, found.gradients) < TOLERANCE, found


@pytest.mark.parametrize("name", [*NAMES, "bert", "mixtral", "one_key_value_head"])
def test_a_cut_sequence_equals_one_device(name: str) -> None:
    graph = traced(name)[0]
    plan = ds.plan(graph, {"cp": 2})
    assert plan.notes[0].startswith("cp: the sequence is seq")
    assert "seq % 2 == 0" in plan.conditions
    assert_equal(name, plan)


def test_an_attention_exchanges_where_that_sends_less() -> None:
    """With as many key and value heads as queries an exchange sends 4/n, and a gather 2."""
    graph, _, _, sizes = traced("gpt2")
    for count, exchanges in ((2, False), (4, True)):
        plan = ds.plan(graph, {"cp": count})
        counts = Counter(each.collective for each in plan.communication(**sizes))
        assert ("all-to-all" in counts) == exchanges
    assert_equal("gpt2", plan)


@pytest.mark.parametrize("name", ["llama", "qwen2", "gpt2", "bert", "mixtral"])
@pytest.mark.parametrize(
    ("policy", "collective", "heads"),
    [("sequence+all-gather", "all-gather", 0), ("sequence+all-to-all", "all-to-all", 1)],
)
def test_an_attention_gets_what_it_needs_as_the_policy_says(
    name: str, policy: str, collective: str, heads: int
) -> None:
    graph, _, _, sizes = traced(name)
    plan = ds.plan(graph, {"cp": 2}, policy)
    cut = [
        each.operands[1].placements[0]
        for each in plan.operators
        if each.name == "scaled_dot_product_attention"
    ]
    assert set(cut) == {"S(1)" if heads else "R"}
    assert collective in {each.collective for each in plan.communication(**sizes)}
    assert_equal(name, plan)


def test_an_attention_without_heads_for_the_count_is_refused_by_all_to_all_alone() -> None:
    graph = traced("gpt2")[0]
    assert "seq % 3 == 0" in ds.plan(graph, {"cp": 3}, "sequence+all-gather").conditions
    with pytest.raises(ds.PlanError) as caught:
        ds.plan(graph, {"cp": 3}, "sequence+all-to-all")
    title, reason, hint = str(caught.value).splitlines()
    assert title == "no attention can exchange its parts along cp"
    assert "(transformer.h.0.attn) has no other dimension that 3 parts may have: " in reason
    assert hint == (
        '  hint: write policy="sequence+all-gather", or "sequence", which takes what sends less'
    )


class Causal(nn.Module):
    """Four heads of an attention that masks by position, which no part of a sequence can."""

    def forward(self, x: Tensor) -> Tensor:
        heads = x.unflatten(-1, (4, 4)).transpose(1, 2)
        mixed = nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
        return mixed.transpose(1, 2).flatten(2).exp()


@pytest.mark.parametrize("count", [2, 4])
def test_an_attention_that_no_sequence_cuts_is_exchanged(count: int) -> None:
    x = torch.randn(3, 8, 16, dtype=torch.float64)
    graph = ds.trace(Causal(), (x,), dynamic={"x": {0: "batch", 1: "seq"}})
    plan = ds.plan(graph, {"cp": count})
    (attention,) = (each for each in plan.operators if each.name == "scaled_dot_product_attention")
    assert attention.splits["cp"].identifier == "b"
    found = compare(plan, graph, {}, {"x": x}, {"batch": 3, "seq": 8})
    assert max(found.outputs, found.gradients) < TOLERANCE, found


@pytest.mark.parametrize("name", ["llama", "gpt2", "opt", "phi3", "falcon"])
def test_the_sequence_is_cut_between_the_parameters(name: str) -> None:
    """Where a sum was all-reduced it is scattered, and activations take less memory."""
    graph, _, _, sizes = traced(name)
    plain, cut = (ds.plan(graph, {"tp": 2}, way) for way in ("tensor", "tensor+sequence"))
    assert cut.memory(**sizes).activations < plain.memory(**sizes).activations
    sent = {(each.collective, each.direction) for each in cut.communication(**sizes)}
    assert ("reduce-scatter", "forward") in sent
    assert sum(each.bytes for each in cut.communication(**sizes)) <= 1.02 * sum(
        each.bytes for each in plain.communication(**sizes)
    )
    assert_equal(name, cut)


@pytest.mark.parametrize(
    ("mesh", "policy", "state"),
    [
        ({"dp": 2, "cp": 2}, None, "shared"),
        ({"fsdp": 2, "tp": 2}, "tensor+sequence", None),
        ({"dp": 2, "fsdp": 2, "tp": 2}, "tensor+sequence", None),
        ({"fsdp": 2, "cp": 2, "tp": 2}, None, None),
    ],
    ids=str,
)
def test_meshes_of_several_kinds_equal_one_device(
    mesh: dict[str, int], policy: str | None, state: str | None
) -> None:
    assert_equal("llama", ds.plan(traced("llama")[0], mesh, policy, state))


def test_inputs_with_nothing_but_a_batch_have_no_sequence() -> None:
    graph = traced("vit")[0]
    with pytest.raises(ds.PlanError) as raised:
        ds.plan(graph, {"cp": 2})
    assert str(raised.value).startswith("no sequence to cut along cp\n  the batch is batch, and ")
