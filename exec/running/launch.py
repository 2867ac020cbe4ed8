"""`launch`: starts the ranks of a run on this machine, or joins the world that is given.

    launch(RunOptions(target="dimsolve.examples.llama:tiny", mesh="tp=2"))     2 processes, gloo

They are processes of an agent (`dimsolve.exec.running.agent`), which ends all of them when one
fails. Under ``torchrun`` this process is a rank already, and runs as one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dimsolve.ir.errors import AnnotationError, Problem
from dimsolve.partition.mesh import Mesh
from dimsolve.partition.plan import read_plan_file

from . import agent
from .agent import EXITS, Exits
from .report import ErrorReport, RunOptions, RunReport
from .supervisor import Supervisor, marked

MAX_RANKS = 64


_NO_COUNT = Problem(
    AnnotationError, "no-count", "these ranks cannot be started here", "{reason}", "{hint}"
)


def launch(options: RunOptions) -> RunReport:
    """Runs the ranks and returns the report of the first one, or what ended the run.

    Raises AnnotationError, MeshError and PlanError for options, a launcher's variables and a plan
    that cannot be read, and Interrupted where a signal ends the run (see
    `dimsolve.exec.running.supervisor`).
    """
    count = _count(options)
    if options.plan is not None:
        read_plan_file(options.plan)
    if "RANK" in os.environ and "MASTER_ADDR" in os.environ:
        from ..parallel.mesh import check_launcher
        from .worker import run

        check_launcher()
        return run(options)
    with TemporaryDirectory(prefix="dimsolve-") as name:
        folder = Path(name)
        (folder / "options.json").write_text(options.model_dump_json())
        ranks = Supervisor(folder, count, options.timeout)
        with marked(folder):
            failures = _start(count, folder, ranks)
        return _collected(folder, options, count, failures, ranks)


def is_first() -> bool:
    """Whether this process is the one that speaks for the run."""
    return os.environ.get("RANK", "0") == "0"


def _count(options: RunOptions) -> int:
    """The number of ranks; for one machine it must be a number, and not too large."""
    ranks = Mesh.with_axes(options.mesh).ranks
    if not isinstance(ranks, int):
        raise _NO_COUNT(
            reason=f"the mesh {options.mesh} has {ranks} ranks", hint="write a number for each axis"
        )
    if ranks > MAX_RANKS and "RANK" not in os.environ:
        raise _NO_COUNT(reason=f"{ranks} processes on one machine", hint="start them with torchrun")
    return ranks


def _start(count: int, folder: Path, ranks: Supervisor) -> Exits:
    """Runs the processes to their end; returns the exit codes of those that failed."""
    command = [sys.executable, "-m", agent.__name__, str(folder), str(os.getpid()), str(count)]
    with ranks, subprocess.Popen(command) as process:
        try:
            code = process.wait()
        except BaseException:  # a signal ends the run
            process.terminate()
            raise
    exits = folder / EXITS
    if exits.is_file():
        return [(rank, code) for rank, code in json.loads(exits.read_text())]
    return [(0, code)] if code else []


def _collected(
    folder: Path, options: RunOptions, count: int, failures: Exits, ranks: Supervisor
) -> RunReport:
    """The report of the first rank; where one failed, the failure that came first."""
    report = folder / "report.json"
    if not failures and report.is_file():
        data = json.loads(report.read_text())
        rows = json.loads((folder / "overview.json").read_text())
        return _read(data).model_copy(update={"overview": rows})
    errors, stopped = (
        sorted(folder.glob(f"{kind}-*.json"), key=lambda path: path.stat().st_mtime_ns)
        for kind in ("error", "stopped")
    )
    if errors:
        return _read(json.loads(errors[0].read_text()))
    ended = _killed(failures, ranks) or ranks.silent
    if ended is None and stopped:
        return _read(json.loads(stopped[0].read_text()))
    if ended is None:
        rank, code = failures[0] if failures else (0, 0)
        ended = rank, f"it ended with exit code {code}"
    reports = [_read(json.loads(path.read_text())) for path in stopped]
    return _ended(options, count, *ended, reports, ranks.last_seen(ended[0]))


def _killed(failures: Exits, ranks: Supervisor) -> tuple[int, str] | None:
    """The first rank that a signal ended, other than the launcher's own."""
    for rank, code in failures:
        if code < 0 and rank not in ranks.killed:
            return rank, f"it was ended by {signal.Signals(-code).name}"
    return None


def _ended(
    options: RunOptions,
    count: int,
    rank: int,
    reason: str,
    told: Sequence[RunReport] = (),
    seen: str = "",
) -> RunReport:
    """A rank that left no word. told: what the others found out; seen: what it was last at."""
    known = next((r.error for r in told if r.error is not None and r.error.rank == rank), None)
    found = [] if known is None else known.reason.splitlines()[1:]
    if seen and not any("it was last seen" in line for line in found):
        found.append(f"it was last seen in {seen}")
    error = known or ErrorReport(rank=rank, reason="")
    error = error.model_copy(update={"reason": "\n".join([reason, *found])})
    return RunReport(ok=False, ranks=count, mesh=_sizes(options), error=error, exit_code=1)


def _read(data: dict[str, Any]) -> RunReport:
    code = data.pop("exit")
    return RunReport.model_validate(data).model_copy(update={"exit_code": code})


def _sizes(options: RunOptions) -> dict[str, int]:
    return {axis: size for axis, size in Mesh.of(options.mesh).axes if isinstance(size, int)}
