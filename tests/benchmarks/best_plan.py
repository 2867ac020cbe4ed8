"""How long the search for the best plan takes, without tracing, in seconds of the processor.

    python -m tests.benchmarks.best_plan llama-8b 32 dp=8,tp=8
    python -m tests.benchmarks.best_plan llama-70b 80 dp=8,tp=8 --memory 160GiB --seconds 120

Prints the time of the search and of the check of its proof, the cost of a training step with 64
sequences of 4096 (or 64 images), and the gap that is left. Models are on the meta device.
"""

from __future__ import annotations

import argparse
import warnings
from time import process_time
from typing import Any

import torch
import transformers

import dimsolve as ds

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


def main() -> None:
    """Measures one search."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=("llama-8b", "llama-70b", "mixtral", "vit"))
    parser.add_argument("layers", type=int)
    parser.add_argument("mesh")
    parser.add_argument("--memory")
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    graph = traced(asked.model, asked.layers)
    sizes = SIZES if asked.model != "vit" else {"batch": 64}
    start = process_time()
    plan = ds.plan(
        graph,
        asked.mesh,
        "auto",
        machine="h100",
        memory=asked.memory,
        sizes=sizes,
        seconds=asked.seconds,
    )
    searched = process_time() - start
    assert plan.search is not None
    start = process_time()
    found = ds.verify(plan)
    checked = process_time() - start
    print(f"{searched:.1f} s for the plan, {checked:.1f} s for its check: {found.ok}")
    print(plan.search.explain())


if __name__ == "__main__":
    main()
