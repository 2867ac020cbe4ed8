"""What the tests' ranks do to a part over dp, whose gradients are summed beside backward."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import dimsolve as ds
from dimsolve.exec.distributed import gradients as gradient_buckets
from dimsolve.exec.running.compare import relative

SEND = {"one bucket": 2**20, "several": 4096, "each alone": 1}


class Deep(nn.Module):
    """Six linears and a scale that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(16, 16, dtype=torch.float64) for _ in range(6))
        self.scale = nn.Parameter(torch.randn(16, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x * self.scale).sin() + x
        return (x * self.scale).square().mean()


def gradients(way: str, capacity: int, *, began: bool = True) -> float:
    """How far the gradients of a way of running backward are from one device.

    began: whether this way must let sums go on beside the pass, or must not.
    """
    gradient_buckets.CAPACITY = capacity
    whole = Deep()
    x = torch.randn(8, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    graph = ds.trace(whole, kwargs={"x": x}, dynamic={"x": {0: "batch"}})
    part = ds.parallelize(whole, ds.plan(graph, {"dp": 2}, "data"))
    sums = _Counted()
    with sums:
        found = WAYS[way](part, x)
    wanted = WAYS[way](copy.deepcopy(whole), x)
    assert (sums.count > 0) == began, sums.count
    return max(relative(a, b) for a, b in zip(found, wanted, strict=True))


def scattered(way: str, state: str) -> float:
    """The same of a part whose parameters are stored in parts."""
    whole = Deep()
    x = torch.randn(8, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    graph = ds.trace(whole, kwargs={"x": x}, dynamic={"x": {0: "batch"}})
    part = ds.parallelize(whole, ds.plan(graph, {"dp": 2}, "data", state))
    scatters = _Counted("begin_scatter")
    with scatters:
        found = WAYS[way](part, x)
    wanted = WAYS[way](copy.deepcopy(whole), x)
    assert (scatters.count > 0) == (way not in WATCHED), scatters.count
    most = 0.0
    for own, each in zip(found, wanted, strict=True):
        same = own.shape == each.shape
        most = max(most, relative(own, each if same else each.chunk(2)[part.ends.rank]))
    return most


class _Counted:
    """Counts how often something is begun: the sums."""

    def __init__(self, name: str = "begin_sum") -> None:
        self.name = name
        self.count = 0

    def __enter__(self) -> None:
        from dimsolve.exec.distributed.communicator import TorchCommunicator

        kept = self.kept = getattr(TorchCommunicator, self.name)

        def begin(end: Any, tensor: Tensor) -> Any:
            self.count += 1
            return kept(end, tensor)

        setattr(TorchCommunicator, self.name, begin)

    def __exit__(self, *_: object) -> None:
        from dimsolve.exec.distributed.communicator import TorchCommunicator

        setattr(TorchCommunicator, self.name, self.kept)


def _grads(module: nn.Module) -> list[Tensor]:
    return [p.grad.clone() for p in module.parameters() if p.grad is not None]


def plain(module: nn.Module, x: Tensor) -> list[Tensor]:
    module(x).backward()
    return _grads(module)


def twice(module: nn.Module, x: Tensor) -> list[Tensor]:
    """Gradients of two passes add up."""
    module(x).backward()
    (module(2 * x) * 3).backward()
    return _grads(module)


def kept_graph(module: nn.Module, x: Tensor) -> list[Tensor]:
    loss = module(x)
    loss.backward(retain_graph=True)
    module.zero_grad()
    loss.backward()
    return _grads(module)


def returned(module: nn.Module, x: Tensor) -> list[Tensor]:
    """torch.autograd.grad hands the gradients out and sets none."""
    found = torch.autograd.grad(module(x), list(module.parameters()))
    assert all(p.grad is None for p in module.parameters())
    return list(found)


def hooked(module: nn.Module, x: Tensor) -> list[Tensor]:
    """A hook sees the whole gradient."""
    seen: list[Tensor] = []
    for parameter in module.parameters():
        parameter.register_hook(lambda gradient: seen.append(gradient.clone()))
    module(x).backward()
    return seen + _grads(module)


def stepping(module: nn.Module, x: Tensor) -> list[Tensor]:
    """An optimiser that steps inside of the backward pass."""
    seen: list[Tensor] = []
    for parameter in module.parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    module(x).backward()
    return seen


def failed_before(module: nn.Module, x: Tensor) -> list[Tensor]:
    """A pass that fails leaves nothing behind that the next one would wait for."""
    y = x.clone().requires_grad_()

    def fail(_: Tensor) -> None:
        raise ValueError("this hook was made to fail")

    y.register_hook(fail)
    try:
        module(y).backward()
    except ValueError:
        module.zero_grad()
    module(x).backward()
    return _grads(module)


def siamese(module: nn.Module, x: Tensor) -> list[Tensor]:
    """Two calls and one pass."""
    (module(x) - module(2 * x)).square().backward()
    return _grads(module)


def many_calls(module: nn.Module, x: Tensor) -> list[Tensor]:
    """Five calls, two of them without a gradient, and two passes over what they share."""
    losses = [module(n * x) for n in (1, 2, 3)]
    with torch.no_grad():
        module(x)
    (losses[0] * module(x)).backward(retain_graph=True)
    (losses[0] + losses[1] * losses[2]).backward()
    return _grads(module)


def decayed(module: nn.Module, x: Tensor) -> list[Tensor]:
    """The parameters are used beside the module too, before and after it."""
    before = sum(p.square().sum() for p in module.parameters())
    loss = module(x)
    after = sum(p.sin().sum() for p in module.parameters())
    (before * loss + after * module(2 * x)).backward()
    return _grads(module)


def some_only(module: nn.Module, x: Tensor) -> list[Tensor]:
    """Gradients of some parameters, handed out and accumulated, of two calls."""
    loss = module(x) * module(2 * x)
    some = list(module.parameters())[1::3]
    found = torch.autograd.grad(loss, some, retain_graph=True)
    loss.backward(inputs=some)
    assert [p.grad is None for p in module.parameters()].count(False) == len(some)
    return [*found, *_grads(module)]


def frozen_meanwhile(module: nn.Module, x: Tensor) -> list[Tensor]:
    """A parameter that is frozen when the pass comes to it has no gradient."""
    first, *_ = module.parameters()
    loss = module(x)
    first.requires_grad_(False)
    loss.backward()
    assert first.grad is None
    return _grads(module)


def recomputed(module: nn.Module, x: Tensor) -> list[Tensor]:
    """Calls within checkpoints of both kinds, one of which runs a pass within the pass."""
    y = x.clone().requires_grad_()
    inner = checkpoint(module, y, use_reentrant=True)
    outer = checkpoint(module, 2 * y, use_reentrant=False)
    (inner * outer * module(y)).backward()
    return [*_grads(module), y.grad]


def nested(module: nn.Module, x: Tensor) -> list[Tensor]:
    """The module is used twice within a larger one, and once before a step."""
    before = module(x) * 2
    scaled = nn.Parameter(x.clone())
    (before * module(scaled) + module(scaled + module(x))).backward()
    return [*_grads(module), scaled.grad]


def penalised(module: nn.Module, x: Tensor) -> list[Tensor]:
    """The gradient's own gradient, with respect to inputs and parameters."""
    y = x.clone().requires_grad_()
    loss = module(y) + module(2 * y)
    wanted = [y, *module.parameters()]
    first = torch.autograd.grad(loss, wanted, create_graph=True)
    (sum(g.square().sum() for g in first) + loss).backward()
    return [*_grads(module), y.grad]


WAYS: dict[str, Callable[[nn.Module, Tensor], list[Tensor]]] = {
    way.__name__: way
    for way in (
        plain,
        twice,
        kept_graph,
        returned,
        hooked,
        stepping,
        failed_before,
        siamese,
        many_calls,
        decayed,
        some_only,
        frozen_meanwhile,
        recomputed,
        nested,
        penalised,
    )
}
WATCHED = frozenset({"hooked", "stepping", "returned"})
"""Ways in which somebody looks at a gradient before the pass has ended."""
