"""What an answer says in a terminal: blocks of aligned cells, for the command line and for rich.

    conditional  k is a multiple of 8 only if k % 8 == 0; at k = 1 it is 1
    conditions   k % 8 == 0

    tensor    annotated  whole  placement  on one rank
    input 0   m k+       m, k   S(1)       m, k//8

``..._blocks`` describe a result once. The command line prints the blocks as they are; ``..._view``
is what ``rich.print(result)`` shows: the same blocks, below the question in colours. Texts are
never read as markup, and what would steer the terminal is written out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dimsolve.ir.annotation import Annotation, Number, Operand, Star, Tensor
from dimsolve.ir.characters import visible
from dimsolve.ir.expression import values_text
from dimsolve.partition.legality import (
    Legality,
    LegalParts,
    MeshLegality,
    ranges,
    said_once,
    together,
)
from dimsolve.solver.layout import identifiers_of
from dimsolve.solver.proof.verdict import Proof
from dimsolve.solver.solution import Solution

from .annotation import colours_of, labelled, name_of, shape_text

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text


class Cell(NamedTuple):
    """A text and how it looks on a terminal: a style in rich's words, such as ``bold red``."""

    text: str
    style: str = ""


Row: TypeAlias = Sequence[Cell]
Block: TypeAlias = Sequence[Row]

_PLAIN = ("blue", "red", "green", "magenta", "cyan", "yellow")
COLOURS = (*_PLAIN, *(f"bright_{colour}" for colour in _PLAIN[:4]))
"""Of identifiers and mesh axes: names of the terminal's own colours, which suit its background."""

_STYLES = {
    "bold green": ("legal", "proved", "always"),
    "bold yellow": ("conditional", "if"),
    "bold cyan": ("uneven",),
    "bold red": ("illegal", "refuted", "never"),
    "bold magenta": ("unknown",),
}
VERDICTS = {verdict: style for style, verdicts in _STYLES.items() for verdict in verdicts}

_LABEL, _HEAD = "bold", "dim"
_SHOWN_SOLUTIONS = 20


def annotation_blocks(annotation: Annotation) -> Iterator[Block]:
    """The tensors, and what the mark of each identifier says."""
    yield [[Cell(label, _LABEL), Cell(str(operand))] for label, operand in labelled(annotation)]
    rows = [
        [Cell(name, _LABEL), Cell(found.mark.value), Cell(found.mark.meaning)]
        for name, found in identifiers_of(annotation).items()
    ]
    if rows:
        yield [[Cell(head, _HEAD) for head in ("identifier", "mark", "meaning")], *rows]


def solution_blocks(solution: Solution) -> Iterator[Block]:
    """Output shapes, lengths, and what is left open."""
    expansions = [f"{star} = {' '.join(names)}" for star, names in solution.expansions.items()]
    yield [
        *listed("outputs", map(shape_text, solution.output_dims)),
        *listed("bindings", [f"{name} = {length}" for name, length in solution.values.items()]),
        *listed("expansions", expansions),
        *listed("conditions", solution.conditions, "yellow"),
        *listed("free", [", ".join(solution.free)] if solution.free else []),
        *listed("solutions", _choices(solution) if solution.free else []),
    ]


def _choices(solution: Solution) -> Iterator[str]:
    choices = solution.solutions(_SHOWN_SOLUTIONS)
    if choices is None:
        yield "not finitely many"
        return
    yield from map(values_text, choices)
    if choices.complete:
        return
    if len(choices) == _SHOWN_SOLUTIONS:
        yield f"finitely many, the first {_SHOWN_SOLUTIONS} shown; --json lists more"
    else:
        yield "finitely many, the others are too many or too large to be looked for"


def verdict_blocks(result: Legality | Proof | MeshLegality) -> Iterator[Block]:
    """The verdict, its reason, and what makes it so."""
    yield [
        [Cell(result.verdict, VERDICTS[result.verdict]), Cell(result.reason)],
        *listed("conditions", result.conditions, "yellow"),
        *listed("counterexample", map(values_text, filter(None, [result.counterexample]))),
    ]


def legality_blocks(legality: Legality) -> Iterator[Block]:
    """The verdict with its reason, and where the tensors lie: a line per tensor."""
    yield from verdict_blocks(legality)
    if not legality.inputs and not legality.outputs:
        return
    heads = ("tensor", "annotated", "whole", "placement", "on one rank")
    yield [
        [Cell(head, _HEAD) for head in heads],
        *([Cell(label, _LABEL), *map(Cell, row)] for label, row in _tensors(legality)),
    ]
    lengths = legality.local_values
    arguments = [f"{name} = {lengths.get(name, given)}" for name, given in legality.given_arguments]
    yield list(listed("arguments", arguments))


def _tensors(legality: Legality) -> Iterator[tuple[str, Sequence[str]]]:
    solution = legality.solution
    columns = zip(
        labelled(solution.annotation),
        (*legality.inputs, *legality.outputs),
        (*solution.inputs, *solution.output_dims),
        (*legality.local_input_dims, *legality.local_output_dims),
        strict=True,
    )
    for (label, operand), placement, whole, local in columns:
        yield label, (str(operand), shape_text(whole), str(placement), shape_text(local))


def legal_parts_blocks(counts: LegalParts) -> Iterator[Block]:
    """The counts of a split, and what makes each one legal or not."""
    forbidden = [ranges(list(counts.forbidden)), *list(counts.forbidden.values())[:1]]
    yield [
        *listed("always", [", ".join(map(str, counts.always))] if counts.always else []),
        *listed("uneven", _of_uneven(counts), "cyan"),
        *listed("conditional", _per_count(counts.conditional), "yellow"),
        *listed("unknown", _per_count(counts.unknown), "magenta"),
        *listed("never", forbidden if counts.forbidden else [], "red"),
    ]


