"""What the language models share: an example batch and the names of its dimensions."""

from __future__ import annotations

from typing import Any

BATCH, SEQ = 4, 16


def text_batch(vocabulary: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns token ids with themselves as labels, (batch, seq) = (4, 16), and the names."""
    import torch

    ids = torch.randint(vocabulary, (BATCH, SEQ), generator=torch.Generator().manual_seed(0))
    names = {0: "batch", 1: "seq"}
    return {"input_ids": ids, "labels": ids.clone()}, {"input_ids": names, "labels": names}
