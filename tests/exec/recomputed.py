"""Models with regions that are run again in the backward pass, and counts of what is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, d: int = 8, rate: float = 0.0) -> None:
        super().__init__()
        self.up, self.down, self.rate = nn.Linear(d, 2 * d), nn.Linear(2 * d, d), rate

    def forward(self, x: Tensor) -> Tensor:
        h = functional.dropout(functional.gelu(self.up(x)), self.rate, self.training)
        return x + self.down(h)


class Stack(nn.Module):
    """Blocks, each a region. settings: how torch is asked for it; None: no regions."""

    def __init__(self, settings: Mapping[str, Any] | None, rate: float = 0.0) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.blocks = nn.ModuleList([Block(rate=rate) for _ in range(3)])
        self.settings = settings

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        for block in self.blocks:
            h = block(h) if self.settings is None else checkpoint(block, h, **self.settings)
        return h.pow(2).mean()


class Several(nn.Module):
    """Arguments that are no tensors, tensors within others, several results, one of them none."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.lin = nn.Linear(8, 8), nn.Linear(8, 16)

    def part(self, x: Tensor, held: dict[str, Any], power: int, flag: bool) -> tuple[Any, ...]:
        h = self.lin(x).tanh() if flag else self.lin(x)
        return h.pow(power), (h * held["scale"]).sum(-1), power, None

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        found = checkpoint(self.part, h, {"scale": x.mean()}, 2, flag=True, use_reentrant=False)
        return found[0].mean() * found[2] + found[1].sum()


class Nested(nn.Module):
    def __init__(self, outer: bool = False, inner: bool = False) -> None:
        super().__init__()
        self.first, self.a, self.b = nn.Linear(8, 8), Block(), Block()
        self.reentrant = outer, inner

    def both(self, x: Tensor) -> Tensor:
        h = checkpoint(self.a, x, use_reentrant=self.reentrant[1])
        return checkpoint(self.b, h.sin(), use_reentrant=self.reentrant[1]).cos()

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.both, self.first(x), use_reentrant=self.reentrant[0]).mean()


class Twice(nn.Module):
    """One module, called in three regions and once outside of any."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = checkpoint(self.block, x, use_reentrant=False)
        return self.block(x).pow(2).mean()


class Switching(nn.Module):
    """Gradients are not recorded in a part of the region."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.first, self.block, self.reentrant = nn.Linear(8, 8), Block(), reentrant

    def part(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            gate = self.block(x).sigmoid()
        return self.block(x * gate) * gate

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        with torch.no_grad():
            scale = h.abs().mean()
        return checkpoint(self.part, h * scale, use_reentrant=self.reentrant).pow(2).mean()


class NormedBlock(nn.Module):
    """A module as a region, twice, with a batch norm in its midst that counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 8), nn.Linear(8, 8)
        self.inner = nn.Sequential(
            nn.Linear(8, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Linear(16, 8)
        )

    def forward(self, x: Tensor) -> Tensor:
        h = self.up(x)
        h = checkpoint(self.inner, h, use_reentrant=False)
        result: Tensor = self.down(h + checkpoint(self.inner, h, use_reentrant=False)).pow(2).mean()
        return result


class Normed(nn.Module):
    """Batch norm in a region. last: whether it is the last thing there."""

    def __init__(self, reentrant: bool = False, last: bool = False) -> None:
        super().__init__()
        self.first, self.norm, self.lin = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 8)
        self.reentrant, self.last = reentrant, last

    def part(self, x: Tensor) -> Tensor:
        h = self.norm(self.lin(x))
        return h if self.last else self.lin(h).tanh()

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        return checkpoint(self.part, h, use_reentrant=self.reentrant).pow(3).mean()


class Counting(nn.Module):
    """A buffer is written to after all that the backward pass needs."""

    def __init__(self, early_stop: bool) -> None:
        super().__init__()
        self.lin, self.early_stop = nn.Linear(8, 8), early_stop
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    def part(self, x: Tensor) -> Tensor:
        h = self.lin(x).tanh()
        self.count.add_(1)
        return h + 1

    def forward(self, x: Tensor) -> Tensor:
        settings = {"use_reentrant": False, "early_stop": self.early_stop}
        return checkpoint(self.part, x, **settings).pow(2).mean()


class Ops(TorchDispatchMode):
    """Counts what runs, by torch's own operators."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.counts[str(func.overloadpacket)] += 1
        return func(*args, **(kwargs or {}))


NAMES = ("gelu", "tanh", "native_dropout", "bernoulli_", "sin")


@dataclass
class Step:
    """What one step did. saved: bytes that the forward pass saves, other than the model's own
    tensors. again: how often some operators run in the backward pass.
    """

    loss: Tensor
    saved: int
    again: dict[str, int]
    gradients: dict[str, Tensor | None]
    buffers: dict[str, Tensor]
    of_input: Tensor | None


def step(module: nn.Module, x: Tensor, *, wants_gradient: bool = False) -> Step:
    """Runs a module once, forward and backward."""
    x = x.clone().requires_grad_(wants_gradient)
    held = {t.untyped_storage().data_ptr() for t in (*module.parameters(), *module.buffers(), x)}
    saved: dict[int, int] = {}
    alive: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in held:
            saved[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)  # so that no other tensor gets its address
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = module(x=x)
    alive.clear()
    with Ops() as ops:
        loss.backward()
    return Step(
        loss.detach(),
        sum(saved.values()),
        {name: ops.counts[f"aten.{name}"] for name in NAMES},
        {name: p.grad for name, p in module.named_parameters()},
        {name: b.clone() for name, b in module.named_buffers()},
        x.grad,
    )


def differences(part: Any, mine: Step, one: Step) -> dict[str, float]:
    """Returns how far a rank's step is from one device's, by what differs; inf where only one of
    them has a gradient.
    """
    found = {"loss": _distance(mine.loss, one.loss), "x": _distance(mine.of_input, one.of_input)}
    for name, gradient in one.gradients.items():
        whole = None if gradient is None else part.held(name).part(gradient)
        found[name] = _distance(mine.gradients[name], whole)
    for name, buffer in one.buffers.items():
        found[name] = _distance(mine.buffers[name], part.held(name).part(buffer))
    return found


def _distance(a: Tensor | None, b: Tensor | None) -> float:
    if a is None or b is None:
        return 0.0 if a is b else inf
    return float((a.double() - b.double()).abs().max())


def on_this_rank(
    name: str, mesh: dict[str, int], backend: str = ""
) -> tuple[dict[str, float], Step, Step]:
    """Returns how a real rank's second step differs from one device's, and both.

    name: of a model in `test_regions`. backend: compiles the part.
    """
    from copy import deepcopy

    import dimsolve as ds
    from tests.exec.lowering.test_regions import MODELS, planned, steps

    torch.manual_seed(0)
    model = MODELS[name]().double()
    x = torch.randn(4, 8, dtype=torch.float64)
    part = ds.parallelize(model, planned(model, x, mesh))
    module: Any = part
    if backend:
        torch._dynamo.reset()
        module = torch.compile(part, backend=backend)
    one = steps(deepcopy(model), x, wants_gradient=True)
    mine = steps(module, x, wants_gradient=True)
    mine.gradients = {n.removeprefix("_orig_mod."): g for n, g in mine.gradients.items()}
    mine.buffers = {n.removeprefix("_orig_mod."): b for n, b in mine.buffers.items()}
    return differences(part, mine, one), mine, one
