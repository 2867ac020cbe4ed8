"""The model's parameters and buffers on one rank: made, saved as DTensors, loaded from anything.

    q_proj.weight (64, 64) at tp = 2        held (32, 64)
    state_dict()["q_proj.weight"]           a DTensor of the whole, in the part's memory
    load_state_dict(whole.state_dict())     every rank takes its part

A DTensor of another mesh is gathered first. Names, tied parameters and buffers that are not saved
are as in the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from dimsolve.ir.errors import Diagnostic

from ..distributed.mesh_ends import MeshEnds
from ..lowering.lowering_errors import LoweringError
from .held import Held
from .materialize import materialized


def refuse_hooks(model: torch.nn.Module) -> None:
    """Raises LoweringError where a parameter has a hook on its gradient, which would be left out:
    it was made for the model's own parameter and for the whole gradient.
    """
    for name, parameter in model.named_parameters():
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            raise LoweringError(
                Diagnostic(
                    code="gradient-hook",
                    title=f"{name} has a hook on its gradient",
                    reason="a part has parameters of its own, whose gradients are parts, and the "
                    "hook was made for the whole",
                    hint="remove the hook, and register one on the part's parameter",
                )
            )


def add_state(
    module: torch.nn.Module, model: torch.nn.Module, held: dict[str, Held], ends: MeshEnds
) -> None:
    """Gives ``module`` this rank's part of every parameter and buffer of the model.

    ``held`` gains what the plan does not name: it is whole on every rank, and tied names are alike.
    """
    whole = Held((), ())
    made: dict[int, Tensor] = {}
    tied = _tied(model, held)
    for path, owner, name, tensor in materialized(model, ends):
        qualified = f"{path}.{name}" if path else name
        how = held.setdefault(qualified, tied.get(id(owner[name]), whole))
        _owner(module, path, model)
        local = made.get(id(owner[name]))
        if local is None:
            local = _local(tensor, how, qualified, ends.device)
            made[id(owner[name])] = local
        _register(module, model, path, name, local)


def _tied(model: torch.nn.Module, held: Mapping[str, Held]) -> dict[int, Held]:
    """How a tensor is cut, by its identity: a plan names one of the names of a tied parameter."""
    found: dict[int, Held] = {}
    for name, tensor in [
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    ]:
        if name in held:
            found[id(tensor)] = held[name]
    return found


def _local(tensor: Tensor, how: Held, name: str, device: torch.device) -> Tensor:
    local = how.part(tensor.detach()).to(device)
    if not isinstance(tensor, torch.nn.Parameter):
        return local
    return torch.nn.Parameter(local, requires_grad=tensor.requires_grad)


def _owner(module: torch.nn.Module, path: str, model: torch.nn.Module) -> torch.nn.Module:
    """The submodule at a path, made where there is none yet, in the mode of the model's own."""
    for place, name in enumerate(path.split(".") if path else ()):
        child = module._modules.get(name)
        if child is None:
            child = torch.nn.Module()
            child.training = model.get_submodule(".".join(path.split(".")[: place + 1])).training
            module.add_module(name, child)
        module = child
    return module


def _register(
    module: torch.nn.Module, model: torch.nn.Module, path: str, name: str, local: Tensor
) -> None:
    owner = _owner(module, path, model)
    if isinstance(local, torch.nn.Parameter):
        owner.register_parameter(name, local)
    else:
        original = model.get_submodule(path)
        owner.register_buffer(
            name, local, persistent=name not in original._non_persistent_buffers_set
        )


def give_state(
    module: Any, state: dict[str, Any], prefix: str, local_metadata: Mapping[str, Any]
) -> None:
    """A hook of ``state_dict``: parts become DTensors of the mesh."""
    from torch.distributed.tensor import DTensor

    mesh = module.device_mesh
    if mesh is None:
        return
    for name, held in module._held.items():
        local = state.get(prefix + name)
        if isinstance(local, Tensor) and not isinstance(local, DTensor) and held.placements:
            state[prefix + name] = held.dtensor(local, mesh)


def take_state(
    module: Any,
    state: dict[str, Any],
    prefix: str,
    local_metadata: Mapping[str, Any],
    strict: bool,
    missing_keys: list[str],
    unexpected_keys: list[str],
    error_msgs: list[str],
) -> None:
    """A hook of ``load_state_dict``: whole tensors and DTensors become this rank's parts."""
    for name, held in module._held.items():
        given = state.get(prefix + name)
        if isinstance(given, Tensor):
            path, _, last = name.rpartition(".")
            owner = module.get_submodule(path)
            local = owner._parameters.get(last, owner._buffers.get(last))
            whole = held.whole_shape(local.shape)
            if tuple(given.shape) != whole:
                error_msgs.append(_mismatch(prefix + name, given.shape, whole))
                state[prefix + name] = local.detach()
                continue
            state[prefix + name] = part_of_saved(given, held, tuple(local.shape), name)


def _mismatch(name: str, given: Any, whole: Any) -> str:
    """What torch says where shapes differ; the model's are the whole ones."""
    return (
        f"size mismatch for {name}: copying a param with shape {torch.Size(given)} from checkpoint,"
        f" the shape in current model is {torch.Size(whole)}."
    )


def part_of_saved(
    saved: Tensor, held: Held, shape: tuple[int, ...], name: str, *, parts: bool = False
) -> Tensor:
    """Returns this rank's part of a saved tensor, which is whole or a DTensor.

    shape: of the part. parts: whether a plain tensor may be the part itself. Raises LoweringError
    for a tensor of another shape.
    """
    from torch.distributed.tensor import DTensor

    from .part_tensor import PartTensor

    if isinstance(saved, DTensor):
        own = isinstance(saved, PartTensor) or saved.to_local().shape == shape
        if own and _same_cut(saved, held):
            return saved.to_local()
        saved = saved.full_tensor()
    if tuple(saved.shape) == held.whole_shape(shape):
        return held.part(saved)
    if parts and tuple(saved.shape) == shape:
        return saved
    raise LoweringError(
        Diagnostic(
            code="other-shape",
            title=f"{name} has another shape",
            reason=f"it is {tuple(saved.shape)}; the whole is {held.whole_shape(shape)} and this "
            f"rank's part is {shape}",
        )
    )


def _same_cut(saved: Any, held: Held) -> bool:
    """Whether a DTensor is cut as this rank holds it."""
    mesh = saved.device_mesh
    if held.segmented or mesh.ndim != len(held.ends):
        return False
    sizes = tuple(end.size for end in held.ends)
    same: Any = held.dtensor(saved.to_local(), mesh) if tuple(mesh.shape) == sizes else None
    if same is None or same.shape != saved.shape:
        return False
    return bool(getattr(same, "placements", None) == saved.placements)
