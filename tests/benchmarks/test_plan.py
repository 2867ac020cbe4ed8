"""Figures of planning: Llama-3-8B at full size on the meta device, over meshes of few and many
ranks, 32 layers beside 80.
"""

from __future__ import annotations

import warnings
from time import perf_counter
from typing import Any

import pytest
import torch

import dimsolve as ds

from .test_trace import TOKENS, llama

MESHES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tp=2", {"tp": 2}),
    ("tp=8", {"tp": 8}),
    ("tp=n", {"tp": "n"}),
    ("dp=2, tp=2", {"dp": 2, "tp": 2}),
    ("dp=128, tp=8", {"dp": 128, "tp": 8}),
)


@pytest.mark.parametrize("layers", [32, 80])
def test_plans_of_llama_3_8b(layers: int, figure: Any) -> None:
    ids = torch.zeros(2, 16, dtype=torch.long)
    kwargs = {"input_ids": ids, "labels": ids.clone(), "use_cache": False}
    dynamic = {"input_ids": TOKENS, "labels": TOKENS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = ds.trace(llama(layers), kwargs=kwargs, dynamic=dynamic)
    name = f"Llama-3-8B, {layers} layers"
    for text, mesh in MESHES:
        times = []
        for _ in range(3):
            start = perf_counter()
            ds.plan(graph, mesh)
            times.append(perf_counter() - start)
        figure(f"{name}: plan over {text}", sorted(times)[1], 2.0 if layers == 32 else 6.0)
    start = perf_counter()
    counts = graph.legal_parts("tp", "tensor")
    figure(f"{name}: legal counts up to 64", perf_counter() - start, None)
    assert counts.always == (1, 2, 4, 8)
