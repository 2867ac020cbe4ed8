"""``dimsolve ops`` and ``dimsolve verify``: outputs word for word, exit codes, streams."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dimsolve.cli import main

LIE = """
import torch
import dimsolve as ds


@ds.register_op("m k+, n k+, n -> m n")
def biased(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.linear(x, w, b)
"""


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    out, err = capsys.readouterr()
    code = left.value.code
    assert isinstance(code, int)
    return code, out, err


def test_ops_shows_the_annotations_of_examples(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "ops", "torch.hypot")
    assert code == 0
    assert out == "torch.hypot  *, * -> *   a b, b -> a b   a 1 c, b c -> a b c\n"


def test_ops_lists_at_least_250_callables(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "ops", "--json")
    assert code == 0
    assert len(json.loads(out)["operators"]) >= 250


def test_ops_of_an_unknown_name_says_what_is_close(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "ops", "torch.hypott") == (
        2,
        "",
        "AnnotationError: the library does not have this callable\n"
        "  no path contains 'torch.hypott'\n"
        "  hint: did you mean torch.hypot or torch.put or torch.pow?\n",
    )


def test_verify_says_yes_where_the_annotation_holds(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "verify", "torch.mv", "--json")
    found = json.loads(out)
    assert (code, found["ok"], found["culprits"]) == (0, True, [])


def test_verify_names_the_input_that_is_a_summand(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    module = tmp_path / "lying_operator.py"
    module.write_text(LIE)
    code, out, _ = run(capsys, "verify", f"{module}:biased")
    assert code == 1
    assert 'value_split=("b",)' in out


@pytest.mark.parametrize("target", ["torch.nope", "", "linear", "torch", "ops.py", ":"])
def test_verify_of_what_names_no_function_is_unreadable(
    capsys: pytest.CaptureFixture[str], target: str
) -> None:
    code, out, err = run(capsys, "verify", target)
    assert (code, out) == (2, "") and err.startswith("OperatorError: ")


def test_verify_of_a_file_without_the_function_hints_at_registering(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    module = tmp_path / "another_operator.py"
    module.write_text(LIE)
    code, _, err = run(capsys, "verify", f"{module}:nope")
    assert code == 2
    assert err.endswith(
        "  hint: write module:function or file.py:function; the function is one that is "
        "registered\n"
    )


def test_ops_pads_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "ops")
    lines = out.splitlines()
    assert lines == [line.rstrip() for line in lines]
    assert max(map(len, lines)) < 553 and "   (every element depends on where" in out


def test_a_function_is_asked_about_without_a_model_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shapes = ("--input", "n, c, h, w", "--input", "o, c, 3, 3", "--arg", "stride=2")
    code, out, _ = run(capsys, "infer", "torch.nn.functional.conv2d", *shapes)
    assert (code, out) == (
        0,
        "annotation  a b+ d^ f^, c b+ 3 3 -> a c e^ g^\n"
        "\n"
        "outputs     n, o, ((h + 1)//2) - 1, ((w + 1)//2) - 1\n"
        "bindings    a = n\n"
        "            b = c\n"
        "            d = h\n"
        "            f = w\n"
        "            c = o\n"
        "            e = ((h + 1)//2) - 1\n"
        "            g = ((w + 1)//2) - 1\n"
        "conditions  h >= 3\n"
        "            w >= 3\n",
    )
    code, out, _ = run(capsys, "infer", "torch.nn.functional.conv2d", *shapes, "--json")
    assert json.loads(out)["conditions"] == ["h >= 3", "w >= 3"]
    asked = ("torch.nn.functional.group_norm", "--input", "n, 32, h, w", "--arg", "num_groups=8")
    code, out, _ = run(capsys, "legal-parts", *asked, "--split", "0,1", "--up-to", "4")
    assert (code, out.splitlines()[0]) == (0, "always  1, 2, 4, 8")
    asked = ("torch.nn.functional.linear", "--input", "b, k", "--input", "n, k")
    code, out, _ = run(capsys, "check", *asked, "--split", "1,1", "--parts", "4")
    assert code == 1 and "k % 4 == 0" in out


SLIPS = [
    (("torch.nn.functional.conv2", "--input", "n"), "did you mean torch.nn.functional.conv2d?"),
    (("torch.topk", "--input", "n", "--arg", "kk=2"), "did you mean 'k'?"),
    (
        ("torch.Tensor.view", "--input", "batch, s", "--arg", "size=btach, s"),
        "did you mean the symbol 'batch'?",
    ),
]


@pytest.mark.parametrize(("words", "hint"), SLIPS, ids=str)
def test_a_slip_in_a_question_about_a_function_is_named(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], hint: str
) -> None:
    code, out, err = run(capsys, "infer", *words)
    assert (code, out) == (2, "") and hint in err