def _of_uneven(counts: LegalParts) -> list[str]:
    return [f"{ranges(found)}: {text}" for text, found in together(counts.uneven).items()]


def _per_count(texts: Mapping[int, str]) -> list[str]:
    width = len(str(max(texts, default=0)))
    return [f"{count:>{width}} if {text}" for count, text in texts.items()]


def model_counts_blocks(counts: LegalParts) -> Iterator[Block]:
    """The counts of a model's axis: those that are forbidden for one reason stand together."""
    reasons = together(said_once(counts.forbidden))
    yield [[Cell("always", _LABEL), Cell(", ".join(map(str, counts.always)))]]
    for rows in (
        [(f"uneven {ranges(found)}", text) for text, found in together(counts.uneven).items()],
        [(str(count), f"if {text}") for count, text in counts.conditional.items()],
        [(f"never {ranges(found)}", text) for text, found in reasons.items()],
        [(f"unknown {count}", text) for count, text in counts.unknown.items()],
    ):
        yield [[Cell(label, _LABEL), Cell(text)] for label, text in rows]


def listed(label: str, texts: Iterable[str], style: str = "") -> Iterator[Row]:
    """Yields one row per text, the label beside the first."""
    for text in texts:
        yield [Cell(label, _LABEL), Cell(text, style)]
        label = ""


# Rich views --------------------------------------------------------------------------------------


def annotation_text(annotation: Annotation) -> Text:
    """Returns the annotation, each identifier in its colour.

    >>> from dimsolve.ir.read_annotation import read_annotation
    >>> annotation_text(read_annotation("(h t)  k+,k+->h t")).plain
    '(h t) k+, k+ -> h t'
    """
    from rich.text import Text

    colours = colours_of(annotation, COLOURS)
    sides = [
        Text(", ").join(_operand(operand, colours) for operand in side)
        for side in (annotation.inputs, annotation.outputs)
    ]
    return Text(" -> ").join(sides)


def _operand(operand: Operand, colours: Mapping[str, str]) -> Text:
    from rich.text import Text

    if not (isinstance(operand, Tensor) and operand.dims):
        return Text(str(operand), "dim")
    dims = []
    for dim in operand.dims:
        atoms = (dim,) if isinstance(dim, Star) else dim.atoms
        styles = [
            "dim" if isinstance(each, Number) else f"bold {colours[name_of(each)]}"
            for each in atoms
        ]
        dims.append(Text(" ").join(map(Text, map(str, atoms), styles)))
        if not isinstance(dim, Star) and dim.grouped:
            dims[-1] = Text.assemble("(", dims[-1], ")")
    return Text(" ").join(dims)


def columns(block: Block) -> Table:
    """Returns a block as rich's table without lines; a cell that is too long is folded."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for _ in max(block, key=len, default=()):
        table.add_column(overflow="fold")
    for row in block:
        table.add_row(*(Text(visible(cell.text), cell.style) for cell in row))
    return table


def solution_view(solution: Solution) -> Group:
    """Returns the annotation, a line per step, and what follows from them."""
    from rich.console import Group

    steps = [[Cell(step.conclusion), Cell(step.reason, "dim")] for step in solution.trace()]
    blocks = [steps, *solution_blocks(solution)]
    return Group(annotation_text(solution.annotation), *map(columns, filter(None, blocks)))


def proof_view(proof: Proof) -> Group:
    """Returns the verdict, its reason, the condition and the counterexample."""
    from rich.console import Group

    return Group(*map(columns, verdict_blocks(proof)))


def legality_view(legality: Legality) -> Group:
    """Returns the question, the verdict, and a line per tensor."""
    from rich.console import Group

    question = annotation_text(legality.solution.annotation)
    question.append(f"   {visible(legality.split or 'nothing')} into {legality.parts}", "bold")
    return Group(question, *map(columns, filter(None, legality_blocks(legality))))


def legal_parts_view(counts: LegalParts) -> Table:
    """Returns the counts that are always legal, and each condition and reason once."""
    always = ", ".join(map(str, counts.always)) or "no count"
    rows: list[Row] = [[Cell("always", VERDICTS["always"]), Cell(always), Cell("")]]
    rows += [
        [Cell("where"), Cell(str(count)), Cell(text, "dim")]
        for count, text in counts.left_whole.items()
    ]
    for word, texts in (
        ("uneven", counts.uneven),
        ("if", counts.conditional),
        ("never", counts.forbidden),
        ("unknown", counts.unknown),
    ):
        rows += [
            [Cell(word, VERDICTS[word]), Cell(ranges(numbers)), Cell(text, "dim")]
            for text, numbers in together(said_once(texts)).items()
        ]
    return columns(rows)


def aligned(block: Block) -> Iterator[Row]:
    """Yields the rows of a block with their cells padded to columns."""
    from rich.cells import cell_len

    widths = [
        max(cell_len(cell.text) for cell in column)
        for column in zip_longest(*block, fillvalue=Cell(""))
    ]
    for row in block:
        *left, last = row
        while left and not last.text:  # what is empty at the end needs no space
            last = left.pop()
        padded = [
            Cell(cell.text + " " * (width + 2 - cell_len(cell.text)), cell.style)
            for cell, width in zip(left, widths, strict=False)
        ]
        yield [*padded, last]
