"""Equal to one device: parameters that were frozen when the model was traced, or are since."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

from dimsolve.exec.parallel.parallelize import ParallelModule

from . import simulated

X = torch.randn(4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
Freeze = Callable[[str], bool]
ALL: Freeze = lambda name: True  # noqa: E731
NONE: Freeze = lambda name: False  # noqa: E731
FIRST: Freeze = lambda name: name == "0.weight"  # noqa: E731
BIASES: Freeze = lambda name: name.endswith("bias")  # noqa: E731


def freeze(module: nn.Module, which: Freeze) -> None:
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(not which(name))


@pytest.mark.parametrize(
    ("traced", "called"),
    [(ALL, NONE), (NONE, ALL), (FIRST, BIASES), (BIASES, FIRST), (ALL, FIRST)],
    ids=["unfrozen", "frozen", "other", "another", "some"],
)
@pytest.mark.parametrize(
    ("mesh", "policy"),
    [({"tp": 2}, "tensor"), ({"dp": 2}, "data"), ({"dp": 2, "tp": 2}, "data+tensor")],
    ids=str,
)
def test_what_is_frozen_is_asked_when_it_is_called(
    mesh: dict[str, int], policy: str, traced: Freeze, called: Freeze
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8)).double()
    freeze(model, traced)
    plan = simulated.plan_of(model, {"input": X}, None, mesh, policy)
    whole = copy.deepcopy(model)

    def gradients(module: nn.Module) -> dict[str, torch.Tensor | None]:
        freeze(module, called)
        x = X.clone().requires_grad_()
        module(x).square().sum().backward()
        return {"": x.grad, **{name: p.grad for name, p in module.named_parameters()}}

    wanted = gradients(whole)

    def work(part: ParallelModule) -> bool:
        equal = True
        for name, found in gradients(part).items():
            whole = wanted[name]
            if found is None or whole is None:
                equal &= found is whole
            else:
                equal &= torch.allclose(found, part.held(name).part(whole) if name else whole)
        return equal

    assert all(simulated.parts(model, plan, mesh, work))
