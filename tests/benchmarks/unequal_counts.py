"""The table of `docs/uneven.md`: counts that are not even, beside the nearest count that is.

    python -m tests.benchmarks.unequal_counts

Two layers of the real widths. The share is how many times an equal share of all parameters the
fullest rank holds under "tensor"; times are those of the cost model on H100s, at 4 x 512 tokens, of
"tensor" and of "auto".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

import dimsolve as ds

TOKENS = {"batch": 4, "seq": 512}


def models() -> Iterator[tuple[str, Any, list[tuple[int, int]]]]:
    """Yields names, models without memory, and pairs of an uneven count and an even one."""
    from transformers import (
        GPT2Config,
        GPT2LMHeadModel,
        LlamaConfig,
        LlamaForCausalLM,
        Qwen2Config,
        Qwen2ForCausalLM,
    )

    with torch.device("meta"):
        quiet = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "use_cache": False}
        yield "GPT-2", GPT2LMHeadModel(GPT2Config(n_layer=2, **quiet)), [(3, 4), (5, 4), (7, 6)]
        qwen = {"hidden_size": 896, "intermediate_size": 4864, "vocab_size": 151936}
        heads = {"num_attention_heads": 14, "num_key_value_heads": 2, "num_hidden_layers": 2}
        config = Qwen2Config(**qwen, **heads, use_cache=False)
        yield "Qwen2 0.5B, 2 kv heads", Qwen2ForCausalLM(config), [(3, 2), (4, 2), (7, 2)]
        llama = {"num_hidden_layers": 2, "num_key_value_heads": 8, "use_cache": False}
        config = LlamaConfig(vocab_size=128256, intermediate_size=14336, **llama)
        yield "Llama 3 8B", LlamaForCausalLM(config), [(3, 4), (6, 4), (16, 8)]


def rows() -> Iterator[str]:
    """Yields the rows of the table."""
    names = {0: "batch", 1: "seq"}
    for name, model, counts in models():
        ids = torch.zeros((2, 16), dtype=torch.int64, device="meta")
        given = {"input_ids": ids, "labels": ids.clone()}
        graph = ds.trace(model, kwargs=given, dynamic=dict.fromkeys(given, names))
        whole = ds.plan(graph, {"tp": 1}, "tensor").memory(TOKENS).parameters
        for pair in counts:
            found = []
            for count in pair:
                plan = ds.plan(graph, {"tp": count}, "tensor")
                share = plan.memory(TOKENS).parameters * count / whole
                best = ds.plan(graph, {"tp": count}, "auto", sizes=TOKENS, progress=False)
                costs = [each.cost(TOKENS).seconds * 1e3 for each in (plan, best)]
                found += [f"{share:.3f}", " | ".join(f"{each:.2f} ms" for each in costs)]
            yield f"| {name} | {pair[0]} | {found[0]} | {found[1]} | {pair[1]} | {found[3]} |"


if __name__ == "__main__":
    print(
        "| model | tp | share of the fullest rank | tensor | auto | nearest even tp "
        "| tensor | auto |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in rows():
        print(row, flush=True)
