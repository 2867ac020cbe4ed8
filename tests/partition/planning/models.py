"""Small models of the transformers library, with example calls, and what is asked of a plan."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import prod
from typing import Any

import torch
from torch import Tensor

from dimsolve.exec.graph import Graph
from dimsolve.partition.plan import Plan
from tests.oracles.traces import shared_trace

from .more_models import MORE

Example = tuple[Any, dict[str, Any], dict[str, Any]]


def _sizes(**more: Any) -> dict[str, Any]:
    return {
        "vocab_size": 128,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "max_position_embeddings": 64,
        **more,
    }


def _text(model: Any, vocabulary: int = 128) -> Example:
    ids = torch.randint(0, vocabulary, (4, 16), generator=torch.Generator().manual_seed(1))
    dims = {0: "batch", 1: "seq"}
    return model, {"input_ids": ids, "labels": ids}, {"input_ids": dims, "labels": dims}


def llama(**more: Any) -> Example:
    import transformers as tf

    config = tf.LlamaConfig(**_sizes(num_key_value_heads=4, use_cache=False, **more))
    return _text(tf.LlamaForCausalLM(config))


def tied_llama() -> Example:
    return llama(tie_word_embeddings=True)


def one_key_value_head() -> Example:
    import transformers as tf

    config = tf.LlamaConfig(**_sizes(num_key_value_heads=1, use_cache=False))
    return _text(tf.LlamaForCausalLM(config))


def qwen2() -> Example:
    import transformers as tf

    config = tf.Qwen2Config(**_sizes(num_key_value_heads=4, use_cache=False))
    return _text(tf.Qwen2ForCausalLM(config))


def mistral() -> Example:
    import transformers as tf

    config = tf.MistralConfig(**_sizes(num_key_value_heads=4, use_cache=False))
    return _text(tf.MistralForCausalLM(config))


def gpt2(vocabulary: int = 128) -> Example:
    import transformers as tf

    config = tf.GPT2Config(
        vocab_size=vocabulary, n_embd=64, n_layer=2, n_head=8, n_positions=64, use_cache=False,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return _text(tf.GPT2LMHeadModel(config), vocabulary)


def odd_gpt2() -> Example:
    return gpt2(129)


def opt() -> Example:
    import transformers as tf

    config = tf.OPTConfig(
        vocab_size=128, hidden_size=64, ffn_dim=128, num_hidden_layers=2, num_attention_heads=8,
        max_position_embeddings=64, word_embed_proj_dim=64, use_cache=False,
    )  # fmt: skip
    return _text(tf.OPTForCausalLM(config))


def bert() -> Example:
    import transformers as tf

    return _text(tf.BertForMaskedLM(tf.BertConfig(**_sizes())))


def vit() -> Example:
    import transformers as tf

    config = tf.ViTConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=8,
        image_size=32, patch_size=8, num_labels=10,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randn(4, 3, 32, 32, dtype=torch.float64, generator=generator)
    model = tf.ViTForImageClassification(config)
    return model, {"pixel_values": pixels}, {"pixel_values": {0: "batch"}}


def mixtral() -> Example:
    import transformers as tf

    config = tf.MixtralConfig(**_sizes(num_key_value_heads=4, num_local_experts=4, use_cache=False))
    return _text(tf.MixtralForCausalLM(config))


def phi3() -> Example:
    import transformers as tf

    config = tf.Phi3Config(**_sizes(num_key_value_heads=4, use_cache=False, pad_token_id=0))
    return _text(tf.Phi3ForCausalLM(config))


def falcon() -> Example:
    import transformers as tf

    config = tf.FalconConfig(
        vocab_size=128, hidden_size=64, num_hidden_layers=2, num_attention_heads=8, use_cache=False
    )
    return _text(tf.FalconForCausalLM(config))


EIGHT: dict[str, Callable[[], Example]] = {
    "llama": llama,
    "qwen2": qwen2,
    "mistral": mistral,
    "gpt2": gpt2,
    "opt": opt,
    "bert": bert,
    "vit": vit,
    "mixtral": mixtral,
}
OTHERS: dict[str, Callable[[], Example]] = {
    "tied_llama": tied_llama,
    "one_key_value_head": one_key_value_head,
    "odd_gpt2": odd_gpt2,
    "phi3": phi3,
    "falcon": falcon,
}


@lru_cache(maxsize=64)
def traced(name: str) -> tuple[Graph, dict[str, Tensor], dict[str, Any], dict[str, int]]:
    """The graph of a model in float64, its parameters and buffers, its inputs, and their sizes."""
    torch.manual_seed(0)
    model, inputs, dynamic = {**EIGHT, **OTHERS, **MORE}[name]()
    model = model.double().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = shared_trace(f"planned {name}", model, kwargs=inputs, dynamic=dynamic)
    state = {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }
    sizes = {"batch": 4, "seq": 16}
    return graph, {name: t.detach() for name, t in state.items()}, inputs, sizes


def held(plan: Plan, counts: Mapping[str, int] | None = None) -> float:
    """The share of the parameters that one rank holds."""
    whole = sum(prod(int(n) for n in entry.whole or () if n) for entry in plan.parameters)
    part = sum(prod(int(n) for n in entry.shape or () if n) for entry in plan.parameters)
    return part / whole


def all_reduces(plan: Plan, module: str) -> tuple[int, int]:
    """All-reduces forward and backward whose value is made, or used, in a module."""
    made = {out.value: o.module for o in plan.operators for out in o.outputs}
    users = {o.node: o.module for o in plan.operators}
    forward = backward = 0
    for conversion in plan.conversions:
        if conversion.forward == ["all-reduce"] and made[conversion.value].startswith(module):
            forward += 1
        if conversion.backward == ["all-reduce"] and all(
            users.get(use.rpartition(":")[0], "").startswith(module) for use in conversion.uses
        ):
            backward += 1
    return forward, backward
