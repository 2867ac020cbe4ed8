"""A plan of another engine is right, or wrong with a witness, for every count."""

from __future__ import annotations

import gc
import json
from typing import Any

import pytest
import torch
from torch import nn

import dimsolve as ds
from dimsolve.api.results import AuditModel, model_of
from dimsolve.exec.engines.record import Recorder
from dimsolve.partition.engines.tp_plan import STYLES, TpPlanError, generic, read_tp_plan

from . import tiny
from .models import Attention, GateUp, Mlp, Nonlinear, Normed, Tied, example

PAIR = {"up": "colwise", "down": "rowwise"}


def audited(model: nn.Module, plan: dict[str, str], *counts: int) -> Any:
    torch.manual_seed(0)
    return ds.audit(model, plan, counts=counts or (2,), kwargs=example())


def only(found: Any) -> Any:
    """The one finding of the one count."""
    (count,) = found.counts
    (finding,) = count.findings
    return finding


@pytest.fixture(scope="module")
def llama() -> ds.Audit:
    return ds.audit(tiny.model_of("llama"), kwargs=tiny.inputs_of("llama"), counts=(2, 3, 4, 8))


def test_the_plan_of_llama_is_right_where_the_key_heads_are_whole(llama: ds.Audit) -> None:
    assert llama.having("legal") == (2, 4)
    assert llama.having("illegal") == (3, 8)
    assert llama.at(2).proved == llama.at(2).calls
    assert llama.at(2).bytes_per_rank < llama.bytes_whole
    finding = llama.at(8).findings[0]
    assert finding.module == "model.layers.0.self_attn"
    assert "modeling_llama.py" in finding.line
    assert "shape '[2, 7, -1, 8]' is invalid for input of size 56" in finding.reason


def test_a_corrected_plan_leaves_whole_what_is_to_blame(llama: ds.Audit) -> None:
    corrected = llama.at(3).corrected
    assert corrected is not None
    changed = {name for name, style in corrected.items() if llama.plan[name] != style}
    assert changed == {f"model.layers.*.self_attn.{n}_proj" for n in "qkvo"}
    again = ds.audit(tiny.model_of("llama"), corrected, kwargs=tiny.inputs_of("llama"), counts=(3,))
    assert again.ok


def test_the_answer_is_text_a_picture_and_json(llama: ds.Audit) -> None:
    text = str(llama).splitlines()
    assert text[0] == "LlamaForCausalLM, 9 rules, at input_ids (2, 7)"
    assert text[1] == "  tp = 2, 4: legal"
    assert repr(llama) == "<Audit LlamaForCausalLM: legal 2, 4; illegal 3, 8>"
    assert "<svg" in llama._repr_svg_()
    model = model_of(llama)
    assert isinstance(model, AuditModel)
    assert json.loads(model.model_dump_json())["counts"][0]["verdict"] == "legal"


@pytest.mark.parametrize("folder", ["qwen3", "mixtral", "deepseek_v3", "gemma2"])
def test_plans_of_other_families_are_proved(folder: str) -> None:
    found = ds.audit(tiny.model_of(folder), kwargs=tiny.inputs_of(folder), counts=(2,))
    assert found.ok, str(found)
    assert found.at(2).proved == found.at(2).calls


def test_parts_of_unequal_lengths_are_right_where_every_call_takes_them() -> None:
    assert audited(Mlp(), PAIR, 2, 5, 7).ok  # 24 in parts of 4: the last of 7 ranks has none
    assert audited(Mlp(), {"up": "colwise_gather_output", "down": "rowwise_split_input"}, 5).ok


