"""How long the search for the best plan takes, without tracing.

    python -m tests.benchmarks.best_plan llama-8b 32 dp=8,tp=8
    python -m tests.benchmarks.best_plan llama-70b 80 dp=8,tp=8 --memory 160GiB --seconds 120
    python -m tests.benchmarks.best_plan llama-8b 32 dp=8,tp=8 --limit 0.8 --seconds 20

Prints the seconds of the search, of the processor and of the clock, and those of the check of its
proof, the cost of a training step with 64 sequences of 4096 (or 64 images), and the gap that is
left. ``--limit``: a part of what the plan without a limit needs, which is searched first.
``--graph FILE``: the traced graph is kept there, and read the next time. ``--busy``: the time limit
is one of the processor's seconds, where others use it too. Models are on the meta device.
"""

from __future__ import annotations

import argparse
import json
import resource
import warnings
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import torch
import transformers

import dimsolve as ds
from dimsolve.partition.machine import bytes_text
from dimsolve.partition.search import clock

from .test_trace import TOKENS

SIZES = {"batch": 64, "seq": 4096}
LLAMA: dict[str, Any] = {"vocab_size": 128256, "num_key_value_heads": 8}


def model_of(name: str, layers: int) -> Any:
    """Returns a model without memory for its weights."""
    match name:
        case "llama-8b":
            config = transformers.LlamaConfig(
                num_hidden_layers=layers, intermediate_size=14336, **LLAMA
            )
            made: Any = transformers.LlamaForCausalLM
        case "llama-70b":
            config = transformers.LlamaConfig(
                num_hidden_layers=layers,
                hidden_size=8192,
                intermediate_size=28672,
                num_attention_heads=64,
                **LLAMA,
            )
            made = transformers.LlamaForCausalLM
        case "mixtral":
            config = transformers.MixtralConfig(num_hidden_layers=layers)
            made = transformers.MixtralForCausalLM
        case _:
            config = transformers.ViTConfig(
                hidden_size=1024,
                num_hidden_layers=layers,
                num_attention_heads=16,
                intermediate_size=4096,
            )
            made = transformers.ViTForImageClassification
    with torch.device("meta"):
        return made(config).to(torch.bfloat16).eval()


def traced(name: str, layers: int) -> Any:
    """Returns the model's graph."""
    kwargs: dict[str, Any]
    if name == "vit":
        images = torch.zeros(2, 3, 224, 224, dtype=torch.bfloat16)
        kwargs = {"pixel_values": images, "labels": torch.zeros(2, dtype=torch.long)}
        dynamic: dict[str, Any] = {each: {0: "batch"} for each in kwargs}
    else:
        ids = torch.zeros(2, 16, dtype=torch.long)
        kwargs = {"input_ids": ids, "labels": ids.clone(), "use_cache": False}
        dynamic = {"input_ids": TOKENS, "labels": TOKENS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ds.trace(model_of(name, layers), kwargs=kwargs, dynamic=dynamic)


def measured(graph: Any, mesh: str, sizes: dict[str, int], **asked: Any) -> Any:
    """Prints a search and the check of its proof; returns the plan, None where none was found."""
    wall, cpu = perf_counter(), process_time()
    try:
        plan = ds.plan(graph, mesh, "auto", machine="h100", sizes=sizes, progress=False, **asked)
    except ds.PlanError as error:
        print(f"{process_time() - cpu:.1f} s, {perf_counter() - wall:.1f} s by the clock: none")
        print(error)
        return None
    wall, cpu = perf_counter() - wall, process_time() - cpu
    assert plan.search is not None
    start = process_time()
    found = ds.verify(plan)
    checked = process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{cpu:.1f} s for the plan, {wall:.1f} s by the clock, gap {plan.search.gap:.3%}, "
        f"{checked:.1f} s for its check: {found.ok}; at most {peak:.0f} MiB"
    )
    print(f"{bytes_text(plan.memory(sizes).total)} of a rank, {len(plan.search.cases)} cases")
    print(plan.search.explain(), flush=True)
    return plan


def main() -> None:
    """Measures one search, or two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=("llama-8b", "llama-70b", "mixtral", "vit"))
    parser.add_argument("layers", type=int)
    parser.add_argument("mesh")
    parser.add_argument("--memory")
    parser.add_argument("--limit", type=float)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--graph", type=Path)
    parser.add_argument("--busy", action="store_true")
    asked = parser.parse_args()
    if asked.busy:
        clock.__dict__["monotonic"] = process_time
    if asked.graph is not None and asked.graph.exists():
        graph = ds.Graph.from_json(json.loads(asked.graph.read_text()))
    else:
        graph = traced(asked.model, asked.layers)
        if asked.graph is not None:
            asked.graph.write_text(json.dumps(graph.to_json()))
    sizes = SIZES if asked.model != "vit" else {"batch": 64}
    memory = asked.memory
    if asked.limit is not None:
        whole = measured(graph, asked.mesh, sizes, seconds=asked.seconds)
        memory = int(whole.memory(sizes).total * asked.limit)
        print(f"\nwithin {bytes_text(memory)}")
    measured(graph, asked.mesh, sizes, seconds=asked.seconds, memory=memory)


if __name__ == "__main__":
    main()
