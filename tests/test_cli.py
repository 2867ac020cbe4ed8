"""The command line says what Python answers: texts, exit codes, and which stream has what."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import dimsolve as ds
from dimsolve.cli import main
from dimsolve.cli.app import app
from dimsolve.ir.read_expression import read_dimension, read_relation

MATMUL = "m k+, k+ n -> m n"
VIEW = "(h t) k -> h t k"


SETTLED = {
    name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")
}
"""An environment that asks for no colours and against none."""


class Run(NamedTuple):
    code: object
    out: str
    err: str


def ask(*words: str) -> Run:
    """Runs the command line in this process; its streams are no terminal."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as left,
    ):
        main(words)
    return Run(left.value.code, out.getvalue(), err.getvalue())


def program(*words: str, environment: Mapping[str, str] | None = None, **options: Any) -> Run:
    """Runs the command line as a program of its own."""
    run = subprocess.run(
        [sys.executable, "-P", "-m", "dimsolve", *words],
        stdin=subprocess.DEVNULL,
        env={**SETTLED, **(environment or {})},
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options},
    )
    return Run(run.returncode, run.stdout, run.stderr)


# Words ------------------------------------------------------------------------------------------


def test_parse_shows_tensors_and_marks() -> None:
    assert ask("parse", " (h t)  k^,k^ n+ , ? -> h t,()") == Run(
        0,
        """\
input 0   (h t) k^
input 1   k^ n+
input 2   ?
output 0  h t
output 1  ()

identifier  mark  meaning
h                 may be split
t                 may be split
k           ^     never split
n           +     may be split; outputs without it are then partial sums
""",
        "",
    )


def test_infer_shows_shapes_and_bindings() -> None:
    assert ask("infer", VIEW, "--input", "8*s, k", "--arg", "h=8") == Run(
        0,
        """\
outputs   8, s, k
bindings  h = 8
          t = s
          k = k
""",
        "",
    )


def test_infer_shows_what_is_left_open() -> None:
    assert (
        ask("infer", "(h t) -> h t", "--input", "6").out
        == """\
outputs     h, 6//h
bindings    h = h
            t = 6//h
conditions  6 % h == 0
free        h, t
solutions   h = 1, t = 6
            h = 2, t = 3
            h = 3, t = 2
            h = 6, t = 1
"""
    )


def test_infer_shows_conditions_and_endless_solutions() -> None:
    run = ask("infer", "(h t) -> h t", "--input", "8*s")
    assert run.code == 0
    assert "conditions  8*s % h == 0\n" in run.out
    assert run.out.endswith("solutions   not finitely many\n")


def test_infer_says_that_finitely_many_are_too_many_to_show() -> None:
    run = ask("infer", "(h t) -> h t", "--input", str(2**30))
    lines = run.out.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("solutions"))
    assert lines[first] == f"solutions   h = 1, t = {2**30}"
    assert len(lines) - first == 21
    assert lines[-1].strip() == "finitely many, the first 20 shown; --json lists more"
    hard = ask("infer", "(h t) -> h t", "--input", str((10**9 + 7) * (10**9 + 9)))
    assert hard.out.splitlines()[-1].strip() == (
        "finitely many, the others are too many or too large to be looked for"
    )


def test_infer_shows_a_scalar_an_opaque_value_and_the_star() -> None:
    run = ask("infer", "* a+, ? -> *, (), ?", "--input", "2, s, 4", "--input", "?")
    assert (
        run.out
        == """\
outputs     2, s
            ()
            ?
bindings    a = 4
            b = 2
            c = s
expansions  * = b c
"""
    )


def test_infer_explains_as_python_does() -> None:
    run = ask("infer", VIEW, "--input", "8*s, k", "--arg", "h=3", "--explain")
    solution = ds.infer(VIEW, ["8*s, k"], arguments={"h": 3})
    assert run == Run(0, solution.explain() + "\n", "")


def test_check_shows_where_every_tensor_lies() -> None:
    split = ("--split", "k", "--parts", "8")
    legality = ds.check(MATMUL, ["m, k", "k, n"], "k", 8)
    assert ask("check", MATMUL, "--input", "m, k", "--input", "k, n", *split) == Run(
        1,
        f"""\
conditional     {legality.reason}
conditions      k % 8 == 0
counterexample  {", ".join(f"{n} = {v}" for n, v in (legality.counterexample or {}).items())}

tensor    annotated  whole  placement  on one rank
input 0   m k+       m, k   S(1)       m, k//8
input 1   k+ n       k, n   S(0)       k//8, n
output 0  m n        m, n   P(sum)     m, n
""",
        "",
    )


def test_check_shows_the_arguments_on_one_rank() -> None:
    run = ask(
        *("check", VIEW, "--input", "8*s, k", "--arg", "h=8", "--split", "0,0", "--parts", "4")
    )
    assert run.code == 0
    assert run.out.endswith("""\
tensor    annotated  whole    placement  on one rank
input 0   (h t) k    8*s, k   S(0)       2*s, k
output 0  h t k      8, s, k  S(0)       2, s, k

arguments  h = 2
""")


