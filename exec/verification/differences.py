"""How far the parts of a split run are from the whole tensor, and whether rounding explains it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch import Tensor

from dimsolve.partition.placement import Partial, Placement, Replicate

from ..distributed.sharding import assemble
from .precision import ROUNDING


@dataclass(frozen=True, slots=True)
class Difference:
    """How far an ``output``, an ``input`` as the call leaves it, or a ``gradient`` of one is off.

    ``amount`` is relative to the largest element of the whole; inf where values are of different
    kinds. ``factor``: found = factor * wanted, where that explains it. ``what``: the difference in
    words, where it is none of numbers. Of kind ``history`` is an output that has a gradient on a
    rank and none whole.
    """

    kind: str
    number: int
    amount: float
    allowed: float
    factor: float | None = None
    what: str = ""

    @property
    def ok(self) -> bool:
        """Whether rounding explains it."""
        return self.amount <= self.allowed


def largest(differences: Sequence[Difference]) -> Difference | None:
    """Returns the worst difference; an output before a gradient where they are as bad."""
    rank = {"output": 2, "input": 1, "gradient": 0, "history": 0}
    return max(
        differences, key=lambda d: (not d.ok, rank[d.kind] * (not d.ok), d.amount), default=None
    )


def compare(
    kind: str,
    number: int,
    parts: Sequence[Any],
    placements: Sequence[Placement],
    mesh: Mapping[str, int],
    wanted: Any,
) -> Difference:
    """Returns the difference between what the ranks' parts stand for and the whole."""
    if not isinstance(wanted, Tensor):
        same = all(_same(part, wanted) for part in parts)
        return Difference(kind, number, 0.0 if same else inf, 0.0)
    wanted = wanted.detach()
    allowed = ROUNDING.get(wanted.dtype, 0.0)
    try:
        joined, spread = _joined(list(parts), placements, list(mesh.values()))
    except (RuntimeError, NotImplementedError):
        # An average of integers, or a maximum of complex numbers.
        by = " and ".join(str(p.reduction.value) for p in placements if isinstance(p, Partial))
        what = f"is of {kind_of(wanted.dtype)}, which cannot be joined by {by}"
        return Difference(kind, number, inf, allowed, what=what)
    if joined.dtype != wanted.dtype:
        what = f"is of {kind_of(joined.dtype)} on a rank, and of {kind_of(wanted.dtype)} whole"
        return Difference(kind, number, inf, allowed, what=what)
    amount = max(relative(joined, wanted), spread)
    factor = _factor(joined, wanted, allowed) if amount > allowed else None
    return Difference(kind, number, amount, allowed, factor)


def kind_of(dtype: torch.dtype) -> str:
    """Returns the dtype's name.

    >>> kind_of(torch.int64)
    'int64'
    """
    return str(dtype).removeprefix("torch.")


def relative(found: Tensor, wanted: Tensor) -> float:
    """Returns the largest difference relative to the largest finite element; nan equals nan."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return inf
    if wanted.numel() == 0 or torch.equal(found, wanted):
        return 0.0
    precise = torch.complex128 if wanted.is_complex() else torch.float64
    a, b = found.to(precise), wanted.to(precise)
    same = (a == b) | (a.isnan() & b.isnan())
    apart = (a - b).abs().masked_fill(same, 0)
    if not bool(apart.isfinite().all()):
        return inf
    scale = float(b.abs().masked_fill(~b.isfinite(), 0).max())
    return float(apart.max()) / (scale if scale > 1e-9 else 1.0)


def _joined(
    parts: list[Tensor], placements: Sequence[Placement], counts: list[int]
) -> tuple[Tensor, float]:
    """The whole of the parts, and how far replicas that should be equal are apart."""
    spread = 0.0
    for placement, count in zip(reversed(placements), reversed(counts), strict=True):
        groups = [parts[i : i + count] for i in range(0, len(parts), count)]
        if isinstance(placement, Replicate):
            spread = max(spread, *(relative(p, group[0]) for group in groups for p in group))
        parts = [assemble(group, placement) for group in groups]
    return parts[0], spread


def _factor(found: Tensor, wanted: Tensor, allowed: float) -> float | None:
    """The number by which all is too large, where one is."""
    if found.shape != wanted.shape or wanted.is_complex() or not wanted.is_floating_point():
        return None
    square = float((wanted.double() ** 2).sum())
    if not 0 < square < inf:
        return None
    factor = float((found.double() * wanted.double()).sum()) / square
    close = relative(found.double(), factor * wanted.double()) <= max(allowed, 1e-9)
    return factor if close and factor != 0 and abs(factor - 1) > 0.005 else None


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return isinstance(a, Tensor) and isinstance(b, Tensor) and torch.equal(a, b)
    return bool(a == b)
