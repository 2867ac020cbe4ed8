"""A plan of ours in the words of other engines is right there, or refused with the operator."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import dimsolve as ds
from dimsolve.exec.engines.written import run_graph, write_tp_plan
from dimsolve.partition.plan_data import PlanError

from . import tiny
from .models import Attention, GateUp, Mlp, Tied, example


def planned(model: nn.Module, count: int = 2, **inputs: Any) -> ds.Plan:
    torch.manual_seed(0)
    return ds.plan(run_graph(model, (), inputs or example()), {"tp": count}, "tensor")


LLAMA = {
    "model.embed_tokens": "embedding_rowwise",
    "model.layers.*.self_attn.q_proj": "colwise",
    "model.layers.*.self_attn.k_proj": "colwise",
    "model.layers.*.self_attn.v_proj": "colwise",
    "model.layers.*.self_attn.o_proj": "rowwise",
    "model.layers.*.mlp.gate_proj": "colwise",
    "model.layers.*.mlp.up_proj": "colwise",
    "model.layers.*.mlp.down_proj": "rowwise",
    "lm_head": "colwise_gather_output",
}


def test_our_plan_of_llama_is_the_one_that_transformers_has() -> None:
    model = tiny.model_of("llama")
    plan = planned(model, **tiny.inputs_of("llama"))
    assert plan.to_tp_plan() == LLAMA
    assert dict(sorted(LLAMA.items())) == dict(sorted(model.tp_plan.items()))


def test_what_is_written_is_audited_legal() -> None:
    model = Mlp()
    plan = planned(model).to_tp_plan()
    assert plan == {"up": "colwise", "down": "rowwise"}
    assert ds.audit(model, plan, counts=(2, 3, 4), kwargs=example()).ok


def test_two_blocks_are_said_and_three_are_refused() -> None:
    assert planned(GateUp()).to_tp_plan() == {"fc1": "packed_colwise", "fc2": "rowwise"}
    with pytest.raises(PlanError) as raised:
        planned(Attention(per_head=False)).to_tp_plan()
    assert str(raised.value) == (
        "the plan cannot be said as a tp_plan\n"
        "  linear of qkv_proj: its weight is cut in 3 blocks\n"
        "  hint: run it with dimsolve.parallelize, or ask for a plan that cuts less"
    )


def test_another_axis_that_cuts_is_refused() -> None:
    graph = run_graph(Mlp(), (), example())
    plan = ds.plan(graph, {"a": 2, "tp": 2}, {"*up": {"a": "n"}, "*down": {"tp": "k"}})
    with pytest.raises(PlanError, match="the format has one axis"):
        plan.to_tp_plan("tp")


def test_parallelize_module_is_text_and_objects() -> None:
    model = tiny.model_of("llama")
    written = planned(model, **tiny.inputs_of("llama")).to_parallelize_module()
    assert '        "lm_head": ColwiseParallel(output_layouts=Replicate()),' in written.text
    assert {type(each).__name__ for each in written.objects().values()} == {
        "ColwiseParallel",
        "RowwiseParallel",
    }
    with pytest.raises(PlanError, match="no style for packed_colwise"):
        planned(GateUp()).to_parallelize_module()


def test_a_weight_of_two_modules_is_tied_again() -> None:
    written = planned(tiny.model_of("gemma"), **tiny.inputs_of("gemma")).to_parallelize_module()
    assert written.ties == {"lm_head.weight": "model.embed_tokens.weight"}
    assert written.text.splitlines()[-1] == (
        'model.get_submodule("lm_head").weight = model.get_submodule("model.embed_tokens").weight'
        "  # one again: two were made of it"
    )
    with pytest.raises(PlanError, match=r"lm_head.weight: it is model.embed_tokens.weight, and"):
        written.objects()


def test_a_distributed_config_is_all_of_the_plan() -> None:
    """transformers keeps rules of the model's own plan that a given one does not have."""
    model = tiny.model_of("llama")
    graph = run_graph(model, (), tiny.inputs_of("llama"))
    plan = ds.plan(
        graph,
        {"tp": 2},
        {f"*{name}_proj": {"tp": dim} for name, dim in (("gate", "n"), ("up", "n"), ("down", "k"))},
    )
    config = plan.to_distributed_config(model)
    assert config.tp_size == 2
    used, _, _ = model._resolve_parallel_plans(config)
    mlp = {"gate_proj": "colwise", "up_proj": "colwise", "down_proj": "rowwise"}
    cut = {n: s for n, s in used.items() if s != "replicate" and not n.endswith(".weight")}
    assert cut == {f"model.layers.{n}.mlp.{m}": s for n in range(2) for m, s in mlp.items()}


@pytest.mark.parametrize("folder", ["opt", "bloom", "bert", "gpt2"])
def test_a_model_without_a_plan_gets_one_that_is_legal(folder: str) -> None:
    model = tiny.model_of(folder)
    assert not model.tp_plan
    plan, found = write_tp_plan(model, 2, kwargs=tiny.inputs_of(folder))
    assert plan
    assert found is not None
    assert found.ok


def test_tied_weights_are_written_for_both_modules() -> None:
    plan, found = write_tp_plan(Tied(), 2, kwargs={"ids": torch.arange(6).view(2, 3)})
    assert plan == {"embed": "embedding_rowwise", "head": "colwise_gather_output"}
    assert found is not None
    assert found.ok


def test_unequal_parts_are_refused() -> None:
    """An engine cuts rows as torch.chunk does; a plan cuts them in multiples of heads."""
    graph = run_graph(Mlp(), (), example())
    plan = ds.plan(graph, {"tp": 5}, "tensor", uneven="allow")
    with pytest.raises(PlanError, match="it is cut into unequal parts"):
        plan.to_tp_plan()
