"""Tiny models of every causal-LM folder of transformers: configurations of small sizes.

    model_of("llama")       LlamaForCausalLM, 2 layers of width 64, 8 heads, 4 key heads

Sizes are set by the names that configurations use; what a folder needs besides stands in `OWN`.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

SIZES: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 64,
    "n_embd": 64,
    "d_model": 64,
    "dim": 64,
    "embed_dim": 64,
    "word_embed_proj_dim": 64,
    "embedding_size": 64,
    "intermediate_size": 96,
    "ffn_dim": 96,
    "n_inner": 96,
    "ffn_hidden_size": 96,
    "decoder_ffn_dim": 96,
    "encoder_ffn_dim": 96,
    "moe_intermediate_size": 48,
    "expert_ffn_hidden_size": 48,
    "shared_expert_intermediate_size": 48,
    "num_hidden_layers": 2,
    "n_layer": 2,
    "n_layers": 2,
    "num_layers": 2,
    "decoder_layers": 2,
    "encoder_layers": 2,
    "num_attention_heads": 8,
    "n_head": 8,
    "n_heads": 8,
    "num_heads": 8,
    "decoder_attention_heads": 8,
    "encoder_attention_heads": 8,
    "num_key_value_heads": 4,
    "multi_query_group_num": 4,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "n_positions": 64,
    "n_ctx": 64,
    "max_seq_len": 64,
    "max_sequence_length": 64,
    "context_length": 64,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "qk_head_dim": 16,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "moe_num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_topk": 2,
    "moe_k": 2,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "sliding_window": 16,
    "state_size": 8,
    "mamba_d_state": 8,
    "mamba_n_heads": 8,
    "mamba_num_heads": 8,
    "mamba_d_head": 16,
    "mamba_head_dim": 16,
    "mamba_n_groups": 1,
    "mamba_chunk_size": 8,
    "mamba_dt_rank": 8,
    "time_step_rank": 8,
    "chunk_size": 8,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 8,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "attention_hidden_size": 64,
    "lru_width": 64,
    "rotary_dim": 8,
    "index_n_heads": 4,
    "index_head_dim": 16,
    "index_topk": 4,
    "num_nextn_predict_layers": 0,
    "max_target_positions": 64,
    "max_source_positions": 64,
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": 96,
    "num_memory_heads": 4,
    "type_vocab_size": 2,
    "projection_dim": 64,
}
TOKENS = ("pad_token_id", "bos_token_id", "eos_token_id", "image_token_id", "sep_token_id")
DROPOUTS = ("dropout", "_drop", "_pdrop", "layerdrop")

_LATENT = {"num_key_value_heads": 8}
_SCALED = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
_DECODER = {"is_decoder": True}
_DECODERS = (
    "bert",
    "bert_generation",
    "big_bird",
    "camembert",
    "data2vec",
    "electra",
    "ernie",
    "megatron_bert",
    "reformer",
    "rembert",
    "roberta",
    "roberta_prelayernorm",
    "roc_bert",
    "roformer",
    "xlm_roberta",
    "xlm_roberta_xl",
)
OWN: dict[str, dict[str, Any]] = {
    **dict.fromkeys(
        [
            "axk1",
            "axk2",
            "deepseek_v2",
            "deepseek_v3",
            "deepseek_v32",
            "glm4_moe_lite",
            "glm_moe_dsa",
            "longcat_flash",
            "minicpm3",
            "youtu",
            "dots3_note",
        ],
        _LATENT,
    ),
    **{
        name: {"head_dim": 8, **_SCALED}
        for name in ("hunyuan_v1_dense", "hunyuan_v1_moe", "ministral")
    },
    **dict.fromkeys(_DECODERS, _DECODER),
    "bailing_hybrid": {**_LATENT, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 2},
    "deepseek_v2": {**_LATENT, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "falcon_h1": {"mamba_d_ssm": 128, "mamba_n_heads": 8, "mamba_d_head": 16},
    "gemma4_assistant": {"hidden_size_per_layer_input": 0},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "num_layers": 2},
    "kimi_linear": {
        "linear_head_dim": 8,
        "linear_num_heads": 8,
        "num_experts": 4,
        "num_experts_per_token": 2,
    },
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "mamba2": {"num_heads": 8, "head_dim": 16, "n_groups": 1},
    "nemotron": {"head_dim": 8, "num_key_value_heads": 4},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX", **_DECODER},
    "zamba": {"layer_types": ["mamba", "hybrid"], "num_hidden_layers": 2, "n_mamba_heads": 2},
    "zamba2": {"layer_types": ["mamba", "hybrid"], "num_mem_blocks": 1},
    "zaya": {"num_experts_per_tok": 1},
}
"""What a folder's configuration needs besides, or instead."""


