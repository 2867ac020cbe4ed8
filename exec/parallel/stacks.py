"""Where the main thread is, told to another thread without its frames.

    file "model.py", line 33, in forward        as `faulthandler` tells it

A frame object that another thread asks for (`sys._current_frames`) outlives what it stands for
while torch runs compiled code: Dynamo frees its interpreter frames itself, and whoever looks at the
object then ends the process by a segmentation fault. A ten-line script shows it within a minute
(tests/exec/parallel/test_stacks.py). `faulthandler` walks the interpreter's frames under the GIL,
makes no object of them, and writes text. Objects are only asked for where no thread is in
compiled code.
"""

from __future__ import annotations

import faulthandler
import linecache
import re
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
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
    """Returns the main thread's calls, the innermost first; at most a hundred, and none where a
    hundred younger threads stand before it.
    """
    return _of_main(_dump())


def main_variables(code: CodeType) -> Mapping[str, Any]:
    """Returns the variables of the main thread's innermost call of a function; none where a thread
    is in compiled code, as its frames may not be looked at.
    """
    if "_dynamo" in _dump():
        return {}
    main = threading.main_thread().ident
    frame = None if main is None else sys._current_frames().get(main)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return {} if frame is None else frame.f_locals


def _dump() -> str:
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read().decode(errors="replace")


def _of_main(text: str) -> tuple[Position, ...]:
    main = threading.main_thread().ident
    parts = _THREAD.split(text)
    for ident, calls in zip(parts[1::2], parts[2::2], strict=True):
        if int(ident, 16) == main:
            return tuple(Position(p, int(line), name) for p, line, name in _FRAME.findall(calls))
    return ()
