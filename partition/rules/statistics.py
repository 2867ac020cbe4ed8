"""Batch norm in training, cut over the batch and over an image: the statistics are those of all
ranks. And group norm, of which one value may be left on a rank.

    batch_norm(x, mean, var, w, b, training=True), n cut     x S(0), all else R     S(0)
    group_norm(x, g, w, b), n cut                            x S(0), all else R     S(0)

Every rank writes the same running statistics.

Means that divide by the sum of a weight: a rank sums its part and divides by the weight of all
ranks.

mse_loss(x, y, weight=w), a cut      a b, a b, a b -> ()      P(sum)

Largest and smallest elements over a split dimension: elements that tie share the gradient as on
one device.

    amax(x, 0), a cut over 2      a+ b -> b      x S(0)      R

P(max) would do for the values. But where elements of several ranks tie, the gradient is shared
among all of them, and only all ranks together know how many they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dimsolve.ir.annotation import Dim, Identifier, Mark, Tensor
from dimsolve.ir.operator import Declaration
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.solver.layout import identifiers_of
from dimsolve.solver.operators.nn.losses import COUNTED

from ..placement import Shard
from .autocast import cast_as_torch
from .rule import Part, TransformRule


def mse_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of a weighted mse_loss."""
    return _rules_of_means(declaration, weighted_mse)


def l1_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of a weighted l1_loss."""
    return _rules_of_means(declaration, weighted_l1)


def _rules_of_means(
    declaration: Declaration, local: Callable[..., Any]
) -> tuple[TransformRule, ...]:
    names = tuple(identifiers_of(read_annotation(declaration.annotation)))
    if declaration.frozen != COUNTED or not names:
        return ()
    return (TransformRule(split=names, outputs=("P(sum)",), local=local),)


def weighted_mse(
    part: Part,
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """Returns this rank's share of a weighted mean of squares."""
    from torch.nn.functional import mse_loss

    total = mse_loss(input, target, reduction="sum", weight=weight)  # type: ignore[call-arg]
    return total / part.all_reduce(weight.sum())


def weighted_l1(
    part: Part,
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """Returns this rank's share of a weighted mean of distances."""
    from torch.nn.functional import l1_loss

    total = l1_loss(input, target, reduction="sum", weight=weight)  # type: ignore[call-arg]
    return total / part.all_reduce(weight.sum())


def amax_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of amax."""
    return _rules_of_extremes(declaration, amax_parts)


def amin_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of amin."""
    return _rules_of_extremes(declaration, amin_parts)


def max_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of max over all elements; that of two tensors, or with indices, has none."""
    return _rules_of_extremes(declaration, max_parts)


def min_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of min over all elements."""
    return _rules_of_extremes(declaration, min_parts)


def _rules_of_extremes(declaration: Declaration, local: Any) -> tuple[TransformRule, ...]:
    identifiers = identifiers_of(read_annotation(declaration.annotation))
    names = tuple(name for name, found in identifiers.items() if found.mark is Mark.SUM)
    real = str(declaration.dtypes[:1]).startswith(("('float", "('bfloat"))
    if not names or not real or declaration.reduction not in ("max", "min"):
        return ()
    return (TransformRule(split=names, outputs=("R",), local=local),)


@cast_as_torch()
def amax_parts(part: Part, input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """Returns the largest elements of all ranks' parts."""
    return _extreme(part, input, dim, keepdim, True, False)


@cast_as_torch()
def amin_parts(part: Part, input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """Returns the smallest elements of all ranks' parts."""
    return _extreme(part, input, dim, keepdim, False, False)


@cast_as_torch()
def max_parts(part: Part, input: Any) -> Any:
    """Returns the largest element of all ranks' parts."""
    return _extreme(part, input, (), False, True, True)


@cast_as_torch()
def min_parts(part: Part, input: Any) -> Any:
    """Returns the smallest element of all ranks' parts."""
    return _extreme(part, input, (), False, False, True)


def _extreme(part: Part, input: Any, dim: Any, keepdim: bool, largest: bool, of_all: bool) -> Any:
    from .joined import extreme

    return extreme(part, input, dims_of(input, dim), keepdim, largest, of_all)


def dims_of(input: Any, dim: Any) -> tuple[int, ...]:
    """Returns the dimensions that a reduction goes over, all where none is named."""
    if dim is None or dim == ():
        return tuple(range(input.dim()))
    return (dim,) if isinstance(dim, int) else tuple(dim)


def batch_norm_rules(declaration: Declaration) -> tuple[TransformRule, ...]:
    """Returns the rule of batch_norm in training; by running statistics it needs none."""
    row = read_annotation(declaration.annotation).inputs[0]
    assert isinstance(row, Tensor)
    atoms = [dim.atoms[0] for dim in row.dims if isinstance(dim, Dim)]
    return tuple(
        TransformRule(split=atom.name, outputs=(Shard(place),), local=batch_norm_parts)
        for place, atom in enumerate(atoms)
        if isinstance(atom, Identifier) and atom.mark is Mark.FROZEN
    )


@cast_as_torch()
def batch_norm_parts(
    part: Part,
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Normalises by the mean and the variance of all ranks' parts, and writes the running
    statistics.
    """
    import torch

    from .joined import widened

    dims = [dim for dim in range(input.dim()) if dim != 1]
    shape = [-1 if dim == 1 else 1 for dim in range(input.dim())]
    count = input.numel() // input.shape[1] * part.count
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
    return (TransformRule(split="n", local=group_norm_parts),)


def group_norm_parts(
    part: Part, input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """Normalises this rank's samples. ``torch.nn.functional`` refuses one value for all of them;
    that is asked of the whole batch, and a part of it may have one.
    """
    import torch

    enabled = torch.backends.cudnn.enabled
    return torch.group_norm(input, num_groups, weight, bias, eps, enabled)
