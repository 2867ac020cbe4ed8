"""Parts that stand for a tensor in no special way: summands all differ, maxima lie anywhere.

What holds for the value beside zeros may be wrong for the summands that an operator left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from dimsolve.partition.placement import Partial, Placement, Reduction, Replicate

from ..distributed.sharding import local_part
from .gradients import random_like


def random_parts(
    whole: Tensor,
    placements: Sequence[Placement],
    mesh: Mapping[str, int],
    generator: torch.Generator,
) -> list[Tensor]:
    """Returns the parts of all ranks in rank order; ranks that hold replicas hold the same."""
    if not placements:
        return [whole]
    (_, count), *rest = mesh.items()
    inner = dict(rest)
    if isinstance(placements[0], Replicate):
        return random_parts(whole, placements[1:], inner, generator) * count
    return [
        piece
        for part in _along(whole, placements[0], count, generator)
        for piece in random_parts(part, placements[1:], inner, generator)
    ]


def _along(
    whole: Tensor, placement: Placement, count: int, generator: torch.Generator
) -> list[Tensor]:
    exact = not (whole.is_floating_point() or whole.is_complex())
    if exact or not isinstance(placement, Partial):
        return [local_part(whole, placement, index, count) for index in range(count)]
    noises = [random_like(whole, generator) for _ in range(count)]
    match placement.reduction:
        case Reduction.SUM | Reduction.AVG as reduction:
            mean = torch.stack(noises).mean(0)
            share = whole / count if reduction is Reduction.SUM else whole
            return [share + noise - mean for noise in noises]
        case Reduction.PROD:
            factors = [noise.sign() * (noise.abs() + 0.5) for noise in noises[1:]]
            others = torch.stack([torch.ones_like(whole), *factors]).prod(0)
            return [whole / others, *factors]
        case reduction:
            below = 1 if reduction is Reduction.MAX else -1
            winner = torch.stack(noises).argmax(0)
            return [
                torch.where(winner == index, whole, whole - below * noise.abs())
                for index, noise in enumerate(noises)
            ]
