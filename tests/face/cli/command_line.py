"""How the tests run the command line: in this process, or as a program of its own."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from dimsolve.cli import main

MATMUL = "m k+, k+ n -> m n"
VIEW = "(h t) k -> h t k"

SETTLED = {
    name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")
}
"""An environment that asks for no colours and against none."""


class Run(NamedTuple):
    """What a run left: its exit code and what it wrote."""

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
