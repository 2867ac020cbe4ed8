"""torch's optimisers and tools on parts: their state, the norm of all gradients, an overflow.

    q_proj.weight.grad (32, 64) on each of 2 ranks     its norm is that of the (64, 64) gradient
    torch.nn.utils.clip_grad_norm_(part.parameters(), 1.0)      scales alike on every rank
    torch.amp.GradScaler().step(optimizer)                      every rank steps, or none does
    optimizer.state_dict()["state"][0]["exp_avg"]      a DTensor of the whole, in the part's memory

Parts are plain tensors, since optimisers take their fast way for plain parameters only. So torch's
tools would look at what one process has, and replicated parameters would drift apart:
`watch_gradients` puts a function of its own before torch's ``_get_total_norm`` and
``GradScaler._unscale_grads_``. It gives tensors that belong to no part to torch as they are; of
parts it asks the other ranks, one collective of one number a parameter for a norm, of one number
for an overflow. A step that clips nothing pays nothing.

Before the first step of an optimiser that has a part's parameters torch calls `watch_optimizers`'
hook, and from then on its state is given and taken as the module's is. Right on parts is an
optimiser that treats every element by itself, such as AdamW. One that looks at whole parameters,
such as Adafactor, is refused, unless it is to step on wholes (`whole_steps`); of the user's own
nobody knows, which is said once as a warning.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

import torch
from torch import Tensor
from torch.optim import Optimizer

from dimsolve.ir.errors import DimsolveError, Problem
from dimsolve.partition.placement import Reduction

from ..distributed.communicator import Communicator
from .state import part_of_saved

_ELEMENTWISE = (
    "ASGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
    "SparseAdam",
)


class OfSeveral(str):
    """Why an optimiser cannot step on one parameter without the others."""


_ROWS = "it takes means over the rows and columns of a parameter"
_OF_WHOLES: dict[str, str] = {
    "torch.Adafactor": _ROWS,
    "torch.Muon": "it orthogonalises a parameter's gradient as one matrix",
    "torch.LBFGS": OfSeveral("it takes products over all parameters together"),
    "torch.ZeroRedundancyOptimizer": OfSeveral(
        "it copies parameters from one rank to the others, and a part is no other rank's part"
    ),
    "torch.PostLocalSGDOptimizer": OfSeveral(
        "it takes means of parameters over the ranks, and a part is no other rank's part"
    ),
    "transformers.Adafactor": _ROWS,
}
"""Classes that look at more than one element at a time, by package and name, and at what."""


class OptimizerError(DimsolveError):
    """An optimiser whose step on parts is not the step on one device."""

    __module__ = "dimsolve"


_REFUSED = Problem(
    OptimizerError,
    "optimizer-of-wholes",
    "{kind} cannot step on parts of parameters",
    "{reason}, and this rank holds a part of {name}",
    "{whole}take one that treats elements by themselves ({value}), or a plan that leaves "
    "parameters whole",
)


_OF_THE_MODEL = Problem(
    OptimizerError,
    "optimizer-of-the-model",
    "{kind} was made of the parameters of a model, of which a part is trained",
    "none of the model's {count} parameters in it has a gradient: parallelize has left the model "
    "as it was, and gradients come to the part's parameters",
    "make the optimizer of part.parameters(), after dimsolve.parallelize",
)


def check_kind(optimizer: Any, name: str) -> None:
    """Raises OptimizerError where an optimiser looks at whole parameters; warns where nobody knows.

    name: of a parameter of which this rank holds a part.
    """
    kind = type(optimizer)
    reason = reason_against(kind)
    if reason is not None:
        alone = not isinstance(reason, OfSeveral)
        raise _REFUSED(
            kind=kind.__name__,
            reason=reason,
            name=name,
            whole="call dimsolve.steps_on_wholes(optimizer) once, " * alone,
            value=", ".join(_ELEMENTWISE),
        )
    if inspect.unwrap(kind.step) not in _elementwise_steps():
        warnings.warn(
            f"{kind.__name__} is not known to dimsolve, and this rank holds a part of {name}: the "
            "step is that of one device only if it treats every element of a parameter by itself",
            stacklevel=4,
        )


def reason_against(kind: type) -> str | None:
    """Returns at what a class of optimisers looks that a rank has a part of; None where that is not
    known.
    """
    for base in kind.__mro__:
        package = base.__module__.partition(".")[0]
        reason = _OF_WHOLES.get(f"{package}.{base.__qualname__}")
        if reason is not None:
            return reason
    return None


@cache
def _elementwise_steps() -> frozenset[Any]:
    return frozenset(inspect.unwrap(getattr(torch.optim, name).step) for name in _ELEMENTWISE)


MARK = "_dimsolve_part"

_ORIGINAL = "_dimsolve_original"
"""What a parameter of a model has of which there is a part."""

_parallelized = count(1)
_latest = [0]


@dataclass(frozen=True, slots=True)
class _Looked:
    """What was seen of an optimiser: its number of groups, how many models had been parallelized,
    the parts whose parameters it has, and whether it has some of their models'.
    """

    groups: int
    models: int
    parts: tuple[ref[Any], ...]
    of_models: bool


of_wholes: WeakSet[Optimizer] = WeakSet()
"""Optimisers that step on whole parameters (`whole_steps`)."""

_known: WeakKeyDictionary[Optimizer, _Looked] = WeakKeyDictionary()
"""Optimisers that were looked at."""


def watch_originals(model: Any) -> None:
    """Notes at every parameter of a model that there is a part of it now."""
    _latest[0] = next(_parallelized)
    for parameter in model.parameters():
        setattr(parameter, _ORIGINAL, True)


def mark_parameters(module: Any) -> None:
    """Notes at every parameter whose part it is, so that an optimiser's state is known by it."""
    for name, parameter in module.named_parameters():
        setattr(parameter, MARK, (ref(module), name))


