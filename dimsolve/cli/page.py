"""What a verb prints: blocks of aligned cells, coloured on a terminal and plain anywhere else.

    input 0   m k+  m, k  S(1)
    output 0  m n   m, n  P(sum)

Lines are never wrapped or cut, so that what is piped is what was answered.

How each answer reads: from a result to blocks of cells.

Every function takes what the Python function of the same name returned and says the same as its
JSON, for eyes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dimsolve.ir.annotation import Annotation
from dimsolve.ir.characters import visible
from dimsolve.ir.expression import values_text
from dimsolve.partition.legality import ranges
from dimsolve.show.svg import VERDICT_STYLES
from dimsolve.solver.layout import identifiers_of

if TYPE_CHECKING:
    from rich.console import Console

    from dimsolve.partition.legality import Legality, LegalParts
    from dimsolve.solver.algebra.poly import Dim
    from dimsolve.solver.proof.verdict import Proof
    from dimsolve.solver.solution import Solution


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


_LABEL = "bold"
_HEAD = "dim"


def show_annotation(annotation: Annotation) -> Iterator[Block]:
    """The tensors, and what the mark of each identifier says."""
    yield [
        [Cell(label, _LABEL), Cell(str(operand))]
        for label, operand in _labelled(annotation.inputs, annotation.outputs)
    ]
    heads = [Cell(head, _HEAD) for head in ("identifier", "mark", "meaning")]
    rows = [
        [Cell(name, _LABEL), Cell(found.mark.value), Cell(found.mark.meaning)]
        for name, found in identifiers_of(annotation).items()
    ]
    yield [heads, *rows] if rows else []


def show_solution(solution: Solution) -> Iterator[Block]:
    """Output shapes, lengths, and what is left open."""
    expansions = [f"{star} = {' '.join(names)}" for star, names in solution.expansions.items()]
    yield [
        *_listed("outputs", map(_shape, solution.output_dims)),
        *_listed("bindings", [f"{name} = {length}" for name, length in solution.values.items()]),
        *_listed("expansions", expansions),
        *_listed("conditions", solution.conditions, "yellow"),
        *_listed("free", [", ".join(solution.free)] if solution.free else []),
        *_listed("solutions", _choices(solution) if solution.free else []),
    ]


_SHOWN_SOLUTIONS = 20


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


def show_explanation(solution: Solution) -> Iterator[Block]:
    """One line per step, as `Solution.explain` says it."""
    yield [[Cell(line)] for line in solution.explain().splitlines()]


def show_proof(proof: Proof) -> Iterator[Block]:
    """The verdict, and what makes it so."""
    yield _verdict(proof)


def show_legality(legality: Legality) -> Iterator[Block]:
    """The verdict with its reason, and where the tensors lie: a line per tensor."""
    yield _verdict(legality)
    if not legality.inputs and not legality.outputs:
        return
    annotation = legality.solution.annotation
    columns = zip(
        _labelled(annotation.inputs, annotation.outputs),
        (*legality.inputs, *legality.outputs),
        (*legality.solution.inputs, *legality.solution.output_dims),
        (*legality.local_input_dims, *legality.local_output_dims),
        strict=True,
    )
    heads = ("tensor", "annotated", "whole", "placement", "on one rank")
    rows = [
        [
            Cell(label, _LABEL),
            *map(Cell, (str(operand), _shape(whole), str(placement), _shape(local))),
        ]
        for (label, operand), placement, whole, local in columns
    ]
    yield [[Cell(head, _HEAD) for head in heads], *rows]
    lengths = legality.local_values
    arguments = [f"{name} = {lengths.get(name, given)}" for name, given in legality.given_arguments]
    yield [*_listed("arguments", arguments)]


def show_legal_parts(counts: LegalParts) -> Iterator[Block]:
    """The counts, and what makes each one legal or not."""
    forbidden = [ranges(list(counts.forbidden)), *list(counts.forbidden.values())[:1]]
    yield [
        *_listed("always", [", ".join(map(str, counts.always))] if counts.always else []),
        *_listed("conditional", _per_count(counts.conditional), "yellow"),
        *_listed("unknown", _per_count(counts.unknown), "magenta"),
        *_listed("never", forbidden if counts.forbidden else [], "red"),
    ]


def _per_count(texts: Mapping[int, str]) -> list[str]:
    width = len(str(max(texts, default=0)))
    return [f"{count:>{width}} if {text}" for count, text in texts.items()]


def _verdict(result: Legality | Proof) -> Block:
    counterexample = values_text(result.counterexample) if result.counterexample else ""
    return [
        [Cell(result.verdict, VERDICT_STYLES[result.verdict]), Cell(result.reason)],
        *_listed("conditions", result.conditions, "yellow"),
        *_listed("counterexample", [counterexample] if counterexample else []),
    ]


def _labelled(inputs: Sequence[object], outputs: Sequence[object]) -> Iterator[tuple[str, object]]:
    for kind, operands in (("input", inputs), ("output", outputs)):
        for number, operand in enumerate(operands):
            yield f"{kind} {number}", operand


def _listed(label: str, texts: Iterable[str], style: str = "") -> Iterator[Row]:
    """One row per text, the label beside the first."""
    for text in texts:
        yield [Cell(label, _LABEL), Cell(text, style)]
        label = ""


def _shape(dims: Sequence[Dim | None] | None) -> str:
    if dims is None:
        return "?"
    return ", ".join("?" if dim is None else str(dim) for dim in dims) or "()"
