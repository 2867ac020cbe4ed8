"""On one GPU: the same comparisons with NCCL and one rank."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.exec import composing, seed_models, training
from tests.exec.losses import LOSSES
from tests.oracles.ranks import Ranks

from .test_run import MODELS

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="there is no GPU: NCCL needs one for each rank"
)


@pytest.fixture(scope="module")
def rank() -> Iterator[Ranks]:
    ranks = Ranks(1, timeout=300, backend="cpu:gloo,cuda:nccl")
    yield ranks
    ranks.close()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", MODELS)
def test_architectures(rank: Ranks, name: str, dtype: str) -> None:
    pytest.importorskip("transformers")
    target = f"dimsolve.examples.{name}:tiny"
    (steps,) = rank.run(training.train, target, {"tp": 1}, "tensor", dtype)
    allowed = {"float64": 1e-9, "float32": 1e-4}[dtype]
    for step in steps:
        assert step.differences.loss <= allowed, step
        assert step.differences.gradients <= allowed, step


@pytest.mark.parametrize("name", [make.__name__ for make in seed_models.ALL])
def test_examples_of_the_seeds(rank: Ranks, name: str) -> None:
    for step in rank.run(training.train_seed, name, 1)[0]:
        assert step.differences.gradients <= 1e-12, step


@pytest.mark.parametrize("name", LOSSES)
def test_losses(rank: Ranks, name: str) -> None:
    for step in rank.run(training.train_loss, name, "tensor")[0]:
        assert step.differences.gradients <= 1e-12, step


def test_the_part_is_on_the_gpu(rank: Ranks) -> None:
    assert rank.run(composing.device_of_part) == ["cuda"]


def test_collectives(rank: Ranks) -> None:
    rank.run(composing.collectives_alone)
