"""What the language models share: a small model, an example batch, the names of its dimensions."""

from __future__ import annotations

from typing import Any

BATCH, SEQ = 4, 16


def text_batch(vocabulary: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns token ids with themselves as labels, (batch, seq) = (4, 16), and the names."""
    import torch

    ids = torch.randint(vocabulary, (BATCH, SEQ), generator=torch.Generator().manual_seed(0))
    names = {0: "batch", 1: "seq"}
    return {"input_ids": ids, "labels": ids.clone()}, {"input_ids": names, "labels": names}


def small(name: str, head: str = "ForCausalLM", **settings: Any) -> Any:
    """Returns a model of the transformers library: 2 layers of width 64, 4 heads, vocabulary 256.

    name: that of its classes, such as ``Llama``. settings: of its config, beside these.
    """
    import transformers

    usual = {
        "vocab_size": 256,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    config = getattr(transformers, f"{name}Config")(**{**usual, **settings})
    return getattr(transformers, f"{name}{head}")(config)


GROUPED: dict[str, Any] = {
    "intermediate_size": 128,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "use_cache": False,
}
"""Of Llama and its kin: 4 query heads share 2 key-value heads."""
