"""Law: exit codes and streams tell a script what happened; an error is drawn on stderr."""

from __future__ import annotations

import json
import os

import pytest

import dimsolve as ds

from .command_line import MATMUL, VIEW, Run, ask, program

ENDS = [
    (0, ("parse", MATMUL)),
    (2, ("parse", "m k+, k n -> m n")),
    (2, ("parse", "")),
    (2, ("parse",)),
    (2, ("parse", MATMUL, "--jsn")),
    (2, ("perse", MATMUL)),
    (0, ("infer", MATMUL)),
    (0, ("infer", VIEW, "--input", "8*s, k", "--arg", "h=3")),
    (1, ("infer", VIEW, "--input", "7, k", "--arg", "h=2")),
    (1, ("infer", MATMUL, "--input", "m, k")),
    (1, ("infer", VIEW, "--arg", "h=0")),
    (2, ("infer", MATMUL, "--input", "m, k", "--input", "k; n")),
    (2, ("infer", VIEW, "--arg", "h")),
    (2, ("infer", VIEW, "--arg", "h=8", "--arg", "h=8")),
    (2, ("infer", VIEW, "--arg", "8=h")),
    (2, ("infer", VIEW, "--fact", "k % 64")),
    (1, ("infer", VIEW, "--fact", "k < 1")),
    (0, ("check", MATMUL, "--split", "m", "--parts", "1")),
    (0, ("check", MATMUL, "--split", "k", "--parts", "8", "--fact", "k % 64 == 0")),
    (0, ("check", MATMUL, "--split", "k", "--parts", "n", "--fact", "k % n == 0")),
    (1, ("check", MATMUL, "--split", "k", "--parts", "8")),
    (1, ("check", "m^ n -> m^ n", "--split", "m", "--parts", "2")),
    (1, ("check", MATMUL, "--split", "m", "--parts", "0")),
    (1, ("check", MATMUL, "--split", "m", "--parts", "-2")),
    (2, ("check", MATMUL, "--split", "q", "--parts", "2")),
    (2, ("check", MATMUL, "--split", "9,0", "--parts", "2")),
    (2, ("check", MATMUL, "--split", "m", "--parts", "2.5")),
    (2, ("check", MATMUL, "--split", "m")),
    (0, ("legal-parts", MATMUL, "--split", "0,1")),
    (2, ("legal-parts", MATMUL, "--split", "0,1", "--up-to", "0")),
    (2, ("legal-parts", MATMUL, "--split", "0,1", "--up-to", "1000000")),
    (0, ("prove", "n*(n+1) % 2 == 0")),
    (0, ("prove", "-n < 0")),
    (1, ("prove", "n % 2 == 0")),
    (2, ("prove", "n % 2")),
    (2, ("prove", "__import__('os').system('true') == 0")),
]


@pytest.mark.parametrize(("code", "words"), ENDS)
def test_exit_codes(code: int, words: tuple[str, ...]) -> None:
    """0 yes, 1 no, 2 cannot be read; an answer is on stdout, everything else on stderr."""
    run = ask(*words)
    assert run.code == code
    assert bool(run.out) != bool(run.err)
    assert bool(run.err) >= (code == 2)


def test_gave_up_is_an_exit_code_of_its_own() -> None:
    """Fermat's last theorem for one exponent: true, and beyond what is tried here."""
    claim = "a**5 + b**5 != c**5"
    proof = ds.prove(claim)
    assert (proof.verdict, ask("prove", claim).code) == ("unknown", 3)


def test_an_error_is_drawn_on_stderr() -> None:
    assert ask("parse", "m k+, k n -> m n") == Run(
        2,
        "",
        """\
AnnotationError: one identifier, two marks
  m k+, k n -> m n
    ^~  ^
  'k' is marked '+' in input 0 and not marked in input 1; write the same mark at both
""",
    )


def test_a_contradiction_is_drawn_as_python_draws_it() -> None:
    with pytest.raises(ds.ShapeError) as caught:
        ds.infer(VIEW, ["7, k"], arguments={"h": 2})
    run = ask("infer", VIEW, "--input", "7, k", "--arg", "h=2")
    assert run.err == f"ShapeError: {caught.value}\n"


def test_a_json_error_is_a_problem_and_is_still_drawn() -> None:
    run = ask("parse", "m k+, k n -> m n", "--json")
    assert run.code == 2
    assert json.loads(run.out) == {
        "type": "about:blank",
        "title": "one identifier, two marks",
        "status": 422,
        "detail": "'k' is marked '+' in input 0 and not marked in input 1; "
        "write the same mark at both",
        "error": "AnnotationError",
        "code": "two-marks",
        "text": "m k+, k n -> m n",
        "spans": [[2, 4], [6, 7]],
        "hint": "",
    }
    assert run.err == ask("parse", "m k+, k n -> m n").err


def test_an_option_that_cannot_be_read_names_itself() -> None:
    assert "'h' is not NAME=SIZE, such as h=8" in ask("infer", VIEW, "--arg", "h").err
    assert "--json" in ask("parse", MATMUL, "--jsn").err


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        run = program("prove", "n > 0", stdout=closed)
    assert "Traceback" not in run.err and "Exception" not in run.err
