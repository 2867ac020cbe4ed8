"""What is said of all counts is what their runs say, one by one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dimsolve as ds
from dimsolve.exec.engines.audit import _Audit
from dimsolve.exec.engines.every_count import condition_of, last_alike

from . import tiny
from .models import HEAD, WIDTH, Attention, Mlp, Nonlinear, Normed, example

PAIR = {"up": "colwise", "down": "rowwise"}
HEADS = {"qkv_proj": "colwise", "o_proj": "rowwise"}


def proved(model: nn.Module, plan: dict[str, str], *counts: int) -> tuple[Any, Any]:
    """What is proved from the runs of some counts, and the audit that ran them."""
    torch.manual_seed(0)
    asked = _Audit(model, plan, frozenset(), (), example())
    return asked.every(asked.run(counts, False).counts), asked


@pytest.mark.parametrize(
    ("model", "plan", "condition"),
    [
        (Attention(per_head=True), HEADS, "4 % tp == 0"),
        (Attention(per_head=False), HEADS, ""),
        (Attention(per_head=True, fixed=True), HEADS, ""),
        (Nonlinear(False), {"up": "colwise", "down.weight": "rowwise"}, ""),
    ],
)
def test_what_is_proved_of_larger_counts_is_what_they_do(
    model: nn.Module, plan: dict[str, str], condition: str
) -> None:
    found, asked = proved(model, plan, 2, 3, 4)
    assert found.condition == condition
    for count in range(2, 20):
        verdict = asked.count(count).verdict
        if found.kind == "condition":
            assert (verdict == "legal") == (count in found.legal)
        elif found.kind == "never":
            assert verdict == "illegal"


def test_a_count_whose_parts_nothing_forbids_is_not_spoken_of() -> None:
    found, _ = proved(Mlp(), PAIR, 2, 3, 4)
    assert (found.kind, found.legal) == ("examined", (2, 3, 4))
    assert str(found) == "examined: tp = 2..4; of other counts nothing is proved"
    assert found.because == (
        "no size forbids any larger count, and counts of more than 160 ranks together are not run"
    )


def test_a_plan_that_cuts_nothing_is_right_for_every_count() -> None:
    found, _ = proved(Mlp(), {"up": "replicate"}, 2, 3)
    assert found.kind == "always"


def test_a_style_that_cannot_be_put_on_a_module_is_right_for_none() -> None:
    found, _ = proved(Normed(), {"norm": "colwise"}, 2)
    assert found.kind == "never"
    assert found.because.startswith("2 is forbidden by norm: colwise cannot be put on norm: ")


class Asks(Attention):
    """What it does depends on a number of a part."""

    def forward(self, x: Tensor) -> Tensor:
        heads = self.qkv_proj(x)
        wide = 3 * HEAD if heads.sum() > -1e9 else 1
        return self.o_proj(
            heads.view(*x.shape[:-1], -1, wide).flatten(-2)[..., : heads.shape[-1] // 3]
        )


class Chooses(nn.Module):
    """How long a value is depends on numbers of a part."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        flat = self.up(x).flatten()
        return flat[flat.nonzero().view(96)]


@pytest.mark.parametrize(("model", "plan"), [(Asks(False), HEADS), (Chooses(), {"up": "colwise"})])
def test_an_error_that_numbers_lead_to_proves_nothing_of_other_counts(
    model: nn.Module, plan: dict[str, str]
) -> None:
    found, _ = proved(model, plan, 3)
    assert found.kind == "examined"


def test_the_first_rank_has_as_much_from_a_count_to_the_last_alike() -> None:
    for length in range(1, 40):
        for count in range(1, 50):
            part, last = -(-length // count), last_alike(length, count)
            if last is None:
                assert part == 1
            else:
                assert [-(-length // n) == part for n in (last, last + 1)] == [True, False]


@pytest.mark.parametrize(
    ("legal", "condition"),
    [
        ([2], "2 % tp == 0"),
        ([2, 3, 6], "6 % tp == 0"),
        ([2, 3, 4], "tp in (1, 2, 3, 4)"),
        ([4], "tp in (1, 4)"),
        ([2, 5, 10], "10 % tp == 0"),
        ([2, 10], "tp in (1, 2, 10)"),
    ],
)
def test_a_condition_is_passed_by_its_counts_and_by_no_other(
    legal: list[int], condition: str
) -> None:
    assert condition_of(legal) == condition


@pytest.mark.parametrize("folder", ["llama"])
def test_an_audit_without_counts_is_about_all(folder: str) -> None:
    found = ds.audit(tiny.model_of(folder), kwargs=tiny.inputs_of(folder), correct=False)
    assert found.every is not None
    lines = str(found).splitlines()
    assert lines[1] == "  legal for tp = 2, 4 and no other: 4 % tp == 0"
    assert lines[2].startswith("    3 is forbidden by model.layers.0.self_attn (")
    assert found.having("legal") == found.every.legal
