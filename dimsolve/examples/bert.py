"""BERT, from the transformers library: attention in both directions, a tied output layer."""

from __future__ import annotations

from typing import Any

from ._text import small, text_batch


def tiny() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Returns a BERT of 2 layers with its masked language head: width 64, 4 heads, no dropout."""
    model = small(
        "Bert",
        "ForMaskedLM",
        intermediate_size=128,
        max_position_embeddings=128,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return model, *text_batch(256)
