"""OPT, from the transformers library: learned positions, biases everywhere, a ReLU."""

from __future__ import annotations

from typing import Any

from ._text import text_batch


def tiny() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Returns an OPT of 2 layers: width 64, 4 heads, vocabulary 256, no dropout."""
    from transformers import OPTConfig, OPTForCausalLM

    config = OPTConfig(
        vocab_size=256,
        hidden_size=64,
        word_embed_proj_dim=64,
        ffn_dim=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=128,
        dropout=0.0,
        attention_dropout=0.0,
        layerdrop=0.0,
        use_cache=False,
    )
    return OPTForCausalLM(config), *text_batch(256)
