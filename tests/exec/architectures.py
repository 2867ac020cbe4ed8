"""Ten architectures of transformers, and a day's work with a part of each beside one device.

The parts along ``tp`` and along ``dp`` are asked for the same calls, so what one of them has traced
on demand is given to the other: a trace knows of no mesh.
"""

from __future__ import annotations

import gc
import weakref
from copy import deepcopy
from typing import Any

import torch
import torch.distributed as dist
import transformers
from torch import Tensor

import dimsolve as ds
from tests.exec.programs import VOCABULARY, bytes_of, difference, prompts, train
from tests.oracles.traces import shared_on_demand, shared_trace

TOKENS = {0: "batch", 1: "seq"}
COMMON = {"vocab_size": VOCABULARY, "eos_token_id": None, "bos_token_id": None}
SHAPE = COMMON | {
    "pad_token_id": None,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
GROUPED = SHAPE | {"num_key_value_heads": 2, "head_dim": 8}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "Llama": GROUPED,
    "GPT2": COMMON | {"n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": 64},
    "Qwen3": GROUPED,
    "OPT": SHAPE | {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "GPTNeoX": SHAPE,
    "Mistral": GROUPED | {"sliding_window": 8},
    "Gemma2": GROUPED | {"num_hidden_layers": 2, "sliding_window": 8, "query_pre_attn_scalar": 8},
    "Phi3": GROUPED,
    "Bloom": COMMON | {"hidden_size": 32, "n_layer": 1, "n_head": 4},
    "Qwen3Moe": GROUPED
    | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
    | {"experts_implementation": "batched_mm"},  # grouped_mm knows no float64
}


def made(name: str) -> Any:
    """The model, with weights in float64 and without dropout: ranks draw other numbers."""
    config: Any = getattr(transformers, f"{name}Config")(**ARCHITECTURES[name])
    for field in vars(config):
        if "drop" in field and isinstance(getattr(config, field), float):
            setattr(config, field, 0.0)
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float64)


def day(model: Any, ids: Tensor) -> dict[str, Any]:
    """Three steps, an evaluation, 32 tokens with a cache, beams, and three steps more."""
    found: dict[str, Any] = {"trained": train(model, ids)}
    model.eval()
    with torch.no_grad():
        found["evaluated"] = model(input_ids=ids).logits
        found["shorter"] = model(input_ids=ids[:, :4]).logits
    greedy = {"do_sample": False, "return_dict_in_generate": True}
    generated = model.generate(ids, max_new_tokens=32, **greedy)
    found["tokens"], found["cache"] = generated.sequences, generated.past_key_values
    found["beams"] = model.generate(ids, max_new_tokens=4, num_beams=2, do_sample=False)
    torch.manual_seed(5)
    found["sampled"] = model.generate(ids, max_new_tokens=4, do_sample=True, top_k=20)
    model.train()
    found["again"] = train(model, ids)
    return found


def days(name: str) -> dict[str, Any]:
    """A day on ``tp`` and one on ``dp`` with rows of its own on every rank, beside one device."""
    whole, ids = made(name), prompts()
    kind, alive = type(whole), weakref.ref(whole)
    kwargs = {"input_ids": ids, "labels": ids}
    names = {"input_ids": TOKENS, "labels": TOKENS}
    graph = shared_trace(f"day of {name}", whole, kwargs=kwargs, dynamic=names)
    found: dict[str, Any] = {"whole": bytes_of(whole)}
    parts = {
        axis: ds.parallelize(whole, ds.plan(graph, {axis: 2}), inputs=way)
        for axis, way in (("tp", "whole"), ("dp", "local"))
    }
    wanted = day(deepcopy(whole), ids)
    del whole, graph
    gc.collect()
    found["model is gone"] = alive() is None
    first = 2 * dist.get_rank()
    with shared_on_demand(name):
        for axis, part in parts.items():
            rows = slice(first, first + 2) if axis == "dp" else slice(None)
            before, given = bytes_of(part), day(part, ids[rows])
            cut = {key: wanted[key][rows] for key in ("evaluated", "shorter", "tokens", "beams")}
            cache = given.pop("cache")
            if axis == "dp":  # every rank draws for its own rows
                given.pop("sampled")
            found[axis] = {
                "differences": {k: difference(given[k], (wanted | cut)[k]) for k in given},
                "bytes": (before, bytes_of(part)),
                "modes": [entry.modes[""] for entry in part.programs],
                "cache": [str(place) for place in cache.layers[0].keys.placements],
                "inputs": [entry.arguments.names for entry in part.programs],
                "is a": isinstance(part, kind),
            }
    return found
