"""Further small models of the transformers library: other orders of blocks, fused projections,
encoders with decoders, windows, convolutions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Example = tuple[Any, dict[str, Any], dict[str, Any]]

TEXT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gemma": ("GemmaConfig", "GemmaForCausalLM", {"num_key_value_heads": 4, "head_dim": 8}),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", {"num_key_value_heads": 4, "head_dim": 8}),
    "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM", {"num_key_value_heads": 4, "head_dim": 8}),
    "phi": ("PhiConfig", "PhiForCausalLM", {}),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", {}),
    "starcoder2": ("Starcoder2Config", "Starcoder2ForCausalLM", {"num_key_value_heads": 4}),
    "olmo2": ("Olmo2Config", "Olmo2ForCausalLM", {"num_key_value_heads": 4, "pad_token_id": 0}),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {"num_key_value_heads": 4, "head_dim": 8}),
    "qwen3_moe": (
        "Qwen3MoeConfig",
        "Qwen3MoeForCausalLM",
        {
            "num_key_value_heads": 4,
            "head_dim": 8,
            "moe_intermediate_size": 32,
            "num_experts": 4,
            "num_experts_per_tok": 2,
        },
    ),
    "cohere": (
        "CohereConfig",
        "CohereForCausalLM",
        {"num_key_value_heads": 4, "pad_token_id": 0},
    ),
    "stablelm": ("StableLmConfig", "StableLmForCausalLM", {"num_key_value_heads": 4}),
    "glm": (
        "GlmConfig",
        "GlmForCausalLM",
        {"num_key_value_heads": 4, "head_dim": 8, "pad_token_id": 0},
    ),
    "granite": ("GraniteConfig", "GraniteForCausalLM", {"num_key_value_heads": 4}),
    "roberta": ("RobertaConfig", "RobertaForMaskedLM", {}),
    "electra": ("ElectraConfig", "ElectraForMaskedLM", {"embedding_size": 64}),
    "albert": ("AlbertConfig", "AlbertForMaskedLM", {"embedding_size": 32}),
}  # fmt: skip
"""Models whose configurations speak of hidden_size and num_attention_heads: config, model, more."""

OWN: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gptj": (
        "GPTJConfig",
        "GPTJForCausalLM",
        {"n_embd": 64, "n_layer": 2, "n_head": 8, "n_positions": 64, "rotary_dim": 4},
    ),
    "distilbert": (
        "DistilBertConfig",
        "DistilBertForMaskedLM",
        {"dim": 64, "hidden_dim": 128, "n_layers": 2, "n_heads": 8, "max_position_embeddings": 64},
    ),
    "bloom": ("BloomConfig", "BloomForCausalLM", {"hidden_size": 64, "n_layer": 2, "n_head": 8}),
    "falcon_new": (
        "FalconConfig",
        "FalconForCausalLM",
        {
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 8,
            "num_kv_heads": 4,
            "new_decoder_architecture": True,
        },
    ),
    "falcon_multi_head": (
        "FalconConfig",
        "FalconForCausalLM",
        {
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 8,
            "multi_query": False,
            "bias": True,
        },
    ),
    "gpt_bigcode": (
        "GPTBigCodeConfig",
        "GPTBigCodeForCausalLM",
        {"n_embd": 64, "n_layer": 2, "n_head": 8, "n_positions": 64},
    ),
    "mpt": (
        "MptConfig",
        "MptForCausalLM",
        {"d_model": 64, "n_layers": 2, "n_heads": 8, "max_seq_len": 64},
    ),
    "bart": (
        "BartConfig",
        "BartForConditionalGeneration",
        {
            "d_model": 64,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 8,
            "decoder_attention_heads": 8,
            "encoder_ffn_dim": 128,
            "decoder_ffn_dim": 128,
            "max_position_embeddings": 64,
            "pad_token_id": 1,
            "decoder_start_token_id": 2,
        },
    ),
    "t5": (
        "T5Config",
        "T5ForConditionalGeneration",
        {
            "d_model": 64,
            "d_kv": 8,
            "d_ff": 128,
            "num_layers": 2,
            "num_heads": 8,
            "decoder_start_token_id": 0,
        },
    ),
    "gpt_neo": (
        "GPTNeoConfig",
        "GPTNeoForCausalLM",
        {
            "hidden_size": 64,
            "num_layers": 2,
            "num_heads": 8,
            "max_position_embeddings": 64,
            "attention_types": [[["global", "local"], 1]],
        },
    ),
}
"""Models whose configurations have words of their own."""

_SIZES = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "max_position_embeddings": 64,
}


def text(name: str) -> Example:
    """A language model over 128 words on 4 rows of 16."""
    import transformers as tf

    config_name, model_name, more = TEXT[name] if name in TEXT else OWN[name]
    sizes = {**_SIZES, **more} if name in TEXT else more
    ends = {"bos_token_id": 1, "eos_token_id": 2}
    config = getattr(tf, config_name)(vocab_size=128, **{**ends, **sizes})
    config.use_cache = False
    ids = torch.randint(3, 128, (4, 16), generator=torch.Generator().manual_seed(1))
    dims = {0: "batch", 1: "seq"}
    inputs = {"input_ids": ids, "labels": ids}
    return getattr(tf, model_name)(config), inputs, {"input_ids": dims, "labels": dims}


def _pixels(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(4, *shape, dtype=torch.float64, generator=generator)


def deit() -> Example:
    import transformers as tf

    config = tf.DeiTConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=8,
        image_size=32, patch_size=8, num_labels=10,
    )  # fmt: skip
    model = tf.DeiTForImageClassification(config)
    return model, {"pixel_values": _pixels(3, 32, 32)}, {"pixel_values": {0: "batch"}}


def swin() -> Example:
    import transformers as tf

    config = tf.SwinConfig(
        image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4,
        num_labels=10,
    )  # fmt: skip
    model = tf.SwinForImageClassification(config)
    return model, {"pixel_values": _pixels(3, 32, 32)}, {"pixel_values": {0: "batch"}}


def clip_text() -> Example:
    import transformers as tf

    config = tf.CLIPTextConfig(vocab_size=128, projection_dim=64, **_SIZES, eos_token_id=2)
    ids = torch.randint(3, 128, (4, 16), generator=torch.Generator().manual_seed(1))
    model = tf.CLIPTextModelWithProjection(config)
    return model, {"input_ids": ids}, {"input_ids": {0: "batch", 1: "seq"}}


def whisper() -> Example:
    import transformers as tf

    config = tf.WhisperConfig(
        vocab_size=128, num_mel_bins=16, d_model=64, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=128,
        decoder_ffn_dim=128, max_source_positions=32, max_target_positions=64, use_cache=False,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    ids = torch.randint(3, 128, (4, 16), generator=torch.Generator().manual_seed(1))
    inputs = {"input_features": _pixels(16, 64), "labels": ids}
    dynamic = {"input_features": {0: "batch"}, "labels": {0: "batch", 1: "seq"}}
    return tf.WhisperForConditionalGeneration(config), inputs, dynamic


def resnet() -> Example:
    import transformers as tf

    config = tf.ResNetConfig(
        embedding_size=16, hidden_sizes=[32, 64], depths=[2, 2], num_labels=10, layer_type="basic"
    )
    model = tf.ResNetForImageClassification(config)
    return model, {"pixel_values": _pixels(3, 32, 32)}, {"pixel_values": {0: "batch"}}


def convnext() -> Example:
    import transformers as tf

    config = tf.ConvNextConfig(
        image_size=32, patch_size=2, hidden_sizes=[16, 32], depths=[2, 2], num_stages=2,
        num_labels=10,
    )  # fmt: skip
    model = tf.ConvNextForImageClassification(config)
    return model, {"pixel_values": _pixels(3, 32, 32)}, {"pixel_values": {0: "batch"}}


IMAGES: dict[str, Callable[[], Example]] = {
    "deit": deit,
    "swin": swin,
    "clip_text": clip_text,
    "whisper": whisper,
    "resnet": resnet,
    "convnext": convnext,
}
MORE: dict[str, Callable[[], Example]] = {
    **{name: (lambda name=name: text(name)) for name in (*TEXT, *OWN)},  # type: ignore[misc]
    **IMAGES,
}
