"""Law: the collection of cycles is after a plan what it was before."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

import dimsolve as ds

from .test_policies import two_linears


@pytest.fixture(params=[True, False], ids=["on", "off"])
def collecting(request: pytest.FixtureRequest) -> Any:
    was = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if was else gc.disable)()


def test_a_plan_leaves_collection_as_it_was(collecting: bool) -> None:
    ds.plan(two_linears(), {"tp": 2})
    assert gc.isenabled() is collecting


def test_a_plan_that_fails_leaves_collection_as_it_was(collecting: bool) -> None:
    with pytest.raises(ds.PlanError):
        ds.plan(two_linears(), {"tp": 7}, "tensor", uneven="refuse")
    assert gc.isenabled() is collecting


def test_plans_of_several_threads_leave_collection_as_it_was(collecting: bool) -> None:
    together = Barrier(4)

    def policy(graph: Any, resource: Any) -> Any:
        together.wait(60)  # all threads are in the middle of a plan
        return graph

    with ThreadPoolExecutor(4) as pool:
        for plan in [pool.submit(ds.plan, two_linears(), {"tp": 2}, policy) for _ in range(4)]:
            plan.result()
    assert gc.isenabled() is collecting
