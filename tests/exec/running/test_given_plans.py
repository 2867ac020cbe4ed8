"""A plan that is given to a run is the plan of its model and its mesh, or is refused before."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import dimsolve as ds
from dimsolve.exec.lowering.lower import lower
from dimsolve.exec.lowering.setting import LoweringError
from dimsolve.exec.parallel.mesh import rank_mesh
from dimsolve.exec.running.launch import launch
from dimsolve.exec.running.report import RunOptions
from dimsolve.exec.running.worker import plan_of


def graph() -> Any:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    return ds.trace(model, (torch.zeros(2, 4),), dynamic={"input": {0: "batch"}})


def given(tmp_path: Path, text: str, mesh: str) -> ds.Plan:
    path = tmp_path / "plan.json"
    path.write_text(text)
    return plan_of(RunOptions(target="", mesh=mesh, plan=str(path)), graph())


def test_the_plan_of_a_file_is_taken(tmp_path: Path) -> None:
    made = ds.plan(graph(), {"dp": 2, "tp": 2})
    assert given(tmp_path, made.to_json(), "dp=2,tp=2") == made
    symbolic = ds.plan(graph(), {"dp": 2, "tp": "n"})
    assert given(tmp_path, symbolic.to_json(), "dp=2,tp=4") == symbolic


@pytest.mark.parametrize(
    ("mesh", "reason"),
    [
        ("tp=2", "the axes are not the same; the mesh is tp=2, and the plan's dp=2, tp=2"),
        (
            "tp=2,dp=2",
            "the axes are not the same; the mesh is tp=2, dp=2, and the plan's dp=2, tp=2",
        ),
        (
            "dp=2,tp=4",
            "the axis tp has 4 ranks, and the plan is made for 2; the mesh is dp=2, tp=4, and the "
            "plan's dp=2, tp=2",
        ),
    ],
)
def test_a_plan_for_another_mesh_is_refused(tmp_path: Path, mesh: str, reason: str) -> None:
    text = ds.plan(graph(), {"dp": 2, "tp": 2}).to_json()
    with pytest.raises(LoweringError) as caught:
        given(tmp_path, text, mesh)
    there = mesh.replace(",", ", ")
    assert str(caught.value) == (
        f"the mesh is not the plan's\n  {reason}\n"
        f"  hint: run it on dp=2, tp=2, or make a plan for {there}"
    )


def test_an_edited_plan_is_refused(tmp_path: Path) -> None:
    data = json.loads(ds.plan(graph(), {"tp": 2}, "tensor").to_json())
    data["outputs"][0]["source"] = data["outputs"][0]["value"]
    with pytest.raises(ds.PlanError) as caught:
        given(tmp_path, json.dumps(data), "tp=2")
    assert str(caught.value).splitlines()[:2] == [
        "the plan does not follow from its graph",
        '  output output, source: the plan says "input_3", its splits give "input_3@1"',
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "plan.json: No such file or directory"),
        ("[" * 100_000, "it is no JSON: arrays and objects nest more than 250 deep"),
        ("{}", "its version is None; this dimsolve reads versions 1, 2, 3 and 4"),
    ],
    ids=["no file", "deep", "no version"],
)
def test_a_file_without_a_plan_is_refused_before_ranks_are_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("plan.json").write_text(text)
    with pytest.raises(ds.PlanError) as caught:
        launch(RunOptions(target="nothing:at_all", mesh="tp=2", plan="plan.json"))
    assert caught.value.diagnostic.reason == reason


def test_a_device_mesh_without_an_axis_of_the_plan_is_refused() -> None:
    plan = ds.plan(graph(), {"dp": 2, "tp": 2})
    device_mesh: Any = SimpleNamespace(mesh_dim_names=("dp", "pp"))
    with pytest.raises(LoweringError) as caught:
        rank_mesh(plan, device_mesh)
    assert str(caught.value) == (
        "the device mesh has no axis named tp\n  its axes are dp, pp\n"
        "  hint: init_device_mesh(..., mesh_dim_names=(..., 'tp', ...))"
    )


def test_a_plan_of_another_graph_is_not_lowered() -> None:
    other = ds.trace(torch.nn.Linear(4, 4), (torch.zeros(2, 4),))
    with pytest.raises(ds.PlanError, match="the plan was made for another graph"):
        lower(other, ds.plan(graph(), {"tp": 1}), {})


def test_a_model_is_cut_by_a_plan() -> None:
    with pytest.raises(ds.PlanError) as caught:
        ds.parallelize(torch.nn.Linear(4, 4), {"tp": 2})  # type: ignore[arg-type]
    assert str(caught.value) == (
        "this is not a plan\n  {'tp': 2} is a dict\n"
        "  hint: dimsolve.plan(graph, mesh, policy) makes one, Plan.from_json reads one"
    )