def test_an_illegal_split_says_why() -> None:
    run = ask("check", "a b -> b", "--split", "a", "--parts", "2")
    legality = ds.check("a b -> b", None, "a", 2)
    assert run == Run(1, f"illegal  {legality.reason}\n", "")
    assert "write 'a+' if they are summed" in run.out


def test_contiguous_asks_for_one_block_per_rank() -> None:
    split = (VIEW, "--input", "8*s, k", "--arg", "h=8", "--split", "t", "--parts", "4")
    facts = ("--fact", "s % 4 == 0")
    interleaved = ask("check", *split, *facts)
    assert interleaved.code == 0 and "S(0, blocks=8)" in interleaved.out
    assert ask("check", *split, *facts, "--contiguous").code == 1
    counts = ("legal-parts", *split[:-2], *facts, "--up-to", "4", "--json")
    assert json.loads(ask(*counts).out)["always"] == [1, 2, 4]
    assert json.loads(ask(*counts, "--contiguous").out)["always"] == [1]


def test_legal_parts_shows_always_sometimes_and_never() -> None:
    counts = ("legal-parts", "a b -> a b", "--input", "8*s, 6", "--up-to", "9", "--split")
    assert (
        ask(*counts, "a").out
        == """\
always       1, 2, 4, 8
conditional  3 if s % 3 == 0
             5 if s % 5 == 0
             6 if s % 3 == 0
             7 if s % 7 == 0
             9 if s % 9 == 0
"""
    )
    reason = ds.check("a b -> a b", ["8*s, 6"], "b", 4).reason
    assert (
        ask(*counts, "b").out
        == f"""\
always  1, 2, 3, 6
never   4-5, 7-9
        {reason}
"""
    )


def test_prove_shows_the_verdict() -> None:
    claim = "n % 2 == 0"
    proof = ds.prove(claim)
    assert ask("prove", claim) == Run(
        1,
        f"""\
refuted         {proof.reason}
conditions      n % 2 == 0
counterexample  n = 1
""",
        "",
    )


# Exit codes -------------------------------------------------------------------------------------

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


# Streams ----------------------------------------------------------------------------------------


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


# JSON -------------------------------------------------------------------------------------------


def test_json_of_parse_has_places_in_what_was_read() -> None:
    answer = json.loads(ask("parse", "(h+  2), ? -> 2", "--json").out)
    assert answer["text"] == "(h+ 2), ? -> 2"
    assert answer["identifiers"] == {"h": "+"}
    tensor, opaque = answer["inputs"]
    assert [operand["kind"] for operand in (tensor, opaque)] == ["tensor", "opaque"]
    (dim,) = tensor["dims"]
    assert [answer["source"][slice(*atom["span"])] for atom in dim["atoms"]] == ["h+", "2"]
    assert [atom["kind"] for atom in dim["atoms"]] == ["identifier", "number"]


def test_json_of_infer_reads_back() -> None:
    answer = json.loads(ask("infer", VIEW, "--input", "8*s, k", "--arg", "h=3", "--json").out)
    solution = ds.infer(VIEW, ["8*s, k"], arguments={"h": 3})
    assert answer["outputs"] == [[str(dim) for dim in row or ()] for row in solution.output_dims]
    assert answer["conditions"] == list(solution.conditions) == ["s % 3 == 0"]
    assert answer["explanation"] == solution.explain().splitlines()
    for text in (*answer["bindings"].values(), *answer["outputs"][0]):
        read_dimension(text)
    for text in answer["conditions"]:
        read_relation(text)


def test_json_of_infer_lists_finite_choices() -> None:
    answer = json.loads(
        ask("infer", "(h t), ? -> h t, ?", "--input", "4", "--input", "", "--json").out
    )
    assert answer["outputs"][1] is None
    assert answer["free"] == ["h", "t"]
    assert answer["solutions"] == [{"h": 1, "t": 4}, {"h": 2, "t": 2}, {"h": 4, "t": 1}]
    assert answer["solutions_complete"] is True
    endless = json.loads(ask("infer", "(h t) -> h t", "--input", "8*s", "--json").out)
    assert endless["solutions"] is None
    assert endless["solutions_complete"] is False
    many = json.loads(ask("infer", "(h t d) -> h t d", "--input", str(2**60), "--json").out)
    assert len(many["solutions"]) == 1000
    assert many["solutions_complete"] is False


def test_json_of_check() -> None:
    words = ("check", VIEW, "--input", "8*s, k", "--arg", "h=8", "--split", "h", "--parts", "n")
    answer = json.loads(ask(*words, "--json").out)
    legality = ds.check(VIEW, ["8*s, k"], "h", "n", arguments={"h": 8})
    assert answer == {
        "verdict": "conditional",
        "reason": legality.reason,
        "split": "h",
        "parts": "n",
        "conditions": list(legality.conditions),
        "counterexample": dict(legality.counterexample or {}),
        "inputs": ["S(0)"],
        "outputs": ["S(0)"],
        "local_inputs": [[str(dim) for dim in legality.local_input_dims[0] or ()]],
        "local_outputs": [["8//n", "s", "k"]],
        "arguments": {"h": "8//n"},
        "solution": {
            "outputs": [["8", "s", "k"]],
            "bindings": {"h": "8", "t": "s", "k": "k"},
            "conditions": [],
            "free": [],
            "expansions": {},
        },
    }


