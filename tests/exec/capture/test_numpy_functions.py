"""What a model computes with numpy is part of its graph like any other function."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import dimsolve as ds
from dimsolve.exec import numpy_functions


class Scaled(torch.nn.Module):
    """A linear layer, its output over the root of its width, as some attentions write it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h: torch.Tensor = self.linear(x)
        return h / np.sqrt(h.shape[-1])


def traced(model: torch.nn.Module) -> ds.Graph:
    x = torch.randn(4, 8)
    return ds.trace(model, kwargs={"x": x}, dynamic={"x": {0: "batch"}})


def test_a_graph_with_a_numpy_function_computes_what_the_model_does() -> None:
    model = Scaled()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # one number is not left whole, it is one number
        graph = traced(model)
    x = torch.randn(5, 8)
    assert torch.equal(graph.run(x=x, state=model.state_dict()), model(x))


def test_it_reads_back_from_json_without_trust() -> None:
    model = Scaled()
    graph = ds.Graph.from_json(traced(model).to_json())
    x = torch.randn(3, 8)
    assert torch.equal(graph.run(x=x, state=model.state_dict()), model(x))


def test_its_program_computes_what_the_model_does_and_imports_the_function() -> None:
    model = Scaled()
    part = ds.parallelize(model, ds.plan(traced(model), {"tp": 1}))
    x = torch.randn(3, 8)
    assert torch.equal(part(x), model(x))
    assert "from dimsolve.exec.numpy_functions import sqrt" in part.source()


@pytest.mark.parametrize("name", ["load", "set_default_dtype", "__class__", "nothing"])
def test_only_what_computes_is_found(name: str) -> None:
    with pytest.raises(AttributeError, match=f"torch runs no numpy function '{name}'"):
        numpy_functions.__getattr__(name)


class Numbers(torch.nn.Module):
    """Numbers and small arrays of numpy, by functions, operators, methods and attributes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        root = np.sqrt(np.log(float(10000)) / 5)
        odd = abs(-root) + (root + 1) % 2 - 2 / root + root**2 // 3
        row = np.arange(6).reshape(2, 3).T[1]
        rest = row.sum() + row.astype(np.float64).mean() + np.float64(3.0) * 2
        return x * torch.exp(torch.arange(8, dtype=torch.float64) * -root) + odd + rest


def test_numbers_of_numpy_are_part_of_a_graph() -> None:
    model, x = Numbers(), torch.randn(4, 8, dtype=torch.float64)
    graph = ds.trace(model, kwargs={"x": x}, dynamic={"x": {0: "batch"}})
    assert torch.equal(graph.run(x=x), model(x))
    assert torch.equal(ds.Graph.from_json(graph.to_json()).run(x=x), model(x))
    part = ds.parallelize(model, ds.plan(graph, {"dp": 1}))
    assert torch.equal(part(x=x), model(x))
    assert "from dimsolve.exec.numpy_functions import" in part.source()


class Adds(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        row = np.arange(8)
        row.fill(3)
        return x + torch.from_numpy(row)


def test_what_writes_to_an_array_is_refused() -> None:
    with pytest.raises(ds.TraceError) as caught:
        ds.trace(Adds(), torch.randn(4, 8))
    title, code, reason, hint = str(caught.value).splitlines()
    assert title.startswith("the model does what no program can call at ")
    assert code == "    row.fill(3)"
    assert reason == (
        "  torch's capture calls dimsolve.exec.numpy_functions.method_fill here, "
        "which has no import path"
    )
    assert hint == "  hint: write it with tensor operators, or register it as an operator"


class Sized(torch.nn.Module):
    """Reads integers of NumPy's as lengths: one that it holds, one that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.heads = np.prod([2, 2])

    def forward(self, x: torch.Tensor, times: int) -> torch.Tensor:
        h: torch.Tensor = self.linear(x).view(x.shape[0], int(self.heads), -1)
        return (h * times).repeat(1, times, 1)


def test_integers_of_numpy_are_integers() -> None:
    model, x, times = Sized(), torch.randn(4, 8), np.int64(2)
    batch: dict[str, Any] = {"x": {np.int64(0): "batch"}}
    graph = ds.trace(model, kwargs={"x": x, "times": times}, dynamic=batch)
    assert type(model.heads) is np.int64
    size: Any = np.int64(4)
    plan = ds.plan(graph, {"tp": np.int64(1)})
    assert plan.memory(batch=size) == plan.memory(batch=4)
    part = ds.parallelize(model, plan)
    x = torch.randn(6, 8)
    assert torch.equal(part(x=x, times=times), model(x, 2))
    assert torch.equal(part(x=x, times=2), model(x, 2))
    assert len(part.programs) == 1
