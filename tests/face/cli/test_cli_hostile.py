"""Law: whatever stands on the command line is answered: hostile texts, any words, bytes that are no
text.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .command_line import MATMUL, VIEW, ask

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
@settings(max_examples=100)
def test_any_words_are_answered(words: list[str]) -> None:
    for verb in ("parse", "infer", "check", "legal-parts", "prove"):
        assert ask(verb, *words).code in (0, 1, 2, 3)


def test_bytes_that_are_no_text_are_answered() -> None:
    run = subprocess.run(
        [sys.executable, "-P", "-m", "dimsolve", "parse", b"\xff -> a"], capture_output=True
    )
    assert run.returncode == 2
    assert run.stderr.startswith(b"AnnotationError: ")
