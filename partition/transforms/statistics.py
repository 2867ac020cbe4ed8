"""Batch norm in training, cut over the batch and over an image: the statistics are those of all
ranks.

    batch_norm(x, mean, var, w, b, training=True), n cut     x S(0), all else R     S(0)

Every rank writes the same running statistics.
"""

from __future__ import annotations

from typing import Any

from dimsolve.ir.annotation import Dim, Identifier, Mark, Tensor
from dimsolve.ir.operator import Declaration
from dimsolve.ir.read_annotation import read_annotation

from ..placement import Shard
from ..transform import Part, TransformRule


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

    dims = [dim for dim in range(input.dim()) if dim != 1]
    shape = [-1 if dim == 1 else 1 for dim in range(input.dim())]
    count = input.numel() // input.shape[1] * part.count
    mean = part.all_reduce(input.sum(dims)) / count
    centred = input - mean.reshape(shape)
    variance = part.all_reduce((centred * centred).sum(dims)) / count
    if running_mean is not None:
        with torch.no_grad():
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            unbiased = variance * (count / max(count - 1, 1))
            running_var.lerp_(unbiased.to(running_var.dtype), momentum)
    result = centred * (variance + eps).rsqrt().reshape(shape)
    if weight is not None:
        result = result * weight.reshape(shape)
    return result if bias is None else result + bias.reshape(shape)
