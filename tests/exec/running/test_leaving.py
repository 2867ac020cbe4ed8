"""A rank that has done its work leaves no thread behind that could ask for an interpreter which is
being taken down: torch ends such a process by SIGABRT.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import Any

import torch
from torch import nn

PROGRAM = """
import json, threading
from pathlib import Path
import torch.distributed as dist
from dimsolve.exec.running.report import RunOptions
from dimsolve.exec.running.worker import run

def threads():
    names = [Path(task, "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    return sorted(n for n in names if n.startswith("pt_")) + [t.name for t in threading.enumerate()]

report = run(RunOptions(target="tests.exec.running.test_leaving:linear", mesh="dp=1", steps=1))
print(json.dumps([report.ok, dist.is_initialized(), threads()]))
"""


def linear() -> tuple[Any, ...]:
    """What the rank runs."""
    return nn.Linear(4, 4), {"input": torch.ones(4, 4)}, {"input": {0: "batch"}}


def test_a_rank_that_ends_leaves_no_thread_of_its_world_behind() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    world = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **world, **address},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    ok, joined, threads = json.loads(done.stdout.splitlines()[-1])
    assert (ok, joined) == (True, False)
    assert threads == ["MainThread"]
