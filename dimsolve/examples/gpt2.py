"""GPT-2, from the transformers library: a fused projection of queries, keys and values."""

from __future__ import annotations

from typing import Any

from ._text import text_batch


def tiny() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Returns a GPT-2 of 2 layers: width 64, 4 heads, vocabulary 256, no dropout."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=256,
        n_positions=128,
        n_embd=64,
        n_layer=2,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    model = GPT2LMHeadModel(config)
    model.loss_type = "ForCausalLM"  # the library's default for it, of which it warns
    return model, *text_batch(256)
