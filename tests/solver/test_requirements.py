"""Law: what a call asks of symbolic lengths holds exactly where torch runs the call as deduced."""

from __future__ import annotations

import pytest
import torch

import dimsolve as ds


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_there_are_as_many_chunks_as_asked_for(count: int) -> None:
    graph = ds.Graph("f")
    parts = graph.call(torch.chunk, graph.input("x", "b, n"), count, dim=1)
    (condition,) = graph.conditions
    for n in range(1, 40):
        found = torch.zeros(1, n).chunk(count, 1)
        holds = ds.prove(condition, facts=[f"n == {n}"]).verdict == "proved"
        assert holds is (len(found) == count)
        if holds:
            for part, tensor in zip(parts, found, strict=True):
                assert part.dims[1] is not None
                assert graph.evaluate({"b": 1, "n": n})[part.name] == tuple(tensor.shape)
