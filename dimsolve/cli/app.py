"""The program: which verbs there are, and how its arguments and streams are treated."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper

import typer

from .models import audit, plan, profile, run, serve
from .questions import check, infer, legal_parts, ops, parse, prove, verify

app = typer.Typer(
    name="dimsolve",
    help="Symbolic shapes and provably legal partitions from one line of operator annotation.",
    epilog="Exit codes: 0 yes, 1 no (illegal, conditional, refuted, contradiction), "
    "2 the question cannot be read, 3 gave up.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_VERBS = parse, infer, check, legal_parts, prove, ops, verify, plan, audit, run, profile, serve
for _verb in _VERBS:
    app.command(_verb.__name__.replace("_", "-"))(_verb)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and leaves with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # What was typed may not be printable here.
            stream.reconfigure(errors="backslashreplace")
    texts = sys.argv[1:] if arguments is None else arguments
    app(args=[_shielded(text) for text in texts], prog_name="dimsolve")


def _shielded(text: str) -> str:
    """Keeps ``-> a`` and ``-n < 0`` from being taken for options: ours have two dashes."""
    is_text = text.startswith("-") and not text.startswith("--") and text not in ("-", "-h", "-o")
    return f" {text}" if is_text else text
