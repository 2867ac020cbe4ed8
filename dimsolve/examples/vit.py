"""ViT, from the transformers library: images cut into patches, classified."""

from __future__ import annotations

from typing import Any


def tiny() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Returns a ViT of 2 layers: images (batch, 3, 32, 32) in patches of 8, width 64, 8 classes."""
    import torch
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        image_size=32,
        patch_size=8,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        id2label={number: str(number) for number in range(8)},
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = ViTForImageClassification(config)
    generator = torch.Generator().manual_seed(0)
    example = {
        "pixel_values": torch.randn(4, 3, 32, 32, generator=generator),
        "labels": torch.randint(8, (4,), generator=generator),
    }
    return model, example, {"pixel_values": {0: "batch"}, "labels": {0: "batch"}}
