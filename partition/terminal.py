"""How legality, counts, placements and plans look to those who print with rich."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from math import prod
from typing import TYPE_CHECKING

from dimsolve.ir.palette import hues
from dimsolve.ir.svg import visible
from dimsolve.ir.terminal import COLOURS, VERDICTS, annotation_text, columns, styled, verdict_table
from dimsolve.solver.problems import shape_text

from .counts_said import ranges, said_once, together
from .explain import summary
from .held import MOST_LINES, Held, index_text, place_text
from .legal_parts import LegalParts
from .legality import Legality
from .plan import Plan

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text


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
