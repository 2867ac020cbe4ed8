"""How solutions and proofs look to those who print with rich."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dimsolve.ir.terminal import annotation_text, columns, styled, verdict_table

from .solution import Solution

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from .proof.verdict import Proof


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