@cache
def watch_optimizers() -> None:
    """Asks torch to tell of every optimiser before it steps."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    register_optimizer_step_pre_hook(_before_step)


def _before_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    known = _known.get(optimizer)
    now = (len(optimizer.param_groups), _latest[0])
    if known is None or (known.groups, known.models) != now:
        known = _look(optimizer, known)
    if known.of_models:
        _check_originals(optimizer)
    for part in known.parts:
        module = part()
        if module is not None:
            module.__dict__["_steps"] = module._steps + 1


def _look(optimizer: Optimizer, before: _Looked | None) -> _Looked:
    """Looks at what an optimiser steps on: anew where it has other groups, or there are parts of
    more models.
    """
    every = list(_parameters(optimizer))
    parts = [part for p in every if (part := part_of(p)) is not None]
    for module, name in parts:
        if not module.held(name).whole and optimizer not in of_wholes:
            check_kind(optimizer, name)
            break
    modules = {id(module): ref(module) for module, _ in parts}
    of_models = any(hasattr(parameter, _ORIGINAL) for parameter in every)
    groups = len(optimizer.param_groups)
    known = _Looked(groups, _latest[0], tuple(modules.values()), of_models)
    _known[optimizer] = known
    if parts and (before is None or not before.parts):
        optimizer.register_state_dict_post_hook(_give)
        optimizer.register_load_state_dict_pre_hook(_take)
        for parameter, values in optimizer.state.items():
            values.update(_taken(parameter, values, parts=True))
    return known


def _check_originals(optimizer: Optimizer) -> None:
    """Raises OptimizerError where nothing of a model has a gradient of which there is a part."""
    originals = [p for p in _parameters(optimizer) if hasattr(p, _ORIGINAL) and p.requires_grad]
    if originals and all(parameter.grad is None for parameter in originals):
        raise _OF_THE_MODEL(kind=type(optimizer).__name__, count=len(originals))


def _parameters(optimizer: Optimizer) -> Iterator[Any]:
    for group in optimizer.param_groups:
        yield from group["params"]


def part_of(parameter: Any) -> tuple[Any, str] | None:
    """The module and the name of a parameter that is a part."""
    where, name = getattr(parameter, MARK, (None, ""))
    module = None if where is None else where()
    return None if module is None else (module, name)


def _give(optimizer: Optimizer, state: dict[str, Any]) -> dict[str, Any]:
    """A hook of ``state_dict``: what has a parameter's shape becomes a DTensor as it is one."""
    given = {
        key: _given(parameter, state["state"][key]) for key, parameter in _keys(optimizer, state)
    }
    return {**state, "state": {**state["state"], **given}}


