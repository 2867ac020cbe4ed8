"""A rank's process: joins its world, runs, and leaves with an exit code and a record.

    python -m dimsolve.exec.running.worker FOLDER LAUNCHER    started by `launch`

FOLDER holds ``options.json``. The first rank writes ``report.json``; a rank that fails writes
``error-RANK.json`` and tells the others, which then end too. The process ends itself when LAUNCHER,
the process that started it, is gone.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

from dimsolve.ir.errors import DimsolveError, is_unreadable

from .run_report import ErrorReport, RunOptions, RunReport
from .supervisor import INTERRUPTED, tell_alive

START = 60.0
"""Seconds that the ranks of a run have, at least, to start and to find each other."""

GRACE = 15.0
"""Seconds that a rank has to end by itself after another one has failed."""


def main(folder: Path, launcher: int) -> int:
    """Runs this rank; returns the exit code: 0 where it ended, whatever its report says."""
    rank = int(os.environ["RANK"])
    threading.Thread(target=_end_with, args=(launcher, folder, rank), daemon=True).start()
    options = RunOptions.model_validate_json((folder / "options.json").read_bytes())
    report = run(options, folder)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # what is to be told is told now
    if report.steps:
        if rank == 0:
            _write(folder / "overview.json", report.overview)
            _write(folder / "report.json", report)
        (folder / f"ended-{rank}").touch()
        return 0
    own = report.error is None or report.error.rank in (None, rank)
    _write(folder / f"{'error' if own else 'stopped'}-{rank}.json", report)
    return report.exit_code


def run(options: RunOptions, folder: Path | None = None) -> RunReport:
    """Joins the world of the environment, runs this rank, and leaves the world.

    folder: of the launcher, where there is one. Never raises: what goes wrong is in the report.
    """
    import torch
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import _set_pg_timeout

    from ..distributed.watch import Stopped, watch
    from ..parallel.faults import explain_run
    from .run_rank import run_rank

    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _stop)
    _threads(int(os.environ.get("LOCAL_WORLD_SIZE", world)))
    gpu = options.device != "cpu" and torch.cuda.is_available()
    enough = gpu and torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", world))
    try:
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if enough else "gloo",
            timeout=timedelta(seconds=max(options.timeout, START)),
        )
    except (RuntimeError, ValueError, OSError) as error:
        return _not_joined(error, rank, world)
    _set_pg_timeout(timedelta(seconds=options.timeout))
    guard = watch()
    assert guard is not None
    guard.timeout = options.timeout
    guard.duties.append(_end_late())

    progress = _progress(rank)
    try:
        report = run_rank(options, progress)
        progress("")
        return report
    except BaseException as error:
        if folder is not None and (folder / INTERRUPTED).exists():
            os._exit(1)  # who asked for the end needs no reasons
        failure = explain_run(error, rank)
        text = (
            f"rank {rank}: stopped: {failure}"
            if isinstance(error, Stopped)
            else _words(error, rank)
        )
        print(text, file=sys.stderr, flush=True)
        if world > 1:
            time.sleep(1.0)  # the others look twice a second, and are to say what they were at
        return RunReport(
            ok=False,
            ranks=world,
            mesh={},
            error=ErrorReport(
                rank=failure.rank,
                operator=failure.operator,
                node=failure.node,
                source=failure.source,
                shapes=dict(failure.shapes),
                reason=failure.reason,
            ),
            exit_code=2 if isinstance(error, DimsolveError) and is_unreadable(error) else 1,
        )


def _not_joined(error: Exception, rank: int, world: int) -> RunReport:
    """The ranks have not found each other: a wrong address, port, or number of ranks."""
    where = ":".join(os.environ.get(name, "?") for name in ("MASTER_ADDR", "MASTER_PORT"))
    said = next((line for line in str(error).splitlines() if line), type(error).__name__)
    reason = f"it did not join the other {world - 1} at {where}: {said}"
    print(f"rank {rank}: {reason}", file=sys.stderr, flush=True)
    failure = ErrorReport(rank=rank, reason=reason)
    return RunReport(ok=False, ranks=world, mesh={}, error=failure, exit_code=1)


def _progress(rank: int) -> Callable[[str], None]:
    """Tells on stderr how far the run is: one line that changes on a terminal, lines elsewhere."""
    terminal = sys.stderr.isatty()

    from ..distributed.whereabouts import note_stage

    def tell(text: str) -> None:
        if text:
            note_stage(text)
        if rank == 0 and (text or terminal):
            line = f"\r\x1b[2K{text}" if terminal else f"{text}\n"
            print(line, end="", file=sys.stderr, flush=True)

    return tell


def _words(error: BaseException, rank: int) -> str:
    """An error for people: what it draws of itself, or its traceback, and where it came from."""
    notes = "\n".join(getattr(error, "__notes__", ()))
    if isinstance(error, DimsolveError):
        return "\n".join(filter(None, (f"rank {rank}: {type(error).__name__}: {error}", notes)))
    import traceback

    return f"rank {rank}: " + "".join(traceback.format_exception(error)).rstrip()


def _write(path: Path, report: RunReport | list[list[list[str]]]) -> None:
    data = report if isinstance(report, list) else report.model_dump() | {"exit": report.exit_code}
    path.write_text(json.dumps(data))


def _threads(ranks: int) -> None:
    """The cores of this machine, shared by its ranks, unless the environment says otherwise."""
    if "OMP_NUM_THREADS" not in os.environ:
        import torch

        torch.set_num_threads(max(1, (os.cpu_count() or 1) // ranks))


def _stop(number: int, frame: FrameType | None) -> None:
    """Another rank has ended, and the launcher ends the rest: says where this one was."""
    from ..distributed.watch import Stopped

    signal.signal(number, signal.SIG_IGN)  # once is enough: it is to find out why
    raise Stopped(f"signal {signal.Signals(number).name}")


def _end_with(parent: int, folder: Path, rank: int) -> None:
    """Ends this process when its parent is gone: no orphan stays. Tells it that this rank lives,
    and what it is at.
    """
    while os.getppid() == parent:
        tell_alive(folder, rank)
        time.sleep(0.2)
    os._exit(1)


def _end_late() -> Callable[[Any], None]:
    """Ends this process where it does not end by itself after another rank's failure."""
    since: list[float] = []

    def duty(_: object) -> None:
        from ..distributed.watch import watch

        guard = watch()
        if guard is not None and guard.failure is not None:
            since.append(time.monotonic())
            if since[-1] - since[0] > GRACE:
                print(str(guard.failure), file=sys.stderr, flush=True)
                os._exit(1)

    return duty


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
