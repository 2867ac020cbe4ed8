"""A config of transformers is a question like any other: what is scaled is what the whole model
says, and a config that means no good is answered in words.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from typing import Any

import pytest

from dimsolve.service import configs
from dimsolve.service.configs import ModelQuestion, model_answer, sealed
from dimsolve.service.replies import Refusal
from tests.face.running import Service

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 8,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "torch_dtype": "bfloat16",
    "vocab_size": 256,
}
WINDOWS: dict[str, Any] = {
    **LLAMA,
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "num_hidden_layers": 6,
    "sliding_window": 8,
    "use_sliding_window": True,
    "layer_types": ["sliding_attention", "full_attention"] * 3,
}
"""Layers of two kinds in turns."""
MESH = {"dp": 2, "tp": 2}


@pytest.mark.parametrize("config", [LLAMA, WINDOWS], ids=lambda c: c["model_type"])
def test_what_is_scaled_is_what_the_whole_model_says(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    question = ModelQuestion(config=config, mesh=MESH)
    scaled = model_answer(question)
    assert "follow exactly" in scaled.traced
    with monkeypatch.context() as patch:
        patch.setattr(configs, "_lists_of", lambda model: [])
        patch.setattr(configs, "_traced", configs._traced.__wrapped__)  # nothing is kept
        patch.setattr(configs, "_legal_parts", configs._legal_parts.__wrapped__)
        whole = model_answer(question)
    assert whole.traced == "the whole model was traced"
    assert scaled.model_dump(exclude={"traced"}) == whole.model_dump(exclude={"traced"})


def test_a_count_that_is_uneven_is_planned_and_says_what_the_fullest_rank_has() -> None:
    answer = model_answer(ModelQuestion(config=LLAMA, mesh={"tp": 4}, up_to=8))
    tp = answer.axes["tp"]
    assert tp.always == "1-2" and not tp.never
    assert answer.problem is None and answer.memory is not None and answer.whole is not None
    share, seen = re.findall(r"has (\S+) of an equal share, (.*)", tp.uneven["4"])[0]
    planned = 4 * answer.memory.parameters / answer.whole.parameters  # with buffers
    assert float(share) == pytest.approx(planned, rel=2e-3) and seen == "tp seen as 2 x 2"


def test_what_stays_whole_is_named_with_file_and_line() -> None:
    few = {"hidden_size": 16, "intermediate_size": 3, "num_key_value_heads": 1, "vocab_size": 7}
    config = LLAMA | few | {"num_attention_heads": 2}
    answer = model_answer(ModelQuestion(config=config, mesh={"tp": 3}, up_to=3))
    (reason,) = (note for note in answer.notes if "stay whole" in note)
    assert "modeling_llama.py:" in reason and "is never a multiple of 3" in reason
    assert list(answer.axes["tp"].uneven) == ["3"]


def test_layers_repeat_after_what_comes_before() -> None:
    a, b, d = ("a",), ("b",), ("d",)
    assert configs._repeats([d, d, a, a, a, a, a]) == (3, 1)
    assert configs._repeats([a, b] * 6) == (2, 2)
    assert configs._repeats([a, b, b, a]) == (4, 0)


HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "no type": ({}, "no-such-model-type"),
    "another type": ({"model_type": "lama"}, "no-such-model-type"),
    "a type that is no text": ({"model_type": ["llama"]}, "no-such-model-type"),
    "code for a type": ({"model_type": "__import__('os').abort()"}, "no-such-model-type"),
    "a path for a type": ({"model_type": "../../etc/passwd"}, "no-such-model-type"),
    "no head": ({"model_type": "encodec"}, "no-head"),
    "very many layers": (LLAMA | {"num_hidden_layers": 10**9}, "too-many-layers"),
    "very long lists": (LLAMA | {"layer_types": ["full_attention"] * 5000}, "too-many-layers"),
    "very wide": (LLAMA | {"hidden_size": 10**15}, "too-many-layers"),
    "negative": (LLAMA | {"hidden_size": -64}, "no-such-model"),
    "zero heads": (LLAMA | {"num_attention_heads": 0}, "no-such-model"),
    "texts for numbers": (LLAMA | {"hidden_size": "wide"}, "no-such-model"),
    "lists for numbers": (LLAMA | {"hidden_size": [64]}, "no-such-model"),
    "a strange activation": (LLAMA | {"hidden_act": "exec"}, "no-such-model"),
    "a strange dtype": (LLAMA | {"torch_dtype": "load"}, "no-such-dtype"),
    "nested deeply": (LLAMA | {"rope_scaling": {"rope_type": {"rope_type": {}}}}, "no-such-model"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_config_that_means_no_good_is_answered_in_words(name: str) -> None:
    config, code = HOSTILE[name]
    with pytest.raises(Refusal) as caught:
        model_answer(ModelQuestion(config=config))
    problem = caught.value.problem
    assert (problem.status, problem.code) == (422, code)
    assert problem.title and problem.detail
    assert len(problem.detail) < 500


def test_code_and_addresses_in_a_config_are_left_out_and_said() -> None:
    evil = {
        "auto_map": {"AutoModelForCausalLM": "evil/repo--modeling.Evil"},
        "_attn_implementation": "evil/kernels",
        "attn_implementation": "evil/kernels",
        "_name_or_path": "https://example.com/x",
        "quantization_config": {"quant_method": "evil", "modules_to_not_convert": ["x"]},
        "backbone": "evil/backbone",
        "rope_scaling": None,
    }
    answer = model_answer(ModelQuestion(config=LLAMA | evil))
    assert answer.model == "LlamaForCausalLM"
    assert {
        "code that the config names is not run: this is transformers' own class",
        "planned without its quantization",
        "left out, as it is no plain word: backbone",
    } <= set(answer.notes)
    plain = model_answer(ModelQuestion(config=LLAMA))
    assert answer.model_dump(exclude={"notes"}) == plain.model_dump(exclude={"notes"})


def test_what_is_sealed_opens_no_connection_and_starts_no_program() -> None:
    with sealed():
        with pytest.raises(PermissionError, match="not allowed while a config is read"):
            socket.create_connection(("127.0.0.1", 9), timeout=1)
        with pytest.raises(PermissionError):
            subprocess.run([sys.executable, "-c", ""])
    subprocess.run([sys.executable, "-c", ""], check=True)


def test_the_service_answers_as_the_function_does(service: Service) -> None:
    reply = service.ask("model", {"config": LLAMA, "mesh": MESH}, timeout=900)
    wanted = model_answer(ModelQuestion(config=LLAMA, mesh=MESH))
    assert (reply.status, reply.json) == (200, json.loads(wanted.model_dump_json()))
    for name in ("very many layers", "texts for numbers"):
        config, code = HOSTILE[name]
        reply = service.ask("model", {"config": config}, timeout=900)
        assert (reply.status, reply.json["code"]) == (422, code)
    service.logged()  # what transformers says goes nowhere: every line is still JSON


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"mesh": {"pp": 2}}, "no-such-axis"),
        ({"mesh": {"tp": 0}}, "wrong-form"),
        ({"sizes": {"batch": "8"}}, "wrong-form"),
        ({"sizes": {"B": 8}}, "no-such-size"),
        ({"config": []}, "wrong-form"),
    ],
)
def test_what_is_asked_of_a_config_is_read_strictly(
    service: Service, more: dict[str, Any], code: str
) -> None:
    reply = service.ask("model", {"config": LLAMA} | more, timeout=900)
    assert (reply.status, reply.json["code"]) == (422, code)
