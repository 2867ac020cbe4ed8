"""One rank of a run: joins its world, trains its part of the target, and leaves a record.

    python -m dimsolve.exec.running.worker FOLDER LAUNCHER    started by `launch`
    options: dimsolve.examples.llama:tiny, tp=2, 3 steps      a `RunReport`, the same on every rank

Every rank traces, plans and compares with the whole model alike, so nothing but the collectives has
to travel; that all have the same plan is agreed on before the first one. FOLDER holds
``options.json``. The first rank writes ``report.json``; a rank that fails writes
``error-RANK.json`` and tells the others, which then end too. The process ends itself when LAUNCHER,
the process that started it, is gone.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from datetime import timedelta
from math import isfinite
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _set_pg_timeout

from dimsolve.ir.errors import AnnotationError, DimsolveError, Problem, is_unreadable
from dimsolve.partition.mesh import Mesh
from dimsolve.partition.plan import Plan, read_plan_file
from dimsolve.partition.plan import plan as make_plan
from dimsolve.partition.plan_data import given_mesh

from ..capture.argument_objects import mapped
from ..capture.dynamic import parameter_names
from ..distributed.failures import Stopped
from ..distributed.watch import INTERVAL, PATIENCE, Watch, end_watch, watch
from ..graph import Graph
from ..lowering.setting import mesh_symbols, other_mesh
from ..parallel.faults import explain_run, note_stage
from ..parallel.parallelize import ParallelModule, parallelize
from ..target import Target, load_function, load_target
from .compare import CheckedRun, CheckedStep, Differences, allowed_of, batch_of, sizes_for
from .first_difference import FirstDifference
from .profiling import profile
from .report import (
    BytesReport,
    DifferencesReport,
    ErrorReport,
    FirstReport,
    Float64Report,
    RunOptions,
    RunReport,
    StepReport,
    overview,
)
from .supervisor import INTERRUPTED, tell_alive

Progress = Callable[[str], None]

NOT_A_NUMBER = "the loss is nan or infinite in every step: that nan is equal to nan proves nothing"


_NO_MODULE = Problem(
    AnnotationError,
    "target",
    "this target is no model",
    "a run trains a torch.nn.Module",
    "return a module from the function",
)
_NO_DTYPE = Problem(
    AnnotationError,
    "no-dtype",
    "this is no dtype of real numbers",
    "parameters and inputs are changed to it",
    "write float64, float32, bfloat16 or float16",
)


def run_rank(options: RunOptions, progress: Progress = lambda text: None) -> RunReport:
    """Runs this rank and returns the report. Raises what goes wrong, on every rank."""
    torch.manual_seed(options.seed)
    progress(f"making {options.target}")
    target = load_target(options.target)
    if options.dtype is not None:
        target = in_dtype(target, options.dtype)
    model = target.model
    if not isinstance(model, torch.nn.Module):
        raise _NO_MODULE(options.target)
    progress(f"tracing {type(model).__name__}")
    graph = target.trace()
    progress("planning")
    plan = plan_of(options, graph)
    example = call_of(target)
    sizes = sizes_for(plan, example, target.dynamic, options.steps, options.at)
    rows = overview(graph, plan, policy_of(options.policy))
    progress("cutting the model")
    part = parallelize(model, plan)
    whole = model.to(part.ends.device) if options.verify else None
    measured = _profiled(options, part, example, target, sizes[0], progress)
    taken = _steps(part, whole, example, target, sizes, progress)
    report = _report(options, model, part, sizes, taken, rows)
    return report.model_copy(update={"notes": [*measured, *report.notes]})


def _profiled(
    options: RunOptions,
    part: ParallelModule,
    example: Mapping[str, Any],
    target: Target,
    sizes: Mapping[str, int],
    progress: Progress,
) -> list[str]:
    """What was measured, in words, where that was asked."""
    if options.profile is None:
        return []
    progress("measuring")
    batch = mapped(
        batch_of(example, target.dynamic, sizes), lambda leaf: _on(leaf, part.ends.device)
    )
    return [profile(part, batch, sizes, options.profile)]


def plan_of(options: RunOptions, graph: Graph) -> Plan:
    """Returns the plan that was given as a file, or makes one. Raises PlanError for a file that
    holds none, or one that does not follow from the graph; LoweringError where it is for another
    mesh.
    """
    mesh = Mesh.of(options.mesh)
    if options.plan is None:
        policy = policy_of(options.policy)
        return make_plan(graph, mesh, policy, options.state, uneven=options.uneven)
    plan = read_plan_file(options.plan)
    ranks = {axis: size for axis, size in mesh.axes if isinstance(size, int)}
    if plan.factors and [*given_mesh(plan).items()] == [*ranks.items()]:
        return plan.for_graph(graph)
    if tuple(plan.mesh) != mesh.names:
        raise other_mesh(plan, ranks, "the axes are not the same")
    mesh_symbols(plan, ranks)
    return plan.for_graph(graph)


def policy_of(text: str | None) -> Any:
    """Returns a policy: one of the names, or the function of ``module:function``."""
    return load_function(text) if text is not None and ":" in text else text


def in_dtype(target: Target, name: str) -> Target:
    """Returns the target with its real parameters, buffers and inputs in another dtype."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise _NO_DTYPE(name)

    def changed(value: Any) -> Any:
        real = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.to(dtype) if real else value

    model = target.model
    given = mapped({"args": list(target.args), "kwargs": dict(target.kwargs)}, changed)
    args, kwargs = tuple(given["args"]), given["kwargs"]
    whole = model.to(dtype) if isinstance(model, torch.nn.Module) else model
    return replace(target, model=whole, args=args, kwargs=kwargs)


