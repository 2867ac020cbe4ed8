"""Llama, from the transformers library: grouped key-value heads, rotary positions, a gated MLP."""

from __future__ import annotations

from typing import Any

from ._text import GROUPED, small, text_batch


def tiny() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Returns a Llama of 2 layers: width 64, 4 heads, 2 key-value heads, vocabulary 256."""
    return small("Llama", **GROUPED), *text_batch(256)


def eight_billion() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Returns Llama-3-8B in full size on the meta device, without weights: to plan, not to run."""
    import torch

    with torch.device("meta"):
        model = small(
            "Llama",
            vocab_size=128256,
            hidden_size=4096,
            intermediate_size=14336,
            num_hidden_layers=32,
            num_attention_heads=32,
            num_key_value_heads=8,
            max_position_embeddings=8192,
            rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
            use_cache=False,
        )
    return model, *text_batch(128256)