@cache
def folders() -> dict[str, tuple[str, str]]:
    """Returns the folders with a causal LM: (model type, class) by name."""
    from transformers.models.auto.configuration_auto import model_type_to_module_name
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    found: dict[str, tuple[str, str]] = {}
    for kind, name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.items():
        name = name if isinstance(name, str) else name[0]
        found.setdefault(model_type_to_module_name(kind), (kind, name))
    return dict(sorted(found.items()))


def small(config_class: Any, **own: Any) -> Any:
    """Returns a configuration of small sizes; nested ones are small too."""
    default = config_class()
    chosen: dict[str, Any] = {}
    for name, value in default.to_dict().items():
        if name in SIZES and not isinstance(value, list | dict) and value is not None:
            chosen[name] = SIZES[name]
        elif name in TOKENS and value is not None:
            chosen[name] = [2] if isinstance(value, list) else TOKENS.index(name) % 4
        elif isinstance(value, float) and any(word in name for word in DROPOUTS):
            chosen[name] = 0.0
    for name, part in getattr(config_class, "sub_configs", {}).items():
        if name in default.to_dict() and isinstance(part, type):
            inner = type(getattr(default, name)) if getattr(default, name) is not None else part
            chosen[name] = small(inner).to_dict()
    chosen.update(own)
    return config_class(**chosen)


def config_of(folder: str) -> Any:
    """Returns the small configuration of a folder."""
    import transformers

    _, name = folders()[folder]
    config_class = getattr(transformers, name).config_class
    return small(config_class, **OWN.get(folder, {}))


def model_of(folder: str) -> Any:
    """Returns the tiny model of a folder, with the weights of seed 0."""
    import torch
    import transformers

    _, name = folders()[folder]
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(transformers, name)(config_of(folder)).eval()


def inputs_of(folder: str) -> dict[str, Any]:
    """Returns an example: two rows of seven tokens."""
    import torch

    generator = torch.Generator().manual_seed(3)
    return {"input_ids": torch.randint(4, 90, (2, 7), generator=generator), "use_cache": False}


def seeing(name: str) -> Any:
    """Returns a tiny model that sees pictures: of Qwen3-VL-MoE (8 heads, 4 key heads), or of Kimi
    K2.5 with a Llama for its text.
    """
    import torch
    import transformers

    cls = getattr(transformers, name)
    default = cls.config_class()
    text = {**default.text_config.to_dict(), **_TEXT}
    if name.startswith("Kimi"):
        # As many keys as queries: the loader takes them for one tensor, as it does the vision's.
        text = transformers.LlamaConfig(**{**_TEXT, "num_key_value_heads": 8, **_PLAIN_ROPE})
    vision = {**default.vision_config.to_dict(), **_VISION}
    tokens = {"image_token_id": 90, "video_token_id": 91}
    torch.manual_seed(0)
    config = cls.config_class(
        text_config=text, vision_config=vision, projection_hidden_size=32, **tokens
    )
    return cls(config).eval()


_TEXT: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 8,
    "moe_intermediate_size": 16,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 1e4,
        "mrope_section": [2, 1, 1],
        "mrope_interleaved": True,
    },
}
_PLAIN_ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}
_VISION: dict[str, Any] = {
    "depth": 1,
    "num_hidden_layers": 1,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_heads": 4,
    "num_attention_heads": 4,
    "patch_size": 2,
    "out_hidden_size": 32,
    "num_position_embeddings": 16,
    "deepstack_visual_indexes": [],
    "pos_emb_height": 4,
    "pos_emb_width": 4,
}
