"""A part of a model that is run again in the backward pass, called as torch calls it.

    gelu = run_again(region, block, [x, up_weight], held=[1])      keeps x, and not what block makes

All tensors that the part uses are arguments, so torch gives a gradient to each. On one device the
tensors of the model are none, and a reentrant part all of whose arguments have no gradient gives
none to them either; which the arguments were is not known here, so that is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from dimsolve.ir.errors import Problem
from dimsolve.ir.graph import Region

from .lowering.setting import LoweringError

_WITHOUT_GRADIENT = Problem(
    LoweringError,
    "reentrant-without-gradient",
    "nothing that {name} takes has a gradient, and its parameters have",
    "it is checkpointed with use_reentrant=True: torch gives such parameters no "
    "gradient, unless they are arguments",
    "checkpoint(..., use_reentrant=False), or an input that requires a gradient",
)


def run_again(
    region: Region, function: Callable[..., Any], args: Sequence[Any], held: Collection[int]
) -> Any:
    """Returns what the function returns for the arguments; it is called again where the backward
    pass needs something that it made.

    held: which of the arguments are tensors of the model. Raises LoweringError for a reentrant
    region that only these have a gradient in.
    """
    if region.use_reentrant and torch.is_grad_enabled():
        numbers = [number for number, value in enumerate(args) if _has_gradient(value)]
        if numbers and all(number in held for number in numbers):
            raise _WITHOUT_GRADIENT(name=region.name)
    arguments: dict[str, Any] = region.arguments()
    if not region.use_reentrant:
        own = {number: args[number] for number in held if not _has_gradient(args[number])}
        function, args = _with_own(function, own, len(args)), _without(args, own)
    return checkpoint(function, *args, **arguments)


def _with_own(
    function: Callable[..., Any], own: Mapping[int, Any], count: int
) -> Callable[..., Any]:
    """Returns the function of the other arguments. torch keeps arguments as they were, and these
    are the model's: what is counted in place, as batch norm counts, is as it is the second time.
    """
    if not own:
        return function

    def run(*others: Any) -> Any:
        given = iter(others)
        return function(*(own[n] if n in own else next(given) for n in range(count)))

    return run


def _without(args: Sequence[Any], own: Collection[int]) -> list[Any]:
    return [value for number, value in enumerate(args) if number not in own]


def _has_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad
