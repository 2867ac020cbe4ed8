"""Triangles of matrices whose rows or columns are cut: the diagonal lies where a part begins.

tril(x), rows b over 2     a b^ c^ -> a b^ c^      rank 1 keeps what lies below diagonal + b/2
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dimsolve.ir.operator import Declaration
from dimsolve.solver.layout import fresh_names

from ..placement import Shard
from .autocast import cast_as_torch
from .rule import Part, TransformRule, frozen_dims


def triangle_rules(
    local: Callable[..., Any], declaration: Declaration
) -> tuple[TransformRule, ...]:
    """Returns the rules of tril and triu: one for rows, one for columns."""
    return tuple(
        TransformRule(
            (Shard(place),), (Shard(place),), local=local, split=name, sends=(), parts="any"
        )
        for place, name in frozen_dims(declaration)
    )


@cast_as_torch()
def tril_parts(part: Part, input: Any, diagonal: int = 0) -> Any:
    """Returns this rank's part of the lower triangles."""
    return input.tril(diagonal + _shift(part, input))


@cast_as_torch()
def triu_parts(part: Part, input: Any, diagonal: int = 0) -> Any:
    """Returns this rank's part of the upper triangles."""
    return input.triu(diagonal + _shift(part, input))


def _shift(part: Part, input: Any) -> int:
    """How far the diagonal of the whole lies above that of the part."""
    names = fresh_names(set())
    *_, rows, columns = (next(names) for _ in range(input.dim()))
    return part[rows].start(input.shape[-2]) - part[columns].start(input.shape[-1])
