"""What is written for torchtitan is what its modules run, or is refused with the operator.

torchtitan itself is no dependency of the tests: `python -m tests.engines.titan_ranks` runs it where
it is installed.
"""

from __future__ import annotations

import pytest

from dimsolve.partition.engines.tp_plan import generic
from dimsolve.partition.plan_data import PlanError

from . import tiny
from .models import GateUp, Mlp
from .test_write import planned

ROWS = "SpmdLayout({TP: spmd.S(0)})"
UP = f"""\
    "up": ShardingConfig(
        state_shardings={{"weight": {ROWS}, "bias": {ROWS}}},
        in_src_shardings={{"input": SpmdLayout({{TP: spmd.I}})}},
        in_dst_shardings={{"input": SpmdLayout({{TP: spmd.R}})}},
        out_src_shardings=SpmdLayout({{TP: spmd.S(-1)}}),
    ),
    "down": ShardingConfig(
        state_shardings={{"weight": SpmdLayout({{TP: spmd.S(1)}})}},
        out_src_shardings=SpmdLayout({{TP: spmd.P}}),
        out_dst_shardings=SpmdLayout({{TP: spmd.I}}),
    ),
}}
"""


class Unbiased(Mlp):
    """What is summed has no bias."""

    def __init__(self) -> None:
        super().__init__()
        self.down.bias = None


def test_a_configuration_says_what_a_style_does() -> None:
    assert planned(Unbiased()).to_torchtitan().text.endswith(f"CONFIGS = {{\n{UP}")


def test_every_parameter_of_a_model_has_a_placement() -> None:
    model = tiny.model_of("llama")
    written = planned(model, **tiny.inputs_of("llama")).to_torchtitan()
    names = {f"{m}.{short}" for m, states in written.states.items() for short in states}
    assert names == {generic(name) for name, _ in model.named_parameters()}
    assert written.states["model.layers.*.input_layernorm"] == {"weight": "I"}
    assert written.boundaries["lm_head"]["out_dst_shardings"] == "I"


def test_what_the_format_has_no_word_for_is_refused() -> None:
    with pytest.raises(PlanError) as raised:
        planned(Mlp()).to_torchtitan()
    assert str(raised.value) == (
        "the plan cannot be said as ShardingConfigs\n"
        "  down: its bias would be added by every rank, before the sum\n"
        "  hint: run it with dimsolve.parallelize, or ask for a plan that cuts less"
    )
    gemma = planned(tiny.model_of("gemma"), **tiny.inputs_of("gemma"))
    with pytest.raises(PlanError, match=r"lm_head.weight: it is model.embed_tokens.weight, and"):
        gemma.to_torchtitan()
    with pytest.raises(PlanError, match="fc1: a rank has one part of a tensor there, and packed"):
        planned(GateUp()).to_torchtitan()
