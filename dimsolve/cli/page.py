"""What a verb prints: blocks of aligned cells, coloured on a terminal and plain anywhere else.

    input 0   m k+  m, k  S(1)
    output 0  m n   m, n  P(sum)

Lines are never wrapped or cut, so that what is piped is what was answered.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dimsolve.ir.excerpt import visible

if TYPE_CHECKING:
    from rich.console import Console


class Cell(NamedTuple):
    """A text and how it looks on a terminal: a style in rich's words, such as ``bold red``."""

    text: str
    style: str = ""


Row: TypeAlias = Sequence[Cell]
Block: TypeAlias = Sequence[Row]


def print_page(blocks: Iterable[Block]) -> None:
    """Prints blocks with an empty line between them; the columns of each block are aligned."""
    shown = [block for block in blocks if block]
    if not shown:
        return
    from rich.text import Text

    console = _console(stderr=False)
    for number, block in enumerate(shown):
        if number:
            console.print()
        for line in _aligned(block):
            console.print(
                Text.assemble(*((visible(cell.text, keep="\n"), cell.style) for cell in line))
            )


def print_error(error: Exception) -> None:
    """Prints an error on stderr: its class, and what it draws of itself."""
    from rich.text import Text

    said = visible(str(error), keep="\n")
    console = _console(stderr=True)
    console.print(Text.assemble((type(error).__name__, "bold red"), f": {said}"))


def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    return Console(
        stderr=stderr,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
    )


def _aligned(block: Block) -> Iterable[Row]:
    from rich.cells import cell_len

    columns = zip_longest(*block, fillvalue=Cell(""))
    widths = [max(cell_len(cell.text) for cell in column) for column in columns]
    for row in block:
        *left, last = row
        while left and not last.text:  # what is empty at the end needs no space
            last = left.pop()
        padded = [
            Cell(cell.text + " " * (width + 2 - cell_len(cell.text)), cell.style)
            for cell, width in zip(left, widths, strict=False)
        ]
        yield [*padded, last]
