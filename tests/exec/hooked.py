"""Parts with hooks, on real ranks."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import dimsolve as ds


def model_and_part() -> tuple[nn.Module, Any, torch.Tensor]:
    """Two linear layers, this rank's part of them, and a whole batch."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    x = torch.randn(2, 4)
    plan = ds.plan(ds.trace(model, kwargs={"input": x}), {"tp": 2}, "tensor")
    return model, ds.parallelize(model, plan), x


def _noted(module: nn.Module, x: torch.Tensor) -> list[Any]:
    calls: list[Any] = []

    def shapes(values: Any) -> list[Any]:
        return [None if value is None else tuple(value.shape) for value in values]

    module.register_forward_pre_hook(
        lambda _, args, kwargs: calls.append(("pre", shapes(args), list(kwargs))), with_kwargs=True
    )
    module.register_forward_hook(
        lambda _, args, kwargs, result: calls.append(("forward", list(kwargs), result.shape)),
        with_kwargs=True,
    )
    module.register_full_backward_pre_hook(
        lambda _, given: calls.append(("backward pre", shapes(given)))
    )
    module.register_full_backward_hook(
        lambda _, taken, given: calls.append(("backward", shapes(taken), shapes(given)))
    )
    module(x.clone().requires_grad_()).sum().backward()
    module(input=x).sum().backward()
    return calls


def called() -> tuple[list[Any], list[Any]]:
    """What the hooks of a part are told, and those of the model."""
    model, part, x = model_and_part()
    return _noted(part, x), _noted(model, x)


def changing() -> float:
    """How far the gradients of a part are off whose hooks change input, output and gradient."""
    model, part, x = model_and_part()
    found = []
    for module in (model, part):
        module.register_forward_pre_hook(lambda _, args: (args[0] + 1,))
        module.register_forward_hook(lambda _, args, result: result * 3)
        module.register_full_backward_pre_hook(lambda _, given: (given[0] * 2,))
        module.register_full_backward_hook(lambda _, taken, given: (taken[0] * 5,))
        given = x.clone().requires_grad_()
        module(given).square().sum().backward()
        found.append(given.grad)
    assert found[0] is not None
    gaps = [float((found[0] - found[1]).abs().max() / found[0].abs().max())]
    whole = dict(model.named_parameters())
    for name, parameter in part.named_parameters():
        wanted = part.held(name).part(whole[name].grad)
        gaps.append(float((parameter.grad - wanted).abs().max() / wanted.abs().max()))
    return max(gaps)


def held() -> tuple[str, str]:
    """How a part's first weight is told."""
    _, part, _ = model_and_part()
    found = part.held("0.weight")
    return str(found), repr(found)


def another_model_on_one() -> str:
    """What is raised where rank 1 gives another model."""
    torch.manual_seed(0)
    model = nn.Linear(4, 4)
    plan = ds.plan(ds.trace(model, kwargs={"input": torch.randn(2, 4)}), {"tp": 2}, "tensor")
    try:
        ds.parallelize(nn.Linear(4, 6) if dist.get_rank() else model, plan)
    except ds.DimsolveError as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


class Classified(nn.Module):
    """A loss, and the logits that it is computed from."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 6)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.head(x)
        return {"loss": nn.functional.cross_entropy(logits, y), "logits": logits}


def logits_looked_at() -> tuple[float, str]:
    """How far what a hook on logits sees is off, and what is raised where rank 0 looks alone."""
    torch.manual_seed(0)
    model, x, y = Classified(), torch.randn(8, 4), torch.randint(0, 6, (8,))
    graph = ds.trace(model, args=(x, y), dynamic={"x": {0: "batch"}, "y": {0: "batch"}})
    part = ds.parallelize(model, ds.plan(graph, {"dp": 2}))
    seen: list[torch.Tensor] = []
    for module in (model, part):
        found = module(x, y)
        found["logits"].register_hook(lambda g: seen.append(g))
        found["loss"].backward()
    gap = float((seen[0] - seen[1]).abs().max())
    found = part(x, y)
    if dist.get_rank() == 0:
        found["logits"].retain_grad()
    try:
        found["loss"].backward()
    except ds.DimsolveError as error:
        return gap, f"{type(error).__name__}: {error}"
    return gap, "nothing"


def placed_logits_looked_at() -> list[tuple[str, float]]:
    """How far what is seen of logits that are handed out in parts is off, by who looks."""
    torch.manual_seed(0)
    x, y = torch.randn(8, 4, dtype=torch.float64), torch.randint(0, 6, (8,))
    model = Classified().double()
    graph = ds.trace(model, args=(x, y), dynamic={"x": {0: "batch"}, "y": {0: "batch"}})
    plan = ds.plan(graph, {"dp": 2})
    part = ds.parallelize(model, plan, outputs={"logits": "placed"})

    def whole(logits: Any) -> Any:
        return logits if type(logits) is torch.Tensor else logits.full_tensor()

    def hook(found: Any) -> Any:
        seen: list[torch.Tensor] = []
        found["logits"].register_hook(lambda g: seen.append(g) or g * 2)
        found["loss"].backward()
        return seen[0]

    def retain(found: Any) -> Any:
        found["logits"].retain_grad()
        (found["loss"] + whole(found["logits"]).sum()).backward()
        return found["logits"].grad

    def ask(found: Any) -> Any:
        return torch.autograd.grad(found["loss"], found["logits"])[0]

    def both(found: Any) -> Any:
        (found["loss"] + whole(found["logits"]).square().sum()).backward()
        return found["logits"]

    gaps = []
    for look in (hook, retain, ask, both):
        seen = []
        for module in (model, part):
            module.zero_grad()
            found = look(module(x, y))
            gradients = [p.grad for p in module.parameters() if p.grad is not None]
            seen.append([each.detach().clone() for each in (whole(found), *gradients)])
        off = [float((one - two).abs().max()) for one, two in zip(*seen, strict=True)]
        gaps.append((look.__name__, max(off)))
    return gaps


class TwoHeads(nn.Module):
    """(batch, 4) -> a, b (batch, 4)."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"a": self.a(x), "b": self.b(x)}


def unused_looked_at() -> list[bool]:
    """Whether there is a gradient where one device has one, of what a loss uses and does not."""
    torch.manual_seed(0)
    model, x = TwoHeads(), torch.randn(8, 4)
    graph = ds.trace(model, args=(x,), dynamic={"x": {0: "batch"}})
    seen = []
    for module in (model, ds.parallelize(model, ds.plan(graph, {"dp": 2}))):
        found = module(x)
        for each in found.values():
            each.retain_grad()
        found["a"].sum().backward()
        tensors = [*found.values(), *module.parameters()]
        seen.append([each.grad is not None for each in tensors])
    return [one == two for one, two in zip(*seen, strict=True)]
