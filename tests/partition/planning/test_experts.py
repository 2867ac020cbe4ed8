"""Experts are cut, and tokens sent to them: equal to one device, with the router's gradients."""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dimsolve as ds
from dimsolve.exec.parallel.parallelize import ParallelModule
from dimsolve.partition.layout import held
from dimsolve.partition.placement import Grouped
from dimsolve.partition.rules.groups import torch_rows
from dimsolve.partition.torch_placements import to_torch
from tests.oracles.all_ranks import compare
from tests.oracles.one_device import parts

from .models import traced

pytest.importorskip("transformers")

SMALL = {
    "vocab_size": 32, "hidden_size": 16, "intermediate_size": 32, "moe_intermediate_size": 16,
    "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "use_cache": False,
    "num_experts_per_tok": 2,
}  # fmt: skip
LATENT = {
    "q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 8, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1,
}  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    "Mixtral": {"num_local_experts": 8},
    "Qwen2Moe": {"num_experts": 8, "shared_expert_intermediate_size": 16},
    "DeepseekV3": {"n_routed_experts": 8, **LATENT},
}


@lru_cache(maxsize=4)
def small(name: str) -> tuple[nn.Module, dict[str, Tensor], ds.Graph]:
    """A model in float32, as torch has products of groups, a batch with labels, and its graph."""
    import transformers as tf

    torch.manual_seed(0)
    config = getattr(tf, f"{name}Config")(**SMALL, **MODELS[name])
    model = getattr(tf, f"{name}ForCausalLM")(config)
    ids = torch.randint(0, 32, (8, 6))
    batch = {"input_ids": ids, "labels": ids}
    return model, batch, ds.trace(model, kwargs=batch)


@pytest.mark.parametrize("mesh", [{"ep": 4}, {"fsdp": 2, "ep": 2}, {"ep": 2, "tp": 2}], ids=str)
def test_cut_experts_equal_one_device(mesh: dict[str, int]) -> None:
    graph, state, inputs, sizes = traced("mixtral")
    plan = ds.plan(graph, mesh)
    assert compare(plan, graph, state, inputs, sizes).ok
    assert ds.Plan.from_json(plan.to_json()).for_graph(graph) == plan


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_router_has_the_gradients_of_one_device(name: str) -> None:
    model, batch, graph = small(name)
    plan, whole = ds.plan(graph, {"ep": 4}), copy.deepcopy(model)
    whole(**batch).loss.backward()

    def work(part: ParallelModule) -> float:
        part(**batch).loss.backward()
        own, most = dict(part.named_parameters()), 0.0
        for key, parameter in whole.named_parameters():
            assert parameter.grad is not None
            wanted = part.held(key).part(parameter.grad)
            assert own[key].shape == wanted.shape
            largest = parameter.grad.abs().max().clamp(min=1e-3)
            gradient = own[key].grad
            assert gradient is not None
            most = max(most, float((gradient - wanted).abs().max() / largest))
        return most

    assert max(parts(model, plan, {"ep": 4}, work)) < 1e-5


@pytest.mark.parametrize("name", MODELS)
def test_a_rank_has_its_experts_and_sends_tokens_and_not_rows(name: str) -> None:
    """A token is sent to the other ranks once, though two experts take it."""
    _, _, graph = small(name)
    plan, count = ds.plan(graph, {"ep": 4}), 4
    cut = [
        entry
        for entry in plan.parameters
        if "experts." in entry.name and "shared" not in entry.name
    ]
    assert cut and all(entry.placements == ["S(0)"] for entry in cut)
    layers = len(cut) // 2
    tokens = 8 * 6 * SMALL["hidden_size"] * 4 * (count - 1) // count
    sent = {
        (each.collective, each.direction): each.bytes
        for each in plan.communication()
        if each.collective == "reduce-scatter"
    }
    assert sent == {
        ("reduce-scatter", "forward"): layers * tokens,
        ("reduce-scatter", "backward"): layers * tokens,
    }
    assert plan.notes[0].startswith(f"ep: {2 * layers} products cut their 8 experts, {layers} of ")


