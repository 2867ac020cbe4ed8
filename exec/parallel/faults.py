"""Where a step failed, and what this process is doing: found in frames, at no cost before.

    ValueError: boom
      rank 1 (tp=1) failed in my_op (node my_op_2)
        model.py:33: out = my_op(x)
        x: float32 (4, 16, 32)

An exception keeps its type and its traceback and gains the last lines as a note; the other ranks
are told, unless it comes from another rank's failure. The program's own frame tells the line, the
line tells the step, and the frame's variables are the step's local tensors. An error of a backward
pass has no such frame: there the frame of an autograd function tells the operator, or torch's own
graph does. An operator that has run its backward has let go of what it saved; the one that failed
still has it. The pass runs the latest operator first, so of several the latest is meant.

What a process is doing is found by the watch's thread (`dimsolve.exec.distributed.watch`) in the
main thread's calls (`dimsolve.exec.parallel.stacks`). Tensors are only looked at when details are
asked for, since a frame keeps what was read from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..distributed.communicator import CollectiveError
from ..distributed.failures import Activity, Failure, RankFailure, Stopped
from ..distributed.watch import Observer, observe_with, watch
from ..lowering.program import Program, body_at, origin_of, program_of
from .agreement import AgreementError
from .call_inputs import CallError
from .mesh import RankMesh
from .stacks import main_thread, main_variables

if TYPE_CHECKING:
    from torch.fx import Node as Step

_ENGINE = "_engine_run_backward"
_FREED = "a second time"
"""What torch says of a saved tensor that was let go."""

_FAILURE = "__dimsolve_failure__"
_STOPS = (("torch.utils.checkpoint", "_StopRecomputationError"), ("torch._dynamo", ""))
"""Where torch has exceptions that end a call early and are no errors: a recomputation that has what
it was begun for, a compiler that begins anew.
"""


def is_failure(error: BaseException) -> bool:
    """Whether an exception is an error of the step, and not torch's way to leave a call."""
    kind = type(error)
    return not any(
        kind.__module__.startswith(module) and kind.__name__.startswith(name)
        for module, name in _STOPS
    )


def explain(error: BaseException, program: Program | None, ends: RankMesh, call: str) -> Failure:
    """Adds to an exception where it came from, tells the other ranks, and returns it as data.

    call: which call of the program it is, the same text on all ranks.
    """
    known: Failure | None = getattr(error, _FAILURE, None)
    if known is not None:
        return known
    guard = watch()
    if isinstance(error, RankFailure):
        if guard is not None:
            guard.note_raised("")
        return error.failure
    failure = failure_of(error, ends.rank, ends.place, program)
    note = str(replace(failure, reason=""))
    error.add_note("\n".join(line for line in note.splitlines() if line.strip()))
    setattr(error, _FAILURE, failure)
    if guard is not None and not isinstance(error, AgreementError | CallError | CollectiveError):
        guard.report(failure)
        guard.note_raised(f"{call}, {failure.node}, {type(error).__name__}")
    return failure


def explain_run(error: BaseException, rank: int) -> Failure:
    """Returns what ended this rank's run as data, and tells the other ranks."""
    failure: Failure | None = getattr(error, _FAILURE, None)
    guard = watch()
    if failure is None and isinstance(error, RankFailure):
        return error.failure
    if failure is None and isinstance(error, Stopped):
        blamed = None if guard is None else guard.blame()
        return blamed or Failure(rank, f"rank {rank}", "it was stopped by the launcher")
    failure = failure or failure_of(error, rank, f"rank {rank}", None)
    if guard is not None:
        guard.report(failure)
        if guard.failure is not None and not isinstance(error, AgreementError):
            return guard.failure
    return failure


def failure_of(error: BaseException, rank: int, place: str, program: Program | None) -> Failure:
    """Returns what an exception on this rank says, with the operator and its local shapes."""
    failure = Failure(rank, place, f"{type(error).__name__}: {error}")
    frames = list(_frames_of(error.__traceback__))
    for frame, line in reversed(frames):
        made = program_of(frame.f_code)  # of a region that is run again in a backward pass, too
        if made is not None and program in (None, made):
            return in_step(failure, made.step_at(frame.f_code, line), frame.f_locals)
    for frame, _ in reversed(frames):
        name = frame.f_code.co_qualname
        if name.endswith(".backward") and "ctx" in frame.f_locals:
            source = f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
            operator = f"the backward of {name.removesuffix('.backward')}"
            shapes = _shapes(frame.f_locals)
            return replace(failure, operator=operator, source=source, shapes=shapes)
    found = failed_in_backward(error.__traceback__)
    if found is not None:
        return replace(failure, operator=f"the backward of {found[0]}", shapes=found[1])
    return failure


