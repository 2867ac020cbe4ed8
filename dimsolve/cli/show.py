"""How each answer reads: from a result to blocks of cells.

Every function takes what the Python function of the same name returned and says the same as its
JSON, for eyes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dimsolve.ir.annotation import Annotation
from dimsolve.ir.expression import values_text
from dimsolve.ir.palette import VERDICT_STYLES
from dimsolve.partition.counts_said import ranges
from dimsolve.solver.layout import identifiers_of

from .page import Block, Cell, Row

if TYPE_CHECKING:
    from dimsolve.partition.legal_parts import LegalParts
    from dimsolve.partition.legality import Legality
    from dimsolve.solver.algebra.poly import Dim
    from dimsolve.solver.proof.verdict import Proof
    from dimsolve.solver.solution import Solution

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