def test_experts_are_cut_over_two_axes() -> None:
    model, batch, graph = small("Mixtral")
    mesh = {"dp": 2, "ep": 2}
    plan = ds.plan(graph, mesh, {"dp": "experts", "ep": "experts"})
    whole = copy.deepcopy(model)
    whole(**batch).loss.backward()
    name = "model.layers.0.mlp.experts.down_proj"
    wanted = whole.get_parameter(name).grad
    assert wanted is not None

    def work(part: ParallelModule) -> Tensor:
        part(**batch).loss.backward()
        found = dict(part.named_parameters())[name].grad
        assert found is not None
        return found

    found = torch.cat(parts(model, plan, mesh, work))
    assert torch.allclose(found, wanted, atol=1e-6)


class _Part:
    """The place of one rank of four."""

    def __init__(self, index: int) -> None:
        self.index = index

    def __getitem__(self, name: str) -> _Part:
        return self

    def start(self, length: int) -> int:
        return self.index * length


@pytest.mark.parametrize("ends", [[0, 3, 3, 8], [8, 8, 8, 8], [0, 0, 0, 0]], ids=str)
def test_ranks_without_rows_have_zeros_and_gradients(ends: list[int]) -> None:
    """The sum of all ranks is the product of all groups; rows after the last group are zero."""
    torch.manual_seed(0)
    x, weight = torch.randn(8, 8), torch.randn(4, 8, 8)
    offs = torch.tensor(ends, dtype=torch.int32)
    wanted, start = torch.zeros(8, 8), 0
    for group, end in enumerate(ends):
        wanted[start:end] = x[start:end] @ weight[group]
        start = end
    total = torch.zeros(8, 8)
    for index in range(4):
        own = weight[index : index + 1].clone().requires_grad_()
        rows = x.clone().requires_grad_()
        made = torch_rows(_Part(index), rows, own, offs=offs)  # type: ignore[arg-type]
        made.sum().backward()
        assert rows.grad is not None and own.grad is not None
        total += made.detach()
    assert torch.allclose(total, wanted, atol=1e-5)


def test_a_model_without_experts_is_told_so() -> None:
    with pytest.raises(ds.PlanError) as raised:
        ds.plan(traced("llama")[0], {"ep": 2})
    assert str(raised.value) == (
        "no experts to cut along ep\n"
        "  no operator has a matrix for each group of rows, as grouped_mm does\n"
        '  hint: say what the axis cuts: {..., "ep": "data"}; experts of transformers are traced '
        'as such operators with experts_implementation="grouped_mm"'
    )


def test_a_count_that_does_not_divide_the_experts_is_illegal() -> None:
    with pytest.raises(ds.PlanError) as raised:
        ds.plan(small("Mixtral")[2], {"ep": 3}, uneven="refuse")
    text = str(raised.value)
    assert text.startswith("ep = 3 is illegal\n") and "it cuts experts, and at " in text
    assert "8 is never a multiple of 3" in text


@pytest.mark.parametrize(
    "name", ["silu", "out_1"], ids=["what works on rows", "the second product"]
)
def test_rows_of_groups_are_read_by_nothing_else(name: str) -> None:
    """A plan that was edited: an operator takes rows in groups as if they were whole."""
    graph = small("Mixtral")[2]
    plan = ds.plan(graph, {"ep": 2})
    data = plan.model_dump(mode="json")
    for entry in data["operators"]:
        if entry["node"] == name:
            entry["operands"][0]["placements"] = ["R"]
            if name == "silu":
                entry["splits"] = {}
    with pytest.raises(ds.PlanError) as raised:
        ds.Plan.model_validate(data).for_graph(graph)
    assert f"{name} reads what is G(0) as something else" in str(raised.value)


def test_rows_of_groups_have_no_place_before_the_run() -> None:
    assert str(Grouped(0)) == "G(0)" and ds.check("m k+, k+ n -> m n", ["4, 6", "6, 8"], "k", 2)
    with pytest.raises(ds.DimsolveError) as raised:
        held((4, 6), "G(0)", "ep=2")
    assert "which rows a rank has of G(0) is known when it runs" in str(raised.value)
    with pytest.raises(ds.DimsolveError) as raised:
        to_torch(Grouped(0))
    assert "which rows a rank has of G(0) is known when it runs" in str(raised.value)
