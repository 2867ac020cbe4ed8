"""Figures of tracing: Llama-3-8B at full size on the meta device, our own part beside torch's
capture and torch.export.

Our part is everything but torch's capture: reading the graph, solving every shape, confirming it
with torch's.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import pytest
import torch

from dimsolve.exec.capture.capture import captures
from dimsolve.exec.capture.trace import Reader

transformers = pytest.importorskip("transformers")

TOKENS = {0: "batch", 1: "seq"}


def llama(layers: int) -> Any:
    """Llama-3-8B's configuration with this many layers, without memory for its weights."""
    config = transformers.LlamaConfig(
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=layers,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=128256,
        max_position_embeddings=8192,
    )
    with torch.device("meta"):
        return transformers.LlamaForCausalLM(config).eval()


@pytest.mark.parametrize("layers", [32, 80])
def test_llama_3_8b(layers: int, figure: Any) -> None:
    model = llama(layers)
    ids = torch.zeros(2, 16, dtype=torch.long)
    kwargs = {"input_ids": ids, "labels": ids.clone(), "use_cache": False}
    start = perf_counter()
    captured = next(captures(model, (), kwargs, {"input_ids": TOKENS, "labels": TOKENS}))
    capturing = perf_counter() - start
    times = []
    for _ in range(5):
        start = perf_counter()
        graph = Reader(captured, model).graph("llama")
        times.append(perf_counter() - start)
    ours, calls = sorted(times)[2], len(graph.nodes())
    name = f"Llama-3-8B, {layers} layers, {calls} calls"
    figure(f"{name}: torch's capture", capturing, None)
    figure(f"{name}: our part of trace", ours, 1.0 if layers == 32 else 3.0)
    figure(f"{name}: our part, per call", ours / calls, capturing / calls / 10)


def test_torch_export(figure: Any) -> None:
    """torch.export with dynamic shapes, per node of its graph; four layers, since its time is
    proportional.
    """
    model = llama(4)
    batch, seq = torch.export.Dim("batch", min=2, max=64), torch.export.Dim("seq", min=2, max=4096)
    ids = torch.zeros(2, 16, dtype=torch.long, device="meta")
    start = perf_counter()
    program = torch.export.export(
        model,
        (),
        {"input_ids": ids, "use_cache": False},
        dynamic_shapes={"input_ids": {0: batch, 1: seq}, "use_cache": None},
    )
    seconds = perf_counter() - start
    nodes = sum(node.op == "call_function" for node in program.graph.nodes)
    figure(f"torch.export, 4 layers, {nodes} nodes: per node", seconds / nodes, None)
