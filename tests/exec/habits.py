"""Habits that go wrong without a word on parts of models: what every rank is told."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from tests.exec.disagreeing import Small, part, raised

X = torch.ones(4, 8)


def wrapped(kind: str) -> str:
    """A part of tensors in torch's FSDP, over ranks that hold different parts."""
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    module: Any = part({"tp": 2}, "tensor")
    if kind == "flat":
        return raised(lambda: FullyShardedDataParallel(module, device_id=torch.device("cpu")))
    return raised(lambda: fully_shard(module))


def loaded_on_one() -> str:
    """Rank 0 alone loads a state."""
    module = part({"tp": 2}, "tensor")
    if dist.get_rank() == 0:
        state = Small().state_dict()
        module.load_state_dict({name: value + 1 for name, value in state.items()})
    return raised(module, X)


def stepped_on_one() -> str:
    """Rank 0 alone steps, between two calls."""
    module = part({"dp": 2}, "data")
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    module(X).sum().backward()
    if dist.get_rank() == 0:
        optimizer.step()
    return raised(module, X)


def drawn_anew() -> str:
    """Every rank makes replicated parameters anew, with a seed of its own."""
    module = part({"dp": 2}, "data")
    torch.manual_seed(dist.get_rank())
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return raised(module, X)


def alike() -> str:
    """Every rank loads, draws and steps alike: nothing is said."""
    module = part({"dp": 2}, "data")
    module.load_state_dict(Small().state_dict())
    torch.manual_seed(1)
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    optimizer = torch.optim.AdamW(module.parameters(), 0.1)

    def train() -> None:
        for _ in range(9):
            module(X).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    return raised(train)
