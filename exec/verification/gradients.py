"""Gradients of the outputs of one call, whole and on the ranks of a split.

Ranks are programs of their own, whose gradients are shares that add up: see
`dimsolve.partition.transform`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from dimsolve.partition.placement import Partial, Placement, Reduction, Replicate

from ..distributed.sharding import gradient_parts_of


def requires_gradient(output: Any) -> bool:
    """Whether an output can have a gradient."""
    return isinstance(output, Tensor) and output.requires_grad


def random_like(tensor: Tensor, generator: torch.Generator) -> Tensor:
    """Returns normally distributed values in the shape and dtype of the tensor."""
    dtype = torch.complex128 if tensor.is_complex() else torch.float64
    values = torch.randn(tensor.shape, dtype=dtype, generator=generator, device="cpu")
    return values.to(tensor.device, tensor.dtype)


def gradients_of(
    outputs: Sequence[Any], leaves: Sequence[Tensor | None], weights: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """Returns the leaves' gradients of the sum of outputs times weights."""
    pairs = [
        (output, weight)
        for output, weight in zip(outputs, weights, strict=True)
        if weight is not None and requires_gradient(output)
    ]
    wanted = [leaf for leaf in leaves if leaf is not None and leaf.requires_grad]
    if all(weight is None for weight in weights) or not wanted:
        return [None] * len(leaves)
    found: Sequence[Tensor | None] = [None] * len(wanted)
    if pairs:
        found = torch.autograd.grad(
            [output for output, _ in pairs],
            wanted,
            [weight for _, weight in pairs],
            allow_unused=True,
        )
    rest = iter(zip(wanted, found, strict=True))
    gradients: list[Tensor | None] = []
    for leaf in leaves:
        if leaf is None or not leaf.requires_grad:
            gradients.append(None)
            continue
        _, gradient = next(rest)
        gradients.append(torch.zeros_like(leaf) if gradient is None else gradient)
    return gradients


def gradient_shares(
    weight: Tensor,
    parts: Sequence[Tensor],
    placements: Sequence[Placement],
    mesh: Mapping[str, int],
) -> list[Tensor]:
    """Returns each rank's gradient of an output; of a replicated one that is an even share."""
    shares = [
        Partial(Reduction.AVG) if isinstance(placement, Replicate) else placement
        for placement in placements
    ]
    return gradient_parts_of(weight, parts, shares, mesh)
