"""Law: ``dimsolve infer TARGET`` prints the model's shapes; every refusal says what to write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dimsolve.cli.app import app

MODEL = """
import torch

def two():
    return torch.nn.Linear(4, 3), (torch.rand(2, 4),), {"input": {0: "b"}}

def halves():
    return lambda x: x[:, 2] + x[:, 0], (torch.rand(2, 4),), {0: {1: "n"}}

def bad():
    raise ValueError("no such weights")
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)


def output(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["infer", *arguments])
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.usefixtures("home")
def test_a_model_is_printed_with_its_shapes() -> None:
    assert output("made.py:two") == (
        "Linear(%input: float32[b, 4]):\n"
        "  parameter %weight: float32[3, 4]\n"
        "  parameter %bias: float32[3]\n"
        "  %linear: float32[b, 3] = linear(%input, %weight, %bias)    # * k+, n k+, n -> * n\n"
        "  return %linear\n"
    )
    data = json.loads(output("made.py:two", "--json"))
    assert [node["operator"] for node in data["nodes"]] == ["torch._C._nn.linear"]


@pytest.mark.usefixtures("home")
def test_explain_says_what_must_hold_and_why() -> None:
    assert "nothing must hold: the graph runs at all sizes\n" in output("made.py:two", "--explain")
    assert output("made.py:halves", "--explain") == "n >= 3    getitem at made.py:8\n"


@pytest.mark.usefixtures("home")
def test_a_failing_function_is_named_with_its_line() -> None:
    assert output("made.py:bad", code=2) == (
        "AnnotationError: made.py:bad raised ValueError\n"
        "  no such weights\n"
        '  made.py:11: raise ValueError("no such weights")\n'
    )


def audited(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["audit", *arguments])
    assert result.exit_code == 2, result.output
    return result.output


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("target", "kind"),
    [("weights", "a folder"), ("meta-llama/Llama-3-8B", "a name of a model hub")],
)
def test_a_checkpoint_is_told_how_it_is_asked_about(target: str, kind: str) -> None:
    Path("weights").mkdir()
    assert audited(target) == (
        "AnnotationError: this is no target\n"
        f"  {target}\n"
        f"  {target} is {kind}\n"
        "  hint: a target is a function: in a file model.py def made(): return "
        f'AutoModelForCausalLM.from_pretrained("{target}"), '
        '{"input_ids": torch.arange(8).view(1, 8)}, and ask about model.py:made\n'
    )


WRITE = (
    '  hint: write {"layers.*.self_attn.q_proj": "colwise"}: names of modules or parameters, and '
    "styles\n"
)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "  plan.json: No such file or directory\n  hint: give a file of JSON\n"),
        ("[1]", f"  [1] is a list\n{WRITE}"),
        ('{"a": null}', f"  'a': None is no pair of texts\n{WRITE}"),
        (
            '{"a": "colwise",',
            "  plan.json is no JSON: Expecting property name enclosed in double quotes: line 1 "
            f"column 17 (char 16)\n{WRITE}",
        ),
        (
            '{"tp_plan": {"a": "colwise"}}',
            "  'tp_plan': {'a': 'colwise'} is no pair of texts\n"
            '  hint: give what stands at "tp_plan" alone\n',
        ),
        (
            '{"version": 3, "mesh": {}, "operators": []}',
            "  'version': 3 is no pair of texts\n"
            "  hint: it is a plan of dimsolve: plan.to_tp_plan() writes it in this format\n",
        ),
    ],
)
def test_what_is_no_plan_of_another_engine_gives_nothing_to_ask_about(
    text: str | None, words: str
) -> None:
    if text is not None:
        Path("plan.json").write_text(text)
    assert audited("made.py:two", "--plan", "plan.json") == (
        f"TpPlanError: this is not a tp_plan\n{words}"
    )


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("counts", ["0", "x", "1", "2,", "4..2"])
def test_what_says_no_counts_is_refused(counts: str) -> None:
    words = " ".join(audited("made.py:two", "--tp", counts).replace("│", " ").split())
    assert (
        f"Invalid value for '--tp': '{counts}' does not say counts of 2 or more: write 4, or "
        "2,4,8, or 2..16" in words
    )


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("option", ["--fact=b >= 2", "--input=2, 4", "--arg=h=2"])
def test_options_of_annotations_are_refused(option: str) -> None:
    assert "a model's shapes come from the example" in output("made.py:two", option, code=2)


@pytest.mark.usefixtures("home")
def test_a_mesh_is_looked_for_and_its_plan_stands_beside_those_of_named_policies() -> None:
    given = ["plan", "made.py:two", "--policy", "auto", "--at", "b=8", "--mesh"]
    for mesh in ("4", "dp=2,tp=2"):
        result = CliRunner().invoke(app, [*given, mesh])
        assert result.exit_code == 0, result.output
        assert ("of 2 meshes of 4 ranks" in result.output) == (mesh == "4")
        beside = result.output.strip().rpartition("\n\n")[2]
        rows = [line.split() for line in beside.splitlines()]
        assert [row[0] for row in rows] == ["policy", "auto", "data", "tensor", "data+tensor"]
        named = "nothing says what the axis ranks cuts" in " ".join(rows[-1])
        assert named == (mesh == "4")
    result = CliRunner().invoke(app, ["plan", "made.py:two", "--mesh", "4"])
    assert result.exit_code == 1
    assert "4 says of no axis how long it is" in result.output


@pytest.mark.usefixtures("home")
def test_plan_says_what_a_rank_holds_at_the_examples_sizes_or_at_others() -> None:
    def memory(*arguments: str, code: int = 0) -> str:
        given = ["plan", "made.py:two", "--mesh", *arguments]
        result = CliRunner().invoke(app, given)
        assert result.exit_code == code, result.output
        return result.output[result.output.find("bytes of one rank") :]

    assert memory("dp=2", "--at", "b=8") == (
        "bytes of one rank in a step, b = 8\n"
        "  parameters    60\n"
        "  gradients     60\n"
        "  optimizer    128\n"
        "  activations  344\n"
        "  gathered       0\n"
        "  in all       592\n"
    )
    assert memory("dp=2").startswith("bytes of one rank in a step, b = 2\n  parameters ")
    assert memory("dp=3") == (
        "bytes of one rank in a step, b = 2\n"
        "  it needs b % 3 == 0 (dp cuts dimension 0 of input), and b = 2\n"
    )
    assert (
        "'batch' is none; its symbols are b"
        in CliRunner()
        .invoke(app, ["plan", "made.py:two", "--mesh", "dp=2", "--at", "batch=8"])
        .output
    )
