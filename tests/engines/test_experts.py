"""Plans that deal out whole experts: wrong ones have a witness, and no right one is called legal,
since nothing is proved of the experts' own code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dimsolve as ds
from dimsolve.exec.engines.audit import prepared
from dimsolve.partition.engines.tp_plan import TpPlanError, with_experts
from tests.face.cli.command_line import ask

from . import tiny
from .engine import World, prepare

EXPERTS = "model.layers.*.mlp.experts"


@pytest.fixture(scope="module")
def mixtral() -> Any:
    return tiny.model_of("mixtral")


@pytest.fixture(scope="module")
def two() -> Iterator[World]:
    world = World(2)
    yield world
    world.close()


def dealt(model: Any, plan: dict[str, str], *counts: int) -> ds.Audit:
    kwargs = tiny.inputs_of("mixtral")
    return ds.audit(model, ep_plan=plan, counts=counts or (2,), kwargs=kwargs, correct=False)


def test_experts_are_dealt_out_to_counts_that_divide_them(mixtral: Any) -> None:
    found = dealt(mixtral, {}, 2, 3, 4)
    assert found.having("legal") == ()
    assert found.having("unknown") == (2, 4)
    (reason,) = found.at(2).findings
    assert str(reason).endswith("experts: the code of the experts is not followed")
    (wrong,) = found.at(3).findings
    assert wrong.reason == "4 experts cannot be dealt out evenly to 3 ranks"
    assert wrong.hint == "take a count that divides 4"
    assert f"{EXPERTS}.gate_up_proj" in found.plan
    assert found.at(2).bytes_per_rank < found.bytes_whole


def test_the_engine_computes_what_the_audit_does(mixtral: Any, two: World, tmp_path: Path) -> None:
    """The same plan on gloo ranks; a style that transformers has no longer is refused there too."""
    prepare(tmp_path, prepared(mixtral), tiny.inputs_of("mixtral"))
    name = type(mixtral).__name__
    right = two.ask(str(tmp_path), name, None, 2, {})
    assert (right["load"], right["forward"], right["gradients"]) == ("", "", "")
    router = {"model.layers.*.mlp.gate": "ep_router"}
    wrong = two.ask(str(tmp_path), name, None, 2, router)
    assert "`ep_router` style was removed" in wrong["load"]
    assert dealt(mixtral, router).at(2).verdict == "illegal"


@pytest.mark.parametrize(
    ("style", "verdict", "reason"),
    [
        ("ep_router", "illegal", "transformers has ep_router no longer"),
        ("moe_tp_experts", "illegal", "moe_tp_experts cuts every expert, and belongs to a tp_plan"),
        (
            "colwise",
            "unknown",
            "colwise in an ep_plan cuts along the ranks of experts, which is not followed",
        ),
        ("grouped", "illegal", "transformers has no style 'grouped'"),
    ],
)
def test_styles_that_cannot_be_followed_are_refused_in_words(
    mixtral: Any, style: str, verdict: str, reason: str
) -> None:
    found = dealt(mixtral, {f"{EXPERTS}.down_proj": style})
    assert [(each.verdict, each.reason) for each in found.at(2).findings] == [(verdict, reason)]
    assert found.at(2).verdict == verdict


def test_a_plan_that_deals_out_nothing_is_refused() -> None:
    with pytest.raises(TpPlanError) as raised:
        ds.audit(tiny.model_of("llama"), ep_plan={}, kwargs=tiny.inputs_of("llama"))
    assert str(raised.value).splitlines()[1] == (
        "  no rule for LlamaForCausalLM is ep_dispatch_experts: "
        "transformers deals out no experts then"
    )


def test_a_rule_for_experts_drops_those_inside_of_the_module() -> None:
    tp = {"a.experts": "x", "a.experts.down": "x", "a.expertsish": "x"}
    assert with_experts(tp, {"a.experts": "y"}) == {"a.expertsish": "x", "a.experts": "y"}


TINY = "dimsolve.examples.mixtral:tiny"


def test_the_command_line_deals_out_the_experts_that_a_model_says() -> None:
    """Doubt has the exit code 3, a refutation 1."""
    answer = ask("audit", TINY, "--ep", "--tp", "2,3")
    lines = answer.out.splitlines()
    assert lines[1] == "  tp = 2: unknown"
    assert lines[2].endswith("experts: the code of the experts is not followed")
    assert lines[3:6] == [
        "  tp = 3: illegal",
        "    style: model.layers.0.mlp.experts: 4 experts cannot be dealt out evenly to 3 ranks",
        "      hint: take a count that divides 4",
    ]
    assert (answer.code, answer.err) == (1, "")


def test_a_file_changes_the_plan_for_experts_on_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "experts.json"
    path.write_text(json.dumps({f"{EXPERTS}.down_proj": "colwise"}), encoding="utf-8")
    answer = ask("audit", TINY, "--ep-plan", str(path), "--tp", "2")
    assert answer.code == 3
    assert answer.out.splitlines() == [
        "MixtralForCausalLM, 9 rules, at input_ids (4, 16), labels (4, 16)",
        "  tp = 2: unknown",
        f"    style: {EXPERTS}.down_proj: colwise in an ep_plan cuts along the ranks of experts, "
        "which is not followed",
        "      hint: write it in tp_plan",
    ]
    found = json.loads(ask("audit", TINY, "--ep-plan", str(path), "--tp", "2", "--json").out)
    assert found["plan"][f"{EXPERTS}.down_proj"] == "colwise" and not found["ok"]


def test_what_has_no_experts_and_what_is_no_plan_are_refused_on_the_command_line(
    tmp_path: Path,
) -> None:
    answer = ask("audit", "dimsolve.examples.llama:tiny", "--ep", "--tp", "2")
    assert answer.code == 2
    assert answer.err.splitlines()[:2] == [
        "TpPlanError: there is no ep_plan to audit",
        "  no rule for LlamaForCausalLM is ep_dispatch_experts: "
        "transformers deals out no experts then",
    ]
    path = tmp_path / "none.json"
    answer = ask("audit", TINY, "--ep-plan", str(path), "--tp", "2")
    assert answer.code == 2
    assert answer.err.startswith(
        f"TpPlanError: this is not a tp_plan\n  {path}: No such file or directory"
    )
