"""Equal to one device, on real ranks: the seeds' examples, and losses that others get wrong."""

from __future__ import annotations

import pytest

from tests.exec import seed_models, training
from tests.exec.losses import LOSSES
from tests.oracles.ranks import world

ROUNDING, STEEPEST = 1e-13, 30
"""What the first step may differ by, and by how much a step may carry on what the one before it
differed by: sin(2x + ... + 2x), fifteen times, is as steep as that.
"""


@pytest.mark.parametrize("name", [make.__name__ for make in seed_models.ALL])
def test_examples_of_the_seeds(name: str) -> None:
    """Forward and backward, over three steps of different sizes where there are some."""
    for steps in world(2).run(training.train_seed, name):
        for number, step in enumerate(steps):
            close = ROUNDING * STEEPEST**number
            assert step.differences.outputs <= close, step
            assert step.differences.gradients <= close, step


@pytest.mark.parametrize("policy", ["data", "tensor"])
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str, ranks: int, policy: str) -> None:
    for steps in world(ranks).run(training.train_loss, name, policy):
        for step in steps:
            assert step.differences.loss <= 1e-12, step
            assert step.differences.gradients <= 1e-12, step
