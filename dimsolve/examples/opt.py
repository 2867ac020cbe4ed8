"""OPT, from the transformers library: learned positions, biases everywhere, a ReLU."""

from __future__ import annotations

from typing import Any

from ._text import small, text_batch


def tiny() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Returns an OPT of 2 layers: width 64, 4 heads, vocabulary 256, no dropout."""
    model = small(
        "OPT",
        word_embed_proj_dim=64,
        ffn_dim=128,
        max_position_embeddings=128,
        dropout=0.0,
        attention_dropout=0.0,
        layerdrop=0.0,
        use_cache=False,
    )
    return model, *text_batch(256)
