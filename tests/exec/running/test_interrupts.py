"""A run that a signal ends, or that never begins, says so in one line; its exit code tells."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from .test_faults import PATIENCE, RUN, processes_of

MODEL = f"{Path(__file__).parents[1]}/faulty.py:model"


def heeding_signals() -> None:
    """Whoever runs the tests in the background ignores SIGINT, and its children inherit that."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


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
        preexec_fn=heeding_signals,
    ) as launcher:
        try:
            assert launcher.stderr is not None
            for line in launcher.stderr:
                if line.startswith("step 1 "):
                    break
            launcher.send_signal(getattr(signal, name))
            printed, notes = launcher.communicate(timeout=PATIENCE)
        finally:
            launcher.kill()
    said = [line for line in notes.splitlines() if not line.startswith("step ")]
    report = json.loads(printed)
    code = launcher.returncode
    assert said == [f"dimsolve run: ended by {name}"]
    assert code == 128 + getattr(signal, name)
    assert report["ok"] is False
    assert report["error"]["reason"] == f"ended by {name}"
    until = time.monotonic() + PATIENCE
    while processes_of(f"DIMSOLVE_TEST={mark}") and time.monotonic() < until:
        time.sleep(0.2)
    assert processes_of(f"DIMSOLVE_TEST={mark}") == []


def test_a_world_that_cannot_be_joined() -> None:
    """The port is taken: this rank says where it should have met the others."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [*RUN, MODEL, "--mesh", "tp=2", "--json"],
            env={
                **os.environ,
                "RANK": "0",
                "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "FAULT": "",
            },
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    assert done.returncode == 1
    where = f"it did not join the other 1 at 127.0.0.1:{port}: "
    assert json.loads(done.stdout)["error"]["reason"].startswith(where)
    assert f"rank 0: {where}" in done.stderr
    assert "Traceback" not in done.stderr
