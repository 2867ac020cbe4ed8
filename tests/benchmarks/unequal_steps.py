"""What a step takes at a count that is not even, measured on gloo ranks beside even ones.

    python -m tests.benchmarks.unequal_steps

Three models, float32, at 2, 3 and 4 ranks of the policy "tensor": forward, backward and AdamW.
All worlds stand at once, and their steps take turns, so that what else the machine does falls on
all of them alike; printed are the medians of one run, and how many times an equal share of the
parameters the fullest rank holds. A rank has one thread. Where there are fewer cores than ranks
the ranks take turns too: then the sum of their work is measured, and the gathering.
"""

from __future__ import annotations

import os
import time
from statistics import median
from typing import Any

import torch

import dimsolve as ds
from tests.oracles.ranks import Ranks

COUNTS = (2, 3, 4)
ROUNDS = 7
SIZES = {"hidden_size": 256, "num_hidden_layers": 2, "max_position_embeddings": 128}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "GPT-2, 4 heads, 50,257 tokens": (
        "GPT2LMHeadModel",
        {"n_embd": 256, "n_head": 4, "n_layer": 2, "n_positions": 128},
    ),
    "Llama, 8 heads, 2 kv heads, 16,001 tokens": (
        "LlamaForCausalLM",
        {
            **SIZES,
            "num_attention_heads": 8,
            "num_key_value_heads": 2,
            "intermediate_size": 683,
            "vocab_size": 16001,
        },
    ),
    "Qwen2, 14 heads, 2 kv heads, 15,167 tokens": (
        "Qwen2ForCausalLM",
        {
            **SIZES,
            "hidden_size": 224,
            "num_attention_heads": 14,
            "num_key_value_heads": 2,
            "intermediate_size": 1216,
            "vocab_size": 15167,
        },
    ),
}

_held: dict[str, Any] = {}
"""What a rank keeps between the calls: its part, its optimizer, its batch."""


def start(name: str) -> tuple[int, int]:
    """Makes a rank's part; returns how many parameters it has, and the whole."""
    import torch.distributed as dist
    import transformers

    kind, settings = MODELS[name]
    config = getattr(transformers, kind).config_class(**settings)
    config.use_cache = False
    torch.manual_seed(0)
    model = getattr(transformers, kind)(config).eval()
    ids = torch.randint(config.vocab_size, (4, 64))
    given = {"input_ids": ids, "labels": ids.clone()}
    names = {key: {0: "batch", 1: "seq"} for key in given}
    graph = ds.trace(model, kwargs=given, dynamic=names)
    whole = sum(each.numel() for each in model.parameters())
    part = ds.parallelize(model, ds.plan(graph, {"tp": dist.get_world_size()}, "tensor"))
    optimizer = torch.optim.AdamW(part.parameters(), lr=1e-3)
    _held.update(part=part, optimizer=optimizer, given=given)
    return sum(each.numel() for each in part.parameters()), whole


def step() -> tuple[float, float]:
    """Makes a step; returns its seconds and the loss."""
    import torch.distributed as dist

    dist.barrier()
    begun = time.perf_counter()
    _held["optimizer"].zero_grad()
    loss = _held["part"](**_held["given"]).loss
    loss.backward()
    _held["optimizer"].step()
    return time.perf_counter() - begun, float(loss.detach())


def main() -> None:
    """Prints a row for every model."""
    worlds = {count: Ranks(count) for count in COUNTS}
    print(f"{os.cpu_count()} cores, torch {torch.__version__}")
    print("| model | " + " | ".join(f"{n} ranks | share" for n in COUNTS) + " | loss differs by |")
    print("|---|" + "---:|---:|" * len(COUNTS) + "---:|")
    for name in MODELS:
        held = {count: each.run(start, name) for count, each in worlds.items()}
        times: dict[int, list[float]] = {count: [] for count in COUNTS}
        apart = 0.0
        for number in range(ROUNDS + 1):
            losses = []
            for count, each in worlds.items():
                found = each.run(step)
                losses.append(found[0][1])
                if number:  # the first step of a world also makes what it keeps
                    times[count].append(max(seconds for seconds, _ in found))
            apart = max(apart, max(losses) - min(losses))
        cells = []
        for count in COUNTS:
            fullest, whole = max(own for own, _ in held[count]), held[count][0][1]
            cells.append(f"{median(times[count]) * 1e3:.0f} ms | {fullest * count / whole:.3f}")
        print(f"| {name} | {' | '.join(cells)} | {apart:.0e} |", flush=True)
    for each in worlds.values():
        each.close()


if __name__ == "__main__":
    main()
