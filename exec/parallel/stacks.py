"""Where the main thread is, told to another thread without its frames.

    file "model.py", line 33, in forward        as `faulthandler` tells it

A frame object that another thread asks for (`sys._current_frames`) outlives what it stands for
while torch runs compiled code: Dynamo frees its interpreter frames itself, and whoever looks at the
object then ends the process by a segmentation fault. A ten-line script shows it within a minute
(tests/exec/parallel/test_stacks.py). The interpreter's own dump walks frames under the GIL, makes
no object of them, and writes text. Objects are only asked for where the main thread is not in
compiled code, and in the same breath: between the dump and the frame it could have gone there, so
nothing between them may let another thread run.

`faulthandler.dump_traceback` gives that dump of all threads. In Python 3.11 it meets threads that
are half made: a thread of C++ that comes to Python, as those of gloo do for every tensor that they
let go, is listed before it has a frame, and whoever walks the list then ends the process by a
segmentation fault. So where the interpreter exports its dump of one thread, the main one's is
asked for alone. From 3.12 on threads are listed when they are made.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import linecache
import mmap
import os
import re
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import compress, repeat, starmap
from operator import not_
from types import CodeType
from typing import Any

_THREAD = re.compile(r"^(?:Current thread|Thread) 0x([0-9a-f]+)", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Position:
    """A call that is under way: its file, its line there, the name of its function."""

    path: str
    line: int
    function: str

    def __str__(self) -> str:
        code = linecache.getline(self.path, self.line).strip()
        return f"{self.path.rpartition('/')[2]}:{self.line}" + (f": {code}" if code else "")

    @property
    def autograd_function(self) -> str:
        """The class of `torch.autograd.Function` whose backward this is, by its text; "" where it
        is another function.
        """
        if self.function.rpartition(".")[2] != "backward":
            return ""
        lines = linecache.getlines(self.path)[: self.line]
        heads = ((line, line.lstrip()) for line in reversed(lines))
        own = next(((line, text) for line, text in heads if text.startswith("def backward(")), None)
        if own is None or "ctx" not in own[1]:
            return ""
        depth = len(own[0]) - len(own[1])
        for line, text in heads:
            if text.startswith("class ") and len(line) - len(text) < depth:
                return text.removeprefix("class ").partition("(")[0].strip(": \n")
        return ""


def main_thread() -> tuple[Position, ...]:
    """Returns the main thread's calls, the innermost first; at most a hundred. None where it has
    never been seen, or where threads are told together and a hundred younger ones stand before it.
    """
    calls = _FRAME.findall(_dump())
    return tuple(Position(path, int(line), name) for path, line, name in calls)


def main_variables(code: CodeType) -> Mapping[str, Any]:
    """Returns the variables of the main thread's innermost call of a function; none where it is in
    compiled code, as its frames may not be looked at.
    """
    frame = _frame_outside(b"_dynamo")
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return {} if frame is None else frame.f_locals


def _frame_outside(code: bytes) -> Any:
    """The main thread's innermost frame; None where the dump of its calls has these letters.

    The dump, the search and the frame are one call of the interpreter's own functions, as threads
    take turns between instructions of Python. A collection of garbage would run such, so it waits.
    """
    if _main is None:
        return None
    with tempfile.TemporaryFile() as file:
        file.truncate(_MOST)
        with mmap.mmap(file.fileno(), _MOST) as dump:
            dumped = starmap(_write_dump, [(file.fileno(), _whose())])
            found = map(dump.find, repeat(code), map(not_, dumped))  # not_(None): from letter 1
            frames = starmap(_frame_of, compress(repeat((_main,)), map((-1).__eq__, found)))
            collects = gc.isenabled()
            gc.disable()
            try:
                return next(frames, None)
            except ValueError:  # it has left its last call
                return None
            finally:
                if collects:
                    gc.enable()


_python = ctypes.pythonapi
_this = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThreadState_Get", _python))
_frame_of = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)(
    ("PyThreadState_GetFrame", _python)
)
_ALONE = hasattr(_python, "_Py_DumpTraceback")
_write_dump: Callable[[int, Any], Any] = (
    ctypes.PYFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)(("_Py_DumpTraceback", _python))
    if _ALONE
    else faulthandler.dump_traceback
)
_MOST = 1 << 24
"""More bytes than a dump has: of a hundred threads a hundred calls each."""
_main: int | None = None
"""The main thread, as the interpreter knows it; None as long as it has not been seen."""


def _whose() -> Any:
    """The thread that is asked for, or that all are."""
    return _main if _ALONE else True


def see_main_thread() -> None:
    """Notes which thread is the main one, where this is called there."""
    global _main
    if threading.current_thread() is threading.main_thread():
        _main = _this()


see_main_thread()
os.register_at_fork(after_in_child=see_main_thread)  # the thread that has forked is the main one


def _dump() -> str:
    """What the interpreter says of the main thread's frames."""
    with tempfile.TemporaryFile() as file:
        if _main is not None or not _ALONE:
            _write_dump(file.fileno(), _whose())
        file.seek(0)
        text = file.read().decode(errors="replace")
    return text if _ALONE else _of_main(text)


def _of_main(text: str) -> str:
    """The main thread's part of what is said of all."""
    main = threading.main_thread().ident
    parts = _THREAD.split(text)
    own = (
        calls
        for ident, calls in zip(parts[1::2], parts[2::2], strict=True)
        if int(ident, 16) == main
    )
    return next(own, "")
