"""A placement and a rule as pictures: what a rank has of one tensor, and of all of an operator.

    S(0)           [A] [B] [C]    dimension 0 is cut into equal parts, one a rank
    split k        S(1), S(0) -> P(sum)

The tensors are drawn as matrices on a mesh axis of three ranks; a colour is what one rank has.

Who holds what, as a picture: the whole tensor, and a grid for every rank of the mesh.

    held((4, 6), "S(1)", "tp=2")

    whole 4, 6      tp=0            tp=1
    [ A A B B ]     [ A A . . ]     [ . . B B ]

The same colour is the same data, everywhere in the picture; what is empty is not held; a hatched
cell is a part of the value that is still to be reduced. The last two dimensions are the rows and
columns of a grid, each dimension before them repeats it: to the right, then downwards, and so on.

However large the tensor and the mesh, the picture is not: of many ranks, and of the many parts of a
dimension, the first ones are drawn, and it is said how many there are more.

A tensor under its placements as a small picture: a colour for what the same ranks hold.

Lengths do not matter here, only how often each dimension is cut: a part is one step wide. So a
number of parts or blocks may be a symbol; it is then drawn as 3, and so is a large one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, product
from math import prod
from typing import TYPE_CHECKING, TypeAlias, assert_never

from dimsolve.ir.characters import visible
from dimsolve.partition.layout import MOST_LINES, Held, index_text, place_text
from dimsolve.partition.placement import (
    Grouped,
    Partial,
    Placement,
    Replicate,
    Shard,
    read_placement,
)
from dimsolve.partition.rules.rule import Rule, TransformRule
from dimsolve.solver.algebra.poly import Dim

from .picture import EMPTY, Picture, chip, clipped, column, faint, flow, paragraph, row, words
from .svg import FAINT, INK, LINE, PALE, Element, fills, hatch, rect
from .terminal import Cell as TextCell
from .terminal import columns as columns_of

if TYPE_CHECKING:
    from rich.console import Group

Cell: TypeAlias = tuple[int, ...]
"""Which band of each dimension."""

MOST_CELLS = {1: 1_024, 2: 1_024, 3: 512, 4: 256}
"""Dimensions -> cells of one grid; of more dimensions, 64: grids in grids take room."""
_MOST_DRAWN = 8_192
"""Cells of all grids together."""
_MOST_TALL = 4
"""Grids of tensors of more than four dimensions: each is tall."""
_MOST_BANDS = 48
_MOST_DIMS = 12
_MOST_LETTERS = 80
_MOST_LINES = 64
"""Ranks that the description lists."""
_SHOWN = {1: 32, 2: 8, 3: 4}
"""Axes of the mesh -> how many ranks of each are drawn; of more axes, two, and of more than five
the outer ones are not followed.
"""
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


class _Shown:
    """What of a tensor is drawn: the first bands of each dimension, and their colours."""

    def __init__(self, held: Held, most: int = _MOST_BANDS) -> None:
        self.held = held
        self.all = held.bands()
        kept = [min(len(bands), most) for bands in self.all]
        while prod(kept) > MOST_CELLS.get(len(kept), 64):
            kept[kept.index(max(kept))] = max(kept) // 2
        self.bands = tuple(of[:count] for of, count in zip(self.all, kept, strict=True))
        self.colours = _colours(held, self.bands)

    @cached_property
    def ranks(self) -> dict[str, int]:
        """How many ranks of each axis are drawn."""
        mesh = self.held.mesh
        most = _SHOWN.get(len(mesh), 2)
        followed = list(mesh)[-5:]
        shown = {axis: min(size, most if axis in followed else 1) for axis, size in mesh.items()}
        cells = max(1, prod(map(len, self.bands)))
        grids = _MOST_DRAWN // cells if len(self.bands) <= 4 else _MOST_TALL
        while prod(shown.values()) > grids and max(shown.values()) > 1:
            largest = max(shown, key=lambda axis: shown[axis])
            shown[largest] = (shown[largest] + 1) // 2
        return shown

    def note(self) -> str:
        """What of the dimensions is not drawn."""
        cut = [
            f"of dimension {dim} the first {len(few)} of {len(every)} parts are drawn"
            for dim, (few, every) in enumerate(zip(self.bands, self.all, strict=True))
            if len(few) < len(every)
        ]
        return "; ".join(cut)


def held_svg(held: Held) -> str:
    """Returns the picture as SVG text."""
    placed = clipped(", ".join(map(str, held.placements)) or "on one rank", _MOST_LETTERS)
    picture = column(_caption(held, placed), _panels(held), _legend(held), gap=10)
    return picture.card(f"who holds what: {_sizes(held)} as {placed}", _described(held))


def _described(held: Held) -> str:
    return "\n".join(
        clipped(line, 4 * _MOST_LETTERS) for line in held.text(_MOST_LINES).split("\n")
    )


def whole_picture(
    held: Held, width: float = 132, height: float = 96, *, labelled: bool = True
) -> Picture:
    """Returns the whole tensor alone, a colour for what the same ranks hold."""
    most = _MOST_BANDS if labelled else 128  # 16 parts in each of 8 blocks, see `miniature`
    return _whole(_Shown(held, most), width, height, labelled)


def _whole(shown: _Shown, width: float = 132, height: float = 96, labelled: bool = True) -> Picture:
    partial = bool(shown.held.partial)
    grid = _Grid(shown.bands, lambda cell: (shown.colours[cell], partial), labelled)
    return _drawn(grid, width, height)


def _panels(held: Held) -> Picture:
    if len(held.shape) > _MOST_DIMS:
        return faint(f"{len(held.shape)} dimensions are too many to draw", 13)
    shown = _Shown(held)
    whole = column(faint("the whole", 11), _whole(shown), gap=2)
    note = shown.note()
    return column(
        row(whole, _of_ranks(shown, list(held.mesh), {}), gap=26, middle=False),
        paragraph(note, size=11, fill=FAINT) if note else EMPTY,
    )


def _of_ranks(shown: _Shown, axes: Sequence[str], at: Mapping[str, int]) -> Picture:
    """The ranks along the axes: the last axis to the right, the others downwards."""
    if not axes:
        return _panel(shown, tuple(at.values()))
    axis, *inner = axes
    size, count = shown.held.mesh[axis], shown.ranks[axis]
    parts = [_of_ranks(shown, inner, {**at, axis: part}) for part in range(count)]
    if count < size:
        text = f"and {size - count} more" + (f" of {axis}" if len(shown.ranks) > 1 else "")
        parts.append(faint(text, 11))
    return column(*parts, gap=12) if inner else flow(parts, width=820, gap=18)


def _panel(shown: _Shown, rank: Sequence[int]) -> Picture:
    held, bands = shown.held, shown.bands
    indices = held.indices(rank)
    has = [
        [any(band.start in run for run in runs) for band in of_dim]
        for of_dim, runs in zip(bands, indices, strict=True)
    ]
    partial = bool(held.partial)

    def look(cell: Cell) -> tuple[str, bool]:
        held_here = all(has[dim][number] for dim, number in enumerate(cell))
        return (shown.colours[cell], partial) if held_here else ("", False)

    name = place_text(held.mesh, rank)
    grid = _drawn(_Grid(bands, look), 132, 96).named(f"{name} holds {_few_runs(indices)}")
    return column(faint(name, 11), grid, gap=2)


def _few_runs(indices: Sequence[Sequence[range]]) -> str:
    """The indices of a rank; of very many runs of a dimension, how many they are."""
    if max(map(len, indices), default=0) <= _MOST_LINES:
        return index_text(indices)
    return " and ".join(f"{len(runs)} runs of dimension {dim}" for dim, runs in enumerate(indices))


def _colours(held: Held, bands: Sequence[Sequence[range]]) -> dict[Cell, str]:
    """The colour of each cell: cells that the same ranks hold have the same one."""
    indices = [held.indices(rank) for rank in held.ranks()]
    holders: list[list[int]] = []
    for dim, of_dim in enumerate(bands):
        known: dict[tuple[bool, ...], int] = {}
        rows = [runs[dim] for runs in indices]
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
            inner = column(faint(text, 9), inner, gap=0)
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
        return faint("no elements", 11)
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
    local = ", ".join(map(str, held.local_shape)) or "()"
    return row(
        words(_sizes(held), bold=True),
        words(placed, fill=INK),
        faint(f"on {clipped(mesh, _MOST_LETTERS)}", 13),
        faint(f"each rank has {clipped(local, _MOST_LETTERS)}", 13),
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
    return clipped(", ".join(map(str, held.shape)) or "()", _MOST_LETTERS)


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


_RANKS = 3


def placement_svg(placement: Placement) -> str:
    """Returns a placement of a matrix on a mesh axis of three ranks, as SVG text."""
    picture = row(
        chip(clipped(str(placement), 60), INK, size=13),
        miniature(2, [placement], [_RANKS]),
        faint(clipped(says(placement), 120), 13),
        gap=14,
    )
    return picture.card(f"placement {clipped(str(placement), 400)}", clipped(says(placement), 400))


def says(placement: Placement) -> str:
    """Returns what a placement means, in words.

    >>> says(Shard(1, blocks=3))
    'dimension 1 is 3 blocks; a rank has an equal part of each'
    """
    match placement:
        case Shard(dim, 1, (), of) if of:
            return f"dimension {dim}, of length {of}, is cut into parts, one a rank"
        case Shard(dim, 1, ()):
            return f"dimension {dim} is cut into equal parts, one a rank"
        case Shard(dim, blocks, ()):
            return f"dimension {dim} is {blocks} blocks; a rank has an equal part of each"
        case Shard(dim, blocks, segments):
            lengths = ":".join(map(str, segments))
            times = "" if blocks == 1 else f"{blocks} times "
            return f"dimension {dim} is {times}segments of {lengths}; a rank has a part of each"
        case Replicate():
            return "every rank has the whole tensor"
        case Partial(reduction):
            return f"every rank has a tensor of full size; their {reduction.value} is the value"
        case Grouped(dim):
            return f"every rank has a tensor of full size, right in its groups of dimension {dim}"
        case _:
            assert_never(placement)


def rule_svg(rule: Rule) -> str:
    """Returns the placements of all tensors when an identifier is split, as SVG text."""
    title = row(faint("split", 13), words(clipped(rule.name, 40), bold=True))
    picture = column(title, _sides(rule.inputs, rule.outputs), gap=10)
    inputs, outputs = (", ".join(map(str, side)) for side in (rule.inputs, rule.outputs))
    return picture.card(f"the split of {rule.name}", f"{inputs} -> {outputs}")


def transform_svg(transform: TransformRule) -> str:
    """Returns what a transform rule places, and what it changes, as SVG text."""
    split = "" if transform.split is None else str(transform).partition(": ")[0]
    title = row(faint("split", 13), words(split, bold=True)) if split else EMPTY
    changes = [
        f"{what} {getattr(function, '__qualname__', type(function).__name__)}"
        for what, function in (
            ("arguments changed by", transform.modifier),
            ("a rank runs", transform.local),
        )
        if function is not None
    ]
    notes = [faint(clipped(change, 80)) for change in changes]
    picture = column(title, _sides(transform.inputs, transform.outputs), *notes, gap=10)
    return picture.card("a transform rule", "; ".join([str(transform), *changes]))


def _sides(
    inputs: Sequence[Placement | str] | None, outputs: Sequence[Placement | str] | None
) -> Picture:
    """The inputs, an arrow, the outputs; None is as the marks give."""
    pictures: list[Picture] = []
    for placements in (inputs, outputs):
        if placements is None:
            pictures.append(faint("as marked", 13))
        for given in placements or ():
            placement = read_placement(given) if isinstance(given, str) else given
            rank = placement.dim + 1 if isinstance(placement, Shard) else 0
            drawn = miniature(max(2, rank), [placement], [_RANKS])
            pictures.append(column(chip(clipped(str(placement), 40), INK, size=12), drawn, gap=4))
        pictures.append(faint("→", 13))
    return row(*pictures[:-1], gap=16)


def held_lines(held: Held) -> str:
    """Returns who holds what, for the first ranks."""
    return held.text(MOST_LINES)


def held_view(held: Held) -> Group:
    """Returns the placements and a line per rank, for rich."""
    from rich.console import Group
    from rich.text import Text

    rows = [
        [TextCell(place_text(held.mesh, rank)), TextCell(index_text(held.indices(rank)))]
        for rank in islice(held.ranks(), MOST_LINES)
    ]
    if left := prod(held.mesh.values()) - len(rows):
        rows.append([TextCell("..."), TextCell(f"and {left} ranks more")])
    heads = [TextCell("rank", "dim"), TextCell("holds", "dim")]
    head = Text(visible(held.text(0).split("\n")[0]), "bold")
    return Group(head, columns_of([heads, *rows]))
