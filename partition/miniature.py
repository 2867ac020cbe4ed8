"""A tensor under its placements as a small picture: a colour for what the same ranks hold.

Lengths do not matter here, only how often each dimension is cut: a part is one step wide. So a
number of parts or blocks may be a symbol; it is then drawn as 3, and so is a large one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dimsolve.ir.palette import INK, PALE
from dimsolve.ir.picture import Picture
from dimsolve.ir.svg import hatch, rect
from dimsolve.solver.algebra.poly import Dim

from .draw_held import whole_picture
from .held import Held
from .placement import Partial, Placement, Shard

MOST_PARTS = 16
MOST_BLOCKS = 8
MOST_DIMS = 8
DRAWN = 3
"""How many parts or blocks are drawn where their number is a symbol, or more than can be seen."""
_LONG = 100


def miniature(
    rank: int,
    placements: Sequence[Placement],
    counts: Sequence[Dim],
    width: float = 84,
    height: float = 42,
) -> Picture:
    """Returns a tensor of ``rank`` dimensions on mesh axes with these numbers of ranks."""
    shards = [placement for placement in placements if isinstance(placement, Shard)]
    if not shards:
        return _plain(any(isinstance(p, Partial) for p in placements), width, height)
    dims = max(rank, *(shard.dim + 1 for shard in shards))
    if dims > MOST_DIMS:  # those that are cut say all
        cut = sorted({shard.dim for shard in shards})
        placements = [
            replace(p, dim=cut.index(p.dim)) if isinstance(p, Shard) else p for p in placements
        ]
        dims = max(2, len(cut))
    shape = [_LONG] * dims
    drawn: list[Placement] = []
    for placement, count in zip(placements, counts, strict=True):
        if isinstance(placement, Shard):
            blocks = few(placement.blocks, MOST_BLOCKS)
            placement = replace(placement, blocks=blocks)
            units = blocks * sum(placement.segments or (1,))
            shape[placement.dim] *= few(count, MOST_PARTS) * units
        drawn.append(placement)
    mesh = {str(axis): few(count, MOST_PARTS) for axis, count in enumerate(counts)}
    held = Held(tuple(shape), tuple(drawn), mesh)
    return whole_picture(held, width, height, labelled=False)


def few(count: Dim, most: int) -> int:
    """Returns how many are drawn: all of a small number, else 3."""
    return count if isinstance(count, int) and count <= most else DRAWN


def _plain(partial: bool, width: float, height: float) -> Picture:
    """A tensor that nothing cuts: every rank has all of it, or a summand of it."""
    box = rect(0.5, 0.5, width, height, fill=PALE, stroke=INK)
    lines = (hatch(0.5, 0.5, width, height, stroke=INK),) if partial else ()
    return Picture(width + 1, height + 1, (box, *lines))