class Windows(Mlp):
    """What runs with nothing in some calls, and in others raises."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.down(self.up(x).unfold(1, 3, 3).sum(-1))
        return found


def test_a_rank_that_has_nothing_is_right_where_the_function_is_known_to_run_so() -> None:
    assert audited(Windows(), PAIR, 5).ok
    nothing = audited(Windows(), PAIR, 7)
    assert nothing.having("unknown") == (7,)
    assert only(nothing).reason == "unfold: rank 6 has nothing of c = 24"


def test_what_is_left_in_parts_is_named() -> None:
    finding = only(audited(Mlp(), {"up": "colwise"}))
    assert finding.about == "forward"
    assert finding.module == "down"
    finding = only(audited(Mlp(), {"down": "colwise"}))
    assert finding.reason == "output 0 is S(2): nothing joins what the ranks have of it"
    assert finding.change == {"down": "colwise_gather_output"}


def test_a_summand_that_is_used_before_it_is_summed_is_refuted() -> None:
    assert audited(Nonlinear(), PAIR).ok
    plan = {"up": "colwise", "down.weight": "rowwise"}
    found = audited(Nonlinear(False), plan)
    assert found.having("illegal") == (2,)


def test_a_gradient_that_nobody_sums_is_found_and_mended() -> None:
    found = audited(Normed(), PAIR, 2, 3)
    assert [(each.forward, each.gradients) for each in found.counts] == [("legal", "illegal")] * 2
    finding = found.at(2).findings[0]
    assert finding.module == "norm"
    assert finding.hint == 'add "norm": "replicated_with_grad_allreduce"'
    assert found.at(2).corrected == {**PAIR, "norm": "replicated_with_grad_allreduce"}
    assert audited(Normed(), {**PAIR, "norm": "replicated_with_grad_allreduce"}, 2, 3).ok


def test_a_gradient_that_is_summed_although_it_is_whole_is_refuted() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(x)

    found = audited(Twice(), {"norm": "replicated_with_grad_allreduce"})
    assert (found.at(2).forward, found.at(2).gradients) == ("legal", "illegal")


def test_sglang_34529_right_shape_wrong_rows() -> None:
    """A fused [gate; up] weight read as a plain column shard: no error, other numbers; rows that
    stand together per head are a range of heads.
    """
    found = audited(GateUp(), {"fc1": "colwise", "fc2": "rowwise"}, 2, 4)
    assert found.having("illegal") == (2, 4)
    finding = found.at(2).findings[0]
    assert finding.reason.startswith("chunk: no identifier of (2 ")
    assert finding.hint == 'write "fc1": "packed_colwise"'
    assert found.at(2).corrected == {"fc1": "packed_colwise", "fc2": "rowwise"}
    assert audited(GateUp(), {"fc1": "packed_colwise", "fc2": "rowwise"}, 2, 4).ok
    plan = {"qkv_proj": "colwise", "o_proj": "rowwise"}
    assert audited(Attention(per_head=True), plan, 2, 4).ok
    assert audited(Attention(per_head=False), plan, 2).having("illegal") == (2,)


def test_a_bias_of_a_packed_layer_lies_in_other_rows_than_its_weight() -> None:
    plan = {"fc1": "packed_colwise", "fc2": "rowwise"}
    assert audited(GateUp(bias=True), plan, 2).having("illegal") == (2,)


def test_a_number_of_heads_in_the_code_is_refuted() -> None:
    plan = {"qkv_proj": "colwise", "o_proj": "rowwise"}
    finding = only(audited(Attention(per_head=True, fixed=True), plan))
    assert finding.reason == (
        "rank 0 raised RuntimeError: shape '[2, 3, 4, 12]' is invalid for input of size 144"
    )
    assert "tests/engines/models.py" in finding.line


def test_dtensors_and_tensors_do_not_mix() -> None:
    found = audited(Mlp(), {"up.weight": "colwise", "down": "rowwise"})
    reasons = [finding.reason for finding in found.at(2).findings]
    assert any("DTensor" in reason or "raised" in reason for reason in reasons)
    assert found.having("illegal") == (2,)


def test_tied_weights_are_cut_both_or_not_at_all() -> None:
    ids = {"ids": torch.arange(6).view(2, 3)}

    def verdict(plan: dict[str, str]) -> Any:
        return ds.audit(Tied(), plan, counts=(2,), kwargs=ids).at(2)

    both = {"embed": "embedding_rowwise", "head": "colwise_gather_output"}
    assert verdict(both).verdict == "legal"
    alone = verdict({"head": "colwise_gather_output"})
    assert alone.verdict == "illegal"
    assert alone.corrected == both


def test_how_a_tied_weight_is_laid_for_a_row_style_is_not_known() -> None:
    """transformers multiplies DTensors there: what plain tensors raise does not refute it."""
    ids = {"ids": torch.arange(6).view(2, 3)}
    finding = only(ds.audit(Tied(), {"head": "rowwise_split_input"}, counts=(2,), kwargs=ids))
    assert finding.verdict == "unknown" and finding.reason.endswith("DTensor may lay them anew")


def test_a_style_that_a_module_cannot_have_is_an_answer() -> None:
    finding = only(audited(Normed(), {"norm": "colwise"}))
    assert finding.about == "style"
    assert finding.reason == (
        "colwise cannot be put on norm: it is of type LayerNorm, which has no out_features"
    )
    finding = only(audited(Mlp(), {"up": "local_colwise"}))
    assert (finding.reason, finding.hint) == (
        "transformers has no style 'local_colwise'",
        "write colwise",
    )
    assert only(audited(Mlp(), {"up": "grouped_gemm"})).hint == "write it in ep_plan"


def test_a_style_for_tables_is_followed_in_tables_and_linear_layers() -> None:
    """It makes whole what its module gives, however the weight lies; elsewhere that is up to
    DTensor's rules.
    """
    assert audited(Mlp(), {"up": "embedding_rowwise"}, 2, 3, 5).ok
    ids = {"ids": torch.arange(6).view(2, 3)}
    for style, own in (("embedding_rowwise", "rowwise"), ("embedding_colwise", "colwise")):
        both = {"embed": style, "embed.weight": own}
        plan = {**both, "head": style}
        assert ds.audit(Tied(), plan, counts=(2, 3), kwargs=ids).ok
    finding = only(audited(Mlp(), {"up": "embedding_colwise"}))
    assert finding.reason == (
        "embedding_colwise cannot be put on up: up.bias has the shape (24,), and "
        "embedding_colwise cuts dimension 1"
    )
    assert audited(Mlp(), {"up": "embedding_colwise", "up.bias": "rowwise"}, 2, 3).ok
    assert audited(Mlp(), {"up": "embedding_colwise", "up.bias": "replicate"}).having("illegal")
    found = ds.audit(Normed(), {"norm": "embedding_rowwise"}, kwargs=example(), correct=False)
    assert found.having("unknown") == tuple(range(2, 17))
    assert str(found.at(2).findings[0]) == (
        "norm: what embedding_rowwise does to norm is not known: it hands DTensors to the code of "
        "LayerNorm, whose weight lies S(0): that is followed in tables and linear layers"
    )
    assert found.at(2).findings[0].hint == "embedding_rowwise is for tables: leave norm out"
    assert found.every is not None and found.every.kind == "examined"


def test_the_model_is_left_as_it_is() -> None:
    model = Mlp()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    audited(model, PAIR)
    assert all(torch.equal(model.state_dict()[name], before[name]) for name in before)
    assert "forward" not in vars(model.up)


def test_collectives_that_one_would_do_are_counted(llama: ds.Audit) -> None:
    # In two layers q, k, v share one input, and so do gate and up.
    assert llama.at(2).saved == 2 * (2 + 1)


def test_rules_that_match_nothing_are_told() -> None:
    found = audited(Mlp(), {**PAIR, "layers.*.up": "colwise"})
    assert found.having("illegal") == (2,)
    assert found.unused == ("layers.*.up",)
    assert str(found).splitlines()[-1] == "  layers.*.up matches nothing"


L = "model.layers.*."
ALTERED: list[tuple[dict[str, str], str, str, str, str]] = [
    ({"": "replicate"}, "legal", "legal", "", ""),
    ({"model.embed_tokens": "embedding_colwise"}, "legal", "legal", "", ""),
    ({L + "mlp.act_fn": "replicated_with_grad_allreduce"}, "legal", "legal", "", ""),
    ({"lm_head": "colwise"}, "illegal", "illegal", "lm_head", "colwise_gather_output"),
    ({"model.embed_tokens": "colwise"}, "illegal", "illegal", "model.embed_tokens", "tables"),
    ({L + "self_attn.o_proj": "replicate"}, "illegal", "illegal", "o_proj", "whole"),
    ({L + "mlp.gate_proj": "packed_colwise"}, "illegal", "illegal", "mlp", "whole"),
    ({L + "mlp": "all_reduce"}, "illegal", "illegal", "mlp", "whole"),
    ({"model.norm": "sequence_parallel"}, "legal", "illegal", "model.norm", "leave model.norm out"),
    ({L + "mlp.down_proj": "grouped_gemm"}, "illegal", "illegal", "down_proj", "ep_plan"),
    ({L + "mlp.up_porj": "colwise"}, "illegal", "illegal", "up_porj", f'write "{L}mlp.up_proj"'),
    ({"layers.*.mlp": "replicate"}, "illegal", "illegal", "layers.*.mlp", f'write "{L}mlp"'),
    ({"lm_head": "col-wise"}, "illegal", "illegal", "lm_head", "write colwise"),
]


@pytest.mark.parametrize(("plan", "forward", "gradients", "module", "hint"), ALTERED)
def test_altered_plans_are_answered_as_transformers_does(
    plan: dict[str, str], forward: str, gradients: str, module: str, hint: str
) -> None:
    """31 of these were given to transformers on two ranks too: it failed, or differed, where this
    says so, and only there.
    """
    given = tiny.inputs_of("llama")
    answer = ds.audit(tiny.model_of("llama"), plan, kwargs=given, counts=(2,), correct=False).at(2)
    assert (answer.forward, answer.gradients) == (forward, gradients)
    if hint:
        assert answer.findings[0].module.endswith(module)
        assert hint in answer.findings[0].hint


def test_without_data_a_plan_is_legal_only_where_it_is_proved() -> None:
    x = {"x": torch.empty(2, 3, 16, device="meta")}

    def answer(model: nn.Module, plan: dict[str, str]) -> Any:
        return ds.audit(model.to("meta"), plan, kwargs=x, counts=(2,), correct=False).at(2)

    assert answer(Mlp(), PAIR).verdict == "legal"
    assert answer(GateUp(), {"fc1": "colwise", "fc2": "rowwise"}).verdict == "unknown"
    assert answer(Mlp(), {"up": "colwise"}).verdict == "illegal"
    norm = answer(Normed(), PAIR)
    assert (norm.forward, norm.gradients) == ("legal", "unknown")
    assert norm.findings[0].reason == "the gradient of norm.weight is not proved, nor compared"


def test_a_misspelled_name_is_corrected() -> None:
    found = audited(Mlp(), {"up": "colwise", "dwon": "rowwise"})
    assert only(found).reason == "no module or parameter of Mlp has this name"
    assert found.at(2).corrected == PAIR
    assert '    legal at 2 with "down": "rowwise" without dwon' in str(found).splitlines()


class Apart(nn.Module):
    """What others fuse stands apart."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(16, 24), nn.Linear(16, 24)
        self.down_proj = nn.Linear(24, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.down_proj(self.gate_proj(x).sigmoid() * self.up_proj(x))
        return found


def test_a_name_that_others_fuse_stands_for_its_parts() -> None:
    """vLLM and SGLang write gate_up_proj where transformers has two layers."""
    found = audited(Apart(), {"gate_up_proj": "packed_colwise", "down_proj": "rowwise"})
    finding = only(found)
    assert finding.reason == (
        "no module or parameter of Apart has this name; it has gate_proj, up_proj"
    )
    assert finding.hint == "write a rule for each of these"
    assert found.at(2).corrected == {
        "gate_proj": "colwise",
        "up_proj": "colwise",
        "down_proj": "rowwise",
    }


class Quantized(nn.Module):
    """A linear layer of rows in one byte each; packed: that nobody sees as a parameter."""

    in_features = out_features = 16

    def __init__(self, dtype: torch.dtype, packed: bool) -> None:
        super().__init__()
        rows = torch.eye(16).to(dtype)
        self.weight = [rows] if packed else nn.Parameter(rows, requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.weight[0] if isinstance(self.weight, list) else self.weight
        return x @ weight.to(x.dtype).T


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn])
def test_quantized_weights_are_cut_as_others_are(dtype: torch.dtype) -> None:
    model: Any = Mlp()
    model.up, model.down = Quantized(dtype, False), Quantized(dtype, False)
    assert audited(model, PAIR, 2, 5).ok


