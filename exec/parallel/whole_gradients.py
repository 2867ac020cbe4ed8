"""What torch's own tools ask of all gradients together: their norm, and whether one overflowed.

    q_proj.weight.grad (32, 64) on each of 2 ranks     its norm is that of the (64, 64) gradient
    torch.nn.utils.clip_grad_norm_(part.parameters(), 1.0)      scales alike on every rank
    torch.amp.GradScaler().step(optimizer)                      every rank steps, or none does

Both tools look at what one process holds, and a part is a plain tensor: each rank would find
another answer, and replicated parameters would drift apart. So `watch_gradients` puts a function of
its own before torch's ``_get_total_norm`` and ``GradScaler._unscale_grads_``. It gives tensors that
belong to no part to torch as they are; of parts it asks the other ranks, one collective of one
number a parameter for a norm, of one number for an overflow. A step that clips nothing pays
nothing. (A tensor of a class of its own would need no such place in torch, but optimisers take
their fast way for plain parameters only.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor

from dimsolve.partition.placement import Reduction

from ..distributed.communicator import Communicator

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
        norms = torch.stack([torch.linalg.vector_norm(tensors[i], order) for i in places])
        for end in cuts[id(tensors[places[0]])]:
            rows = end.all_gather(norms)
            # The norm of order 0 counts what is not zero.
            norms = rows.sum(0) if order == 0 else torch.linalg.vector_norm(rows, order, dim=0)
        for place, norm in zip(places, norms.unbind(), strict=True):
            found[place] = norm
    return found


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
