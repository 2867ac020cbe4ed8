"""Whatever a target is, `dimsolve run` answers in its own words: what is wrong and in which line,
what could not be compared, and with --json in one object.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.face.cli.command_line import Run, ask, program

TARGETS = """
import os
import torch
from torch import nn

ONES = {"input": torch.ones(4, 4)}, {"input": {0: "batch"}}

def helper():
    raise KeyError("weights")

def raises():
    return helper()

def leaves():
    raise SystemExit(3)

def number():
    return nn.Linear(4, 4), 3

def prints():
    print("noise")
    os.write(1, b"raw noise")
    os.system("echo noise of a child")
    return nn.Linear(4, 4), *ONES

def without_parameters():
    return nn.ReLU(), *ONES

def frozen():
    return nn.Linear(4, 4).requires_grad_(False), *ONES

class Largest(nn.Module):
    def forward(self, input):
        return input.argmax(-1)

def integers():
    return Largest(), *ONES

class Cancelling(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift, self.norm = nn.Parameter(torch.zeros(8)), nn.BatchNorm1d(8)
        self.linear = nn.Linear(8, 4)

    def forward(self, input):
        return self.linear(self.norm(input + 1000 * self.shift).relu())

def cancelling():
    return Cancelling(), {"input": torch.randn(64, 8)}, {"input": {0: "batch"}}

def nan():
    model = nn.Linear(4, 4)
    model.weight.data.fill_(float("nan"))
    return model, *ONES
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made.py").write_text(TARGETS)
    (tmp_path / "unreadable.py").write_text("import torch\n\ndef f(:\n    pass\n")
    (tmp_path / "failing.py").write_text('import torch\nraise RuntimeError("no licence")\n')
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit(4)\n")
    monkeypatch.chdir(tmp_path)
    for name in ("made", "unreadable", "failing", "leaving"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def run(*words: str) -> Run:
    return program("run", *words, environment={"OMP_NUM_THREADS": "1"})


BAD = {
    "made.py:raises": "raised KeyError\n  'weights'\n  made.py:9: raise KeyError(\"weights\")\n",
    "made.py:leaves": "raised SystemExit\n  3\n  made.py:15: raise SystemExit(3)\n",
    "failing.py:f": 'raised RuntimeError\n  no licence\n  failing.py:2: raise RuntimeError("no '
    'licence")\n',
    "leaving.py:f": "raised SystemExit\n  4\n  leaving.py:2: sys.exit(4)\n",
    "unreadable.py:f": "raised SyntaxError\n  invalid syntax\n  unreadable.py:3: def f(:\n",
}
VERBS = {
    "infer": ["infer"],
    "plan": ["plan", "--mesh", "tp=2"],
    "legal-parts": ["legal-parts", "--split", "tp"],
    "verify": ["verify"],
}


CALLED = [
    (target, verb)
    for target in BAD
    for verb in VERBS
    if not (
        verb == "verify"
        and target.startswith("made.py")  # it takes the function and does not call it
    )
]


@pytest.mark.parametrize(("target", "verb"), CALLED)
def test_errors_of_the_users_file(target: str, verb: str) -> None:
    """The line in the user's file, and exit code 2, from every verb."""
    name, *options = VERBS[verb]
    found = ask(name, target, *options)
    assert (found.code, found.out) == (2, "")
    assert found.err == f"AnnotationError: {target} {BAD[target]}"


def test_errors_of_the_users_file_on_ranks() -> None:
    found = run("made.py:raises", "--mesh", "tp=2", "--json")
    assert found.code == 2
    error = json.loads(found.out)["error"]
    assert error["reason"].endswith('made.py:9: raise KeyError("weights")')


def test_an_example_that_is_none() -> None:
    found = ask("infer", "made.py:number")
    assert found.code == 2
    assert "  number returns int for the example\n" in found.err


UNREADABLE = {
    "--mesh tp=0": "the size of 'tp' is 0, and an axis has at least one rank",
    "--mesh tp=2 --policy nope": "'nope' is none",
    "--mesh tp=2 --plan absent.json": "absent.json: No such file or directory",
    "--mesh tp=2 --plan made.py": "it is no JSON",
}


@pytest.mark.parametrize("options", UNREADABLE)
def test_questions_that_cannot_be_read(options: str) -> None:
    found = run("made.py:frozen", *options.split())
    assert found.code == 2, found.err
    assert UNREADABLE[options] in found.err


@pytest.mark.parametrize("verb", ["infer", "plan", "legal-parts", "run"])
def test_json_is_all_there_is_on_stdout(verb: str) -> None:
    """What the target prints goes to stderr, from Python, below it, and from its children."""
    words = {**VERBS, "run": ["run", "--mesh", "tp=2"]}[verb]
    found = program(words[0], "made.py:prints", *words[1:], "--json")
    assert found.code == 0, found.err
    json.loads(found.out)
    for noise in ("noise\n", "raw noise", "noise of a child\n"):
        assert noise in found.err


def test_json_is_all_there_is_in_this_process() -> None:
    found = ask("infer", "made.py:prints", "--json")
    assert json.loads(found.out)["name"] == "Linear"
    assert "noise\n" in found.err


@pytest.mark.parametrize("name", ["without_parameters", "frozen", "integers"])
def test_a_model_with_nothing_to_train(name: str) -> None:
    found = run(f"made.py:{name}", "--mesh", "dp=2", "--json")
    assert found.code == 0, found.err
    report: dict[str, Any] = json.loads(found.out)
    assert report["ok"]
    assert report["notes"][0] == "nothing to train: outputs compared"
    assert [step["loss"] for step in report["steps"]] == [None] * 3
    assert report["differences"]["outputs"] <= 1e-6


def test_what_rounding_takes_one_device_too_is_equal_and_said() -> None:
    found = run("made.py:cancelling", "--mesh", "dp=2", "--json")
    assert found.code == 0, found.err
    differences: dict[str, Any] = json.loads(found.out)["differences"]
    assert differences["gradients"] > differences["allowed"]
    judged = differences["float64"]
    assert judged["ranks"] <= 4 * judged["one_device"]
    assert judged["exact"] <= 1e-9
    text = run("made.py:cancelling", "--mesh", "dp=2").out
    assert (
        f"rounding takes one device {judged['one_device']:.1e} from float64, "
        f"the ranks {judged['ranks']:.1e}; their program in float64 is {judged['exact']:.1e} off\n"
    ) in text
    assert (
        "to one device on 2 ranks (dp=2): no further from float64 than rounding takes one device\n"
    ) in text


def test_a_loss_that_is_nan_proves_nothing() -> None:
    found = run("made.py:nan", "--mesh", "tp=2", "--json")
    assert found.code == 3, found.err
    report = json.loads(found.out)
    assert report["ok"] is False
    assert report["error"]["reason"] == (
        "the loss is nan or infinite in every step: that nan is equal to nan proves nothing"
    )
    shown = run("made.py:nan", "--mesh", "tp=2")
    assert "equal" not in [line.split()[0] for line in shown.out.splitlines() if line]
    assert "unknown  the loss is nan or infinite in every step" in shown.out


def test_an_axis_that_cuts_nothing_says_so() -> None:
    found = run("made.py:frozen", "--mesh", "tp=2", "--policy", "replicate")
    assert found.code == 0, found.err
    assert "tp = 2" in found.out
    assert "nothing: every rank along it computes the same" in found.out
