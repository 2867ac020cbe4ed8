"""Law: what a traced model returns is what the model returns, at any sizes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import dimsolve as ds
from tests.exec.losses import noise
from tests.oracles.one_device import parts


@dataclass
class Scores:
    values: torch.Tensor
    count: Any = None


class Pair(NamedTuple):
    first: torch.Tensor
    second: Any


class Cache:
    """An object that torch knows nothing of."""

    def __init__(self, keys: torch.Tensor) -> None:
        self.layers = [keys]
        self.name = "cache"


RESULTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "lengths": lambda x: (x + 1, x.shape, x.numel(), x.shape[1] // 2),
    "a size alone": lambda x: x.size(),
    "constants": lambda x: (x + 1, 7, True, "a", None, 2.5),
    "nested": lambda x: {"k": [x * 2, x.shape[0] * x.shape[1]]},
    "dataclass": lambda x: Scores(x * 2, x.sum(0)),
    "dataclass with a length": lambda x: Scores(x * 2, x.shape[1]),
    "named tuple": lambda x: Pair(x * 2, x.shape[0]),
    "object": lambda x: (Cache(x * 2), x + 1),
}


def same(a: Any, b: Any) -> bool:
    if type(a) is not type(b) and not isinstance(a, torch.Size):
        return False
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return same(vars(a), vars(b)) if hasattr(a, "__dict__") else bool(a == b)


@pytest.mark.parametrize("name", RESULTS)
def test_the_graph_returns_what_the_model_returns(name: str) -> None:
    model = RESULTS[name]
    graph = ds.trace(model, (torch.rand(3, 8),), dynamic={"x": {0: "b", 1: "s"}})
    for sizes in ((3, 8), (5, 4), (1, 2)):
        x = torch.rand(*sizes)
        assert same(model(x), graph.run(x))
    again = ds.Graph.from_json(json.loads(json.dumps(graph.to_json())))
    assert str(again) == str(graph)


ATTRIBUTES: dict[str, tuple[Tensor, Callable[[Any, Tensor], Any]]] = {
    "T": (noise(4, 6), lambda model, x: x.T),
    "H": (noise(4, 6), lambda model, x: x.H),
    "mT": (noise(2, 4, 6), lambda model, x: x.mT),
    "mH": (noise(2, 4, 6), lambda model, x: x.mH),
    "T of T": (noise(4, 6), lambda model, x: x.T.T),
    "real": (torch.complex(noise(4, 6), noise(4, 6, seed=1)), lambda model, x: x.real),
    "imag": (torch.complex(noise(4, 6), noise(4, 6, seed=1)), lambda model, x: x.imag),
    "data": (noise(4, 6), lambda model, x: x.data),
    "in a dict": (noise(4, 6), lambda model, x: {"turned": x.T, "twice": x * 2}),
    "with a length": (noise(4, 6), lambda model, x: (x.T, x.shape[0], [x + 1])),
    "of a parameter": (noise(4, 6), lambda model, x: (model.weight.mT, x + 1)),
    "data of a parameter": (noise(4, 6), lambda model, x: (model.weight.data, x + 1)),
    "a plain tensor": (noise(4, 6), lambda model, x: (model.plain, x + 1)),
}


class Gives(nn.Module):
    """What a case returns."""

    def __init__(self, call: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        self.weight = nn.Parameter(noise(3, 2))
        self.plain = noise(3)
        self.call = call

    def forward(self, x: Tensor) -> Any:
        return self.call(self, x)


@pytest.mark.parametrize("name", ATTRIBUTES)
@pytest.mark.parametrize("gradient", [False, True])
def test_an_attribute_of_a_tensor_is_returned_as_it_is(name: str, gradient: bool) -> None:
    x, call = ATTRIBUTES[name]
    model, x = Gives(call), x.clone().requires_grad_(gradient)
    plan = ds.plan(ds.trace(model, x), {"dp": 2}, "replicate")
    other = torch.flip(x.detach(), (0,)).requires_grad_(gradient)
    want = pytree.tree_leaves(model(other))
    for given in parts(model, plan, {"dp": 2}, lambda part: part(x=other)):
        got = pytree.tree_leaves(given)
        assert [type(item) for item in got] == [type(item) for item in want]
        for a, b in zip(want, got, strict=True):
            assert torch.equal(a, b) if isinstance(a, Tensor) else a == b
            assert getattr(a, "requires_grad", None) == getattr(b, "requires_grad", None)


class Holder:
    """An object of which torch knows nothing."""

    def __init__(self, turned: Tensor, twice: Tensor) -> None:
        self.turned, self.twice = turned, twice


def test_an_attribute_of_a_tensor_inside_an_object_is_refused() -> None:
    if hasattr(torch.ops.aten, "shallow_copy_data_"):  # torch 2.15 makes a step of x.T
        x = noise(4, 6)
        found = ds.trace(lambda x: Holder(x.T, x * 2), x).run(x=x)
        assert torch.equal(found.turned, x.T) and torch.equal(found.twice, x * 2)
        return
    with pytest.raises(ds.TraceError) as caught:
        ds.trace(lambda x: Holder(x.T, x * 2), noise(4, 6))
    assert str(caught.value) == (
        "the model returns a tensor that its program does not make: turned\n"
        "  torch hands it out as an attribute of a tensor that the call was given\n"
        "  hint: return it by itself, in a tuple, a list, a dict or a dataclass"
    )


class Histograms(nn.Module):
    """A function of torch that returns a tensor and a tuple of tensors."""

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        counts, edges = torch.histogramdd(x, [1, 2])
        return counts * 2, edges


def test_a_function_may_return_a_tuple_inside_of_a_tuple() -> None:
    model, x = Histograms(), noise(4, 2).detach()
    graph = ds.trace(model, kwargs={"x": x})
    want = model(x)
    torch.testing.assert_close(graph.run(x=x), want)
    plan = ds.plan(graph, {"tp": 2}, "replicate")
    for got in parts(model, plan, {"tp": 2}, lambda part: part(x=x)):
        torch.testing.assert_close(got, want)
