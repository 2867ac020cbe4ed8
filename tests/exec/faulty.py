"""Models that fail on rank 1 in every way that a rank can; ``FAULT`` in the environment says how.

FAULT=raise-forward       an operator raises            FAULT=kill-forward     kill -9 in it
FAULT=raise-backward      its backward raises           FAULT=kill-backward    kill -9 in it
FAULT=raise-factory       before anything runs          FAULT=kill-factory
FAULT=kill-later          kill -9 after some time, wherever the rank is then
FAULT=hang-forward        sleeps for ever               FAULT=stop-forward     SIGSTOP in it
FAULT=spoil-sin           changes what a built-in operator of the model ``spoiled`` has saved
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
    if kind == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
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


_kept: list[torch.Tensor] = []


@ds.register_op("* -> *")
class Kept(torch.autograd.Function):
    """Its argument, which `Spoils` can reach."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        _kept[:] = [x.clone()]
        return _kept[0]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


@ds.register_op("* -> *")
class Spoils(torch.autograd.Function):
    """Its argument; in the second step of rank 1 it changes what was kept."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        if type(x) is torch.Tensor and os.environ.get("FAULT") == "spoil-sin":
            _calls["forward"] += 1
            if _calls["forward"] == STEP and os.environ.get("RANK") == "1":
                _kept[0].add_(1)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


class Spoiled(Model):
    """The same with a sine in the middle, which saves its argument."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = Spoils.apply(self.down(Kept.apply(self.up(x)).sin()))
        return result


def spoiled() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The factory of the other model."""
    torch.manual_seed(0)
    return Spoiled(), {"x": torch.randn(4, 8)}, {"x": {0: "batch"}}


def model() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The factory."""
    fault("factory")
    if os.environ.get("FAULT", "").startswith("kill-later") and os.environ.get("RANK") == "1":
        delay = float(os.environ["FAULT"].rpartition(":")[2])
        threading.Timer(delay, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    torch.manual_seed(0)
    return Model(), {"x": torch.randn(4, 8)}, {"x": {0: "batch"}}


def train_until_killed(delay: float, mesh: dict[str, int]) -> str:
    """Trains without end; rank 1 is killed so many seconds after the first step. Returns what the
    other rank raised.
    """
    import torch.distributed as dist

    whole, example, names = model()
    graph = ds.trace(whole, kwargs=example, dynamic=names)
    part = ds.parallelize(whole, ds.plan(graph, mesh))
    optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
    try:
        for number in range(1_000_000):
            optimizer.zero_grad()
            part(torch.randn(2 + 2 * (number % 4), 8)).square().mean().backward()
            optimizer.step()
            if number == 0 and dist.get_rank() == 1:
                kill = (os.getpid(), signal.SIGKILL)
                threading.Timer(delay, os.kill, kill).start()
    except ds.DimsolveError as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"
