"""DistributedDataParallel around a part: an outer data axis, whose ranks hold the same parts.

    mesh outer = 2, tp = 2, a plan for tp     DDP(part, process_group=mesh["outer"].get_group())
    DDP(part) over all four ranks             refused: all parts would become those of rank 0

DDP copies the parameters of its first rank to the others and takes means of their gradients, which
is right only where all of its ranks hold the same parts. So each tells the others which part it
holds, once, when DDP is made.
"""

from __future__ import annotations

from functools import cache, wraps
from inspect import signature
from typing import Any

import torch.distributed as dist

from dimsolve.ir.errors import Problem

from ..lowering.setting import LoweringError

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
    """Puts a check before DistributedDataParallel is made."""
    from torch.nn.parallel import DistributedDataParallel

    wrapper: Any = DistributedDataParallel
    original = wrapper.__init__
    arguments = signature(original)

    @wraps(original)
    def init(self: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        for part in module.modules():
            if hasattr(part, "_held") and hasattr(part, "device_mesh"):
                given = arguments.bind(self, module, *args, **kwargs).arguments
                mesh = given.get("device_mesh")
                _check_same_parts(
                    part, given.get("process_group") if mesh is None else mesh.get_group()
                )
        original(self, module, *args, **kwargs)

    wrapper.__init__ = init


def _check_same_parts(part: Any, group: Any) -> None:
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
            raise _OTHER_PARTS(
                name=name, one=one, other=other, first=_text(first), second=_text(second)
            )


def _text(place: dict[str, int]) -> str:
    return ", ".join(f"{axis}={index}" for axis, index in place.items()) or "no axis"
