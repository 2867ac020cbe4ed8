"""Which of several plans costs least as a picture: a cell for every point, a colour for every plan.

          seq 16              seq 64
batch 2   [tensor 76.5 us]    [tensor 99.1 us]
batch 64  [data 101 us]       [data 412 us]
"""

from __future__ import annotations

from itertools import product

from dimsolve.partition.break_even import BreakEven, Cheapest, cell_text

from .picture import Picture, column, faint, row, table, words
from .svg import FAINT, INK, PALE, fills, rect

_MOST = 16
"""So many crossings are written out."""


def break_even_svg(found: BreakEven) -> str:
    """Returns the picture as SVG text."""
    grounds = dict(zip(found.plans, fills(len(found.plans)), strict=True))
    *rows, columns = found.over
    sizes = found.over[columns]
    lines = [[words(""), *[faint(f"{columns} {size}") for size in sizes]]]
    for point in product(*(found.over[name] for name in rows)):
        label = ", ".join(f"{name} {size}" for name, size in zip(rows, point, strict=True))
        cells = [_cell(found.best[(*point, size)], grounds) for size in sizes]
        lines.append([faint(label), *cells])
    title = row(
        words("cheapest of these plans", bold=True),
        *[_cell(Cheapest((name,), {}), grounds) for name in found.plans],
        faint(f"on {found.machine.name}; * no plan at all is faster"),
    )
    said = [words(str(each), size=11, fill=FAINT) for each in found.crossings[:_MOST]]
    if len(found.crossings) > _MOST:
        said.append(faint(f"and {len(found.crossings) - _MOST} changes more", 11))
    picture = column(title, table(lines, gap=4), column(*said, gap=1), gap=12)
    return picture.card("cheapest of these plans", str(found))


def _cell(best: Cheapest, grounds: dict[str, str]) -> Picture:
    text = cell_text(best) if best.costs or not best.names else best.names[0]
    inner = words(text, size=11, fill=INK)
    width, height = inner.width + 12, inner.height + 6
    fill = grounds[best.names[0]] if best.names else PALE
    return Picture(width, height, (rect(0, 0, width, height, fill=fill), inner.at(6, 3)))
