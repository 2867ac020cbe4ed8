"""Optimisers that need whole parameters, such as Muon: parameters are gathered one at a time.

    0.weight (8, 8) of (16, 8)    gathered, with its gradient and the states of its shape;
                                  the optimiser steps on it alone, alike on every rank;
                                  of what it has made each rank keeps its part

So a rank holds one whole parameter more, and sends a parameter, its gradient and such states once
in a step. States of other shapes, such as Adafactor's sums of rows, are whole on every rank.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MethodType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from dimsolve.ir.errors import Problem

from .optimizers import OfSeveral, OptimizerError, of_wholes, part_of, reason_against
from .state import Held

_NOT_ALONE = Problem(
    OptimizerError,
    "optimizer-of-several",
    "{kind} cannot step on one whole parameter after the other",
    "{reason}",
    "take one that treats every parameter by itself, or a plan that leaves parameters whole",
)

Given = TypeVar("Given", bound=Optimizer)

_cut: WeakKeyDictionary[Optimizer, dict[int, frozenset[str]]] = WeakKeyDictionary()
"""Which states are in parts, of each parameter by its identity."""


def steps_on_wholes(optimizer: Given) -> Given:
    """Lets an optimizer of a part's parameters see whole parameters and gradients; returns it.

    For optimisers that treat every parameter by itself, but not every element: Muon, Adafactor, and
    those of your own. Each parameter of which this rank has a part is gathered for its step, with
    its gradient and states of its shape, and cut again. Raises OptimizerError for one that looks at
    several parameters together, such as LBFGS.

    >>> import torch
    >>> linear = torch.nn.Linear(8, 8, bias=False)
    >>> optimizer = steps_on_wholes(torch.optim.Muon(linear.parameters()))
    >>> linear(torch.ones(1, 8)).sum().backward()
    >>> optimizer.step()
    """
    reason = reason_against(type(optimizer))
    if isinstance(reason, OfSeveral):
        raise _NOT_ALONE(kind=type(optimizer).__name__, reason=reason)
    step: Any = inspect.unwrap(type(optimizer).step)

    def one_by_one(self: Optimizer, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        groups = [(group, group["params"]) for group in self.param_groups]
        try:
            for group, _ in groups:
                group["params"] = []
            for group, parameters in groups:
                for parameter in parameters:
                    if parameter.grad is not None:
                        with torch.no_grad():
                            _step_on(self, step, group, parameter)
                group["params"] = []
        finally:
            for group, parameters in groups:
                group["params"] = parameters
        return loss

    hooked: Any = Optimizer.profile_hook_step(one_by_one)
    optimizer.step = MethodType(hooked, optimizer)  # type: ignore[method-assign]
    of_wholes.add(optimizer)
    _cut[optimizer] = {}
    return optimizer


def _step_on(
    optimizer: Optimizer, step: Callable[..., Any], group: dict[str, Any], parameter: Any
) -> None:
    """Steps on one parameter, which is whole meanwhile."""
    part = part_of(parameter)
    held: Held | None = None if part is None else part[0].held(part[1])
    if held is None or held.whole:
        group["params"] = [parameter]
        step(optimizer)
        return
    whole = nn.Parameter(held.gathered(parameter))
    whole.grad = held.gathered(parameter.grad)
    states = optimizer.state
    before = states.pop(parameter, {})
    keys = _cut[optimizer].get(id(parameter), _of_shape(before, parameter))
    states[whole] = {k: held.gathered(v) if k in keys else v for k, v in before.items()}
    group["params"] = [whole]
    step(optimizer)
    parameter.copy_(held.part(whole))
    after = states.pop(whole, {})
    keys = _cut[optimizer][id(parameter)] = _of_shape(after, whole)
    states[parameter] = {k: held.part(v) if k in keys else v for k, v in after.items()}


def _of_shape(values: Mapping[str, Any], parameter: Tensor) -> frozenset[str]:
    """The states that have the shape of a parameter."""
    return frozenset(
        key
        for key, value in values.items()
        if isinstance(value, Tensor) and value.dim() > 0 and value.shape == parameter.shape
    )
