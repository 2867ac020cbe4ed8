"""How far the parts of a split run are from the whole tensor, and whether rounding explains it.

    whole      (4, 6) float64, its largest element 10.0
    parts      P(sum) of two ranks; their sum is off by 3e-15 at most
    amount     3e-16, relative to the largest element; allowed: 1e-9

Many functions compute in float32 inside (``(x.float() * ...).to(x.dtype)``). Their split results
differ by what float32 rounds, though all they are given and return is float64: `rounding_of` looks
at the types of all results inside a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from dimsolve.partition.placement import Partial, Placement, Replicate

from ..distributed.sharding import assemble

ROUNDING = {
    torch.float64: 1e-9,
    torch.complex128: 1e-9,
    torch.float32: 1e-4,
    torch.complex64: 1e-4,
    torch.float16: 2e-2,
    torch.bfloat16: 2e-2,
}
"""The largest difference that rounding explains, relative to the largest element."""


def rounding_of(run: Callable[[], object]) -> float:
    """Returns the largest difference that the narrowest type explains which appears in a run."""
    with _ResultTypes() as seen:
        run()
    return max((ROUNDING.get(dtype, 0.0) for dtype in seen.dtypes), default=0.0)


class _ResultTypes(TorchDispatchMode):
    """Notes the types of all results."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        results = result if isinstance(result, list | tuple) else (result,)
        self.dtypes.update(item.dtype for item in results if isinstance(item, Tensor))
        return result


@dataclass(frozen=True, slots=True)
class Difference:
    """How far an ``output``, an ``input`` as the call leaves it, or a ``gradient`` of one is off.

    ``amount`` is relative to the largest element of the whole; inf where values are of different
    types. ``factor``: found = factor * wanted, where that explains it. ``what``: the difference in
    words, where numbers cannot say it. Of kind ``history`` is an output that has a gradient on a
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
        same = all(not isinstance(part, Tensor) and bool(part == wanted) for part in parts)
        return Difference(kind, number, 0.0 if same else inf, 0.0)
    wanted = wanted.detach()
    allowed = ROUNDING.get(wanted.dtype, 0.0)
    name = str(wanted.dtype).removeprefix("torch.")
    try:
        joined, spread = _joined(list(parts), placements, list(mesh.values()))
    except (RuntimeError, NotImplementedError):
        # An average of integers, or a maximum of complex numbers.
        by = " and ".join(str(p.reduction.value) for p in placements if isinstance(p, Partial))
        what = f"is of {name}, which cannot be joined by {by}"
        return Difference(kind, number, inf, allowed, what=what)
    if joined.dtype != wanted.dtype:
        what = f"is of {str(joined.dtype).removeprefix('torch.')} on a rank, and of {name} whole"
        return Difference(kind, number, inf, allowed, what=what)
    amount = max(relative(joined, wanted), spread)
    factor = _factor(joined, wanted, allowed) if amount > allowed else None
    return Difference(kind, number, amount, allowed, factor)


def relative(found: Tensor, wanted: Tensor) -> float:
    """Returns the largest difference relative to the largest finite element; nan equals nan.

    >>> relative(torch.tensor([1.0, 2.5]), torch.tensor([1.0, 2.0]))
    0.25
    """
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
