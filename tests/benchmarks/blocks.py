"""One transformer block cut over two ranks in three ways: by dimsolve, by hand, by DTensor.

The hand-written one is Megatron's: columns then rows, one all-reduce forward and one backward for
each of attention and MLP, by raw calls of the process group.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import permutations
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

HEAD = 16


class Block(nn.Module):
    """Attention and an MLP, each behind a layer norm; (batch, seq, width) -> the same."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.norm_2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm_1(x)
        x = x + self.o(self.attend(self.q(h), self.k(h), self.v(h)))
        return x + self.down(functional.gelu(self.up(self.norm_2(x))))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        batch, seq, _ = q.shape
        q = q.view(batch, seq, -1, HEAD).transpose(1, 2)
        k = k.view(batch, seq, -1, HEAD).transpose(1, 2)
        v = v.view(batch, seq, -1, HEAD).transpose(1, 2)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.transpose(1, 2).reshape(batch, seq, -1)


class Enter(torch.autograd.Function):
    """Megatron's f: identity forward, all-reduce backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        gradient = gradient.contiguous()
        dist.group.WORLD.allreduce([gradient]).wait()
        return gradient


class Leave(torch.autograd.Function):
    """Megatron's g: all-reduce forward, identity backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.clone()
        dist.group.WORLD.allreduce([x]).wait()
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class HandWritten(Block):
    """The block's part on one rank, as Megatron writes it."""

    def __init__(self, whole: Block, rank: int, count: int) -> None:
        super().__init__(whole.q.in_features)
        self.load_state_dict(whole.state_dict())
        for name, dim in (("q", 0), ("k", 0), ("v", 0), ("o", 1), ("up", 0), ("down", 1)):
            linear = getattr(self, name)
            part = linear.weight.detach().chunk(count, dim)[rank].clone()
            linear.weight = nn.Parameter(part)

    def forward(self, x: Tensor) -> Tensor:
        enter: Any = Enter.apply
        leave: Any = Leave.apply
        h = enter(self.norm_1(x))
        x = x + leave(self.o(self.attend(self.q(h), self.k(h), self.v(h))))
        return x + leave(self.down(functional.gelu(self.up(enter(self.norm_2(x))))))


def by_dtensor(whole: Block, width: int) -> nn.Module:
    """The block cut by torch's parallelize_module."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    block = Block(width)
    block.load_state_dict(whole.state_dict())
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    plan: dict[str, Any] = {name: ColwiseParallel() for name in ("q", "k", "v", "up")}
    plan |= {name: RowwiseParallel() for name in ("o", "down")}
    return parallelize_module(block, mesh, plan)


def by_dimsolve(whole: Block, example: Tensor) -> nn.Module:
    """The block cut by `dimsolve.parallelize`."""
    import dimsolve as ds

    graph = ds.trace(whole, kwargs={"x": example}, dynamic={"x": {0: "batch", 1: "seq"}})
    plan = ds.plan(graph, {"tp": dist.get_world_size()}, "tensor")
    return ds.parallelize(whole, plan)


def times(width: int, batch: int, seq: int, rounds: int) -> dict[str, float]:
    """Returns the median seconds of a training step, by way of cutting; the ways take turns."""
    torch.manual_seed(0)
    whole = Block(width)
    x = torch.randn(batch, seq, width)
    modules = {
        "by hand": HandWritten(whole, dist.get_rank(), dist.get_world_size()),
        "dimsolve": by_dimsolve(whole, x),
        "DTensor": by_dtensor(whole, width),
    }
    return _medians(modules, x, rounds)


def times_on_gpu(width: int, batch: int, seq: int, rounds: int) -> dict[str, float]:
    """Returns the median seconds of a training step of the plain model and of its one part."""
    torch.manual_seed(0)
    whole = Block(width).cuda()
    x = torch.randn(batch, seq, width, device="cuda")
    part = by_dimsolve(whole, x)
    return _medians({"plain": whole, "dimsolve": part}, x, rounds)


def _medians(modules: dict[str, nn.Module], x: Tensor, rounds: int) -> dict[str, float]:
    steps = {name: _step(module, x) for name, module in modules.items()}
    losses = {name: step() for name, step in steps.items()}
    wanted = next(iter(losses.values()))
    assert all(abs(loss - wanted) < 1e-4 * wanted for loss in losses.values()), losses
    taken: dict[str, list[float]] = {name: [] for name in steps}
    orders = list(permutations(steps))  # none always comes after the same other one
    for number in range(rounds + rounds // 10):
        for name in orders[number % len(orders)]:
            dist.barrier()
            start = time.perf_counter()
            steps[name]()
            if number >= rounds // 10:
                taken[name].append(time.perf_counter() - start)
    return {name: sorted(values)[len(values) // 2] for name, values in taken.items()}


def _step(module: nn.Module, x: Tensor) -> Callable[[], float]:
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)

    def step() -> float:
        loss = module(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    return step
