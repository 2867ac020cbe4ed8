"""Batch norm in training, cut over the batch and over an image: the statistics are those of all
ranks. And group norm, of which one value may be left on a rank.

    batch_norm(x, mean, var, w, b, training=True), n cut     x S(0), all else R     S(0)
    group_norm(x, g, w, b), n cut                            x S(0), all else R     S(0)

Every rank writes the same running statistics.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dimsolve.ir.annotation import Tensor
from dimsolve.ir.operator import Declaration
from dimsolve.ir.read_annotation import read_annotation

from ..placement import Shard
from .autocast import cast_as_torch
from .averages import COUNT, total
from .rule import Message, Part, TransformRule, frozen_dims


def batch_norm_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of batch_norm in training; by running statistics it needs none."""
    row = read_annotation(declaration.annotation).inputs[0]
    channels = str(row.dims[1]) if isinstance(row, Tensor) else "()"
    moment = Message(channels, "wide input", backward=True)
    rules = []
    for place, name in frozen_dims(declaration):
        equal = TransformRule(
            split=name, outputs=(Shard(place),), local=batch_norm_parts, sends=(moment, moment)
        )
        unequal = replace(
            equal,
            local=unequal_batch_norm_parts,
            sends=(COUNT, moment, moment),
            parts="any",
            placed=False,
            only_unequal=True,
        )
        rules += [equal, unequal]
    return tuple(rules)


@cast_as_torch()
def batch_norm_parts(part: Part, input: Any, *more: Any, **settings: Any) -> Any:
    """Normalises by the mean and the variance of all ranks' parts, and writes the running
    statistics.
    """
    count = input.numel() // input.shape[1] * part.count
    return _batch_norm(part, count, input, *more, **settings)


@cast_as_torch()
def unequal_batch_norm_parts(part: Part, input: Any, *more: Any, **settings: Any) -> Any:
    """The same, where ranks have parts of other lengths."""
    count = int(total(part, input.numel() // input.shape[1], input))
    return _batch_norm(part, count, input, *more, **settings)


def _batch_norm(
    part: Part,
    count: int,
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    import torch

    from .joined import widened

    dims = [dim for dim in range(input.dim()) if dim != 1]
    shape = [-1 if dim == 1 else 1 for dim in range(input.dim())]
    # The statistics of few bits, and the result until the end, are of many, as torch has it.
    wide = widened(input)
    mean = part.all_reduce(wide.sum(dims)) / count
    centred = wide - mean.reshape(shape)
    variance = part.all_reduce((centred * centred).sum(dims)) / count
    if running_mean is not None:
        with torch.no_grad():
            _move(running_mean, mean, momentum)
            _move(running_var, variance * (count / max(count - 1, 1)), momentum)
    result = centred * (variance + eps).rsqrt().reshape(shape)
    if weight is not None:
        result = result * weight.reshape(shape)
    if bias is not None:
        result = result + bias.reshape(shape)
    return result.to(input.dtype)


def _move(running: Any, found: Any, momentum: float) -> None:
    """Moves a running statistic towards what was found, in the wider of their dtypes."""
    import torch

    wide = torch.promote_types(running.dtype, found.dtype)
    running.copy_(running.to(wide).lerp(found.to(wide), momentum))


def group_norm_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of group_norm over the batch."""
    return (TransformRule(split="n", local=group_norm_parts, sends=(), parts="any", placed=False),)


def group_norm_parts(
    part: Part, input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """Normalises this rank's samples. ``torch.nn.functional`` refuses one value for all of them;
    that is asked of the whole batch, and a part of it may have one.
    """
    import torch

    enabled = torch.backends.cudnn.enabled
    return torch.group_norm(input, num_groups, weight, bias, eps, enabled)
