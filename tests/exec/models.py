"""Public model architectures from small configurations, with example inputs and the names of their
dynamic dimensions.

Nothing is downloaded: the models are built from their configuration, with random weights.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import torch

VOCABULARY = 128
COMMON = {
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 128,
}
GROUPED = {**COMMON, "num_key_value_heads": 2}
GPT2 = {
    "n_embd": 64,
    "n_layer": 2,
    "n_head": 4,
    "vocab_size": VOCABULARY,
    "n_positions": 128,
    "bos_token_id": 1,
    "eos_token_id": 1,
}
OPT = {
    "hidden_size": 64,
    "ffn_dim": 112,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 128,
    "word_embed_proj_dim": 64,
}
VIT = {
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}
ARCHITECTURES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", GROUPED),
    "mistral": ("MistralForCausalLM", "MistralConfig", GROUPED),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT2),
    "opt": ("OPTForCausalLM", "OPTConfig", OPT),
    "bert": ("BertModel", "BertConfig", COMMON),
    "vit": ("ViTModel", "ViTConfig", VIT),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", {**GROUPED, "num_local_experts": 4}),
}
TOKENS = {0: "batch", 1: "seq"}


def model(name: str) -> Any:
    """Returns an architecture in eval mode."""
    import transformers

    kind, config, values = ARCHITECTURES[name]
    torch.manual_seed(0)
    return getattr(transformers, kind)(getattr(transformers, config)(**values)).eval()


def dynamic(name: str) -> dict[str, dict[int, str]]:
    """Returns the names of the dynamic dimensions."""
    if name == "vit":
        return {"pixel_values": {0: "batch"}}
    if name == "bert":
        return {"input_ids": TOKENS}
    return {"input_ids": TOKENS, "labels": TOKENS}


def inputs(name: str, batch: int, seq: int) -> dict[str, Any]:
    """Returns inputs of these sizes."""
    if name == "vit":
        return {"pixel_values": torch.randn(batch, 3, 32, 32)}
    ids = torch.randint(0, VOCABULARY, (batch, seq))
    if name == "bert":
        return {"input_ids": ids}
    return {"input_ids": ids, "labels": ids.clone(), "use_cache": False}


def some_sizes(count: int, seed: int) -> list[Mapping[str, int]]:
    """Returns random sizes of batch and sequence."""
    source = random.Random(seed)
    return [{"batch": source.randint(2, 5), "seq": source.randint(2, 40)} for _ in range(count)]
