"""Gradients that are summed beside the backward pass are those of one device, however it is run."""

from __future__ import annotations

import pytest

from . import summing
from .ranks import world


@pytest.mark.parametrize("way", summing.WAYS)
def test_every_way_of_running_backward(way: str) -> None:
    began = way not in summing.WATCHED
    for found in world(2).run(summing.gradients, way, summing.SEND["several"], began=began):
        assert found <= 1e-12


@pytest.mark.parametrize("send", summing.SEND)
def test_whatever_is_sent_together(send: str) -> None:
    for found in world(2).run(summing.gradients, "plain", summing.SEND[send]):
        assert found <= 1e-12
