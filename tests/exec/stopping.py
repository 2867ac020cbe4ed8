"""Rank 1 of a mesh is stopped at some point of a user's own script, and hears nothing any more.

agreement   before it tells its plan          groups     before it makes its process groups
forward     before the second step            backward   between forward and backward
sizes       before a batch of new sizes       save       before the parts become DTensors of wholes
"""

from __future__ import annotations

import gc
import os
import signal
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import dimsolve as ds

LOST = 1
POINTS = ("agreement", "groups", "forward", "backward", "sizes", "save")


def _reach(point: str, wanted: str) -> None:
    if point == wanted and dist.get_rank() == LOST:
        os.kill(os.getpid(), signal.SIGSTOP)


def made(mesh: dict[str, int], *, own_mesh: bool = False) -> Any:
    """This rank's part of two linear layers over a mesh."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))
    example = {"input": torch.randn(8, 8)}
    plan = ds.plan(ds.trace(model, kwargs=example, dynamic={"input": {0: "batch"}}), mesh)
    given = None
    if own_mesh:
        given = init_device_mesh("cpu", tuple(mesh.values()), mesh_dim_names=tuple(mesh))
    return ds.parallelize(model, plan, given)


def made_and_let_go(count: int) -> int:
    """Makes and runs parts, of which the last one is kept; returns how many the watch asks."""
    from dimsolve.exec.distributed.watch import watch

    for _ in range(count):
        part = made({"tp": 2})
        part(input=torch.randn(8, 8))
    gc.collect()
    guard = watch()
    assert guard is not None and part is not None
    return sum(known() is not None for known in guard._answers)


def trained_until_stopped(mesh: dict[str, int], point: str, own_mesh: bool = False) -> str:
    """Returns what a rank raised, with the first line of its message."""
    from dimsolve.exec.parallel.agreement import Agreement

    agree = Agreement.agree_on_plan

    def agree_and_stop(self: Agreement, problem: str = "") -> None:
        _reach("agreement", point)
        agree(self, problem)
        _reach("groups", point)

    Agreement.agree_on_plan = agree_and_stop  # type: ignore[method-assign]
    try:
        part = made(mesh, own_mesh=own_mesh)
        for step in range(2):
            if step:
                _reach("forward", point)
            loss = part(input=torch.randn(8, 8)).square().mean()
            if step:
                _reach("backward", point)
            loss.backward()
        _reach("sizes", point)
        part(input=torch.randn(16, 8))
        _reach("save", point)
        for value in part.state_dict().values():
            value.full_tensor()
    except (ds.DimsolveError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"
