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
