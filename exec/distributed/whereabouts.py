"""What this process is doing, found in its threads' frames: the step of the program, or the line.

    main thread in the program of tp=1, at  linear_3 = ...      Doing("torch.nn.functional.linear",
                                                                "linear_3", ...)

Nothing is noted while a program runs: another thread looks at the frames, five times a second, so
that the others know what a rank was at that is killed, or does not come. Tensors are only looked at
when ``details`` are asked for, since a frame keeps what was read from it.
"""

from __future__ import annotations

import json
import linecache
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from types import FrameType

from ..lowering.program import program_of
from .failure import Failure, in_step


@dataclass(frozen=True, slots=True)
class Doing:
    """What a rank is at.

    waits: the collective that it waits in for others, or "". stage: of its run, in words. shapes:
    of the step's local tensors, where they were asked for.
    """

    operator: str = ""
    node: str = ""
    source: str = ""
    shapes: Mapping[str, str] = field(default_factory=dict)
    waits: str = ""
    stage: str = ""

    def __str__(self) -> str:
        node = f" (node {self.node})" if self.node and self.node != self.operator else ""
        return f"{self.operator}{node}" if self.operator else self.stage

    def to_json(self) -> str:
        """Returns it as JSON text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Doing:
        """Returns what `to_json` wrote."""
        return cls(**json.loads(text))


_stage = [""]


def note_stage(text: str) -> None:
    """Notes what the run is at where no program runs, such as ``tracing Llama``."""
    _stage[0] = text


def whereabouts(waits: str = "", *, details: bool = False) -> Doing:
    """Returns what this process is doing. waits: what it waits in. details: with shapes, and with
    the line where no program runs.
    """
    stack = list(_frames())
    for frame in stack:
        name = frame.f_code.co_qualname
        if name.endswith(".backward") and "ctx" in frame.f_code.co_varnames:
            operator = f"the backward of {name.removesuffix('.backward')}"
            return Doing(operator, "", _line(frame), {}, waits, _stage[0])
        if frame.f_code.co_name == "_engine_run_backward":
            return Doing("the backward pass", "", "", {}, waits, _stage[0])
        program = program_of(frame.f_code)
        if program is not None:
            step = program.step_at(frame.f_lineno)
            found = in_step(step, frame if details else None, 0, "", "")
            return _doing(found, waits)
    source = _line(stack[0]) if details and stack else ""
    return Doing(source=source, waits=waits, stage=_stage[0])


def _doing(found: Failure, waits: str) -> Doing:
    shapes = dict(found.shapes)
    return Doing(found.operator, found.node, found.source, shapes, waits, _stage[0])


def _frames() -> Iterator[FrameType]:
    """The main thread's frames, the innermost first."""
    main = threading.main_thread().ident
    frame = None if main is None else sys._current_frames().get(main)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _line(frame: FrameType) -> str:
    path, number = frame.f_code.co_filename, frame.f_lineno
    code = linecache.getline(path, number).strip()
    return f"{path.rpartition('/')[2]}:{number}" + (f": {code}" if code else "")
