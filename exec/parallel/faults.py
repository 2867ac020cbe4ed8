"""What happens when a step fails: the exception says where, and the other ranks are told.

    ValueError: boom
      rank 1 (tp=1) failed in my_op (node my_op_2)
        model.py:33: out = my_op(x)
        x: float32 (4, 16, 32)

The exception keeps its type and its traceback and gains these lines as a note. An exception that
comes from another rank's failure is not told on.
"""

from __future__ import annotations

from dataclasses import replace

from ..distributed.agreement import AgreementError
from ..distributed.failure import Failure, RankFailure, failure_of
from ..distributed.mesh_ends import MeshEnds
from ..distributed.torch_communicator import CollectiveError
from ..distributed.watch import Stopped, watch
from ..lowering.program import Program
from .call_inputs import CallError

_TOLD = "__dimsolve_failure__"
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


def explain(error: BaseException, program: Program | None, ends: MeshEnds) -> Failure:
    """Adds to an exception where it came from, tells the other ranks, and returns it as data."""
    known: Failure | None = getattr(error, _TOLD, None)
    if known is not None:
        return known
    if isinstance(error, RankFailure):
        return error.failure
    failure = failure_of(error, ends.rank, ends.place, program)
    note = str(replace(failure, reason=""))
    error.add_note("\n".join(line for line in note.splitlines() if line.strip()))
    setattr(error, _TOLD, failure)
    guard = watch()
    if guard is not None and not isinstance(error, AgreementError | CallError | CollectiveError):
        guard.report(failure)
    return failure


def explain_run(error: BaseException, rank: int) -> Failure:
    """Returns what ended this rank's run as data, and tells the other ranks."""
    known: Failure | None = getattr(error, _TOLD, None)
    guard = watch()
    if known is not None:
        failure = known
    elif isinstance(error, RankFailure):
        return error.failure
    elif isinstance(error, Stopped):
        blamed = None if guard is None else guard.blame()
        return blamed or Failure(rank, f"rank {rank}", "it was stopped by the launcher")
    else:
        failure = failure_of(error, rank, f"rank {rank}", None)
    if guard is not None:
        guard.report(failure)
        told = guard.failure
        return told if told is not None and not isinstance(error, AgreementError) else failure
    return failure
