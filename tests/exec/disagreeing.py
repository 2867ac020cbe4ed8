"""What the tests' ranks do to disagree: each returns the text of what every rank raised."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

import dimsolve as ds
from dimsolve.exec.parallel.parallelize import ParallelModule

MESH_OF_TWO = {"dp": 2}


class Small(nn.Module):
    """(batch, 8) -> (batch, 8)."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.down(self.up(x).relu())
        return result


def part(mesh: dict[str, int], policy: Any) -> ParallelModule:
    model = Small()
    graph = ds.trace(model, kwargs={"x": torch.ones(4, 8)}, dynamic={"x": {0: "batch"}})
    module = ds.parallelize(model, ds.plan(graph, mesh, policy))
    module.programs[0].agreement.timeout = 10.0
    return module


def raised(call: Any, *args: Any) -> str:
    try:
        call(*args)
    except ds.DimsolveError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def other_policy() -> str:
    policy = "tensor" if dist.get_rank() == 0 else "replicate"
    return raised(part, {"tp": 2}, policy)


def other_graph() -> str:
    class Other(Small):
        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.down(self.up(x).tanh())
            return result

    model = Small() if dist.get_rank() == 0 else Other()
    graph = ds.trace(model, kwargs={"x": torch.ones(4, 8)}, dynamic={"x": {0: "batch"}})
    return raised(ds.parallelize, model, ds.plan(graph, {"tp": 2}, "tensor"))


def other_world() -> str:
    return raised(part, {"tp": 4}, "tensor")


def odd_batch() -> str:
    module = part(MESH_OF_TWO, "data")
    return raised(module, torch.ones(3, 8))


def odd_batch_on_one() -> str:
    module = part(MESH_OF_TWO, "data")
    return raised(module, torch.ones(3 if dist.get_rank() else 4, 8))


def other_sizes() -> str:
    module = part(MESH_OF_TWO, "data")
    return raised(module, torch.ones(6 if dist.get_rank() else 4, 8))


def other_sizes_one_known() -> str:
    """Rank 0 has met the sizes before and goes on; rank 1 has not, asks, and tells it."""
    module = part({"tp": 2}, "tensor")
    module(torch.ones(4, 8))
    return raised(module, torch.ones(6 if dist.get_rank() else 4, 8))


def other_dtype() -> str:
    module = part(MESH_OF_TWO, "data")
    return raised(module, torch.ones(4, 8, dtype=torch.float64))


def goes_on_after_refusal() -> float:
    """A refused batch leaves the module as it was: the next one runs."""
    module = part(MESH_OF_TWO, "data")
    raised(module, torch.ones(3, 8))
    return float(module(torch.ones(4, 8)).sum())


def other_autocast() -> str:
    module = part(MESH_OF_TWO, "data")
    with torch.autocast("cpu", torch.bfloat16, enabled=dist.get_rank() == 1):
        return raised(module, torch.ones(4, 8))


def without_gradients(how: str) -> str:
    """One rank records no gradients."""
    module = part(MESH_OF_TWO, "data")
    with getattr(torch, how)() if dist.get_rank() else torch.enable_grad():
        return raised(module, torch.ones(4, 8))


def frozen_on_one_rank() -> list[str]:
    """One rank freezes a parameter of its part."""
    module = part(MESH_OF_TWO, "data")
    if dist.get_rank():
        next(module.parameters()).requires_grad_(False)
    said = raised(module, torch.ones(4, 8))
    return [said, next(name for name, _ in module.named_parameters())]


def other_weights() -> str:
    model = Small()
    if dist.get_rank():
        with torch.no_grad():
            model.up.weight[0, 0] += 1
    graph = ds.trace(model, kwargs={"x": torch.ones(4, 8)}, dynamic={"x": {0: "batch"}})
    return raised(ds.parallelize, model, ds.plan(graph, {"tp": 2}, "tensor"))


class Heads(nn.Module):
    """(batch, 8) -> a (batch, 8), b (batch, length)."""

    def __init__(self, length: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, length)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        h = self.body(x).relu()
        return {"a": self.a(h), "b": self.b(h)}


def other_losses(length: int, *steps: tuple[str, str]) -> tuple[int, str]:
    """steps: of which outputs each rank makes its loss, none: it calls no backward(). Returns how
    many steps went well, and what was raised then.
    """
    model = Heads(length)
    graph = ds.trace(model, args=(torch.ones(4, 8),), dynamic={"x": {0: "batch"}})
    module = ds.parallelize(model, ds.plan(graph, MESH_OF_TWO), inputs="local")
    for number, names in enumerate(steps):
        found = module(torch.ones(2, 8))
        own = names[dist.get_rank()]
        said = raised(sum(found[name].sum() for name in own).backward) if own else ""
        if said:
            return number, said
    return len(steps), ""
