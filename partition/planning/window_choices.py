"""What one mesh axis can do to an operator that takes windows, or puts them together.

split(qkv, (64, 32, 32))     S(2) at an output      S(2, segments=2:1:1) -> S(2), S(2), S(2)
k = qkv[..., 64:96]          S(2, segments=2:1:1) at the input    -> S(2)
k = qkv[..., 64:96]          S(2) at the input      refused: its parts lie in two windows
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING

from ..placement import Shard
from ..segments import MOST_WRITTEN, fractions_of, shard_of
from .choices import Choice, Refusal
from .windows import Windows

if TYPE_CHECKING:
    from .kinds import Kind


def windowed(kind: Kind, tensor: int, shard: Shard) -> Choice | Refusal | None:
    """Returns the choice that has this placement at a window, or at what windows are taken of, or
    why there is none; None for dimensions that are neither.
    """
    lengths = fractions_of(shard) if kind.windows else None
    if lengths is None:
        return None
    for windows in kind.windows:
        if (tensor, shard.dim) == (windows.tensor, windows.dim):
            return _cut(kind, windows, lengths)
        part = windows.part(tensor, shard.dim)
        if part is not None:
            return _cut(kind, windows, windows.around(part, lengths))
    return None


def _cut(kind: Kind, windows: Windows, lengths: Sequence[Fraction]) -> Choice | Refusal:
    """The choice that cuts the whole in these segments. The unit is cut as finely as they need."""
    inside = windows.inside(lengths)
    if inside is None:
        whole = shard_of(windows.dim, lengths)
        return Refusal(f"{whole} has a part that lies in two windows", windows.name)
    plain = kind.split(windows.name, lcm(*((n * windows.units).denominator for n in lengths)))
    if isinstance(plain, Refusal):
        return plain
    placements = [*plain.inputs, *plain.outputs]
    placements[windows.tensor] = shard_of(windows.dim, lengths)
    for part, own in zip(windows.parts, inside, strict=True):
        placements[part.tensor] = shard_of(part.dim, own)
    if any(isinstance(p, Shard) and len(p.segments) > MOST_WRITTEN for p in placements):
        reason = f"it would be cut in more than {MOST_WRITTEN} segments of their own lengths"
        return Refusal(reason, windows.name)
    count = kind.inputs
    return replace(plain, inputs=tuple(placements[:count]), outputs=tuple(placements[count:]))
