"""Parameters and buffers of a model, those on the meta device made module by module.

    a Llama of 8 billion parameters on meta     one Linear at a time is made whole, cut, and let go

The module makes its own values as it always does: ``reset_parameters``, or transformers'
``_init_weights``. The random numbers are the same on all ranks and for every mesh, so the parts
belong together. What no module makes is said: it must be loaded before the first step.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor

from dimsolve.ir.errors import Diagnostic

from ..distributed.mesh_ends import MeshEnds
from ..lowering.lowering_errors import LoweringError

Found: TypeAlias = "tuple[str, dict[str, Any], str, Tensor]"


def materialized(model: torch.nn.Module, ends: MeshEnds) -> Iterator[Found]:
    """Yields (path of the module, its dictionary, name, whole tensor) of everything a model holds.

    Tensors on the meta device are made on the CPU when their turn comes. A tied one comes under
    each of its names; its values are made with the first.
    """
    held = (*model.parameters(), *model.buffers())
    seed = _common_seed(ends) if any(tensor.is_meta for tensor in held) else 0
    seen: dict[int, Tensor | None] = {}
    unmade: list[str] = []
    for path, module in model.named_modules():
        own = [
            (owner, name, tensor)
            for owner in (module._parameters, module._buffers)
            for name, tensor in owner.items()
            if tensor is not None
        ]
        values: dict[str, Tensor] = {}
        if any(tensor.is_meta and id(tensor) not in seen for _, _, tensor in own):
            values = _made(model, module, path, seed, unmade)
        for owner, name, tensor in own:
            value = tensor
            if tensor.is_meta and id(tensor) not in seen:
                value = values[name]
            seen[id(tensor)] = None
            yield path, owner, name, value
    if unmade:
        warnings.warn(
            f"no module makes the values of {', '.join(unmade)}: NaN until they are loaded",
            stacklevel=4,
        )


def _made(
    model: torch.nn.Module, module: torch.nn.Module, path: str, seed: int, unmade: list[str]
) -> dict[str, Tensor]:
    """The tensors of one module, made on the CPU by the module itself."""
    alone = copy.copy(module)
    for kind in ("_parameters", "_buffers"):
        empty = {name: _empty(tensor) for name, tensor in getattr(module, kind).items()}
        object.__setattr__(alone, kind, empty)
    before = {name: t._version for name, t in _own(alone)}
    initialise = _initialiser(model, alone)
    if initialise is not None:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(seed + _number(path))
            initialise()
    for name, tensor in _own(alone):
        original = module._parameters.get(name, module._buffers.get(name))
        if original is not None and original.is_meta and tensor._version == before[name]:
            _unmade(module, path, name, tensor, unmade)
    return dict(_own(alone))


def _empty(tensor: Tensor | None) -> Tensor | None:
    if tensor is None or not tensor.is_meta:
        return tensor
    empty = torch.empty_like(tensor, device="cpu")
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(empty, requires_grad=tensor.requires_grad)
    return empty


def _own(module: torch.nn.Module) -> Iterator[tuple[str, Tensor]]:
    for owner in (module._parameters, module._buffers):
        yield from ((name, tensor) for name, tensor in owner.items() if tensor is not None)


def _initialiser(model: torch.nn.Module, module: torch.nn.Module) -> Callable[[], object] | None:
    """What gives a module's own tensors their values."""
    by_model: Any = getattr(model, "_init_weights", None)
    if by_model is not None:
        return lambda: by_model(module)
    reset: Any = getattr(module, "reset_parameters", None)
    return reset if callable(reset) else None


def _unmade(
    module: torch.nn.Module, path: str, name: str, tensor: Tensor, unmade: list[str]
) -> None:
    """A tensor that nobody made: NaN says so, where it can be said and loading can mend it."""
    qualified = f"{path}.{name}" if path else name
    real = tensor.is_floating_point() or tensor.is_complex()
    if name in module._non_persistent_buffers_set or not real:
        raise LoweringError(
            Diagnostic(
                code="no-values",
                title=f"{qualified} is on the meta device and nothing makes its values",
                reason=f"{type(module).__name__} has no reset_parameters that makes it, and no "
                "state_dict holds it",
                hint="make the model's buffers on the CPU, or give the module reset_parameters",
            )
        )
    tensor.detach().fill_(float("nan"))
    unmade.append(qualified)


def _number(path: str) -> int:
    """A number for a module, the same in every process."""
    number = 0
    for character in path:
        number = (number * 31 + ord(character)) % 2**31
    return number


def _common_seed(ends: MeshEnds) -> int:
    """A number that the first rank draws from torch's generator."""
    number = torch.randint(2**62, (1,)).to(ends.device)
    for end in ends.communicators.values():
        if end.size > 1:
            number = end.broadcast(number, 0)
    return int(number)