def call_of(target: Target) -> dict[str, Any]:
    """Returns the example call by keyword."""
    names = parameter_names(target.model, len(target.args))
    return {**dict(zip(names, target.args, strict=True)), **target.kwargs}


def _on(leaf: Any, device: torch.device) -> Any:
    """A leaf of a batch on the rank's device, and the device that an object notes."""
    if isinstance(leaf, torch.Tensor):
        return leaf.to(device)
    return device if isinstance(leaf, torch.device) else leaf


def _steps(
    part: ParallelModule,
    whole: torch.nn.Module | None,
    example: Mapping[str, Any],
    target: Target,
    sizes: Sequence[Mapping[str, int]],
    progress: Progress,
) -> list[CheckedStep]:
    run = CheckedRun(part, whole, look=True)
    taken: list[CheckedStep] = []
    for number, size in enumerate(sizes):
        note_stage(f"step {number + 1} of {len(sizes)}")
        batch = batch_of(example, target.dynamic, size, seed=number)
        batch = mapped(batch, lambda leaf: _on(leaf, part.ends.device))
        taken.append(run.step(batch))
        loss = taken[-1].loss
        said = "" if loss is None else f": loss {loss:.6g}"
        progress(f"step {number + 1} of {len(sizes)}{said}")
    return taken


def _report(
    options: RunOptions,
    model: torch.nn.Module,
    part: ParallelModule,
    sizes: Sequence[Mapping[str, int]],
    taken: Sequence[CheckedStep],
    rows: list[list[list[str]]],
) -> RunReport:
    found = [step.differences for step in taken if step.differences is not None]
    differences = None
    if found:
        differences = DifferencesReport(
            outputs=max(d.outputs for d in found),
            loss=max(d.loss for d in found),
            gradients=max(d.gradients for d in found),
            allowed=allowed_of(model),
            float64=_against_float64(found),
            first=next((_first(d.first) for d in found if d.first is not None), None),
        )
    ok = all(step.ok for step in taken)
    proves_nothing = ok and differences is not None and not any(map(_is_finite, taken))
    whole = sum(p.numel() * p.element_size() for p in model.parameters())
    own = sum(p.numel() * p.element_size() for p in part.parameters())
    return RunReport(
        ok=ok and not proves_nothing,
        ranks=part.ends.count,
        mesh={axis: end.size for axis, end in part.ends.communicators.items()},
        steps=[
            StepReport(loss=step.loss, seconds=step.seconds, sizes=dict(size))
            for step, size in zip(taken, sizes, strict=True)
        ],
        differences=differences,
        parameter_bytes=BytesReport(whole=whole, per_rank=own),
        conditions=list(part.plan.conditions),
        notes=[*_notes(taken, compared=bool(found)), *part.plan.notes],
        error=ErrorReport(reason=NOT_A_NUMBER) if proves_nothing else None,
        overview=rows,
        exit_code=(3 if proves_nothing else 0) if ok else 1,
    )


