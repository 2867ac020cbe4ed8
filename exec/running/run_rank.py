"""One rank of a run: the target traced and planned, its part trained, compared with the whole.

    options: dimsolve.examples.llama:tiny, tp=2, 3 steps       a `RunReport`, the same on every rank

Every rank does all of it alike, so nothing but the collectives has to travel; that they all have
the same plan is agreed on before the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import torch
from torch.utils._pytree import tree_map

from dimsolve.ir.errors import AnnotationError, Diagnostic
from dimsolve.partition.mesh import Mesh
from dimsolve.partition.plan import Plan
from dimsolve.partition.planning.planner import plan as make_plan
from dimsolve.partition.read_plan import read_plan_file

from ..distributed.whereabouts import note_stage
from ..graph import Graph
from ..lowering.plan_text import mesh_symbols, other_mesh
from ..parallel.parallelize import ParallelModule, parallelize
from ..target import Target, load_target
from .batches import batch_of, sizes_for
from .check_run import CheckedRun, CheckedStep, allowed_of
from .run_overview import overview
from .run_report import (
    BytesReport,
    DifferencesReport,
    ErrorReport,
    RunOptions,
    RunReport,
    StepReport,
)

Progress = Callable[[str], None]

NOT_A_NUMBER = "the loss is nan or infinite in every step: that nan is equal to nan proves nothing"


def run_rank(options: RunOptions, progress: Progress = lambda text: None) -> RunReport:
    """Runs this rank and returns the report. Raises what goes wrong, on every rank."""
    torch.manual_seed(options.seed)
    progress(f"making {options.target}")
    target = load_target(options.target)
    if options.dtype is not None:
        target = in_dtype(target, options.dtype)
    model = target.model
    if not isinstance(model, torch.nn.Module):
        raise _no_module(options.target)
    progress(f"tracing {type(model).__name__}")
    graph = target.trace()
    progress("planning")
    plan = plan_of(options, graph)
    example = call_of(target)
    sizes = sizes_for(plan, example, target.dynamic, options.steps)
    rows = overview(graph, plan, policy_of(options.policy))
    progress("cutting the model")
    part = parallelize(model, plan)
    whole = model.to(part.ends.device) if options.verify else None
    taken = _steps(part, whole, example, target, sizes, progress)
    return _report(options, model, part, sizes, taken, rows)


def plan_of(options: RunOptions, graph: Graph) -> Plan:
    """Returns the plan that was given as a file, or makes one. Raises PlanError for a file that
    holds none, or one that does not follow from the graph; LoweringError where it is for another
    mesh.
    """
    mesh = Mesh.of(options.mesh)
    if options.plan is None:
        return make_plan(graph, mesh, policy_of(options.policy))
    plan = read_plan_file(options.plan)
    ranks = {axis: size for axis, size in mesh.axes if isinstance(size, int)}
    if tuple(plan.mesh) != mesh.names:
        raise other_mesh(plan, ranks, "the axes are not the same")
    mesh_symbols(plan, ranks)
    return plan.for_graph(graph)


def policy_of(text: str | None) -> Any:
    """Returns a policy: one of the names, or the function of ``module:function``."""
    if text is None or ":" not in text:
        return text
    from ..target import load_function

    return load_function(text)


def in_dtype(target: Target, name: str) -> Target:
    """Returns the target with its real parameters, buffers and inputs in another dtype."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise _no_dtype(name)

    def changed(value: Any) -> Any:
        real = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.to(dtype) if real else value

    model = target.model
    args, kwargs = tree_map(changed, (target.args, dict(target.kwargs)))
    whole = model.to(dtype) if isinstance(model, torch.nn.Module) else model
    return replace(target, model=whole, args=args, kwargs=kwargs)


def call_of(target: Target) -> dict[str, Any]:
    """Returns the example call by keyword."""
    from ..capture.dynamic import parameter_names

    names = parameter_names(target.model, len(target.args))
    return {**dict(zip(names, target.args, strict=True)), **target.kwargs}


def _steps(
    part: ParallelModule,
    whole: torch.nn.Module | None,
    example: Mapping[str, Any],
    target: Target,
    sizes: Sequence[Mapping[str, int]],
    progress: Progress,
) -> list[CheckedStep]:
    run = CheckedRun(part, whole)
    taken: list[CheckedStep] = []
    for number, size in enumerate(sizes):
        note_stage(f"step {number + 1} of {len(sizes)}")
        batch = batch_of(example, target.dynamic, size, seed=number)
        batch = {k: v.to(part.ends.device) if hasattr(v, "to") else v for k, v in batch.items()}
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


def _no_module(target: str) -> AnnotationError:
    return AnnotationError(
        Diagnostic(
            code="target",
            title="this target is no model",
            text=target,
            reason="a run trains a torch.nn.Module",
            hint="return a module from the function",
        )
    )


def _no_dtype(name: str) -> AnnotationError:
    return AnnotationError(
        Diagnostic(
            code="no-dtype",
            title="this is no dtype of real numbers",
            text=name,
            reason="parameters and inputs are changed to it",
            hint="write float64, float32, bfloat16 or float16",
        )
    )
