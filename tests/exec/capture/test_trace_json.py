"""Law: a traced graph that is read from JSON is the graph that was written, says the same of its
symbols, and gives what torch gives.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch

import dimsolve as ds

MODELS: dict[str, Callable[[Any], Any]] = {
    "a slice from the end": lambda x: x[:, -x.shape[0] :],
    "a slice to the end": lambda x: x[:, : -x.shape[0]],
    "a slice by a difference": lambda x: x[:, x.shape[1] - x.shape[0] :],
    "half, rounded": lambda x: x[:, -x.shape[1] // 2 :],
    "all from the end": lambda x: torch.cat([x, x], 1)[..., -x.shape[1] :],
    "parts of one size": lambda x: x.split(2, 1)[0],
    "parts of two sizes": lambda x: x.split([2, x.shape[1] - 2], 1)[1],
    "chunks": lambda x: x.chunk(3, 1)[1],
    "unflatten": lambda x: x.unflatten(1, (2, -1)),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_traced_graph_reads_as_it_was_written(name: str) -> None:
    torch._dynamo.reset()
    model = MODELS[name]
    written = ds.trace(model, (torch.rand(3, 8),), dynamic={"x": {0: "b", 1: "s"}})
    read = ds.Graph.from_json(json.loads(json.dumps(written.to_json())))
    assert str(read) == str(written) and read.conditions == written.conditions
    tried = 0
    for b, s in product(range(1, 7), range(1, 10)):
        x = torch.rand(b, s)
        try:
            read.evaluate({"b": b, "s": s})
        except ds.ShapeError:
            continue
        tried += 1
        for graph in (written, read):
            assert torch.equal(graph.run(x), model(x))
    assert tried