def _against_float64(found: Sequence[Differences]) -> Float64Report | None:
    """The distances of the steps that were judged by them."""
    taken = [d.distances for d in found if d.distances is not None and isfinite(d.distances.exact)]
    if not taken:
        return None
    return Float64Report(
        one_device=max(each.one_device for each in taken),
        ranks=max(each.ranks for each in taken),
        exact=max(each.exact for each in taken),
    )


def _first(found: FirstDifference) -> FirstReport:
    """What differs first, for the report; an endless difference is none that JSON can write."""
    off, one = (min(amount, 1e300) for amount in (found.off, found.one_device))
    return FirstReport.model_validate(asdict(replace(found, off=off, one_device=one)))


def _is_finite(step: CheckedStep) -> bool:
    return step.loss is None or isfinite(step.loss)


def _notes(taken: Sequence[CheckedStep], *, compared: bool) -> list[str]:
    notes = []
    if not any(step.trained for step in taken):
        notes.append("nothing to train" + (": outputs compared" if compared else ""))
    endless = [number for number, step in enumerate(taken, 1) if not _is_finite(step)]
    if endless:
        listed = ", ".join(map(str, endless))
        notes.append(f"the loss is no finite number in step {listed}: that proves nothing")
    return notes


START = 60.0
"""Seconds that the ranks of a run have, at least, to start and to find each other."""

LOOK_UP = 1.0
"""Seconds more than the timeout that looking up and reaching the world's address may take."""

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
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _stop)
    _threads(int(os.environ.get("LOCAL_WORLD_SIZE", world)))
    gpu = options.device != "cpu" and torch.cuda.is_available()
    enough = gpu and torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", world))
    problem = unreachable(rank, options.timeout)
    if problem:
        return _not_joined(problem, rank, world)
    try:
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if enough else "gloo",
            timeout=timedelta(seconds=max(options.timeout, START)),
        )
    except (RuntimeError, ValueError, OSError) as error:
        said = next((line for line in str(error).splitlines() if line), type(error).__name__)
        return _not_joined(said, rank, world)
    _set_pg_timeout(timedelta(seconds=options.timeout))
    guard = watch()
    assert guard is not None
    guard.timeout = options.timeout
    guard.tasks.append(_end_late())

    progress = _progress(rank)
    try:
        report = run_rank(options, progress)
        progress("")
        _leave(guard, world)
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
        known = {key: value for key, value in failure.to_json().items() if key != "place"}
        return RunReport(
            ok=False,
            ranks=world,
            mesh={},
            error=ErrorReport.model_validate(known),
            exit_code=2 if isinstance(error, DimsolveError) and is_unreadable(error) else 1,
        )


def _leave(guard: Watch, world: int) -> None:
    """Leaves the world together with the other ranks, and ends the threads of torch that serve it.

    A thread of gloo that gives back a tensor, or one of the watch that comes back from the store,
    asks for the interpreter; while that is taken down it is ended inside of torch, and the process
    with it, by SIGABRT ("terminate called without an active exception"). So nothing is left to run
    when the interpreter ends. A group is torn down when nobody has work in it, and holds it.
    """
    with suppress(RuntimeError, TimeoutError):  # the store is gone: so is who held it, at its end
        store = guard.store("dimsolve/left")
        guard.ask(lambda: store.add("ranks", 1))
        until = time.monotonic() + PATIENCE
        while guard.ask(lambda: store.add("ranks", 0)) < world and time.monotonic() < until:
            time.sleep(INTERVAL / 4)
    end_watch()
    dist.destroy_process_group()
    gc.collect()