def in_step(failure: Failure, step: Step | None, variables: Mapping[str, Any]) -> Failure:
    """Returns a failure with the step at which it was. variables: of the frame, by name."""
    if step is None:
        return failure
    origin = origin_of(step)
    shapes = _shapes({n.name: variables.get(n.name) for n in step.all_input_nodes})
    operator, node, line = step.name, step.name, ""
    if origin is not None and origin.node is None:
        operator = f"{origin.kind} {origin.label}"
    elif origin is not None and origin.node is not None:
        operator, node, source = origin.node.signature, origin.node.id, origin.node.source
        line = f"{source}: {source.code}" if source is not None else ""
    return replace(failure, operator=operator, node=node, source=line, shapes=shapes)


def failed_in_backward(traceback: TracebackType | None) -> tuple[str, dict[str, str]] | None:
    """Returns the operator of torch's own whose backward failed, and the shapes of what it saved;
    None where no such pass failed.

        the backward of sin        saved self (4, 8)
    """
    roots: Any = ()
    for frame, _ in _frames_of(traceback):
        if frame.f_code.co_name == _ENGINE:
            roots = frame.f_locals.get("t_outputs", ())
    saving = list(_first_saving([root.grad_fn for root in roots if isinstance(root, Tensor)]))
    if not saving:
        return None
    node = max(saving, key=lambda found: int(found._sequence_nr()))
    shapes = {
        name: "changed since it was saved" if isinstance(value, RuntimeError) else _shape(value)
        for name, value in _saved(node)
    }
    return operator_of(node.name()), {name: shape for name, shape in shapes.items() if shape}


def operator_of(name: str) -> str:
    """Returns the operator of a node of the autograd graph.

    >>> operator_of("AddmmBackward0"), operator_of("NativeLayerNormBackward0")
    ('addmm', 'native_layer_norm')
    """
    plain = re.sub(r"Backward\d*$", "", name.rpartition("::")[2])
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain).lower()


def _first_saving(nodes: list[Any]) -> Iterator[Any]:
    """The nodes that still have what they saved, behind nodes that have not."""
    seen: set[Any] = set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if _saves(node):
            yield node
        else:
            nodes.extend(child for child, _ in node.next_functions)


def _saves(node: Any) -> bool:
    """Whether a node of torch's own has saved tensors and has not let go of them."""
    for _, value in _saved(node):
        if isinstance(value, RuntimeError):
            return _FREED not in str(value)
        if isinstance(value, Tensor):
            return True
    return False


def _saved(node: Any) -> Iterator[tuple[str, Any]]:
    """What a node has saved, by name; the error where torch no longer hands it out."""
    for name in dir(node):
        if name.startswith("_saved_"):
            try:
                yield name.removeprefix("_saved_"), getattr(node, name)
            except RuntimeError as error:
                yield name.removeprefix("_saved_"), error


def _shape(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    return ""


def _shapes(values: Mapping[str, Any]) -> dict[str, str]:
    """The dtypes and shapes of what is a tensor."""
    shapes = {name: _shape(value) for name, value in values.items()}
    return {name: shape for name, shape in shapes.items() if shape}


def _frames_of(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


_stage = [""]


def note_stage(text: str) -> None:
    """Notes what the run is at where no program runs, such as ``tracing Llama``."""
    _stage[0] = text


def activity(waits: str = "", *, details: bool = False) -> Activity:
    """Returns what this process is doing. waits: what it waits in. details: with shapes, and with
    the line where no program runs.
    """
    calls = main_thread()
    for call in calls:
        if name := call.autograd_function:
            operator = f"the backward of {name}"
            return Activity(operator, "", str(call), {}, waits, _stage[0])
        if call.function == _ENGINE:
            return Activity("the backward pass", waits=waits, stage=_stage[0])
        body = body_at(call.path)
        if body is not None:
            variables = main_variables(body.code) if details else {}
            found = in_step(Failure(0, "", ""), body.step_at(call.line), variables)
            shapes = dict(found.shapes)
            return Activity(found.operator, found.node, found.source, shapes, waits, _stage[0])
    source = str(calls[0]) if details and calls else ""
    return Activity(source=source, waits=waits, stage=_stage[0])


class _Programs(Observer):
    """The observer of a process that runs programs."""

    def activity(self, waits: str = "", *, details: bool = False) -> Activity:
        return activity(waits, details=details)

    def failure(self, error: BaseException, rank: int) -> Failure:
        return failure_of(error, rank, f"rank {rank}", None)


observe_with(_Programs())
