"""Watches the ranks of a run from the launcher: none that does not answer outlives it.

    alive-1     {"beat": 57, "pid": 4711, "doing": "torch.relu"}      written by rank 1 itself

A rank that is stopped, or hangs outside of Python, hears no signal but SIGKILL. So the launcher
looks at the file that each rank writes five times a second: a rank that does not is killed after
the timeout, and one that does not end after another has failed, after a grace.

Ctrl-C, SIGTERM and SIGHUP become one exception, `Interrupted`, in the body of `interruptible`. A
rank that ends because the run was ended has nothing to explain, so its folder is marked before the
ranks are told to end. The exit code is 128 and the signal's number, as of every shell.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

LOOK = 0.2
"""Seconds between two looks at the ranks."""

GRACE = 5.0
"""Seconds that a rank has to end by itself after another one has failed, or the run was ended."""

INTERRUPTED = "interrupted"
"""The file that says that a signal has ended the run."""


def tell_alive(folder: Path, rank: int) -> None:
    """Writes that this rank lives, and what it is at. The first call needs no torch."""
    doing = ""
    module = sys.modules.get("dimsolve.exec.parallel.faults")
    if module is not None and hasattr(module, "activity"):
        doing = str(module.activity())
    text = json.dumps({"beat": time.monotonic_ns(), "pid": os.getpid(), "doing": doing})
    with suppress(OSError):  # the launcher has gone, and its folder with it
        temporary = folder / f"alive-{rank}.new"
        temporary.write_text(text)
        temporary.replace(folder / f"alive-{rank}")


class Supervisor:
    """Watches the ranks of a run; a context. ``timeout``: seconds that a rank may be silent.

    silent: the rank that was killed for its silence, and for how long it was silent.
    """

    def __init__(self, folder: Path, count: int, timeout: float) -> None:
        self.folder = folder
        self.timeout = timeout
        self.silent: tuple[int, str] | None = None
        self.killed: set[int] = set()
        self._silence = dict.fromkeys(range(count), 0.0)
        self._beats: dict[int, int] = {}
        self._ending: float | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="dimsolve-ranks", daemon=True)

    def __enter__(self) -> Supervisor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def last_seen(self, rank: int) -> str:
        """Returns what a rank was at when it last said so."""
        return str(self._read(rank).get("doing", ""))

    def _watch(self) -> None:
        """A look may come late where this process was stopped itself: what counts are looks."""
        while not self._over.wait(LOOK):
            for rank in self._silence:
                self._look_at(rank)
            if self._is_ending():
                self._ending = (self._ending or 0.0) + LOOK
                if self._ending > GRACE:
                    self._kill_all()

    def _look_at(self, rank: int) -> None:
        said = self._read(rank)
        if not said or self._beats.get(rank) != said["beat"] or not _is_running(said["pid"]):
            self._beats[rank] = said.get("beat", 0)
            self._silence[rank] = 0.0
            return
        self._silence[rank] += LOOK
        if self._silence[rank] > self.timeout and rank not in self.killed:
            how = "is stopped" if _is_stopped(said["pid"]) else "hangs outside of Python"
            reason = f"it gave no sign of life for {self._silence[rank]:.0f} s: it {how}"
            self.silent = self.silent or (rank, reason)
            self._kill(rank)

    def _is_ending(self) -> bool:
        """Whether a rank has failed, or a signal has ended the run."""
        marks = (INTERRUPTED, "error-*.json", "stopped-*.json")
        if any(any(self.folder.glob(mark)) for mark in marks):
            return True
        return any(
            said and not _is_running(said["pid"]) and not (self.folder / f"ended-{rank}").exists()
            for rank, said in ((rank, self._read(rank)) for rank in self._silence)
        )

    def _kill_all(self) -> None:
        for rank in self._silence:
            self._kill(rank)

    def _kill(self, rank: int) -> None:
        said = self._read(rank)
        if said and _is_running(said["pid"]):
            self.killed.add(rank)
            with suppress(ProcessLookupError):
                os.kill(said["pid"], signal.SIGKILL)

    def _read(self, rank: int) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.folder / f"alive-{rank}").read_text())
        except (OSError, ValueError):
            return {}
        return found


def _is_running(pid: int) -> bool:
    """Whether a process is there; its agent takes away one that has ended at once."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_stopped(pid: int) -> bool:
    """Whether a process is stopped by a signal, where the system tells."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    except (OSError, IndexError):
        return False


SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)

_marked: list[Path] = []


class Interrupted(BaseException):
    """A signal that asks this process to end. ``number``: the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def __str__(self) -> str:
        return f"ended by {signal.Signals(self.number).name}"

    @property
    def exit_code(self) -> int:
        """128 and the signal's number."""
        return 128 + self.number


@contextmanager
def interruptible() -> Iterator[None]:
    """Raises Interrupted in the body where a signal asks for the end. One that was ignored before,
    as SIGHUP is under ``nohup``, still is.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextmanager
def marked(folder: Path) -> Iterator[None]:
    """The ranks of this folder are told that a signal has ended their run."""
    _marked.append(folder)
    try:
        yield
    finally:
        _marked.remove(folder)


def _interrupt(number: int, frame: FrameType | None) -> None:
    for other in SIGNALS:
        signal.signal(other, signal.SIG_IGN)  # once is enough
    for folder in _marked:
        with suppress(OSError):
            (folder / INTERRUPTED).touch()
    raise Interrupted(number)
