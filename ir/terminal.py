"""How answers look in a terminal, to those who print with rich: colours, and aligned columns.

    rich.print(parse("m k+, k+ n -> m n"))      each identifier in its colour
    rich.print(check(...))                      the verdict in its colour, a line per tensor

Texts are never read as markup, and what would steer the terminal is written out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, assert_never

from .annotation import Annotation, Atom, Dim, Identifier, Number, Opaque, Operand, Star, Tensor
from .draw_annotation import marks_of
from .excerpt import visible
from .expression import values_text
from .palette import VERDICT_STYLES, hues

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from .graph import Graph

COLOURS = (
    "blue",
    "red",
    "green",
    "magenta",
    "cyan",
    "yellow",
    "bright_blue",
    "bright_red",
    "bright_green",
    "bright_magenta",
)
"""Of identifiers and mesh axes: names of the terminal's own colours, which suit its background."""

VERDICTS = VERDICT_STYLES
"""The styles of verdicts, in rich's words."""


def annotation_text(annotation: Annotation) -> Text:
    """Returns the annotation, each identifier in its colour.

    >>> from .read_annotation import read_annotation
    >>> annotation_text(read_annotation("(h t)  k+,k+->h t")).plain
    '(h t) k+, k+ -> h t'
    """
    from rich.text import Text

    colours = hues((name for name, _ in marks_of(annotation)), COLOURS)
    text = Text()
    for number, operand in enumerate(annotation.inputs):
        text.append(", " if number else "")
        _operand(operand, colours, text)
    text.append(" -> ")
    for number, operand in enumerate(annotation.outputs):
        text.append(", " if number else "")
        _operand(operand, colours, text)
    return text


def _operand(operand: Operand, colours: Mapping[str, str], text: Text) -> None:
    match operand:
        case Opaque() | Tensor(dims=()):
            text.append(str(operand), "dim")
        case Tensor():
            for number, dim in enumerate(operand.dims):
                text.append(" " if number else "")
                _dim(dim, colours, text)
        case _:
            assert_never(operand)


def _dim(dim: Dim | Star, colours: Mapping[str, str], text: Text) -> None:
    if isinstance(dim, Star):
        text.append(str(dim), f"bold {colours['*']}")
        return
    text.append("(" if dim.grouped else "")
    for number, atom in enumerate(dim.atoms):
        text.append(" " if number else "")
        text.append(str(atom), _style(atom, colours))
    text.append(")" if dim.grouped else "")


def _style(atom: Atom, colours: Mapping[str, str]) -> str:
    match atom:
        case Number():
            return "dim"
        case Identifier(name=name):
            return f"bold {colours[name]}"
        case _:
            assert_never(atom)


def verdict_table(
    verdict: str,
    reason: str,
    conditions: Sequence[str] = (),
    counterexample: Mapping[str, int] | None = None,
) -> Table:
    """Returns the verdict with its reason, the conditions and the counterexample."""
    rows: list[Sequence[Text | str]] = [[styled(verdict, VERDICTS[verdict]), visible(reason)]]
    rows += [[styled("condition", "bold"), visible(condition)] for condition in conditions]
    if counterexample:
        rows.append([styled("counterexample", "bold"), values_text(counterexample)])
    return columns(rows)


def columns(rows: Iterable[Sequence[Text | str]], heads: Sequence[str] = ()) -> Table:
    """Returns rows in aligned columns, without lines; texts are never read as markup."""
    from rich.table import Table
    from rich.text import Text

    listed = [list(row) for row in rows]
    table = Table(
        box=None, show_header=bool(heads), header_style="dim", pad_edge=False, padding=(0, 2, 0, 0)
    )
    for place in range(max([len(heads), *(len(row) for row in listed)])):
        table.add_column(heads[place] if place < len(heads) else "", overflow="fold")
    for row in listed:
        table.add_row(*[Text(visible(cell)) if isinstance(cell, str) else cell for cell in row])
    return table


def styled(text: str, style: str) -> Text:
    """Returns text in a style; what would steer a terminal is written out."""
    from rich.text import Text

    return Text(visible(text), style)


def graph_text(graph: Graph) -> Text:
    """Returns the graph's text: names bold, types blue, annotations and modules quiet."""
    from rich.text import Text

    lines = [Text(visible(line)) for line in str(graph).split("\n")]
    for line in lines:
        line.highlight_regex(r"%[\w.]+", "bold")
        line.highlight_regex(r"(?<=: )\w+\[[^\]]*\]", COLOURS[0])
        line.highlight_regex(r"#.*", "dim")
    return Text("\n").join(lines)
