"""Mistral, from the transformers library: a Llama whose attention looks back over a window."""

from __future__ import annotations

from typing import Any

from ._text import text_batch


def tiny() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Returns a Mistral of 2 layers: width 64, 4 heads, 2 key-value heads, a window of 8."""
    from transformers import MistralConfig, MistralForCausalLM

    config = MistralConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        sliding_window=8,
        use_cache=False,
    )
    return MistralForCausalLM(config), *text_batch(256)
