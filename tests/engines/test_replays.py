"""Plans that others found wrong in production: the audit names the module, before anything loads.

Each test is one report: transformers #48307 and #48519, sglang #34529.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dimsolve as ds

from . import tiny
from .models import Blocks, example

QWEN = "Qwen3VLMoeForConditionalGeneration"
EXPERTS = "model.language_model.layers.*.mlp.experts"
IDS = torch.randint(4, 80, (2, 7), generator=torch.Generator().manual_seed(0))
WHOLE_EXPERTS = dict.fromkeys(
    [EXPERTS, f"{EXPERTS}.gate_up_proj", f"{EXPERTS}.down_proj"], "replicate"
)


@pytest.fixture(scope="module")
def qwen() -> Any:
    return tiny.seeing(QWEN)


def finding(found: ds.Audit, count: int = 2) -> Any:
    answer = found.at(count)
    assert answer.verdict == "illegal"
    return answer.findings[0]


def test_transformers_48307_more_ranks_than_key_heads(qwen: Any) -> None:
    """Qwen3-VL-MoE has 4 key heads: 4 ranks have one each. 8 ranks have half a head, and the view
    of the attention fails in the middle of the forward pass; nothing warns while it is loaded. What
    the thread does not have: on 4 ranks nobody sums the gradients of the norms of heads.
    """
    given = {"input_ids": IDS, "use_cache": False}
    found = ds.audit(qwen, WHOLE_EXPERTS, kwargs=given, counts=(4, 8), correct=False)
    assert (found.at(4).forward, found.at(4).gradients) == ("legal", "illegal")
    assert finding(found, 4).module == "model.language_model.layers.0.self_attn.k_norm"
    named = finding(found, 8)
    assert named.module == "model.language_model.layers.0.self_attn"
    assert "modeling_qwen3_vl_moe.py" in named.line
    assert named.reason.endswith("shape '[2, 7, -1, 8]' is invalid for input of size 56")
    assert named.change["model.language_model.layers.*.self_attn.k_proj"] == "replicate"


def test_transformers_48519_a_part_is_transposed_that_was_cut_before(qwen: Any) -> None:
    """The loader cuts what the checkpoint has, then transposes the part: shapes do not fit."""
    found = ds.audit(
        qwen, kwargs={"input_ids": IDS, "use_cache": False}, counts=(2,), correct=False
    )
    named = finding(found)
    assert (named.about, named.module) == ("style", "model.language_model.layers.0.mlp.experts")
    assert named.reason == (
        f"{named.module}.gate_up_proj cannot be loaded: the loader makes (4, 32, 16) of what it "
        "has cut for rank 0, and its part is (4, 16, 32)"
    )
    assert set(named.change) == set(WHOLE_EXPERTS)


def test_transformers_48519_a_part_is_permuted_as_if_it_had_all_heads() -> None:
    """Queries and keys of Kimi's pictures are permuted for RoPE while they are loaded, by a head
    size that is read from the part: no error, other rows.
    """
    model = tiny.seeing("Kimi_K25ForConditionalGeneration")
    attention = "model.vision_tower.layers.*.attn"
    styles = {"q_proj": "colwise", "k_proj": "colwise", "v_proj": "colwise", "proj": "rowwise"}
    plan = {f"{attention}.{name}": style for name, style in styles.items()}
    given = {
        "input_ids": torch.tensor([[5, 90, 6, 7]]),
        "pixel_values": torch.randn(4, 3, 2, 2, generator=torch.Generator().manual_seed(0)),
        "image_grid_thw": torch.tensor([[1, 2, 2]]),
        "use_cache": False,
    }
    found = ds.audit(model, plan, kwargs=given, counts=(2,))
    named = finding(found)
    assert named.module.startswith("model.vision_tower.layers.0.attn.")
    assert "as it is in the checkpoint, and converts the parts: rank 0 has " in named.reason
    assert set(named.change) > {f"{attention}.{name}_proj" for name in "qkv"}
    corrected = found.at(2).corrected
    assert corrected is not None
    assert {corrected[name] for name in plan} == {"replicate"}


def test_sglang_34529_right_shape_wrong_rows() -> None:
    """MiniMax-H3: a contiguous part of rows per head is a range of heads; one of [gate; up] has the
    right shape and the wrong rows, and nothing fails.
    """
    plan = {
        "blocks.*.attn.qkv_proj": "colwise",
        "blocks.*.attn.o_proj": "rowwise",
        "blocks.*.mlp.fc1": "colwise",
        "blocks.*.mlp.fc2": "rowwise",
    }
    torch.manual_seed(0)
    found = ds.audit(Blocks(), plan, kwargs=example(), counts=(2, 4))
    assert found.having("illegal") == (2, 4)
    named = finding(found)
    assert named.module == "blocks.0.mlp"
    assert named.hint == 'write "blocks.*.mlp.fc1": "packed_colwise"'
    for count in (2, 4):
        assert found.at(count).corrected == {**plan, "blocks.*.mlp.fc1": "packed_colwise"}
