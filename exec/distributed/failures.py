"""Tells ranks of each other's failures, so that none waits for one that will not come.

    rank 1 raises           writes what failed into the store, under a key that all ranks look at
    rank 0 in a collective  looks at the key twice a second, and raises RankFailure

Every rank of a process group has one watch: a thread that looks, counts its own beats, and posts
what this rank is doing. A rank that is killed or stopped writes nothing; the others then find that
its beats have stopped. A rank that sleeps goes on beating; it is the one that waits for nobody.

The store is asked in the watch's thread only: who asks waits for the answer no longer than
PATIENCE, also where the process that holds the store is stopped and never answers.

Which of torch's own operators failed in a backward pass, found when it has failed.

    RuntimeError: one of the variables needed for gradient computation has been modified ...
      the backward of sin        saved self (4, 8)

Nothing is noted while a pass runs. An operator that has run its backward has let go of what it
saved; the one that failed still has it, and whatever comes before it on the way back has not. The
pass runs the latest operator first, so of several the latest is meant.

What failed on a rank, where, and with which shapes: found in the traceback, at no cost before.

    rank 1 (tp=1) failed in attention_kernel (node attention_kernel_3)
      RuntimeError: out of registers
      attention.py:27: out = attention_kernel(q, k, v)
      q: float32 (4, 2, 16, 8), k: float32 (4, 2, 16, 8), v: float32 (4, 2, 16, 8)

The program's own frame in a traceback tells the line, the line tells the step, and the frame's
variables are the step's local tensors. An error of a backward pass has no such frame; there the
frame of an autograd function tells the operator, or torch's own graph does
(`dimsolve.exec.distributed.failures`).

What this process is doing, found in its threads' frames: the step of the program, or the line.

    main thread in the program of tp=1, at  linear_3 = ...      Doing("torch.nn.functional.linear",
                                                                "linear_3", ...)

Nothing is noted while a program runs: another thread looks at the frames, five times a second, so
that the others know what a rank was at that is killed, or does not come. Tensors are only looked at
when ``details`` are asked for, since a frame keeps what was read from it.
"""

from __future__ import annotations

import atexit
import json
import linecache
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import torch.distributed as dist
from torch import Tensor

from dimsolve.ir.errors import Diagnostic, DimsolveError

if TYPE_CHECKING:
    from torch.fx import Node as Step

    from ..lowering.program import Origin, Program


_ENGINE = "_engine_run_backward"
_GONE = "a second time"
"""What torch says of a saved tensor that was let go."""


def failed_in_backward(traceback: TracebackType | None) -> tuple[str, dict[str, str]] | None:
    """Returns the operator and the shapes of what it saved; None where no such pass failed."""
    roots: Any = ()
    while traceback is not None:
        if traceback.tb_frame.f_code.co_name == _ENGINE:
            roots = traceback.tb_frame.f_locals.get("t_outputs", ())
        traceback = traceback.tb_next
    held = list(_first_held([root.grad_fn for root in roots if isinstance(root, Tensor)]))
    if not held:
        return None
    node = max(held, key=lambda found: int(found._sequence_nr()))
    return operator_of(node.name()), dict(_shapes(node))


def operator_of(name: str) -> str:
    """Returns the operator of a node of the autograd graph.

    >>> operator_of("AddmmBackward0"), operator_of("NativeLayerNormBackward0")
    ('addmm', 'native_layer_norm')
    """
    plain = re.sub(r"Backward\d*$", "", name.rpartition("::")[2])
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain).lower()


def _first_held(nodes: list[Any]) -> Iterator[Any]:
    """The nodes that still hold what they saved, behind nodes that do not."""
    seen: set[Any] = set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if _holds(node):
            yield node
        else:
            nodes.extend(child for child, _ in node.next_functions)


def _holds(node: Any) -> bool:
    """Whether a node of torch's own has saved tensors and has not let go of them."""
    for name in dir(node):
        if name.startswith("_saved_"):
            try:
                if isinstance(getattr(node, name), Tensor):
                    return True
            except RuntimeError as error:
                return _GONE not in str(error)
    return False


