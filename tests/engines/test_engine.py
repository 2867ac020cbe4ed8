"""transformers itself agrees with the audit: asked on gloo ranks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import dimsolve as ds
from dimsolve.exec.engines.audit import prepared

from . import tiny
from .engine import World, prepare


@pytest.fixture(scope="module")
def two() -> Iterator[World]:
    world = World(2)
    yield world
    world.close()


@pytest.mark.parametrize("folder", ["llama", "apertus", "inkling2"])
def test_the_engine_does_what_the_audit_says(folder: str, two: World, tmp_path: Path) -> None:
    """Llama's plan is right; that of apertus sums no gradient of its activation's parameters; that
    of inkling2 takes the rows of two tensors for one run of rows.
    """
    model, inputs = tiny.model_of(folder), tiny.inputs_of(folder)
    answer = ds.audit(model, counts=(2,), kwargs=inputs, correct=False).at(2)
    prepare(tmp_path, prepared(model), inputs)
    engine = two.ask(str(tmp_path), type(model).__name__, None, 2)
    assert (engine["load"], engine["forward"]) == ("", "")
    assert answer.forward == "legal"
    assert (answer.gradients == "legal") == (engine["gradients"] == "")
    if answer.gradients == "illegal":
        assert answer.findings[0].module.rpartition(".")[2] in engine["at"]


BESIDE: list[dict[str, str]] = [
    {"model.embed_tokens.weight": "rowwise", "lm_head": "embedding_rowwise"},
    {"lm_head": "embedding_colwise"},
    {"lm_head": "embedding_rowwise", "lm_head.weight": "replicate"},
]
"""A table's own style beside a rule for its weight; styles for tables on a linear layer."""


@pytest.mark.parametrize("plan", BESIDE)
def test_a_style_for_tables_does_as_the_weight_lies(
    plan: dict[str, str], two: World, tmp_path: Path
) -> None:
    model, inputs = tiny.model_of("llama"), tiny.inputs_of("llama")
    answer = ds.audit(model, plan, counts=(2,), kwargs=inputs, correct=False).at(2)
    prepare(tmp_path, prepared(model), inputs)
    if not two.alive:
        two = World(2)
    engine = two.ask(str(tmp_path), type(model).__name__, plan, 2)
    equal = not any(engine.values())
    assert equal == ("lm_head.weight" not in plan)
    assert answer.verdict == ("legal" if equal else "illegal")
