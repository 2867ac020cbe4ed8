"""What the tests' ranks do to measure a part."""

from __future__ import annotations

from typing import Any

import torch

import dimsolve as ds
from dimsolve.exec.running.profiling import profile

from .training import load

SIZES = {"batch": 4, "seq": 16}


def measured(target: str, mesh: dict[str, int], policy: str, database: str) -> tuple[str, str, str]:
    """What is said of two runs, and the plan as JSON."""
    model, example, names = load(target, "float32")
    graph = ds.trace(model, kwargs=example, dynamic=names)
    plan = ds.plan(graph, mesh, policy)
    part: Any = ds.parallelize(model, plan)
    before = [each.detach().clone() for each in part.parameters()]
    said = [profile(part, example, SIZES, database) for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(before, part.parameters(), strict=True))
    assert all(each.grad is None for each in part.parameters())
    return said[0], said[1], plan.to_json()
