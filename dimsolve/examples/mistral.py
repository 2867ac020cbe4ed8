"""Mistral, from the transformers library: a Llama whose attention looks back over a window."""

from __future__ import annotations

from typing import Any

from ._text import GROUPED, small, text_batch


def tiny() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Returns a Mistral of 2 layers: width 64, 4 heads, 2 key-value heads, a window of 8."""
    return small("Mistral", sliding_window=8, **GROUPED), *text_batch(256)