def unreachable(rank: int, timeout: float) -> str:
    """Returns why no connection to the address of the world can be made, "" where one can.

    torch tries for much longer than it is told, and says less. A refused connection is tried again
    for the timeout; a rank that waits for the first one to start has START seconds for it.
    """
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    launcher = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # its store is there
    holds = rank == 0 and not launcher
    patience = timeout if launcher or holds else max(timeout, START)
    found: SimpleQueue[str] = SimpleQueue()
    with _listening(port) if holds else nullcontext():
        # A name is looked up without a limit of its own, so it is waited for here.
        connect = (address, port, patience, found)
        threading.Thread(target=_connect, args=connect, daemon=True).start()
        try:
            return found.get(timeout=patience + LOOK_UP)
        except Empty:
            return f"{address} could not be resolved or reached within {patience:g} s"


def _connect(address: str, port: int, patience: float, found: SimpleQueue[str]) -> None:
    """Tries to connect, and says why it cannot, or ""."""
    until = time.monotonic() + patience
    while True:
        left = max(until - time.monotonic(), 0.1)
        try:
            socket.create_connection((address, port), timeout=left).close()
            return found.put("")
        except ConnectionRefusedError:
            if time.monotonic() > until:
                return found.put(f"it refused every connection for {patience:g} s")
            time.sleep(0.2)
        except socket.gaierror as error:
            return found.put(f"{address} cannot be resolved: {error.strerror}")
        except TimeoutError:
            return found.put(f"{address} did not answer within {patience:g} s")
        except OSError as error:
            return found.put(f"{address} cannot be reached: {error.strerror or error}")


@contextmanager
def _listening(port: int) -> Iterator[None]:
    """The first rank listens while it looks whether it can be reached under its own address."""
    try:
        dual = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual else socket.AF_INET
        server = socket.create_server(("", port), family=family, dualstack_ipv6=dual)
    except OSError:
        yield  # somebody else listens, and torch says so
        return
    with server:
        yield


def _not_joined(said: str, rank: int, world: int) -> RunReport:
    """The ranks have not found each other: a wrong address, port, or number of ranks."""
    where = ":".join(os.environ.get(name, "?") for name in ("MASTER_ADDR", "MASTER_PORT"))
    reason = f"it did not join the other {world - 1} at {where}: {said}"
    print(f"rank {rank}: {reason}", file=sys.stderr, flush=True)
    failure = ErrorReport(rank=rank, reason=reason)
    return RunReport(ok=False, ranks=world, mesh={}, error=failure, exit_code=1)


def _progress(rank: int) -> Callable[[str], None]:
    """Tells on stderr how far the run is: one line that changes on a terminal, lines elsewhere."""
    terminal = sys.stderr.isatty()

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
    return f"rank {rank}: " + "".join(traceback.format_exception(error)).rstrip()


def _write(path: Path, report: RunReport | list[list[list[str]]]) -> None:
    data = report if isinstance(report, list) else report.model_dump() | {"exit": report.exit_code}
    path.write_text(json.dumps(data))


def _threads(ranks: int) -> None:
    """The cores of this machine, shared by its ranks, unless the environment says otherwise."""
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // ranks))


def _stop(number: int, frame: FrameType | None) -> None:
    """Another rank has ended, and the launcher ends the rest: says where this one was."""
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

    def check(_: object) -> None:
        guard = watch()
        if guard is not None and guard.failure is not None:
            since.append(time.monotonic())
            if since[-1] - since[0] > GRACE:
                print(str(guard.failure), file=sys.stderr, flush=True)
                os._exit(1)

    return check


def end(code: int) -> NoReturn:
    """Ends this process at once, without taking down the interpreter: a thread of gloo may still
    wait for a rank that is gone, and what torch has registered for the end may wait for others.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    end(main(Path(sys.argv[1]), int(sys.argv[2])))
