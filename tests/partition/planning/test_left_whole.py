"""Law: where a count divides the query heads but not the key-value heads, the plan, its explain()
and legal_parts say alike which parameters stay whole and which operator is the reason.
"""

from __future__ import annotations

import re
import warnings
from functools import cache
from typing import Any

import pytest
import torch

import dimsolve as ds

transformers = pytest.importorskip("transformers")


@cache
def grouped() -> Any:
    """Gemma 2 with six query heads that share two key-value heads."""
    config = transformers.Gemma2Config(
        vocab_size=96,
        hidden_size=48,
        num_hidden_layers=1,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=96,
        use_cache=False,
        layer_types=["full_attention"],
    )
    names = ("input_ids", "labels")
    kwargs = {name: torch.zeros(2, 8, dtype=torch.long) for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = transformers.Gemma2ForCausalLM(config)
        return ds.trace(
            model, kwargs=kwargs, dynamic={name: {0: "batch", 1: "seq"} for name in names}
        )


REASON = (
    "model.layers.0.self_attn.k_proj.weight, model.layers.0.self_attn.v_proj.weight stay whole: "
    "view at modeling_gemma2.py (model.layers.0.self_attn): c = 2 is never a multiple of 3"
)


def without_line(text: str) -> str:
    return re.sub(r"\S*modeling_gemma2\.py:\d+", "modeling_gemma2.py", text)


def left_whole(plan: ds.Plan) -> list[str]:
    return [note for note in plan.notes if "is returned whole" not in note]


def test_the_plan_and_the_counts_give_one_reason() -> None:
    plan = ds.plan(grouped(), {"tp": 3}, "tensor", uneven="refuse")
    assert [without_line(note) for note in left_whole(plan)] == [f"tp: {REASON}"]
    assert f"tp: {REASON}" in without_line(plan.explain())
    counts = grouped().legal_parts("tp", "tensor", up_to=4, uneven="refuse")
    assert counts.always == (1, 2, 3)
    assert {n: without_line(text) for n, text in counts.left_whole.items()} == {3: REASON}
    assert f"3, where {REASON}" in without_line(str(counts))


def test_a_count_that_cuts_all_leaves_nothing_whole() -> None:
    assert left_whole(ds.plan(grouped(), {"tp": 2}, "tensor")) == []


def test_a_count_that_shares_a_divisor_with_the_heads_is_refused_with_them() -> None:
    counts = grouped().legal_parts("tp", "tensor", up_to=4, uneven="refuse")
    reason = "c = 2 is never a multiple of 4"
    assert reason in counts.forbidden[4] and 4 not in counts.left_whole
