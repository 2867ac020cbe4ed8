"""Qwen2, from the transformers library: a Llama with biases in the attention's projections."""

from __future__ import annotations

from typing import Any

from ._text import text_batch


def tiny() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Returns a Qwen2 of 2 layers: width 64, 4 heads, 2 key-value heads, vocabulary 256."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        use_cache=False,
    )
    return Qwen2ForCausalLM(config), *text_batch(256)
