"""Who holds what, as a picture: the whole tensor, and a grid for every rank of the mesh.

    held((4, 6), "S(1)", "tp=2")

    whole 4, 6      tp=0            tp=1
    [ A A B B ]     [ A A . . ]     [ . . B B ]

The same colour is the same data, everywhere in the picture; what is empty is not held; a hatched
cell is a part of the value that is still to be reduced. The last two dimensions are the rows and
columns of a grid, each dimension before them repeats it: to the right, then downwards, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from dimsolve.ir.palette import FAINT, INK, LINE, PALE, fills
from dimsolve.ir.picture import EMPTY, Picture, column, flow, paragraph, row, words
from dimsolve.ir.svg import Element, hatch, rect

from .held import Held, index_text, place_text

Cell: TypeAlias = tuple[int, ...]
"""Which band of each dimension."""

MAX_CELLS = 4_096
_SHOWN = {1: 32, 2: 8, 3: 4}
"""Axes of the mesh -> how many ranks of each are drawn; of more axes, two."""
_STEP = 14.0
_LARGEST = 12
"""A dimension of at most so many elements is drawn element by element, each a step wide."""
_LEAST = 3.0


@dataclass(frozen=True, slots=True)
class _Grid:
    """How one tensor is drawn: its bands, the look of a cell (no colour: it is not held), and
    whether repeated grids say what they are.
    """

    bands: tuple[tuple[range, ...], ...]
    look: Callable[[Cell], tuple[str, bool]]
    labelled: bool = True


def held_svg(held: Held) -> str:
    """Returns the picture as SVG text."""
    placed = ", ".join(map(str, held.placements)) or "on one rank"
    picture = column(_caption(held, placed), _panels(held), _legend(held), gap=10)
    return picture.card(f"who holds what: {_sizes(held)} as {placed}", str(held))


def whole_picture(
    held: Held, width: float = 132, height: float = 96, *, labelled: bool = True
) -> Picture:
    """Returns the whole tensor alone, a colour for what the same ranks hold."""
    colours = _colours(held)
    partial = bool(held.partial)
    grid = _Grid(held.bands(), lambda cell: (colours[cell], partial), labelled)
    return _drawn(grid, width, height)


def _panels(held: Held) -> Picture:
    count = 1
    for bands in held.bands():
        count *= len(bands)
    if count > MAX_CELLS:
        return words(f"{count} cells are too many to draw", fill=FAINT)
    whole = column(words("the whole", size=11, fill=FAINT), whole_picture(held), gap=2)
    return row(whole, _of_ranks(held, list(held.mesh), {}, _colours(held)), gap=26, middle=False)


def _of_ranks(
    held: Held, axes: Sequence[str], at: Mapping[str, int], colours: Mapping[Cell, str]
) -> Picture:
    """The ranks along the axes: the last axis to the right, the others downwards."""
    if not axes:
        return _panel(held, tuple(at.values()), colours)
    axis, *inner = axes
    shown = min(held.mesh[axis], _SHOWN.get(len(held.mesh), 2))
    parts = [_of_ranks(held, inner, {**at, axis: part}, colours) for part in range(shown)]
    if shown < held.mesh[axis]:
        parts.append(words(f"and {held.mesh[axis] - shown} more", size=11, fill=FAINT))
    return column(*parts, gap=12) if inner else flow(parts, width=820, gap=18)


def _panel(held: Held, rank: Sequence[int], colours: Mapping[Cell, str]) -> Picture:
    indices = held.indices(rank)
    bands = held.bands()
    has = [
        [any(band.start in run for run in runs) for band in of_dim]
        for of_dim, runs in zip(bands, indices, strict=True)
    ]
    partial = bool(held.partial)

    def look(cell: Cell) -> tuple[str, bool]:
        held_here = all(has[dim][number] for dim, number in enumerate(cell))
        return (colours[cell], partial) if held_here else ("", False)

    name = place_text(held.mesh, rank)
    grid = _drawn(_Grid(bands, look), 132, 96).named(f"{name} holds {index_text(indices)}")
    return column(words(name, size=11, fill=FAINT), grid, gap=2)


def _colours(held: Held) -> dict[Cell, str]:
    """The colour of each cell: cells that the same ranks hold have the same one."""
    bands = held.bands()
    holders: list[list[int]] = []
    for dim, of_dim in enumerate(bands):
        known: dict[tuple[bool, ...], int] = {}
        rows = [held.indices(rank)[dim] for rank in held.ranks()]
        holders.append(
            [
                known.setdefault(
                    tuple([any(band.start in run for run in runs) for runs in rows]), len(known)
                )
                for band in of_dim
            ]
        )
    cells = list(product(*(range(len(of_dim)) for of_dim in bands)))
    keys = [tuple([holders[dim][n] for dim, n in enumerate(cell)]) for cell in cells]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    palette = fills(len(numbers))
    return {cell: palette[numbers[key]] for cell, key in zip(cells, keys, strict=True)}


def _drawn(grid: _Grid, width: float, height: float, cell: Cell = ()) -> Picture:
    """The cells from a prefix on; dimensions before the last two repeat what is after them."""
    left = len(grid.bands) - len(cell)
    if left <= 2:
        return _flat(grid, width, height, cell)
    of_dim = grid.bands[len(cell)]
    count, across = len(of_dim), left % 2 == 1
    if not count:
        return _flat(_Grid(((),), grid.look), width, height, ())
    room = (width / count, height) if across else (width, height / count)
    least = (40.0, 30.0) if grid.labelled else (12.0, 8.0)
    room = max(room[0], least[0]), max(room[1], least[1])
    parts = []
    for number, band in enumerate(of_dim):
        inner = _drawn(grid, *room, (*cell, number))
        if count > 1 and grid.labelled:
            text = f"{len(cell)}: {band.start}:{band.stop}"
            inner = column(words(text, size=9, fill=FAINT), inner, gap=0)
        parts.append(inner)
    gap = 7 if grid.labelled else 3
    return row(*parts, gap=gap, middle=False) if across else column(*parts, gap=gap)


def _flat(grid: _Grid, width: float, height: float, prefix: Cell) -> Picture:
    """The grid of the last two dimensions, rows and columns; of one dimension, one row."""
    shown = grid.bands[len(prefix) :]
    rows = shown[0] if len(shown) == 2 else None
    columns = shown[-1] if shown else (range(1),)
    heights = [_STEP] if rows is None else _lengths(rows, height)
    widths = [_STEP] if not shown else _lengths(columns, width)
    total = sum(widths), sum(heights)
    if not total[0] or not total[1]:
        return words("no elements", size=11, fill=FAINT)
    elements = [rect(0.5, 0.5, *total, fill=PALE, stroke=LINE, dashed=True)]
    y = 0.0
    for line, high in enumerate(heights):
        x = 0.0
        for number, wide in enumerate(widths):
            cell = (*prefix, *((line,) if rows is not None else ()), *((number,) if shown else ()))
            elements += _cell(grid, cell, x, y, wide, high)
            x += wide
        y += high
    return Picture(total[0] + 1, total[1] + 1, tuple(elements))


def _cell(
    grid: _Grid, cell: Cell, x: float, y: float, width: float, height: float
) -> list[Element]:
    colour, partial = grid.look(cell)
    if not colour:
        return []
    where = index_text([[bands[n]] for bands, n in zip(grid.bands, cell, strict=True)])
    thin = 0.5 if min(width, height) < 6 else None
    box = rect(
        x + 0.5, y + 0.5, width, height, fill=colour, stroke=INK, title=where, stroke_width=thin
    )
    return [box, hatch(x + 0.5, y + 0.5, width, height, stroke=INK)] if partial else [box]


def _lengths(bands: Sequence[range], room: float) -> list[float]:
    """The lengths of bands in pixels: in proportion where that can be seen, else all the same."""
    total = sum(map(len, bands))
    if total <= _LARGEST and total * _STEP <= room * 1.3:
        return [len(band) * _STEP for band in bands]
    lengths = [len(band) * room / total for band in bands]
    least = min(lengths, default=_LEAST)
    if least * 3 < _LEAST:
        return [_LEAST] * len(bands)
    return [length * max(1.0, _LEAST / least) for length in lengths]


def _caption(held: Held, placed: str) -> Picture:
    mesh = ", ".join(f"{axis}={size}" for axis, size in held.mesh.items()) or "one rank"
    return row(
        words(_sizes(held), bold=True),
        words(placed, fill=INK),
        words(f"on {mesh}", fill=FAINT),
        words(f"each rank has {', '.join(map(str, held.local_shape)) or '()'}", fill=FAINT),
        gap=16,
    )


def _legend(held: Held) -> Picture:
    if not held.partial:
        return EMPTY
    kinds = ", ".join(
        f"{placement} along {axis}"
        for axis, placement in zip(held.mesh, held.placements, strict=True)
        if axis in held.partial
    )
    text = f"hatched: {kinds}: each rank has a part of the value, which is got by reducing them"
    return paragraph(text, size=11, fill=FAINT)


def _sizes(held: Held) -> str:
    return ", ".join(map(str, held.shape)) or "()"
