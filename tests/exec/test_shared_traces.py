"""A graph that tests read from another process is the one that was traced."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import dimsolve as ds
from dimsolve.examples import llama
from tests.oracles import traces


def test_what_is_read_gives_the_same_graph_plan_and_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(traces.HOME, str(tmp_path))
    monkeypatch.setattr(traces, "_known", {})
    model, example, names = llama.tiny()
    first = traces.shared_trace("llama", model, kwargs=example, dynamic=names)
    monkeypatch.setattr(traces, "_known", {})
    read = traces.shared_trace("llama", model, kwargs=example, dynamic=names)
    assert read is not first
    assert read.to_json() == first.to_json()
    assert read.traced.keys() == first.traced.keys()
    mesh = {"dp": 2, "tp": 2}
    assert ds.plan(read, mesh).to_json() == ds.plan(first, mesh).to_json()
    with pytest.raises(ds.DimsolveError, match="the plan is for another model"):
        ds.parallelize(torch.nn.Linear(2, 2), ds.plan(read, {"tp": 1}))