def _given(parameter: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    part = part_of(parameter)
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
    part = part_of(parameter)
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


_parts: WeakSet[Any] = WeakSet()
"""The parts of models on this rank."""


def watch_gradients(module: Any) -> None:
    """Makes torch's tools see the whole gradients of a part where its parameters are cut."""
    if any(not held.whole for held in module._held.values()):
        _parts.add(module)
        _install()


@cache
def _install() -> None:
    from torch.amp.grad_scaler import GradScaler
    from torch.nn.utils import clip_grad

    norm: Any = _with_whole_norms(clip_grad._get_total_norm)
    for place, name in ((clip_grad, "_get_total_norm"), (torch.nn.utils, "get_total_norm")):
        setattr(place, name, norm)
    scaler: Any = GradScaler
    scaler._unscale_grads_ = _with_shared_overflow(scaler._unscale_grads_)


def _cuts() -> dict[int, tuple[Communicator, ...]]:
    """Along which axes a tensor is cut, by the identity of a parameter or its gradient."""
    found: dict[int, tuple[Communicator, ...]] = {}
    for part in list(_parts):
        for name, parameter in part.named_parameters():
            ends = part.held(name).cut_along if name in part._held else ()
            if ends:
                found[id(parameter)] = ends
                if parameter.grad is not None:
                    found[id(parameter.grad)] = ends
    return found


def _with_whole_norms(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @wraps(original)
    def get_total_norm(
        tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0, *args: Any, **kwargs: Any
    ) -> Tensor:
        given = [tensors] if isinstance(tensors, Tensor) else list(tensors)
        with torch.no_grad():
            whole = _whole_norms(given, float(norm_type), _cuts())
        return original(whole, norm_type, *args, **kwargs)

    return get_total_norm


def _whole_norms(
    tensors: Sequence[Tensor], order: float, cuts: Mapping[int, tuple[Communicator, ...]]
) -> list[Tensor]:
    """The tensors, those that are parts replaced by a number that has their whole's norm."""
    groups: dict[Any, list[int]] = {}
    for place, tensor in enumerate(tensors):
        ends = cuts.get(id(tensor), ())
        if ends:
            key = (tuple(map(id, ends)), tensor.device, tensor.dtype)
            groups.setdefault(key, []).append(place)
    found = list(tensors)
    for places in groups.values():
        norms = torch.stack([_norm(tensors[i], order) for i in places])
        for end in cuts[id(tensors[places[0]])]:
            rows = end.all_gather(norms)
            # The norm of order 0 counts what is not zero.
            norms = rows.sum(0) if order == 0 else torch.linalg.vector_norm(rows, order, dim=0)
        for place, norm in zip(places, norms.unbind(), strict=True):
            found[place] = norm
    return found


def _norm(part: Tensor, order: float) -> Tensor:
    """The norm of a part; of an empty one the number that changes nothing."""
    if part.numel():
        norm: Tensor = torch.linalg.vector_norm(part, order)
        return norm
    return part.new_full((), math.inf if order < 0 else 0.0)


def _with_shared_overflow(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def unscale_grads(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        found: dict[torch.device, Tensor] = original(self, optimizer, *args, **kwargs)
        cuts = _cuts()
        parameters = (p for group in optimizer.param_groups for p in group["params"])
        ends = {id(end): end for p in parameters for end in cuts.get(id(p), ())}
        for overflow in found.values():
            for end in ends.values():
                overflow.copy_(end.all_reduce(overflow, Reduction.MAX))
        return found

    return unscale_grads
