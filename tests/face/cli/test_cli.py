"""The command line says what Python answers: texts, exit codes, and which stream has what."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import dimsolve as ds
from dimsolve.cli.app import app

from .command_line import MATMUL, VIEW, Run, ask, program


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


def test_several_splits_are_one_question() -> None:
    words = ("check", "a b -> b a", "--input", "x, x + 1")
    splits = ("--split", "a", "--parts", "2", "--split", "b", "--parts", "2")
    run = ask(*words, *splits)
    assert run.code == 1
    assert run.out.endswith(
        "illegal  each split has a condition, and no sizes satisfy all of them\n"
    )
    told = json.loads(ask(*words, *splits, "--json").out)
    assert told["verdict"] == "illegal"
    assert [axis["verdict"] for axis in told["axes"]] == ["conditional", "conditional"]
    fewer = ask(*words, *splits[:-2])
    assert fewer.code == 2 and "2 --split and 1 --parts" in fewer.err


def test_a_summand_and_what_joins_the_parts_are_told() -> None:
    linear = ("check", "m k+, n k+, n -> m n", "--split", "k", "--parts", "2", "--json")
    assert json.loads(ask(*linear).out)["inputs"][2] == "R"
    assert json.loads(ask(*linear, "--summand", "2").out)["inputs"][2] == "P(sum)"
    assert json.loads(ask(*linear, "--partial", "max").out)["outputs"] == ["P(max)"]
    counts = ("legal-parts", *linear[1:4], "--up-to", "4")
    assert ask(*counts, "--summand", "2", "--partial", "sum").out == ask(*counts).out
    for wrong in (("--summand", "7"), ("--partial", "most")):
        assert ask(*counts, *wrong).err == ask(*linear, *wrong).err != ""


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
