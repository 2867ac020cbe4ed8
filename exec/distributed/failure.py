"""What failed on a rank, where, and with which shapes: found in the traceback, at no cost before.

    rank 1 (tp=1) failed in attention_kernel (node attention_kernel_3)
      RuntimeError: out of registers
      attention.py:27: out = attention_kernel(q, k, v)
      q: float32 (4, 2, 16, 8), k: float32 (4, 2, 16, 8), v: float32 (4, 2, 16, 8)

The program's own frame in a traceback tells the line, the line tells the step, and the frame's
variables are the step's local tensors. An error of a backward pass has no such frame; there the
frame of an autograd function tells the operator, or torch's own graph does
(`dimsolve.exec.distributed.backward_failure`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from torch import Tensor

from dimsolve.ir.errors import Diagnostic, DimsolveError

from ..lowering.program import Origin, Program
from .backward_failure import failed_in_backward

if TYPE_CHECKING:
    from torch.fx import Node as Step


@dataclass(frozen=True, slots=True)
class Failure:
    """A rank's failure. ``place``: the rank in words; ``shapes``: the step's local tensors."""

    rank: int
    place: str
    reason: str
    operator: str = ""
    node: str = ""
    source: str = ""
    shapes: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        where = f" in {self.operator}" if self.operator else ""
        node = f" (node {self.node})" if self.node and self.node != self.operator else ""
        shapes = ", ".join(f"{name}: {shape}" for name, shape in self.shapes.items())
        lines = [f"{self.place} failed{where}{node}", *self.reason.splitlines()]
        lines += [line for line in (self.source, shapes) if line]
        return "\n  ".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Returns the failure as JSON data."""
        return asdict(self)


class RankFailure(DimsolveError):
    """Another rank failed, and with it the run. ``failure``: what it told before it ended."""

    __module__ = "dimsolve"

    failure: Failure


def rank_failure(failure: Failure, here: str) -> RankFailure:
    """Returns the error that a rank raises because another one failed. ``here``: what it was at."""
    first, *rest = str(failure).splitlines()
    reason = "\n  ".join([line.strip() for line in rest] + [f"{here} could not be carried out"])
    error = RankFailure(Diagnostic(code="rank-failed", title=first, reason=reason))
    error.failure = failure
    return error


def failure_of(error: BaseException, rank: int, place: str, program: Program | None) -> Failure:
    """Returns what an exception on this rank says, with the operator and its local shapes."""
    reason = f"{type(error).__name__}: {error}"
    frames = list(_frames(error.__traceback__))
    if program is not None:
        for frame, line in frames:
            if program.is_frame(frame.f_code):
                return in_step(program.step_at(line), frame, rank, place, reason)
    for frame, _ in reversed(frames):
        name = frame.f_code.co_qualname
        if name.endswith(".backward") and "ctx" in frame.f_locals:
            return _in_backward(name.removesuffix(".backward"), frame, rank, place, reason)
    found = failed_in_backward(error.__traceback__)
    if found is not None:
        operator, shapes = found
        return Failure(rank, place, reason, f"the backward of {operator}", shapes=shapes)
    return Failure(rank, place, reason)


def _frames(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


def in_step(
    step: Step | None, frame: FrameType | None, rank: int, place: str, reason: str
) -> Failure:
    """Returns a failure at a step of a program. frame: has the step's tensors; None: no shapes."""
    if step is None:
        return Failure(rank, place, reason)
    origin: Origin | None = step.meta.get("origin")
    held = {} if frame is None else frame.f_locals
    shapes = {n.name: _shape(held.get(n.name)) for n in step.all_input_nodes}
    shown = {name: shape for name, shape in shapes.items() if shape}
    if origin is None:
        return Failure(rank, place, reason, step.name, step.name, "", shown)
    if origin.node is None:
        return Failure(rank, place, reason, f"{origin.kind} {origin.label}", step.name, "", shown)
    source = origin.node.source
    line = f"{source}: {source.code}" if source is not None else ""
    return Failure(rank, place, reason, origin.node.signature, origin.node.id, line, shown)


def _in_backward(name: str, frame: FrameType, rank: int, place: str, reason: str) -> Failure:
    """An error in the backward of an autograd function: its class, and its local tensors."""
    shapes = {key: _shape(value) for key, value in frame.f_locals.items()}
    shown = {key: shape for key, shape in shapes.items() if shape}
    code = frame.f_code
    source = f"{code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
    return Failure(rank, place, reason, f"the backward of {name}", "", source, shown)


def _shape(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    return ""
