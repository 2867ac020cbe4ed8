"""Equal to one device, on real ranks: three steps of different sizes through one plan."""

from __future__ import annotations

import pytest

from tests.exec import training
from tests.oracles.ranks import world

pytest.importorskip("transformers")
MODELS = ["llama", "qwen2", "mistral", "gpt2", "opt", "bert", "vit", "mixtral"]
MESHES = [({"tp": 2}, "tensor"), ({"dp": 2}, "data"), ({"dp": 2, "tp": 2}, "data+tensor")]


@pytest.mark.parametrize(("mesh", "policy"), MESHES, ids=["tp=2", "dp=2", "dp=2,tp=2"])
@pytest.mark.parametrize("name", MODELS)
def test_architectures(name: str, mesh: dict[str, int], policy: str) -> None:
    count = 4 if len(mesh) == 2 else 2
    target = f"dimsolve.examples.{name}:tiny"
    for steps in world(count).run(training.train, target, mesh, policy):
        assert len(steps) == 3
        for step in steps:
            assert step.differences.gradients <= 1e-9, step
            assert step.differences.loss <= 1e-9, step
            assert step.differences.ok, step


@pytest.mark.parametrize(("mesh", "policy"), MESHES, ids=["tp=2", "dp=2", "dp=2,tp=2"])
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_models_that_compute_their_loss_in_float32(
    name: str, mesh: dict[str, int], policy: str
) -> None:
    """Run as they are: a float64 model's sums in float32 are those of one device to the bit."""
    count = 4 if len(mesh) == 2 else 2
    target = f"dimsolve.examples.{name}:tiny"
    for steps in world(count).run(training.train, target, mesh, policy, wide=False):
        for step in steps:
            assert step.differences.gradients <= 1e-9, step
            assert step.differences.loss <= 1e-9, step


@pytest.mark.parametrize("name", ["llama", "vit", "mixtral"])
def test_in_float32(name: str) -> None:
    target = f"dimsolve.examples.{name}:tiny"
    for steps in world(2).run(training.train, target, {"tp": 2}, "tensor", "float32"):
        for step in steps:
            assert max(step.differences.gradients, step.differences.loss) <= 1e-4, step
            assert step.differences.ok, step
