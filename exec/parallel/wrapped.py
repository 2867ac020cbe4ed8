"""torch's wrappers around a part: an outer data axis, whose ranks hold the same parts.

    mesh outer = 2, tp = 2, a plan for tp     DDP(part, process_group=mesh["outer"].get_group())
                                              fully_shard(part, mesh=mesh["outer"])
    DDP(part) over all four ranks             refused: all parts would become those of rank 0
    fully_shard(part) over all four ranks     refused: a parameter would be joined of two parts

DDP copies the parameters of its first rank to the others, fully_shard cuts a parameter over its
ranks and joins it again, and both take means of gradients: that is right only where all of their
ranks hold the same parts. So each tells the others which part it holds, once, when it is wrapped.

`torch.distributed.checkpoint.async_save` sends in a thread of its own while the part trains, and
both would send by one process group. Where nobody gives it a group it is given one of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, wraps
from inspect import signature
from typing import Any
from weakref import WeakKeyDictionary

import torch.distributed as dist

from dimsolve.ir.errors import Problem

from ..lowering.setting import LoweringError
from .optimizers import MARK

_OTHER_PARTS = Problem(
    LoweringError,
    "ddp-over-parts",
    "DistributedDataParallel around ranks that hold different parts of {name}",
    "it copies the parameters of its first rank to all others; rank {one} holds the part at {first}"
    ", rank {other} the part at {second}",
    "a part needs no DDP: its gradients are summed along the plan's axes (accelerate knows that "
    "with Accelerator from dimsolve.trainers). Along an axis that the plan does not have, give DDP "
    "its group: DistributedDataParallel(part, process_group=mesh[axis].get_group())",
)
_STATE_SHARED = (
    'a part needs no FSDP: dimsolve.plan(..., state="shared") stores parameters, gradients and '
    "optimiser in parts along the plan's axes. Along an axis that the plan does not have, give its "
    "mesh: fully_shard(part, mesh=mesh[axis])"
)
_OTHER_SHARDS = Problem(
    LoweringError,
    "fsdp-over-parts",
    "fully_shard over ranks that hold different parts of {name}",
    "it cuts a parameter over its ranks and joins it again, as if all had the same; rank {one} "
    "holds the part at {first}, rank {other} the part at {second}",
    _STATE_SHARED,
)
_FLAT = Problem(
    LoweringError,
    "flat-parameters",
    "FullyShardedDataParallel around a part",
    "it puts flat parameters of its own in place of the part's, which the part's program takes",
    _STATE_SHARED,
)
OTHER_TRAINER = Problem(
    LoweringError,
    "other-trainer",
    "transformers' Trainer does not know parts of models",
    "it would scale the loss as if every rank had one of its own, and save this rank's part",
    "from dimsolve.trainers import Trainer; a Trainer of your own takes TrainerOfParts of that "
    "module as its first base",
)


@cache
def watch_wrappers() -> None:
    """Puts a check before torch's wrappers: the classes are watched, since a script has imported
    ``fully_shard`` by its name long before.
    """
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup
    from torch.nn.parallel import DistributedDataParallel

    _check_before(DistributedDataParallel, _check_ddp)
    _check_before(FSDPParamGroup, _check_shards)
    _check_before(FullyShardedDataParallel, _refuse_flat)
    _save_by_a_group_of_its_own()


def _save_by_a_group_of_its_own() -> None:
    from torch.distributed.checkpoint._async_thread_executor import (
        _ThreadBasedAsyncCheckpointExecutor as Saving,
    )

    original, groups = Saving.execute_save, WeakKeyDictionary[Any, Any]()

    @wraps(original)
    def execute_save(self: Any, *args: Any, **kwargs: Any) -> Any:
        world: Any = dist.group.WORLD if dist.is_initialized() else None
        if world is not None and kwargs.get("process_group") is None:
            if world not in groups:
                groups[world] = dist.new_group(backend="gloo")
            kwargs["process_group"] = groups[world]
        return original(self, *args, **kwargs)

    changed: Any = Saving
    changed.execute_save = execute_save


def _check_before(wrapper: Any, check: Callable[[Mapping[str, Any]], None]) -> None:
    original = wrapper.__init__
    arguments = signature(original)

    @wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            given = arguments.bind(self, *args, **kwargs).arguments
        except TypeError:  # the wrapper says what is wrong
            given = {}
        if given:
            check(given)
        original(self, *args, **kwargs)

    wrapper.__init__ = init


def _check_ddp(given: Mapping[str, Any]) -> None:
    mesh = given.get("device_mesh")
    for part in _parts_in(given["module"]):
        group = given.get("process_group") if mesh is None else mesh.get_group()
        _check_same_parts(part, group, _OTHER_PARTS)


def _check_shards(given: Mapping[str, Any]) -> None:
    mesh = given["mesh_info"].mesh
    marks = [getattr(parameter, MARK, None) for parameter in given["params"]]
    parts = {id(part): part for mark in marks if mark and (part := mark[0]()) is not None}
    for part in parts.values():
        for dim in range(mesh.ndim):
            _check_same_parts(part, mesh.get_group(dim), _OTHER_SHARDS)


def _refuse_flat(given: Mapping[str, Any]) -> None:
    if any(_parts_in(given["module"])):
        raise _FLAT()


def _parts_in(module: Any) -> Iterator[Any]:
    for part in module.modules():
        if hasattr(part, "_held") and hasattr(part, "device_mesh"):
            yield part


def _check_same_parts(part: Any, group: Any, problem: Problem[LoweringError]) -> None:
    """Raises LoweringError on all ranks of a group where they do not hold the same parts."""
    name = "the model"
    place: dict[Any, Any] = {}
    for key, held in part._held.items():
        for end in held.cut_along:
            name = key if not place else name
            place[getattr(end, "axis", "")] = end.rank
    told: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(told, (dist.get_rank(), name, place), group=group)
    one, name, first = told[0]
    for other, _, second in told:
        if second != first:
            raise problem(name=name, one=one, other=other, first=_text(first), second=_text(second))


def _text(place: dict[str, int]) -> str:
    return ", ".join(f"{axis}={index}" for axis, index in place.items()) or "no axis"
