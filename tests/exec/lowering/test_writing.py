"""Law: what a program writes in place is read as on one device: by later uses in any layout, by
views made before, by the caller, by the next step; and the gradients are the same.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch

import dimsolve as ds
from dimsolve.exec.distributed.sharding import assemble_parts
from tests.exec.writing import ALL, Writing, example, run
from tests.oracles.one_device import parts

MESHES = [{"tp": 2}, {"dp": 2, "tp": 2}]


def planned(name: str, mesh: dict[str, int], policy: Any) -> ds.Plan:
    graph = ds.trace(Writing(ALL[name]), kwargs=example())
    return ds.plan(graph, mesh, asked(graph, mesh) if policy == "by hand" else policy)


def asked(graph: Any, mesh: dict[str, int]) -> Any:
    """A policy: every node is cut by another dimension than the one before, where it may be."""
    asked: list[tuple[int, int, str]] = []

    def policy(seen: Any, resource: Any) -> Any:
        for number, dim, axis in asked:
            node = seen.nodes()[number]
            seen.partition(node, node.algorithm("dim"), idx=0, dim=dim, axis=axis)
        return seen

    for number in range(len(graph.nodes())):
        for axis in mesh:
            for dim in (number % 2, 1 - number % 2):
                asked.append((number, dim, axis))
                try:
                    ds.plan(graph, mesh, policy)
                    break
                except ds.PlanError:
                    asked.pop()
    return policy


def joined(parts: list[dict[str, Any]], plan: ds.Plan, mesh: dict[str, int]) -> dict[str, Any]:
    """What the ranks have, whole: parameters and buffers joined, the rest alike on all of them."""
    from tests.oracles.all_ranks import placements_of

    entries = {entry.name: entry for entry in plan.inputs}
    found: dict[str, Any] = {}
    for key in parts[0]:
        own = [part[key] for part in parts]
        entry = entries.get(key.partition(" ")[2])
        if all(each is None for each in own):
            found[key] = None
        elif entry is not None and key.split()[0] in ("gradient", "buffer"):
            found[key] = assemble_parts(own, placements_of(entry, {}), mesh)
        else:
            for each in own:
                torch.testing.assert_close(each, own[0], rtol=0, atol=0)
            found[key] = own[0]
    return found


@pytest.mark.parametrize("policy", ["data", "tensor", "by hand"])
@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize("name", ALL)
def test_what_is_written_is_read_as_on_one_device(name: str, mesh: Any, policy: Any) -> None:
    model = Writing(ALL[name])
    whole = run(deepcopy(model))
    plan = planned(name, mesh, policy)
    found = joined(parts(model, plan, mesh, run), plan, mesh)
    assert found.keys() == whole.keys()
    for key, wanted in whole.items():
        if wanted is None:
            assert found[key] is None, key
        else:
            torch.testing.assert_close(found[key], wanted, rtol=1e-9, atol=1e-9, msg=key)


@pytest.mark.parametrize("recorded", [True, False])
def test_gradients_that_a_model_switches_off_are_off_on_ranks(recorded: bool) -> None:
    """And back to what the caller had: on after a step, off where the caller wants none."""
    model = Writing(ALL["half_recorded"])
    with torch.set_grad_enabled(recorded):
        plan = planned("half_recorded", {"tp": 2}, "tensor")

    def work(part: Any) -> tuple[Any, bool]:
        with torch.set_grad_enabled(recorded):
            returned = part(**example())
            after = torch.is_grad_enabled()
        if recorded:
            returned.square().sum().backward()
        return returned.requires_grad, after

    assert parts(model, plan, {"tp": 2}, work) == [(recorded, recorded)] * 2
