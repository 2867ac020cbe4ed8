"""How answers look in a terminal, to those who print with rich: colours, and aligned columns.

    rich.print(parse("m k+, k+ n -> m n"))      each identifier in its colour
    rich.print(check(...))                      the verdict in its colour, a line per tensor

Texts are never read as markup, and what would steer the terminal is written out.

How solutions and proofs look to those who print with rich.

How legality, counts, placements and plans look to those who print with rich.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, assert_never

from dimsolve.ir.annotation import (
    Annotation,
    Atom,
    Dim,
    Identifier,
    Number,
    Opaque,
    Operand,
    Star,
    Tensor,
)
from dimsolve.ir.characters import visible
from dimsolve.ir.expression import values_text
from dimsolve.partition.layout import MOST_LINES, Held, index_text, place_text
from dimsolve.partition.legality import Legality, LegalParts, ranges, said_once, together
from dimsolve.partition.plan import Plan
from dimsolve.solver.problems import shape_text
from dimsolve.solver.solution import Solution

from .annotation import marks_of
from .plan import summary
from .svg import VERDICT_STYLES, hues

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from dimsolve.ir.graph import Graph
    from dimsolve.solver.proof.verdict import Proof


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

    >>> from dimsolve.ir.read_annotation import read_annotation
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


def solution_view(solution: Solution) -> Group:
    """Returns the annotation, a line per step, the outputs, and what is left open."""
    from rich.console import Group

    rows: list[Sequence[Text | str]] = [
        [step.conclusion, styled(step.reason, "dim")] for step in solution.trace()
    ]
    for number, dims in enumerate(solution.output_dims):
        shape = "?" if dims is None else f"({', '.join(map(str, dims))})"
        rows.append([styled(shape, "bold"), styled(f"output {number}", "dim")])
    rows += [[styled(text, "yellow"), styled("condition", "dim")] for text in solution.conditions]
    rows += [[name, styled("left open by the inputs", "dim")] for name in solution.free]
    return Group(annotation_text(solution.annotation), columns(rows))


def proof_view(proof: Proof) -> Table:
    """Returns the verdict, its reason, the condition and the counterexample."""
    return verdict_table(proof.verdict, proof.reason, proof.conditions, proof.counterexample)


def legality_view(legality: Legality) -> Group:
    """Returns the question, the verdict, and a line per tensor."""
    from rich.console import Group

    question = annotation_text(legality.solution.annotation)
    question.append(f"   {visible(legality.split or 'nothing')} into {legality.parts}", "bold")
    head = verdict_table(
        legality.verdict, legality.reason, legality.conditions, legality.counterexample
    )
    rows: list[Sequence[Text | str]] = [
        [
            styled(f"{kind} {number}", "bold"),
            str(placement),
            "?" if dims is None else shape_text(dims),
        ]
        for kind, placements, shapes in (
            ("input", legality.inputs, legality.local_input_dims),
            ("output", legality.outputs, legality.local_output_dims),
        )
        for number, (placement, dims) in enumerate(zip(placements, shapes, strict=True))
    ]
    return Group(question, head, columns(rows, ("tensor", "placement", "on one rank")))


def legal_parts_view(counts: LegalParts) -> Table:
    """Returns the counts that are always legal, and each condition and reason once."""
    always = ", ".join(map(str, counts.always)) or "no count"
    rows: list[Sequence[Text | str]] = [[styled("always", VERDICTS["always"]), always, ""]]
    rows += [["where", str(n), styled(text, "dim")] for n, text in counts.left_whole.items()]
    for word, texts in (
        ("if", counts.conditional),
        ("never", counts.forbidden),
        ("unknown", counts.unknown),
    ):
        rows += [
            [styled(word, VERDICTS[word]), ranges(numbers), styled(text, "dim")]
            for text, numbers in together(said_once(texts)).items()
        ]
    return columns(rows)


def held_view(held: Held) -> Group:
    """Returns the placements and a line per rank."""
    from rich.console import Group

    rows = [
        [place_text(held.mesh, rank), index_text(held.indices(rank))]
        for rank in islice(held.ranks(), MOST_LINES)
    ]
    if left := prod(held.mesh.values()) - len(rows):
        rows.append(["...", f"and {left} ranks more"])
    return Group(styled(held.text(0).split("\n")[0], "bold"), columns(rows, ("rank", "holds")))


def plan_view(plan: Plan) -> Text:
    """Returns the plan in short, each mesh axis in its colour; ``explain()`` says all."""
    from rich.text import Text

    first, *others = summary(plan).split("\n")
    lines = [Text(visible(first), "bold"), *(Text(visible(line)) for line in others)]
    colours = hues(plan.mesh, COLOURS)
    for line in lines[1:]:
        for axis, colour in colours.items():
            line.highlight_words([f"  {axis}  "], colour)
    return Text("\n").join(lines)
