"""A run that a signal ends says so in one line, leaves a code that tells, and leaves no process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from .test_faults import PATIENCE, RUN, processes_of

MODEL = f"{Path(__file__).parent}/faulty.py:model"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signal_to_the_launcher(name: str) -> None:
    """While the ranks train: one plain line, and with --json one object."""
    mark = f"signals-{os.getpid()}-{name}"
    with subprocess.Popen(
        [*RUN, MODEL, "--mesh", "tp=2", "--steps", "1000000", "--no-verify", "--json"],
        env={**os.environ, "FAULT": "", "DIMSOLVE_TEST": mark, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as launcher:
        assert launcher.stderr is not None and launcher.stdout is not None
        for line in launcher.stderr:
            if line.startswith("step 1 "):
                break
        launcher.send_signal(getattr(signal, name))
        said = [line for line in launcher.stderr if not line.startswith("step ")]
        report = json.loads(launcher.stdout.read())
        code = launcher.wait(timeout=PATIENCE)
    assert said == [f"dimsolve run: ended by {name}\n"]
    assert code == 128 + getattr(signal, name)
    assert report["ok"] is False
    assert report["error"]["reason"] == f"ended by {name}"
    until = time.monotonic() + 10
    while processes_of(f"DIMSOLVE_TEST={mark}") and time.monotonic() < until:
        time.sleep(0.2)
    assert processes_of(f"DIMSOLVE_TEST={mark}") == []