def _shapes(node: Any) -> Iterator[tuple[str, str]]:
    for name in dir(node):
        if not name.startswith("_saved_"):
            continue
        try:
            value = getattr(node, name)
        except RuntimeError:
            yield name.removeprefix("_saved_"), "changed since it was saved"
            continue
        if isinstance(value, Tensor):
            dtype = str(value.dtype).removeprefix("torch.")
            yield name.removeprefix("_saved_"), f"{dtype} {tuple(value.shape)}"


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
    from ..lowering.program import program_of

    frames = list(_frames_of_failure(error.__traceback__))
    for frame, line in reversed(frames):
        made = program_of(frame.f_code)  # of a region that is run again in a backward pass, too
        if made is not None and program in (None, made):
            return in_step(made.step_at(frame.f_code, line), frame, rank, place, reason)
    for frame, _ in reversed(frames):
        name = frame.f_code.co_qualname
        if name.endswith(".backward") and "ctx" in frame.f_locals:
            return _in_backward(name.removesuffix(".backward"), frame, rank, place, reason)
    found = failed_in_backward(error.__traceback__)
    if found is not None:
        operator, shapes = found
        return Failure(rank, place, reason, f"the backward of {operator}", shapes=shapes)
    return Failure(rank, place, reason)


def _frames_of_failure(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
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
    stack = list(_frames_of_whereabouts())
    for frame in stack:
        name = frame.f_code.co_qualname
        if name.endswith(".backward") and "ctx" in frame.f_code.co_varnames:
            operator = f"the backward of {name.removesuffix('.backward')}"
            return Doing(operator, "", _line(frame), {}, waits, _stage[0])
        if frame.f_code.co_name == "_engine_run_backward":
            return Doing("the backward pass", "", "", {}, waits, _stage[0])
        from ..lowering.program import program_of

        program = program_of(frame.f_code)
        if program is not None:
            step = program.step_at(frame.f_code, frame.f_lineno)
            found = in_step(step, frame if details else None, 0, "", "")
            return _doing(found, waits)
    source = _line(stack[0]) if details and stack else ""
    return Doing(source=source, waits=waits, stage=_stage[0])


def _doing(found: Failure, waits: str) -> Doing:
    shapes = dict(found.shapes)
    return Doing(found.operator, found.node, found.source, shapes, waits, _stage[0])


def _frames_of_whereabouts() -> Iterator[FrameType]:
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


INTERVAL = 0.2
"""Seconds between two looks at the store."""

SILENCE = 1.5
"""Seconds without a beat after which a rank is taken for dead."""

PATIENCE = 10.0
"""Seconds that the store has for an answer, and the watch's thread for its end."""

STORE = "the process that holds the store of the process group"

T = TypeVar("T")


class Stopped(BaseException):
    """This process was told to end, because another rank has ended."""


class Watch:
    """This process' watch over its process group.

    timeout: seconds that this rank waits for others; None: what the process group allows. waits:
    the collective that it waits in, or "".
    """

    def __init__(self, base: Any, rank: int, world: int) -> None:
        self.rank = rank
        self.world = world
        self.failure: Failure | None = None
        self.duties: list[Callable[[Any], None]] = []
        self.timeout: float | None = None
        self.waits = ""
        self._since = time.monotonic()
        self._posted = ""
        self._base = base
        self._store = self.store("dimsolve/watch")
        self._misses = 0
        self._questions: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._live, name="dimsolve-watch", daemon=True)
        self._thread.start()
        atexit.register(self.end)

    def report(self, failure: Failure) -> None:
        """Tells all ranks of a failure; the first one counts."""
        if self.failure is not None:
            return
        text = json.dumps(failure.to_json())
        try:
            told = self.ask(lambda: self._store.compare_set("failure", "", text), 2.0)
            self.failure = Failure(**json.loads(told))
        except (RuntimeError, TimeoutError):
            self.failure = failure  # the store does not answer: nobody can be told

    def store(self, prefix: str) -> Any:
        """Returns the watch's connection to the store under a prefix, for questions of `ask`."""
        from torch.distributed.distributed_c10d import PrefixStore

        return PrefixStore(prefix, self._base)

    def ask(self, question: Callable[[], T], patience: float = PATIENCE) -> T:
        """Returns what a question to the store gives. Raises TimeoutError where it does not answer,
        and what it raises: RuntimeError where it is gone.
        """
        if threading.current_thread() is self._thread:
            return question()
        answer: Future[T] = Future()

        def answered() -> None:
            try:
                answer.set_result(question())
            except Exception as error:
                answer.set_exception(error)

        self._questions.put(answered)
        return answer.result(patience if self._thread.is_alive() else INTERVAL)

    def known_failure(self, seconds: float = 0.0) -> Failure | None:
        """Returns the failure that ended the run, waiting so long for one to be told."""
        until = time.monotonic() + seconds
        while self.failure is None and time.monotonic() < until:
            time.sleep(INTERVAL / 4)
        return self.failure

    def blame(self, here: str = "", waited: float | None = None) -> Failure | None:
        """Returns the failure that made a collective of this rank fail, as far as it is known.

        here: the collective. waited: the seconds after which this rank gave up; None where the
        collective broke.
        """
        known = self.known_failure(3 * INTERVAL)
        if known is not None:
            return known
        try:
            if waited is not None:
                self._call_roll()
            found = self.silent_rank(here, waited)
            if found is None and waited is not None:
                found = self._busy_rank(here, waited)
        except TimeoutError:
            return self.without_store(
                "does not answer: it is stopped, or its machine is gone", here
            )
        if found is not None and waited is not None:
            self.report(found)
        return found

    def without_store(self, what: str, here: str = "") -> Failure:
        """Returns the failure of the process that holds the store. what: it does, in words."""
        was = f"\nrank {self.rank} was in {here}" if here else ""
        return Failure(0, "the first rank", f"{STORE} {what}{was}")

    def silent_rank(self, here: str = "", waited: float | None = None) -> Failure | None:
        """Returns the failure of a rank whose beats have stopped; None where all go on."""
        before = self.beats()
        until = time.monotonic() + SILENCE
        while time.monotonic() < until:
            time.sleep(INTERVAL)
            if self.failure is not None:
                return self.failure
        after = self.beats()
        if before is None or after is None:
            return None
        silent = [r for r in range(self.world) if r != self.rank and after[r] == before[r]]
        if not silent:
            return None
        reason = "it ended without a word: it was killed, or its machine is gone"
        if waited is not None:
            reason = f"it gave no sign of life, and rank {self.rank} waited {waited:g} s for it: "
            reason += "it is stopped, hangs outside of Python, or its machine is gone"
        return self._missed(silent[0], reason, here)

    def wait_in(self, what: str, since: float) -> None:
        """Notes that this rank waits for others, and since when."""
        self.waits, self._since = what, since

    def waited(self) -> float:
        """Returns the seconds since it began to wait."""
        return round(time.monotonic() - self._since)

    def waiting(self) -> dict[int, str]:
        """Returns what the other ranks wait in, as far as they wait."""
        doing = {rank: self._doing(rank) for rank in range(self.world) if rank != self.rank}
        return {rank: found.waits for rank, found in doing.items() if found.waits}

    def _busy_rank(self, here: str, waited: float) -> Failure | None:
        """The first rank that goes on beating, and waits for nobody: others wait for it."""
        waiting = self.waiting()
        busy = [r for r in range(self.world) if r != self.rank and r not in waiting]
        if not busy:
            return None
        reason = f"it did not come, and rank {self.rank} waited {waited:g} s for it"
        return self._missed(busy[0], reason, here)

    def _missed(self, rank: int, reason: str, here: str) -> Failure:
        """The failure of a rank that others wait for, with what it is known to have been at."""
        doing = self._doing(rank)
        lines = [reason]
        if here:
            own = whereabouts()
            is_step = own.operator and not own.operator.startswith(("conversion", "begun", "share"))
            step = f", at {own}" if is_step else ""
            lines.append(f"rank {self.rank} was in {here}{step}")
        if doing.waits:
            lines.append(f"it was last seen waiting in {doing.waits}")
        elif str(doing):
            lines.append(f"it was last seen in {doing}")
        shapes = dict(doing.shapes)
        return Failure(
            rank, f"rank {rank}", "\n".join(lines), doing.operator, doing.node, doing.source, shapes
        )

    def _call_roll(self) -> None:
        """Asks all ranks to post what they do with shapes; they look at this with every beat."""
        with suppress(RuntimeError):  # the store is gone, and so are the answers
            self.ask(lambda: self._store.set("roll", "1"))

    def _doing(self, rank: int) -> Doing:
        key = f"doing/{rank}"
        with suppress(RuntimeError, TimeoutError):  # the store is gone, and what it knew with it
            text = self.ask(lambda: self._store.check([key]) and self._store.get(key))
            if text:
                return Doing.from_json(text)
        return Doing()

    def _post(self) -> None:
        """Posts what this rank is doing, where that has changed."""
        text = whereabouts(self.waits, details=self._store.check(["roll"])).to_json()
        if text != self._posted:
            self._store.set(f"doing/{self.rank}", text)
            self._posted = text

    def end(self) -> None:
        """Stops looking, and waits for the thread to leave.

        A thread that comes back from the store while the interpreter is taken down would be ended
        inside of torch, and the process with it, by SIGABRT. So it is given the time to come back.
        """
        self._questions.put(None)
        self._thread.join(timeout=PATIENCE)

    def beats(self) -> list[int] | None:
        """Returns how often each rank has looked; None where the store does not answer."""

        def beats() -> list[int]:
            return [int(self._store.add(f"beat/{rank}", 0)) for rank in range(self.world)]

        try:
            return self.ask(beats)
        except RuntimeError:
            return None

    def _live(self) -> None:
        """Looks at the store, and answers what this process asks it in between, until the end."""
        due = time.monotonic() + INTERVAL
        while dist.is_initialized():
            left = due - time.monotonic()
            if left <= 0:
                self._look()
                due = time.monotonic() + INTERVAL
                continue
            with suppress(Empty):
                question = self._questions.get(timeout=left)
                if question is None:
                    return
                question()

    def _look(self) -> None:
        """Says that this rank lives, and what it is at, and looks for a failure."""
        try:
            self._store.add(f"beat/{self.rank}", 1)
            self._post()
            told = self._store.check(["failure"]) and self._store.get("failure")
            for duty in list(self.duties):
                duty(self._store)
            self._misses = 0
        except RuntimeError:
            self._misses += 1
            if self._misses > 5 and self.failure is None:
                self.failure = self.without_store("is gone")
            return
        if told and self.failure is None:
            self.failure = Failure(**json.loads(told))


