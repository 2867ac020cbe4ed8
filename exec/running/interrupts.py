"""Signals that end a run: Ctrl-C, SIGTERM, SIGHUP become one exception, and the ranks know why.

    with interruptible():            SIGTERM while the ranks run
        launch(options)              -> their folder is marked, Interrupted(SIGTERM) is raised

A rank that ends because the run was ended has nothing to explain, so the mark is there before the
ranks are told to end. The exit code is 128 and the signal's number, as of every shell.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from .supervisor import INTERRUPTED

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
