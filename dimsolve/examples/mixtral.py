"""Mixtral, from the transformers library: a Mistral whose MLP is a mixture of experts."""

from __future__ import annotations

from typing import Any

from ._text import text_batch


def tiny() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Returns a Mixtral of 2 layers: width 64, 4 experts of which 2 work on a token.

    The experts work as one batched product, which has every dtype; the library's default, a grouped
    product, has no float64.
    """
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
        max_position_embeddings=512,
        use_cache=False,
    )
    model = MixtralForCausalLM(config)
    model.set_experts_implementation("batched_mm")
    return model, *text_batch(256)
