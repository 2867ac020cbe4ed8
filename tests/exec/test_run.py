"""Equal to one device, on real ranks: three steps of different sizes through one plan."""

from __future__ import annotations

import pytest

from . import training
from .ranks import world

pytest.importorskip("transformers")
MODELS = ["llama", "qwen2", "mistral", "gpt2", "opt", "bert", "vit", "mixtral"]
FLOAT32_LOSS = {"llama", "qwen2", "mistral", "gpt2", "opt", "mixtral"}
"""Models whose own code makes the logits float32 before the loss, also in a float64 model. A plan
that cuts the classes adds float32 numbers in another order: that, and no more, may be seen in the
gradients of such a step.
"""
MESHES = [({"tp": 2}, "tensor"), ({"dp": 2}, "data"), ({"dp": 2, "tp": 2}, "data+tensor")]


@pytest.mark.parametrize(("mesh", "policy"), MESHES, ids=["tp=2", "dp=2", "dp=2,tp=2"])
@pytest.mark.parametrize("name", MODELS)
def test_architectures(name: str, mesh: dict[str, int], policy: str) -> None:
    count = 4 if len(mesh) == 2 else 2
    target = f"dimsolve.examples.{name}:tiny"
    for steps in world(count).run(training.train, target, mesh, policy):
        assert len(steps) == 3
        for step in steps:
            classes_cut = name in FLOAT32_LOSS and "tp" in mesh
            assert step.differences.gradients < (1e-6 if classes_cut else 1e-9), step
            assert step.differences.loss < 1e-6, step
            assert step.differences.ok or classes_cut, step
