"""What the tests' ranks do to save a model at one mesh and load it at another."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

import dimsolve as ds

from . import seed_models


def stored(
    folder: str, mesh: dict[str, int], policy: Any, state: Any, *, save: bool
) -> list[float]:
    """Returns three losses after AdamW steps that were saved, or loaded, with their optimiser."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    torch.manual_seed(0)
    layers = nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5)
    model = nn.Sequential(*layers).double()
    example = {"input": torch.randn(8, 6, dtype=torch.float64)}
    graph = ds.trace(model, kwargs=example)
    part = ds.parallelize(model, ds.plan(graph, mesh, policy, state))
    optimizer = torch.optim.AdamW(part.parameters(), lr=0.1)

    def step() -> float:
        loss = part(**example).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(part.parameters(), 0.5, norm_type=math.inf)
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    if save:
        step(), step()
    weights, steps = get_state_dict(part, optimizer)
    both = {"model": weights, "optimizer": steps}
    if save:
        dcp.save(both, checkpoint_id=folder)
    else:
        dcp.load(both, checkpoint_id=folder)
        set_state_dict(part, optimizer, model_state_dict=weights, optim_state_dict=steps)
    return [step() for _ in range(3)]


def losses(folder: str, mesh: dict[str, int], *, save: bool) -> list[float]:
    """Returns three losses after loading, or after saving, a checkpoint in the folder."""
    import torch.distributed.checkpoint as dcp

    model, example, _, _ = seed_models.reshape_over_t()
    policy = {"reshape": dict.fromkeys(mesh, "t")}
    part = ds.parallelize(model, ds.plan(ds.trace(model, kwargs=example), mesh, policy))
    if save:
        dcp.save(part.state_dict(), checkpoint_id=folder)
    else:
        with torch.no_grad():
            for parameter in part.parameters():
                parameter.zero_()
        state = part.state_dict()
        dcp.load(state, checkpoint_id=folder)
        part.load_state_dict(state)
    optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
    found = []
    for _ in range(3):
        loss = part(**example).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
    return found


def saved_while_training(folder: str) -> float:
    """How far weights are off that were written by a thread while the part went on."""
    import torch.distributed.checkpoint as dcp

    torch.manual_seed(0)
    model, x = nn.Linear(6, 8).double(), torch.randn(8, 6, dtype=torch.float64)
    plan = ds.plan(ds.trace(model, args=(x,), dynamic={"input": {0: "batch"}}), {"dp": 2})
    part = ds.parallelize(model, plan)
    wanted = {name: each.clone() for name, each in model.state_dict().items()}
    saving: Any = dcp.async_save({"model": part.state_dict()}, checkpoint_id=folder)
    optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
    for _ in range(100):
        part(x).square().mean().backward()
        optimizer.step()
    saving.result()
    found = {"model": part.state_dict()}
    dcp.load(found, checkpoint_id=folder)
    wholes = {name: each.full_tensor() for name, each in found["model"].items()}
    return max(float((wholes[name] - each).abs().max()) for name, each in wanted.items())
