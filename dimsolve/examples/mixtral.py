"""Mixtral, from the transformers library: a Mistral whose MLP is a mixture of experts."""

from __future__ import annotations

from typing import Any

from ._text import GROUPED, small, text_batch


def tiny() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Returns a Mixtral of 2 layers: width 64, 4 experts of which 2 work on a token.

    The experts work as one batched product, which has every dtype; the library's default, a grouped
    product, has no float64.
    """
    model = small("Mixtral", num_local_experts=4, num_experts_per_tok=2, **GROUPED)
    model.set_experts_implementation("batched_mm")
    return model, *text_batch(256)
