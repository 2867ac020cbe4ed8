"""Law: what a traced model returns is what the model returns, at any sizes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch

import dimsolve as ds


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


RESULTS: dict[str, tuple[Callable[[torch.Tensor], Any], Callable[[Any], Any]]] = {
    "lengths": (lambda x: (x + 1, x.shape, x.numel(), x.shape[1] // 2), lambda r: r),
    "a size alone": (lambda x: x.size(), lambda r: r),
    "constants": (lambda x: (x + 1, 7, True, "a", None, 2.5), lambda r: r),
    "nested": (lambda x: {"k": [x * 2, x.shape[0] * x.shape[1]]}, lambda r: r),
    "dataclass": (lambda x: Scores(x * 2, x.sum(0)), vars),
    "dataclass with a length": (lambda x: Scores(x * 2, x.shape[1]), vars),
    "named tuple": (lambda x: Pair(x * 2, x.shape[0]), tuple),
    "object": (lambda x: (Cache(x * 2), x + 1), lambda r: (vars(r[0]), r[1])),
}


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b) and type(a) is type(b)


@pytest.mark.parametrize("name", RESULTS)
def test_the_graph_returns_what_the_model_returns(name: str) -> None:
    model, as_tree = RESULTS[name]
    graph = ds.trace(model, (torch.rand(3, 8),), dynamic={"x": {0: "b", 1: "s"}})
    for sizes in ((3, 8), (5, 4), (1, 2)):
        x = torch.rand(*sizes)
        assert same(as_tree(model(x)), graph.run(x))
    again = ds.Graph.from_json(json.loads(json.dumps(graph.to_json())))
    assert str(again) == str(graph)