_watch: Watch | None = None
_watched: Any = None


def watch() -> Watch | None:
    """Returns the watch of this process' process group, started when it is first asked for; None
    where there is no process group.
    """
    global _watch, _watched
    if not dist.is_initialized():
        return None
    group = dist.group.WORLD
    if _watched is not group:
        if _watch is not None:
            _watch.end()
        _watch, _watched = Watch(_own_store(), dist.get_rank(), dist.get_world_size()), group
        _report_uncaught()
    return _watch


def _own_store() -> Any:
    """The process group's store through a connection of its own."""
    from torch.distributed.distributed_c10d import _get_default_store

    store = _get_default_store()
    clone = getattr(store, "clone", None)
    return clone() if clone is not None else store


def chosen_timeout(group: Any = None) -> float | None:
    """Returns the seconds that a process group was told to wait; None where nobody has chosen, and
    it waits as long as torch always does. group: None is the world.
    """
    from torch.distributed.constants import default_pg_nccl_timeout, default_pg_timeout

    found: Any = group if group is not None else dist.group.WORLD
    for device in found._device_types:
        options = getattr(found._get_backend(device), "options", None)
        timeout = getattr(options, "_timeout", None)
        if timeout is not None and timeout not in (default_pg_timeout, default_pg_nccl_timeout):
            return float(timeout.total_seconds())
    return None


def inherit_timeout(group: Any) -> None:
    """Lets a group for which nobody has chosen wait no longer than the world: torch gives a new
    group its own default, half an hour, whatever the world was given.
    """
    from torch.distributed.distributed_c10d import _set_pg_timeout

    world = chosen_timeout()
    if world is not None and chosen_timeout(group) is None:
        _set_pg_timeout(timedelta(seconds=world), group)


def _report_uncaught() -> None:
    """An exception that ends this process is told to the other ranks before it does."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        if _watch is not None and not isinstance(error, KeyboardInterrupt):
            _watch.report(failure_of(error, _watch.rank, f"rank {_watch.rank}", None))
        before(kind, error, traceback)

    hook.__dict__["dimsolve"] = os.getpid()
    if "dimsolve" not in getattr(before, "__dict__", {}):
        sys.excepthook = hook
