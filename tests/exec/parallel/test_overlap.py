"""What is sent beside other work is what one device has, however backward is run."""

from __future__ import annotations

import pytest

from tests.exec import composing, summing
from tests.oracles.ranks import world


@pytest.mark.parametrize("way", summing.WAYS)
def test_every_way_of_running_backward(way: str) -> None:
    began = way not in summing.WATCHED
    for found in world(2).run(summing.gradients, way, summing.SEND["several"], began=began):
        assert found <= 1e-12


@pytest.mark.parametrize("send", summing.SEND)
def test_whatever_is_sent_together(send: str) -> None:
    for found in world(2).run(summing.gradients, "plain", summing.SEND[send]):
        assert found <= 1e-12


@pytest.mark.parametrize("way", [way for way in summing.WAYS if way != "decayed"])
def test_every_way_of_running_backward_scatters_and_gathers_again(way: str) -> None:
    """Parameters that are used beside the module (``decayed``) are parts there."""
    for state in ("shared", "optimizer"):
        for found in world(2).run(summing.scattered, way, state):
            assert found <= 1e-12, state


def test_what_is_only_returned_is_gathered_beside_the_loss() -> None:
    pytest.importorskip("transformers")
    for order, same in world(2).run(composing.order_of_gather):
        assert order == ["begin_gather", "loss", "logits_all_gather"]
        assert same
