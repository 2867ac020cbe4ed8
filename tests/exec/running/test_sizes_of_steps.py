"""Law: a run's steps have the sizes that are asked for, and refuse what is no size of the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import dimsolve as ds
from dimsolve.exec.running.compare import sizes_for
from tests.exec.losses import noise
from tests.face.cli.command_line import ask

EXAMPLE = {"x": noise(4, 6)}
DYNAMIC = {"x": {0: "batch", 1: "width"}}
ROWS = """
import torch

def rows():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4, dtype=torch.float64)
    x = torch.ones(4, 4, dtype=torch.float64)
    return model, {"input": x}, {"input": {0: "n"}}
"""


def plan() -> ds.Plan:
    graph = ds.trace(lambda x: x.exp(), kwargs=EXAMPLE, dynamic=DYNAMIC)
    return ds.plan(graph, {"dp": 2}, "data")


def test_sizes_that_are_given_are_those_of_every_step() -> None:
    assert sizes_for(plan(), EXAMPLE, DYNAMIC, 2, {"batch": 10}) == [{"batch": 10, "width": 6}] * 2
    free = sizes_for(plan(), EXAMPLE, DYNAMIC, 2)
    assert free[0] == {"batch": 4, "width": 6} and free[1] != free[0]


REFUSED = [
    (
        {"bach": 2},
        "the plan has no such symbol\n  'bach' is none; its symbols are batch, width\n"
        "  hint: did you mean 'batch'?",
    ),
    (
        {"batch": -2},
        "this is not a size\n  batch = -2\n  hint: a size is a whole number, 0 or more",
    ),
]


@pytest.mark.parametrize(("at", "expected"), REFUSED, ids=str)
def test_what_is_no_size_of_the_model_is_refused(at: dict[str, int], expected: str) -> None:
    with pytest.raises(ds.PlanError) as caught:
        sizes_for(plan(), EXAMPLE, DYNAMIC, 1, at)
    assert str(caught.value) == expected


def test_a_size_that_breaks_a_condition_of_the_plan_is_refused() -> None:
    with pytest.raises(ds.PlanError, match="batch"):
        sizes_for(plan(), EXAMPLE, DYNAMIC, 1, {"batch": 5})


def test_the_command_line_runs_at_sizes(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(ROWS)
    words: tuple[Any, ...] = ("run", f"{tmp_path}/made.py:rows", "--mesh", "dp=1", "--steps", "1")
    found = ask(*words, "--at", "n=64", "--json")
    assert found.code == 0, found.err
    assert json.loads(found.out)["steps"][0]["sizes"] == {"n": 64}
    refused = ask(*words, "--at", "n=many")
    assert refused.code == 2 and "n='many' is no number" in refused.err
