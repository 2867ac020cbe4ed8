"""Whole batches for a run: sizes that satisfy a plan's conditions, values like the example's.

    example input_ids (4, 16), dynamic batch and seq, plan for dp = 2 (batch % 2 == 0)
    steps of (4, 16), (6, 17), (2, 18)

Every step has other sizes, so that a run shows that one plan serves them all. The values are drawn
from those of the example, so labels stay labels and masks stay masks. All ranks draw the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import torch
from torch import Tensor

from dimsolve.ir.errors import DimsolveError
from dimsolve.partition.conditions import check_conditions
from dimsolve.partition.plan import Plan
from dimsolve.solver.algebra.dims import evaluate, symbols_of
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.graphs.match import match

from ..capture.dynamic import leaves_of

Sizes = Mapping[str, int]


def batches(
    plan: Plan, example: Mapping[str, Any], dynamic: Mapping[str, Any] | None, steps: int
) -> Iterator[dict[str, Any]]:
    """Yields so many whole batches, the first of the example's sizes."""
    for number, sizes in enumerate(sizes_for(plan, example, dynamic, steps)):
        yield batch_of(example, dynamic, sizes, seed=number)


def sizes_for(
    plan: Plan, example: Mapping[str, Any], dynamic: Mapping[str, Any] | None, steps: int
) -> list[dict[str, int]]:
    """Returns the symbols' sizes of every step: the example's, then others that the plan allows.

    Raises PlanError where it does not allow the example's. What the mesh decides is not asked here.
    """
    first = _example_sizes(example, dynamic)
    check_conditions(plan, first, complete=False)
    found = [first]
    for sizes in _near(first):
        if len(found) == steps or not first:
            break
        if not any(_shares(sizes, other) for other in found) and _is_legal(plan, sizes):
            found.append(sizes)
    return [found[step % len(found)] for step in range(steps)]


def batch_of(
    example: Mapping[str, Any], dynamic: Mapping[str, Any] | None, sizes: Sizes, seed: int = 0
) -> dict[str, Any]:
    """Returns the example with its dynamic dimensions at these sizes, and other values."""
    from torch.utils import _pytree as pytree

    leaves = leaves_of(_nothing, (), example, dynamic)
    generator = torch.Generator().manual_seed(seed)
    _, spec = pytree.tree_flatten(dict(example))
    values = [
        _drawn(leaf.value, leaf.dims, sizes, generator)
        if isinstance(leaf.value, Tensor)
        else leaf.value
        for leaf in leaves
    ]
    made: dict[str, Any] = pytree.tree_unflatten(values, spec)
    return made


def _nothing(**_: Any) -> None:
    """A function whose arguments have only names."""


def _drawn(
    tensor: Tensor, dims: Mapping[int, Dim], sizes: Sizes, generator: torch.Generator
) -> Tensor:
    shape = [
        evaluate(dims[index], sizes) if index in dims else size
        for index, size in enumerate(tensor.shape)
    ]
    values = tensor.detach().flatten().cpu()
    if not values.numel():
        return tensor.new_zeros(shape)
    places = torch.randint(values.numel(), shape, generator=generator)
    return values[places].to(tensor.device).requires_grad_(tensor.requires_grad)


def _example_sizes(example: Mapping[str, Any], dynamic: Mapping[str, Any] | None) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for leaf in leaves_of(_nothing, (), example, dynamic):
        for index, dim in leaf.dims.items():
            found = match([dim], [int(leaf.value.shape[index])], symbols_of(dim)).bindings
            sizes.update({name: size for name, size in found.items() if isinstance(size, int)})
    return sizes


def _near(first: Sizes) -> Iterator[dict[str, int]]:
    """Sizes around the example's."""
    steps = (0, 1, -1, 2, -2, 3, 4, -4, 6, 8, -8, 12, 16, 24, 32)
    for moves in product(steps, repeat=min(len(first), 3)):
        sizes = dict(first)
        for name, move in zip(first, moves, strict=False):
            sizes[name] += move
        if min(sizes.values(), default=1) >= 1:
            yield sizes


def _is_legal(plan: Plan, sizes: Sizes) -> bool:
    try:
        check_conditions(plan, sizes, complete=False)
    except DimsolveError:
        return False
    return True


def _shares(sizes: Sizes, other: Sizes) -> bool:
    return any(sizes[name] == other[name] for name in sizes)
