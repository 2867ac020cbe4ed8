"""A training step where state or sequence is shared out, on two gloo ranks, beside others' ways.

    python -m tests.benchmarks.sharing --rounds 200

    ZeRO-3             beside FSDP2's fully_shard, a block at a time
    tensor+sequence    beside Megatron's sequence parallelism, written by hand
    context parallel   beside Ulysses' all-to-all, written by hand

Prints medians of one run in which the two take turns, by the clock and of what the process has
computed, which a loaded machine hardly changes; on gloo it decides nothing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from tests.oracles.ranks import Ranks

from .blocks import HEAD, Block, HandWritten, _step

BLOCKS = 3


def stack(width: int) -> nn.Sequential:
    """Some blocks, the same on every rank."""
    torch.manual_seed(0)
    return nn.Sequential(*[Block(width) for _ in range(BLOCKS)])


def by_dimsolve(x: Tensor, mesh: dict[str, int], policy: str | None, way: Any) -> nn.Module:
    """The stack cut by `dimsolve.parallelize`. x: the whole batch."""
    import dimsolve as ds

    model = stack(x.shape[-1])
    graph = ds.trace(model, (x,), dynamic={"input": {0: "batch", 1: "seq"}})
    return ds.parallelize(model, ds.plan(graph, mesh, policy), inputs=way)


Times = dict[str, tuple[float, float]]


def _medians(modules: dict[str, nn.Module], x: Tensor, rounds: int) -> Times:
    """Seconds of a step by the clock, and those that this process has computed."""
    steps = {name: _step(module, x) for name, module in modules.items()}
    losses = {name: step() for name, step in steps.items()}
    wanted = next(iter(losses.values()))
    assert all(abs(loss - wanted) < 1e-4 * wanted for loss in losses.values()), losses
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
    for number in range(rounds + rounds // 10):
        for name in list(steps)[:: -1 if number % 2 else 1]:
            dist.barrier()
            start = time.perf_counter(), time.process_time()
            steps[name]()
            if number >= rounds // 10:
                now = time.perf_counter(), time.process_time()
                taken[name].append((now[0] - start[0], now[1] - start[1]))
    return {
        name: (_median(v[0] for v in all_), _median(v[1] for v in all_))
        for name, all_ in taken.items()
    }


def _median(values: Iterable[float]) -> float:
    found = sorted(values)
    return found[len(found) // 2]


# ---- FSDP2


def fully_sharded(width: int) -> nn.Module:
    """The stack as FSDP2 shares it out."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = stack(width)
    for block in model:
        fully_shard(block, mesh=mesh)
    made: Any = fully_shard(model, mesh=mesh)
    return made


def zero_3(width: int, batch: int, seq: int, rounds: int) -> Times:
    """Each rank gives its own rows."""
    torch.manual_seed(dist.get_rank())
    x = torch.randn(batch, seq, width)
    whole = x.repeat(dist.get_world_size(), 1, 1)
    mesh = {"fsdp": dist.get_world_size()}
    modules = {"FSDP2": fully_sharded(width), "dimsolve": by_dimsolve(whole, mesh, None, "local")}
    return _medians(modules, x, rounds)


# ---- sequence parallelism by hand, (seq, batch, width) as Megatron has it


def gathered(x: Tensor) -> Tensor:
    """The first dimension of all ranks."""
    found = x.new_empty(x.shape[0] * dist.get_world_size(), *x.shape[1:])
    dist.all_gather_into_tensor(found, x.contiguous())
    return found


