"""Equal to one device, or refused: parameters that were frozen when the model was traced, or are
since; parameters with hooks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

import dimsolve as ds
from dimsolve.exec.parallel.parallelize import ParallelModule
from tests.oracles import one_device as simulated

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


@pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
def test_a_hook_on_a_gradient_is_refused(register: str) -> None:
    model = nn.Sequential(nn.Linear(8, 8)).double()
    plan = ds.plan(ds.trace(model, kwargs={"input": X}), {"tp": 1}, "replicate")
    hook = getattr(model[0].weight, register)(lambda _: None)
    with pytest.raises(ds.DimsolveError) as error:
        ds.parallelize(model, plan)
    assert str(error.value) == (
        "0.weight has a hook on its gradient\n"
        "  a part has parameters of its own, whose gradients are parts, and the hook was made for "
        "the whole\n"
        "  hint: remove the hook, and register one on the part's parameter"
    )
    hook.remove()
    part = ds.parallelize(model, plan)
    getattr(part.get_parameter("0.weight"), register)(lambda _: None)
    part(X).sum().backward()
