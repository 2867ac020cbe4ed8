"""Figures of planning: Llama-3-8B at full size on the meta device, over meshes of few and many
ranks, 32 layers beside 80.

All plans are made in turns, so that what else runs on the machine slows all of them alike. At most:
2 s for 32 layers, 3 times as long for 80, and 1.2 times as long over 1024 ranks as over 2. A plan
that was read is held against its graph in 1.2 times what planning takes.
"""

from __future__ import annotations

import warnings
from statistics import median
from time import perf_counter
from typing import Any

import torch

import dimsolve as ds

from .test_trace import TOKENS, llama

MESHES: dict[str, dict[str, Any]] = {
    "tp=2": {"tp": 2},
    "tp=8": {"tp": 8},
    "tp=n": {"tp": "n"},
    "dp=2, tp=2": {"dp": 2, "tp": 2},
    "dp=128, tp=8": {"dp": 128, "tp": 8},
}
LAYERS = (32, 80)
ROUNDS = 7


def traced(layers: int) -> Any:
    ids = torch.zeros(2, 16, dtype=torch.long)
    kwargs = {"input_ids": ids, "labels": ids.clone(), "use_cache": False}
    dynamic = {"input_ids": TOKENS, "labels": TOKENS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ds.trace(llama(layers), kwargs=kwargs, dynamic=dynamic)


def test_plans_of_llama_3_8b(figure: Any) -> None:
    graphs = {layers: traced(layers) for layers in LAYERS}
    times: dict[tuple[int, str], list[float]] = {}
    checked: dict[tuple[int, str], list[float]] = {}
    for _ in range(ROUNDS):
        for layers, graph in graphs.items():
            for text, mesh in MESHES.items():
                start = perf_counter()
                plan = ds.plan(graph, mesh)
                times.setdefault((layers, text), []).append(perf_counter() - start)
                start = perf_counter()
                plan.for_graph(graph)
                checked.setdefault((layers, text), []).append(perf_counter() - start)
    for (layers, text), taken in times.items():
        aim = 2.0 if layers == 32 else 3 * median(times[32, text])
        if text.startswith("dp=128"):
            aim = min(aim, 1.2 * median(times[layers, "tp=2"]))
        figure(f"Llama-3-8B, {layers} layers: plan over {text}", median(taken), aim)
    for (layers, text), taken in checked.items():
        if text == "dp=2, tp=2":
            aim = 1.2 * median(times[layers, text])
            name = f"Llama-3-8B, {layers} layers: a plan over {text} held against its graph"
            figure(name, median(taken), aim)
    for layers, graph in graphs.items():
        start = perf_counter()
        counts = graph.legal_parts("tp", "tensor")
        name = f"Llama-3-8B, {layers} layers: legal counts up to 64"
        figure(name, perf_counter() - start, None)
        assert counts.always == (1, 2, 4, 8)
