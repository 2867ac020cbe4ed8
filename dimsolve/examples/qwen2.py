"""Qwen2, from the transformers library: a Llama with biases in the attention's projections."""

from __future__ import annotations

from typing import Any

from ._text import GROUPED, small, text_batch


def tiny() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Returns a Qwen2 of 2 layers: width 64, 4 heads, 2 key-value heads, vocabulary 256."""
    return small("Qwen2", **GROUPED), *text_batch(256)