def test_json_of_legal_parts() -> None:
    words = ("legal-parts", "a b -> a b", "--input", "8*s, 6", "--up-to", "3", "--split", "a")
    assert json.loads(ask(*words, "--json").out) == {
        "split": "a",
        "fixed_divisor": 8,
        "always": [1, 2, 4, 8],
        "conditional": {"3": "s % 3 == 0"},
        "forbidden": {},
        "unknown": {},
        "up_to": 3,
    }


def test_json_of_prove() -> None:
    answer = json.loads(ask("prove", "n % 2 == 0", "--json").out)
    assert answer["verdict"] == "refuted"
    assert answer["counterexample"]["n"] % 2 == 1
    assert answer["conditions"] == ["n % 2 == 0"]


# Colours ----------------------------------------------------------------------------------------


def on_a_terminal(*words: str, **environment: str) -> str:
    """What the program writes where stdout is a terminal."""
    screen, terminal = pty.openpty()
    program(*words, stdout=terminal, environment={"TERM": "xterm-256color", **environment})
    os.close(terminal)
    with os.fdopen(screen, "rb") as written:
        return written.read1(65536).decode().replace("\r\n", "\n")


def test_colours_are_for_terminals_only() -> None:
    words = ("prove", "n > 0")
    plain = program(*words).out
    assert "\x1b" not in plain
    assert "\x1b[1;32mproved" in on_a_terminal(*words)
    assert on_a_terminal(*words, NO_COLOR="1") == plain


# Start ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("check", "--help"),
        ("parse", MATMUL),
        ("infer", VIEW, "--input", "8*s, k", "--arg", "h=3"),
        ("check", MATMUL, "--split", "k", "--parts", "8"),
        ("legal-parts", MATMUL, "--split", "k", "--up-to", "4"),
        ("prove", "n*(n + 1) % 2 == 0", "--json"),
    ],
)
def test_no_verb_waits_for_torch_or_sympy(words: tuple[str, ...]) -> None:
    """They take seconds to import; texts need neither."""
    report = f"""
import sys
from dimsolve.cli import main
try:
    main({words!r})
finally:
    print(*sorted({{"torch", "sympy", "numpy"}} & set(sys.modules)), file=sys.stderr)
"""
    run = subprocess.run([sys.executable, "-P", "-c", report], capture_output=True, text=True)
    assert run.stdout and run.stderr.split() == []


def test_help_names_every_verb() -> None:
    run = CliRunner().invoke(app, ["--help"])
    assert run.exit_code == 0
    assert all(verb in run.output for verb in ("parse", "infer", "check", "legal-parts", "prove"))
    assert ask("--help") == ask("-h")


def test_the_installed_program_is_this_one() -> None:
    run = program("prove", "n > 0")
    assert run == ask("prove", "n > 0")


# Hostile words ----------------------------------------------------------------------------------

HOSTILE = [
    "9**9**9",
    "9" * 10_000,
    "(" * 100_000,
    "a " * 50_000 + "-> a",
    "\uff41 -> a",
    "a\0 -> a",
    "\udcff",
    "a -> a\n\n",
    "[bold]a[/bold] -> a",
    ":smile: -> a",
    "--",
    "-",
    "-> a",
    "\x1b[31m",
    "%s %d {0}",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_are_answered(text: str) -> None:
    """Wherever it stands, a text ends in an answer or an error, and never steers the terminal."""
    for words in (
        ("parse", text),
        ("prove", text),
        ("infer", text, "--json"),
        ("infer", MATMUL, "--input", text, "--input", "k, n"),
        ("infer", VIEW, "--arg", f"h={text}"),
        ("infer", VIEW, "--arg", text),
        ("infer", VIEW, "--fact", text),
        ("check", MATMUL, "--split", text, "--parts", "2"),
        ("check", MATMUL, "--split", "m", "--parts", text),
    ):
        run = ask(*words)
        assert run.code in (0, 1, 2, 3)
        assert "Traceback" not in run.err
        assert "\x1b" not in run.out + run.err


@given(
    st.lists(st.text(max_size=20) | st.sampled_from(["--input", "--json", "--arg", "h=8", MATMUL]))
)
@settings(max_examples=300, deadline=None)
def test_any_words_are_answered(words: list[str]) -> None:
    for verb in ("parse", "infer", "check", "legal-parts", "prove"):
        assert ask(verb, *words).code in (0, 1, 2, 3)


def test_bytes_that_are_no_text_are_answered() -> None:
    run = subprocess.run(
        [sys.executable, "-P", "-m", "dimsolve", "parse", b"\xff -> a"], capture_output=True
    )
    assert run.returncode == 2
    assert run.stderr.startswith(b"AnnotationError: ")