def test_of_packed_weights_nothing_is_said() -> None:
    model: Any = Mlp()
    model.up = Quantized(torch.int8, True)
    model.down = Quantized(torch.int8, False)
    finding = only(audited(model, PAIR))
    assert (finding.verdict, finding.about) == ("unknown", "style")
    assert finding.reason == (
        "what colwise does to up is not known: its Quantized has no parameter of its own to cut, "
        "as where weights are packed or wrapped: its code has DTensors beside them"
    )


def test_a_model_that_keeps_what_it_computes_is_audited() -> None:
    class Keeps(Mlp):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen = super().forward(x)
            return self.seen

    assert audited(Keeps(), PAIR).ok


def test_nothing_of_a_run_is_kept() -> None:
    """A rank that raised would keep all ranks' models by its traceback."""
    kept = [o for o in gc.get_objects() if type(o) is Recorder]
    audited(Attention(per_head=True, fixed=True), {"qkv_proj": "colwise", "o_proj": "rowwise"})
    gc.collect()
    assert len([o for o in gc.get_objects() if type(o) is Recorder]) <= len(kept)


def test_what_is_no_plan_is_refused_in_words() -> None:
    with pytest.raises(TpPlanError) as raised:
        ds.audit(Mlp(), kwargs=example())
    assert str(raised.value) == (
        "there is no tp_plan to audit\n"
        "  Mlp has no tp_plan of its own\n"
        '  hint: give one: dimsolve.audit(model, {"layers.*.mlp.up_proj": "colwise"}, ...), or let '
        "dimsolve.plan make one"
    )
    with pytest.raises(TpPlanError, match="the plan for Mlp has no rules"):
        ds.audit(Mlp(), {}, kwargs=example())
    with pytest.raises(TpPlanError, match="'auto' is a str"):
        read_tp_plan("auto")


def test_names_are_generic_between_dots_only() -> None:
    assert generic("model.layers.3.mlp.w1.weight") == "model.layers.*.mlp.w1.weight"
    assert len(STYLES) == 18
