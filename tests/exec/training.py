"""What the tests' ranks do: build a model, trace and plan it, and train a part beside the whole."""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Any

import torch
import torch.distributed as dist

from tests.oracles.traces import shared_trace

BATCHES = ((4, 16), (2, 24), (6, 8))


def load(target: str, dtype: str) -> tuple[torch.nn.Module, dict[str, Any], dict[str, Any]]:
    """Returns the model, its example and its dynamic names of ``module:factory``."""
    module, _, factory = target.partition(":")
    torch.manual_seed(0)
    model, example, *names = getattr(importlib.import_module(module), factory)()
    return model.to(getattr(torch, dtype)), example, names[0] if names else {}


@lru_cache
def traced(target: str, dtype: str) -> Any:
    """The graph of a target, traced once for all ranks and meshes: tracing takes seconds."""
    model, example, names = load(target, dtype)
    return shared_trace(f"{target} {dtype}", model, kwargs=example, dynamic=names)


def train(
    target: str,
    mesh: dict[str, int],
    policy: Any,
    dtype: str = "float64",
    steps: int = 3,
    wide: bool = True,
) -> list[Any]:
    """Returns every step's comparison with one device."""
    return _trained(traced(target, dtype), *load(target, dtype), mesh, policy, steps, wide)


def train_seed(name: str, count: int = 2, steps: int = 3) -> list[Any]:
    """The same for an example of the seeds, split over tp as its factory says."""
    from dimsolve.exec.capture.trace import trace

    from . import seed_models

    model, example, names, splits = getattr(seed_models, name)()
    policy = {node: {"tp": split} for node, split in splits.items()}
    graph = trace(model, kwargs=example, dynamic=names)
    return _trained(graph, model, example, names, {"tp": count}, policy, steps)


def train_loss(name: str, policy: str, steps: int = 3) -> list[Any]:
    """The same for a loss, over all ranks."""
    from dimsolve.exec.capture.trace import trace

    from . import losses

    model, example, names = losses.of(name)
    graph = trace(model, kwargs=example, dynamic=names)
    return _trained(graph, model, example, names, {"a": dist.get_world_size()}, policy, steps)


def _trained(
    graph: Any,
    model: torch.nn.Module,
    example: dict[str, Any],
    names: dict[str, Any],
    mesh: dict[str, int],
    policy: Any,
    steps: int,
    wide: bool = True,
) -> list[Any]:
    from dimsolve.exec.parallel.parallelize import parallelize
    from dimsolve.exec.running.compare import CheckedRun, batches
    from dimsolve.partition.plan import plan

    part = parallelize(model, plan(graph, mesh, policy))
    device = part.ends.device
    run = CheckedRun(part, model.to(device), wide=wide)
    assert part.ends.count == dist.get_world_size()
    return [
        run.step({name: value.to(device) for name, value in batch.items()})
        for batch in batches(part.plan, example, names, steps)
    ]
