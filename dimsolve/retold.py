"""Results rebuilt from their JSON: the classes that the functions return, without solving again.

    retold_proof({"verdict": "proved", "reason": ..., ...})      Proof(verdict='proved', ...)

An expression is text in the dimension language and is read by its reader, so nothing that a service
sends is ever evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from dimsolve.ir.annotation import (
    Annotation,
    Atom,
    Dim,
    Identifier,
    Mark,
    Number,
    Opaque,
    Operand,
    Star,
    Tensor,
)
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.ir.span import Span
from dimsolve.partition.legal_parts import LegalParts
from dimsolve.partition.legality import Legality
from dimsolve.partition.read_placement import read_placement
from dimsolve.partition.rules import Rule
from dimsolve.solver.algebra.poly import Dim as Length
from dimsolve.solver.cases import Choices
from dimsolve.solver.equations import Step
from dimsolve.solver.identifier_facts import IdentifierFacts
from dimsolve.solver.layout import layout_of, star_position
from dimsolve.solver.proof.verdict import Proof
from dimsolve.solver.shapes import Shape, dim_of_text
from dimsolve.solver.solution import Solution

Json: TypeAlias = Any
Explain: TypeAlias = Callable[[], Sequence[Mapping[str, str]]]
"""Gives the steps of a solution when somebody asks for them."""


def retold_annotation(data: Json) -> Annotation:
    """Returns the annotation that the JSON of `parse` is."""
    inputs, outputs = (tuple(map(_operand, data[side])) for side in ("inputs", "outputs"))
    return Annotation(inputs, outputs, data["source"])


def _operand(data: Json) -> Operand:
    span = Span(*data["span"])
    return (
        Opaque(span) if data["kind"] == "opaque" else Tensor(tuple(map(_dim, data["dims"])), span)
    )


def _dim(data: Json) -> Dim | Star:
    span = Span(*data["span"])
    atoms = data["atoms"]
    if atoms and atoms[0]["kind"] == "star":
        return Star(Mark(atoms[0]["mark"]), span)
    return Dim(tuple(map(_atom, atoms)), data["text"].startswith("("), span)


def _atom(data: Json) -> Atom:
    span, mark = Span(*data["span"]), Mark(data["mark"])
    if data["kind"] == "number":
        return Number(int(data["text"]), span)
    return Identifier(data["text"].removesuffix(mark.value), mark, span)


def retold_solution(
    data: Json,
    text: str,
    inputs: Sequence[Shape | None] | None,
    facts: IdentifierFacts,
    explain: Explain,
) -> Solution:
    """Returns the solution that the JSON of `infer` is.

    inputs: the shapes that were asked about, None where there were none; explain: gives the
    steps that ``explain()`` tells.
    """
    values = {name: dim_of_text(length) for name, length in data["bindings"].items()}
    explored = inputs is None
    inputs = [None] * len(read_annotation(text).inputs) if inputs is None else inputs
    listed = data.get("solutions", [{}] if not data["free"] else None)
    complete = data.get("solutions_complete", True)

    def choices(limit: int) -> Choices | None:
        if listed is None:
            return None
        return Choices(listed[:limit], complete=complete and len(listed) <= limit)

    return Solution(
        text=text,
        layout=layout_of(text, _star_rank(data, inputs, text)),
        inputs=tuple(inputs),
        values=values,
        conditions=tuple(data["conditions"]),
        free=tuple(data["free"]),
        facts=facts.of(values),
        trace=lambda: tuple(Step(step["conclusion"], step["reason"]) for step in explain()),
        choices=choices,
        explored=explored,
    )


def _star_rank(data: Json, inputs: Sequence[Shape | None], text: str) -> int | None:
    """How many dimensions ``*`` stands for: as many as have names, or none that are known."""
    names = data["expansions"].get("*", ())
    if names:
        return len(names)
    given = zip(read_annotation(text).inputs, inputs, strict=True)
    stars = [shape for operand, shape in given if star_position(operand) is not None]
    return 0 if any(shape is not None for shape in stars) else None


def retold_legality(data: Json, solution: Solution, arguments: Mapping[str, Any]) -> Legality:
    """Returns the legality that the JSON of `check` is; arguments as they were given."""
    parts = dim_of_text(data["parts"])
    inputs, outputs = (tuple(map(read_placement, data[side])) for side in ("inputs", "outputs"))
    split: str | None = data["split"]
    has_rule = split is not None and data["verdict"] != "illegal"
    legality = Legality(
        solution=solution,
        split=split,
        parts=parts,
        verdict=data["verdict"],
        reason=data["reason"],
        conditions=tuple(data["conditions"]),
        counterexample=data["counterexample"],
        rule=Rule(split or "", inputs, outputs) if has_rule else None,
        # An answer without a rule speaks of no arguments.
        given_arguments=tuple((n, v) for n, v in arguments.items() if n in data["arguments"]),
    )
    # Cached properties that would be worked out: they are known already.
    known = vars(legality)
    known["local_input_dims"] = _rows(data["local_inputs"])
    known["local_output_dims"] = _rows(data["local_outputs"])
    if split is not None and split in arguments and has_rule:
        part = dim_of_text(data["arguments"][split])
        known["local_values"] = {**solution.values, split: part}
    return legality


def _rows(rows: Iterable[Sequence[str] | None]) -> tuple[tuple[Length, ...] | None, ...]:
    return tuple(None if row is None else tuple(map(dim_of_text, row)) for row in rows)


def retold_legal_parts(data: Json) -> LegalParts:
    """Returns the counts that the JSON of `legal_parts` is."""
    named = {
        kind: {int(count): text for count, text in data[kind].items()}
        for kind in ("conditional", "forbidden", "unknown")
    }
    return LegalParts(
        split=data["split"],
        fixed_divisor=data["fixed_divisor"],
        always=tuple(data["always"]),
        up_to=data["up_to"],
        **named,
    )


def retold_proof(data: Json) -> Proof:
    """Returns the proof that the JSON of `prove` is."""
    return Proof(data["verdict"], tuple(data["conditions"]), data["counterexample"], data["reason"])
