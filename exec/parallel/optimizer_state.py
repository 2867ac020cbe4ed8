"""An optimiser's state on one rank: saved as DTensors like the parameters, loaded from anything.

    AdamW over q_proj.weight (64, 64) at tp = 2      exp_avg is held (32, 64)
    optimizer.state_dict()["state"][0]["exp_avg"]    a DTensor of the whole, in the part's memory

Parts are plain tensors, so an optimiser does not know that its moments are parts. Before the first
step of an optimiser that holds a part's parameters torch calls `watch_optimizers`' hook, and from
then on its state is given and taken as the module's is. Optimisers of anything else are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary, ref

from torch import Tensor
from torch.optim import Optimizer

from .optimizer_kinds import check_kind
from .state import part_of_saved

_MARK = "_dimsolve_part"

_known: WeakKeyDictionary[Optimizer, int] = WeakKeyDictionary()
"""Optimisers that were looked at, and how many groups of parameters they had."""


def mark_parameters(module: Any) -> None:
    """Notes at every parameter whose part it is, so that an optimiser's state is known by it."""
    for name, parameter in module.named_parameters():
        setattr(parameter, _MARK, (ref(module), name))


@cache
def watch_optimizers() -> None:
    """Asks torch to tell of every optimiser before it steps."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    register_optimizer_step_pre_hook(_before_step)


def _before_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    groups, before = len(optimizer.param_groups), _known.get(optimizer, 0)
    if groups == before:
        return
    parts = [part for p in _parameters(optimizer) if (part := _part_of(p)) is not None]
    for module, name in parts:
        if not module.held(name).whole:
            check_kind(optimizer, name)
            break
    _known[optimizer] = groups
    if before or not parts:
        return
    optimizer.register_state_dict_post_hook(_give)
    optimizer.register_load_state_dict_pre_hook(_take)
    for parameter, values in optimizer.state.items():
        values.update(_taken(parameter, values, parts=True))


def _parameters(optimizer: Optimizer) -> Iterator[Any]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _part_of(parameter: Any) -> tuple[Any, str] | None:
    """The module and the name of a parameter that is a part."""
    where, name = getattr(parameter, _MARK, (None, ""))
    module = None if where is None else where()
    return None if module is None else (module, name)


def _give(optimizer: Optimizer, state: dict[str, Any]) -> dict[str, Any]:
    """A hook of ``state_dict``: what has a parameter's shape becomes a DTensor as it is one."""
    given = {
        key: _given(parameter, state["state"][key]) for key, parameter in _keys(optimizer, state)
    }
    return {**state, "state": {**state["state"], **given}}


def _given(parameter: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    part = _part_of(parameter)
    mesh = None if part is None else part[0].device_mesh
    if part is None or mesh is None:
        return dict(values)
    held = part[0].held(part[1])
    return {
        key: held.dtensor(value, mesh) if _is_alike(value, parameter, held) else value
        for key, value in values.items()
    }


def _is_alike(value: Any, parameter: Any, held: Any) -> bool:
    """Whether a value is cut as its parameter is."""
    from torch.distributed.tensor import DTensor

    plain = isinstance(value, Tensor) and not isinstance(value, DTensor)
    return plain and value.dim() > 0 and value.shape == parameter.shape and bool(held.placements)


def _take(optimizer: Optimizer, state: dict[str, Any]) -> dict[str, Any]:
    """A hook of ``load_state_dict``: whole tensors and DTensors become this rank's parts."""
    taken = {
        key: _taken(parameter, state["state"][key], parts=False)
        for key, parameter in _keys(optimizer, state)
    }
    return {**state, "state": {**state["state"], **taken}}


def _keys(optimizer: Optimizer, state: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Under which key a parameter's values stand: a number, or a name in torch's own tools."""
    keys = (key for group in state["param_groups"] for key in group["params"])
    for key, parameter in zip(keys, _parameters(optimizer), strict=False):
        if key in state["state"]:
            yield key, parameter


def _taken(parameter: Any, values: Mapping[str, Any], *, parts: bool) -> dict[str, Any]:
    """What was saved of a parameter, as this rank's parts. parts: whether plain tensors may be."""
    part = _part_of(parameter)
    if part is None:
        return dict(values)
    held, shape = part[0].held(part[1]), tuple(parameter.shape)
    whole = held.whole_shape(shape)
    return {
        key: part_of_saved(value, held, shape, f"{key} of {part[1]}", parts=parts)
        if isinstance(value, Tensor) and tuple(value.shape) in (shape, whole)
        else value
        for key, value in values.items()
    }
