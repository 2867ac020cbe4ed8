"""Layouts: the placements of a value along all axes of a mesh, outer axis first.

The outer axis cuts first, and ``blocks`` counts the blocks of what is left to cut. So where two
axes cut one dimension, the inner cut is undone before the outer one changes, and made again after.

    (S(0), S(0)) -> (R, S(0))      inner all-gather, outer all-gather, inner slice
    (P(sum), R)  -> (S(0), R)      outer reduce-scatter

`path` finds the cheapest way: a shortest path over layouts, one axis a step.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TypeAlias

from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.proof.facts import Facts

from .parts import part_of
from .placement import Partial, Placement, Reduction, Replicate, Shard
from .reshard import relative_cost

Layout: TypeAlias = tuple[Placement, ...]
STEP_COST = 1e-6
_SUMS = (Reduction.SUM, Reduction.AVG)


@dataclass(frozen=True, slots=True)
class Step:
    """One conversion along one axis; ``shared`` as in `dimsolve.partition.reshard`."""

    axis: int
    before: Layout
    after: Layout
    shared: bool = False


def path(
    source: Layout, target: Layout, counts: tuple[int, ...], gradient: bool = True
) -> tuple[Step, ...]:
    """Returns the steps from one layout to another at least cost.

    counts: the sizes of the axes, at nominal sizes where they are symbols: they decide between
    ways that are all right. gradient: whether the way back counts.

    >>> [step.axis for step in path((Shard(0), Shard(0)), (Replicate(), Shard(0)), (2, 2))]
    [1, 0, 1]
    """
    return priced_path(source, target, counts, gradient)[1]


@lru_cache(maxsize=8192)
def priced_path(
    source: Layout, target: Layout, counts: tuple[int, ...], gradient: bool = True
) -> tuple[float, tuple[Step, ...]]:
    """Returns the steps of `path` with what they cost: bytes sent, as a part of the whole value."""
    queue: list[tuple[float, int, Layout, tuple[Step, ...]]] = [(0.0, 0, source, ())]
    done: set[Layout] = set()
    number = 0
    while queue:
        cost, _, layout, steps = heapq.heappop(queue)
        if layout == target:
            return cost, steps
        if layout in done:
            continue
        done.add(layout)
        for step in _steps(layout, source, target):
            number += 1
            price = cost + STEP_COST + _price(step, counts, gradient)
            heapq.heappush(queue, (price, number, step.after, (*steps, step)))
    raise AssertionError(f"no way from {source} to {target}")


def _steps(layout: Layout, source: Layout, target: Layout) -> Iterator[Step]:
    for axis, before in enumerate(layout):
        for after in dict.fromkeys((target[axis], Replicate())):
            if (
                after != before
                and allowed(layout, axis, after)
                and _reachable(layout, axis, after, target)
            ):
                yield Step(axis, layout, (*layout[:axis], after, *layout[axis + 1 :]))


def _reachable(layout: Layout, axis: int, after: Placement, target: Layout) -> bool:
    """A cut is made only on what outer axes have left for good: its blocks count those."""
    if not isinstance(after, Shard):
        return True
    return all(
        layout[outer] == target[outer] or not _cuts(layout[outer], target[outer], after.dim)
        for outer in range(axis)
    )


def _cuts(before: Placement, after: Placement, dim: int) -> bool:
    return any(isinstance(p, Shard) and p.dim == dim for p in (before, after))


def allowed(layout: Layout, axis: int, after: Placement) -> bool:
    """Whether one axis may change while the others stay: no inner axis has cut what it changes, and
    no inner partial value is of another kind.
    """
    before = layout[axis]
    for inner in layout[axis + 1 :]:
        match inner:
            case Shard(dim) if _cuts(before, after, dim):
                return False
            case Partial(reduction) if _clashes(reduction, before) or _clashes(reduction, after):
                return False
    return True


def _clashes(reduction: Reduction, placement: Placement) -> bool:
    if not isinstance(placement, Partial) or placement.reduction is reduction:
        return False
    return not (placement.reduction in _SUMS and reduction in _SUMS)


def _price(step: Step, counts: tuple[int, ...], gradient: bool) -> float:
    """Bytes sent, as a part of the whole value: other axes that cut it make it cheaper."""
    before, after = step.before[step.axis], step.after[step.axis]
    others = prod(
        counts[axis]
        for axis, placement in enumerate(step.before)
        if axis != step.axis and isinstance(placement, Shard)
    )
    return relative_cost(before, after, False, gradient, counts[step.axis])[0] / others


def local_dims(
    dims: tuple[Dim | None, ...] | None, layout: Layout, counts: tuple[Dim, ...], facts: Facts
) -> tuple[Dim | None, ...] | None:
    """Returns the shape of what one rank has of a value of shape ``dims``."""
    if dims is None:
        return None
    parts: dict[int, Dim] = {}
    for placement, count in zip(layout, counts, strict=True):
        if isinstance(placement, Shard):
            parts[placement.dim] = parts.get(placement.dim, 1) * count
    return tuple(
        [
            part_of(dim, parts[number], facts) if number in parts and dim is not None else dim
            for number, dim in enumerate(dims)
        ]
    )
