"""Models that fail on rank 1 in every way that a rank can; ``FAULT`` in the environment says how.

FAULT=raise-forward       an operator raises            FAULT=kill-forward     kill -9 in it
FAULT=raise-backward      its backward raises           FAULT=kill-backward    kill -9 in it
FAULT=raise-factory       before anything runs          FAULT=kill-factory
FAULT=kill-later          kill -9 after some time, wherever the rank is then
FAULT=hang-forward        sleeps for ever
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import torch

import dimsolve as ds

STEP = 2
"""The step in which it happens."""

_calls = {"forward": 0, "backward": 0}


def fault(place: str) -> None:
    """Does what is asked for at this place."""
    kind, _, where = os.environ.get("FAULT", "").partition("-")
    if where != place or os.environ.get("RANK") != "1":
        return
    if place in _calls:
        _calls[place] += 1
        if _calls[place] < STEP:
            return
    if kind == "raise":
        raise ValueError(f"this {place} was made to fail")
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "hang":
        time.sleep(1000)


@ds.register_op("b n -> b n")
class Fragile(torch.autograd.Function):
    """Twice its argument, where nothing fails."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        if type(x) in (torch.Tensor, torch.nn.Parameter):  # not while it is traced
            fault("forward")
        return 2 * x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        fault("backward")
        return 2 * gradient


class Model(torch.nn.Module):
    """(batch, 8) -> (batch, 8), columns and then rows of weights around a fragile operator."""

    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(8, 16, bias=False)
        self.down = torch.nn.Linear(16, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.down(Fragile.apply(self.up(x)).relu())
        return result


def model() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The factory."""
    fault("factory")
    if os.environ.get("FAULT", "").startswith("kill-later") and os.environ.get("RANK") == "1":
        delay = float(os.environ["FAULT"].rpartition(":")[2])
        threading.Timer(delay, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    torch.manual_seed(0)
    return Model(), {"x": torch.randn(4, 8)}, {"x": {0: "batch"}}
