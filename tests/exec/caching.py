"""Models with caches, how they are called, and a decoding loop for one device and for parts."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch

import dimsolve as ds
from tests.oracles.traces import shared_trace

VOCABULARY = 64
BATCH, PROMPT, STEPS = 4, 6, 8
SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
CONFIGURATIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", SMALL),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**SMALL, "head_dim": 8}),
    "gpt2": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": VOCABULARY, "n_positions": 64},
    ),
    "t5": (
        "T5ForConditionalGeneration",
        "T5Config",
        {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2}
        | {"num_heads": 4, "decoder_start_token_id": 0},
    ),
}
TOKENS = {0: "batch", 1: "seq"}
PAST = {0: "batch", 2: "past"}


class Decoding:
    """A model that fills a cache with a prompt and decodes with it.

    prefill, decode: the calls' arguments; their names of dynamic dimensions.
    """

    def __init__(self, name: str, static: bool = False) -> None:
        import transformers

        kind, config, values = CONFIGURATIONS[name]
        torch.manual_seed(0)
        self.model = getattr(transformers, kind)(getattr(transformers, config)(**values))
        self.model = self.model.eval().double()
        self.static = static
        self.seq2seq = name == "t5"
        self.ids = torch.randint(VOCABULARY, (BATCH, PROMPT))
        self.tokens = [torch.randint(VOCABULARY, (BATCH, 1)) for _ in range(STEPS)]
        self.prefill_names: dict[str, Any] = {"input_ids": TOKENS}
        self.decode_names: dict[str, Any] = {"input_ids": {0: "batch"}, "past_key_values": PAST}
        if static:
            self.prefill_names, self.decode_names = {"input_ids": {1: "seq"}}, {}
        if self.seq2seq:
            self.prefill_names["decoder_input_ids"] = {0: "batch"}
            with torch.no_grad():
                self.encoded = self.model.encoder(input_ids=self.ids)
            self.decode_names = {
                "decoder_input_ids": {0: "batch"},
                "encoder_outputs": TOKENS,
                "past_key_values": {
                    "self_attention_cache": PAST,
                    "cross_attention_cache": {0: "batch", 2: "seq"},
                },
            }

    def prefill(self) -> dict[str, Any]:
        from transformers import StaticCache

        given: dict[str, Any] = {"input_ids": self.ids, "use_cache": True}
        if self.static:
            given["past_key_values"] = StaticCache(config=self.model.config, max_cache_len=20)
        if self.seq2seq:
            given["decoder_input_ids"] = torch.zeros(BATCH, 1, dtype=torch.long)
        return given

    def decode(self, cache: Any, token: torch.Tensor) -> dict[str, Any]:
        given = {"past_key_values": cache, "use_cache": True}
        if self.seq2seq:
            return {**given, "encoder_outputs": self.encoded, "decoder_input_ids": token}
        return {**given, "input_ids": token}

    def run(self, prefill: Callable[..., Any], decode: Callable[..., Any]) -> Any:
        """Returns the logits of all steps and the cache, which is one object all the way."""
        with torch.no_grad():
            output = prefill(**self.prefill())
            cache, logits = output.past_key_values, [output.logits]
            for token in self.tokens:
                output = decode(**self.decode(cache, token))
                assert output.past_key_values is cache
                logits.append(output.logits)
        return logits, cache

    def graphs(
        self, trace: Callable[..., ds.Graph] = lambda _, *given, **more: ds.trace(*given, **more)
    ) -> tuple[ds.Graph, ds.Graph]:
        """Returns the graphs of the two calls; asserts that tracing leaves the cache as it was."""
        filled = trace("prefill", self.model, kwargs=self.prefill(), dynamic=self.prefill_names)
        with torch.no_grad():
            cache = self.model(**self.prefill()).past_key_values
        before, tensors = deepcopy(cache), _tensors(cache)
        example = self.decode(cache, self.tokens[0])
        decoded = trace("decode", self.model, kwargs=example, dynamic=self.decode_names)
        assert_same(before, cache)
        assert all(a is b for a, b in zip(tensors, _tensors(cache), strict=True))
        return filled, decoded


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in _tensors(item)]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _tensors(item)]
    return _tensors(getattr(value, "__dict__", ())) if not isinstance(value, type) else []


def assert_same(a: Any, b: Any, path: str = "") -> None:
    """The classes, the attributes and the items are the same, the tensors close in float64."""
    assert type(a) is type(b), path
    if isinstance(a, torch.Tensor):
        assert a.shape == b.shape, path
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), path
        for number, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{path}.{number}")
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), path
        for key in a:
            assert_same(a[key], b[key], f"{path}.{key}")
    elif hasattr(a, "__dict__") and not isinstance(a, type):
        assert_same(vars(a), vars(b), path)
    else:
        assert a == b, path


def decoded_on_a_rank(name: str, mesh: dict[str, int], policy: str) -> None:
    """Decodes with parts of real processes, and on this rank alone."""
    decoding = Decoding(name)
    graphs = decoding.graphs(lambda call, *a, **k: shared_trace(f"{name} to {call}", *a, **k))
    parts = [ds.parallelize(decoding.model, ds.plan(graph, mesh, policy)) for graph in graphs]
    assert_same(decoding.run(*parts), decoding.run(decoding.model, decoding.model))
