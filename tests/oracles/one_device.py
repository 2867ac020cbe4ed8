"""A plan's run on threads of this process: every rank's program, and a part of the model for each.

The programs are those that processes run; only the communicators are simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch

import dimsolve as ds
from dimsolve.exec.distributed.simulated import Member, SimulatedWorld
from dimsolve.exec.lowering.lower import lower
from dimsolve.exec.parallel.agreement import Agreement
from dimsolve.exec.parallel.mesh import RankMesh
from dimsolve.exec.parallel.parallelize import ParallelModule
from dimsolve.exec.running.compare import CheckedRun, CheckedStep, batch_of, sizes_for

T = TypeVar("T")


def parts(
    model: torch.nn.Module, plan: ds.Plan, mesh: Mapping[str, int], work: Callable[..., T]
) -> list[T]:
    """Returns what ``work(part)`` returns on every rank, in rank order."""

    def program(member: Member) -> T:
        ends = RankMesh({axis: member[axis] for axis in mesh}, torch.device("cpu"))
        made = lower(plan.planned, plan, ends.communicators)  # type: ignore[arg-type]
        return work(ParallelModule(model, plan, made, ends, Agreement(plan, None)))

    return SimulatedWorld[T](mesh).run(program)


def plan_of(
    model: torch.nn.Module,
    example: Mapping[str, Any],
    dynamic: Mapping[str, Any] | None,
    mesh: Mapping[str, int],
    policy: Any,
) -> ds.Plan:
    return ds.plan(ds.trace(model, kwargs=example, dynamic=dynamic), mesh, policy)


def train(
    model: torch.nn.Module,
    example: Mapping[str, Any],
    dynamic: Mapping[str, Any] | None,
    mesh: Mapping[str, int],
    policy: Any,
    steps: int = 3,
    plan: ds.Plan | None = None,
) -> list[CheckedStep]:
    """Returns the first rank's steps; every rank compares its parts with a model of its own."""
    from copy import deepcopy

    made = plan_of(model, example, dynamic, mesh, policy) if plan is None else plan
    sizes = sizes_for(made, example, dynamic, steps)

    def work(part: ParallelModule) -> list[CheckedStep]:
        run = CheckedRun(part, deepcopy(model))
        batches = (batch_of(example, dynamic, size, seed=i) for i, size in enumerate(sizes))
        return [run.step(batch) for batch in batches]

    return parts(model, made, mesh, work)[0]


def assert_equal(steps: list[CheckedStep]) -> None:
    """Every step is equal to one device."""
    for step in steps:
        assert step.differences is not None
        assert step.differences.ok, step
