"""Law: reading a graph lets no function in that computes something else than tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dimsolve as ds


def data_calling(path: str) -> dict[str, Any]:
    graph = ds.Graph("f")
    graph.output(graph.call("exp", graph.input("x", "n", "float32")))
    data = graph.to_json()
    data["nodes"][0]["operator"] = path
    return data


@pytest.mark.parametrize(
    "path",
    [
        "os.system",
        "builtins.exec",
        "torch.load",
        "torch.os.system",
        "torch.from_file",
        "torch.hub.load",
        "torch.ops.load_library",
        "_operator.call",
        "torch.nn.functional.boolean_dispatch",
    ],
)
def test_other_functions_are_refused(path: str) -> None:
    with pytest.raises(ds.GraphError) as caught:
        ds.Graph.from_json(data_calling(path))
    assert str(caught.value) == (
        "the graph calls a function that is not known here\n"
        f"  running it would call {path}, which is neither registered nor torch's own\n"
        f'  hint: if you trust it: Graph.from_json(data, trust=("{path}",))'
    )


def test_a_constant_is_a_path_too() -> None:
    data = data_calling("torch.exp")
    data["nodes"][0]["kwargs"] = {"out": {"constant": "os.system"}}
    with pytest.raises(ds.GraphError):
        ds.Graph.from_json(data)


@pytest.mark.parametrize("path", ["torch.exp", "torch.Tensor.exp", "torch.special.expit"])
def test_tensor_functions_are_known(path: str) -> None:
    graph = ds.Graph.from_json(data_calling(path))
    assert graph.run(torch.zeros(3)).shape == (3,)


def test_what_is_trusted_is_read() -> None:
    graph = ds.Graph.from_json(data_calling("os.system"), trust=("os.system",))
    assert graph.nodes()[0].name == "system"