def scattered(x: Tensor) -> Tensor:
    """This rank's part of the sum along the first dimension."""
    found = x.new_empty(x.shape[0] // dist.get_world_size(), *x.shape[1:])
    dist.reduce_scatter_tensor(found, x.contiguous())
    return found


class Gather(torch.autograd.Function):
    """All-gather forward, reduce-scatter backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return gathered(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return scattered(gradient)


class Scatter(torch.autograd.Function):
    """Reduce-scatter forward, all-gather backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return scattered(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gathered(gradient)


class Result(torch.autograd.Function):
    """What all ranks hand out: all-gather forward, their own part backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return gathered(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.chunk(dist.get_world_size())[dist.get_rank()]


class MegatronBlock(HandWritten):
    """(seq of a rank, batch, width) -> the same."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        seq, batch, _ = q.shape
        q, k, v = (each.view(seq, batch, -1, HEAD).permute(1, 2, 0, 3) for each in (q, k, v))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.permute(2, 0, 1, 3).reshape(seq, batch, -1)

    def forward(self, x: Tensor) -> Tensor:
        gather: Any = Gather.apply
        scatter: Any = Scatter.apply
        h = gather(self.norm_1(x))
        x = x + scatter(self.o(self.attend(self.q(h), self.k(h), self.v(h))))
        return x + scatter(self.down(functional.gelu(self.up(gather(self.norm_2(x))))))


class OverSequence(nn.Module):
    """Blocks over parts of the sequence. summed: parameters whose gradients ranks have summands of.

    first: the dimension of the sequence inside of the blocks.
    """

    def __init__(self, blocks: list[nn.Module], summed: Callable[[str], bool]) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*blocks)
        self.summed = [each for name, each in self.named_parameters() if summed(name)]
        self.left = 0
        for each in self.summed:
            each.register_post_accumulate_grad_hook(self._sum)

    def _sum(self, _: Tensor) -> None:
        """Sums all gradients in one bucket when the last is there."""
        self.left -= 1
        if self.left:
            return
        grads: list[Any] = [each.grad for each in self.summed]
        flat = torch.cat([grad.flatten() for grad in grads])
        dist.all_reduce(flat)
        for grad, part in zip(grads, flat.split([g.numel() for g in grads]), strict=True):
            grad.copy_(part.view_as(grad))

    def forward(self, x: Tensor) -> Tensor:
        result: Any = Result.apply
        self.left = len(self.summed)
        part = x.transpose(0, 1).chunk(dist.get_world_size())[dist.get_rank()].contiguous()
        found: Tensor = result(self.blocks(part)).transpose(0, 1)
        return found


def tensor_sequence(width: int, batch: int, seq: int, rounds: int) -> Times:
    """The whole batch on every rank, and the whole result."""
    x, count = torch.randn(batch, seq, width, generator=torch.Generator().manual_seed(1)), 2
    blocks: list[nn.Module] = [
        MegatronBlock(each, dist.get_rank(), count)
        for each in stack(width)
        if isinstance(each, Block)
    ]
    modules = {
        "by hand": OverSequence(blocks, lambda name: "norm" in name),
        "dimsolve": by_dimsolve(x, {"tp": count}, "tensor+sequence", "whole"),
    }
    return _medians(modules, x, rounds)


# ---- Ulysses by hand


class Exchange(torch.autograd.Function):
    """Sends each rank its part of the first dimension, both ways."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        found = torch.empty_like(x)
        dist.all_to_all_single(found, x.contiguous())
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        found = torch.empty_like(gradient)
        dist.all_to_all_single(found, gradient.contiguous())
        return found


class UlyssesBlock(Block):
    """(seq of a rank, batch, width) -> the same: heads are exchanged for the sequence."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        exchange: Any = Exchange.apply
        count = dist.get_world_size()
        seq, batch, width = q.shape
        own = torch.stack((q, k, v)).view(3, seq, batch, count, -1).permute(3, 0, 1, 2, 4)
        heads = exchange(own.contiguous()).permute(1, 0, 2, 3, 4).reshape(3, count * seq, batch, -1)
        q, k, v = heads.view(3, count * seq, batch, -1, HEAD).permute(0, 2, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        parts = mixed.permute(2, 0, 1, 3).reshape(count, seq, batch, -1)
        found: Tensor = exchange(parts).permute(1, 2, 0, 3).reshape(seq, batch, width)
        return found


def context(width: int, batch: int, seq: int, rounds: int) -> Times:
    """The whole batch on every rank, and the whole result."""
    x = torch.randn(batch, seq, width, generator=torch.Generator().manual_seed(1))
    blocks: list[nn.Module] = []
    for each in stack(width):
        block = UlyssesBlock(width)
        block.load_state_dict(each.state_dict())
        blocks.append(block)
    modules = {
        "by hand": OverSequence(blocks, lambda _: True),
        "dimsolve": by_dimsolve(x, {"cp": dist.get_world_size()}, None, "whole"),
    }
    return _medians(modules, x, rounds)


WAYS = {
    "ZeRO-3 beside FSDP2": zero_3,
    "tensor+sequence beside Megatron's": tensor_sequence,
    "context parallel beside Ulysses'": context,
}


def main() -> None:
    """Prints a row for each pair and width."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--widths", default="64,256")
    parser.add_argument("--only", default="", help="pairs that have this in their name")
    asked = parser.parse_args()
    print(
        "| pair | width | theirs | dimsolve | over theirs | computed |\n|---|--:|--:|--:|--:|--:|"
    )
    for name, measure in WAYS.items():
        if asked.only not in name:
            continue
        for width in map(int, asked.widths.split(",")):
            ranks = Ranks(2, timeout=300)
            try:
                medians = ranks.run(measure, width, 4, 32, asked.rounds)[0]
            finally:
                ranks.close()
            own = medians.pop("dimsolve")
            (theirs,) = medians.values()
            times = " | ".join(f"{each[0] * 1e6:.0f} µs" for each in (theirs, own))
            ratios = " | ".join(f"{a / b:.2f}" for a, b in zip(own, theirs, strict=True))
            cells = f"{times} | {ratios}"
            print(f"| {name} | {width} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
