"""Results rebuilt from their JSON: the classes that the functions return, without solving again.

    retold_proof({"verdict": "proved", "reason": ..., ...})      Proof(verdict='proved', ...)

An expression is text in the dimension language and is read by its reader, so nothing that a service
sends is ever evaluated.

An annotation as JSON: operands, dimensions and atoms, each with its place in the text.

    ds.parse("m k+, k+ n -> m n")
    {"text": "m k+, k+ n -> m n", "inputs": [{"text": "m k+", "kind": "tensor", ...}, ...],
     "identifiers": {"m": "", "k": "+", "n": ""}, ...}

`schema` holds the other answers; the base of all models stands here, because they build on it.

Answers as JSON: what ``--json`` prints and what the service answers.

An expression is text in the dimension language, also where it is a number, and reads back; a
counterexample's values are integers. Places in a text are half-open offsets in characters. The
names are those of the Python results:

    ds.check("m k+, k+ n -> m n", ["m, k", "k, n"], "k", 8)
    {"verdict": "conditional", "conditions": ["k % 8 == 0"], "counterexample": {"k": 1}, ...}

This module loads pydantic; import it where JSON is asked for.

The JSON of operators: what ``dimsolve ops`` and ``/v1/operators`` list, what ``dimsolve verify``
found.

    {"path": "torch.matmul", "annotations": ["m k+, k+ n -> m n", ...], "note": ""}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, assert_never

from pydantic import BaseModel, ConfigDict, Field

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
from dimsolve.ir.errors import DimsolveError, Span
from dimsolve.ir.operator import registered
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.partition.legality import Legality, LegalParts
from dimsolve.partition.placement import read_placement
from dimsolve.partition.plan import Plan
from dimsolve.partition.rules.rule import Rule
from dimsolve.solver.algebra.poly import Dim as Length
from dimsolve.solver.choices import Choices
from dimsolve.solver.equations import Step
from dimsolve.solver.identifier_facts import IdentifierFacts
from dimsolve.solver.layout import layout_of, star_position
from dimsolve.solver.operators import names, summary
from dimsolve.solver.proof.verdict import Proof
from dimsolve.solver.shapes import Shape as ShapesShape
from dimsolve.solver.shapes import dim_of_text
from dimsolve.solver.solution import Solution

if TYPE_CHECKING:
    from dimsolve.exec.verification.verification import Verification


Place: TypeAlias = tuple[int, int]


MarkText: TypeAlias = Literal["", "+", "^"]


class Model(BaseModel):
    """The base of all: immutable, and no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AtomModel(Model):
    """An identifier, a number or ``*`` as it stands in a dimension."""

    text: str
    kind: Literal["identifier", "number", "star"]
    mark: MarkText = ""
    span: Place


class DimModel(Model):
    """One annotated dimension: a product of atoms."""

    text: str
    atoms: list[AtomModel]
    span: Place


class OperandModel(Model):
    """One annotated tensor, or ``?``."""

    text: str
    kind: Literal["tensor", "opaque"]
    dims: list[DimModel]
    span: Place

    @classmethod
    def of(cls, operand: Operand) -> Self:
        dims = (
            []
            if isinstance(operand, Opaque)
            else [_dim_of_annotation_schema(dim) for dim in operand.dims]
        )
        kind: Literal["tensor", "opaque"] = "opaque" if isinstance(operand, Opaque) else "tensor"
        return cls(text=str(operand), kind=kind, dims=dims, span=place_of(operand.span))


class AnnotationModel(Model):
    """What an annotation says. ``source`` is what was read; places are offsets into it."""

    text: str
    source: str
    inputs: list[OperandModel]
    outputs: list[OperandModel]
    identifiers: dict[str, MarkText] = Field(description="the mark of each identifier")

    @classmethod
    def of(cls, annotation: Annotation) -> Self:
        inputs = [OperandModel.of(operand) for operand in annotation.inputs]
        outputs = [OperandModel.of(operand) for operand in annotation.outputs]
        identifiers: dict[str, MarkText] = {
            atom.text.removesuffix(atom.mark): atom.mark
            for operand in (*inputs, *outputs)
            for dim in operand.dims
            for atom in dim.atoms
            if atom.kind == "identifier"
        }
        return cls(
            text=str(annotation),
            source=annotation.text,
            inputs=inputs,
            outputs=outputs,
            identifiers=identifiers,
        )


def place_of(span: Span) -> Place:
    return span.start, span.stop


def _dim_of_annotation_schema(dim: Dim | Star) -> DimModel:
    atoms = (dim,) if isinstance(dim, Star) else dim.atoms
    return DimModel(
        text=str(dim),
        atoms=[_atom_of_annotation_schema(atom) for atom in atoms],
        span=place_of(dim.span),
    )


def _atom_of_annotation_schema(atom: Identifier | Number | Star) -> AtomModel:
    place = place_of(atom.span)
    match atom:
        case Identifier():
            return AtomModel(text=str(atom), kind="identifier", mark=atom.mark.value, span=place)
        case Number():
            return AtomModel(text=str(atom), kind="number", span=place)
        case Star():
            return AtomModel(text=str(atom), kind="star", mark=atom.mark.value, span=place)


Expression: TypeAlias = str
Shape: TypeAlias = list[Expression]


class LengthsModel(Model):
    """Inferred shapes: what an identifier is, and what is left open."""

    outputs: list[Shape | None]
    bindings: dict[str, Expression]
    conditions: list[str] = Field(description="what must still hold for these inputs to match")
    free: list[str]
    expansions: dict[str, list[str]]

    @classmethod
    def of(cls, solution: Solution) -> Self:
        return cls(**_lengths(solution))


class StepModel(Model):
    """One step of a solution: what was concluded, and from what."""

    conclusion: str
    reason: str


class SolutionModel(LengthsModel):
    """Inferred shapes and why. ``solutions``: the choices of the free identifiers, null where they
    are not finitely many; of many, the first.
    """

    solutions: list[dict[str, int]] | None
    solutions_complete: bool = Field(
        description="whether `solutions` are all; else, where they are not null, they are finitely "
        "many and these are the first"
    )
    steps: list[StepModel]
    explanation: list[str] = Field(description="the annotation, a line per step, the shapes")

    @classmethod
    def of(cls, solution: Solution) -> Self:
        choices = solution.solutions()
        steps = solution.trace()  # solved once for the steps and their text
        return cls(
            **_lengths(solution),
            solutions=None if choices is None else [dict(choice) for choice in choices],
            solutions_complete=choices is not None and choices.complete,
            steps=[StepModel(conclusion=s.conclusion, reason=s.reason) for s in steps],
            explanation=replace(solution, trace=lambda: steps).explain().splitlines(),
        )


def _lengths(solution: Solution) -> dict[str, Any]:
    return {
        "outputs": _shapes(solution.output_dims),
        "bindings": {name: _text(length) for name, length in solution.values.items()},
        "conditions": list(solution.conditions),
        "free": list(solution.free),
        "expansions": {star: list(names) for star, names in solution.expansions.items()},
    }


class LegalityModel(Model):
    """Whether a split is legal, and what every rank holds. A placement is text: ``S(0)``, ``R``."""

    verdict: Literal["legal", "conditional", "illegal", "unknown"]
    reason: str
    split: str | None
    parts: Expression
    conditions: list[str]
    counterexample: dict[str, int] | None
    inputs: list[str]
    outputs: list[str]
    local_inputs: list[Shape | None]
    local_outputs: list[Shape | None]
    arguments: dict[str, Expression]
    solution: LengthsModel = Field(description="the whole shapes, before the split")

    @classmethod
    def of(cls, legality: Legality) -> Self:
        return cls(
            verdict=legality.verdict,
            reason=legality.reason,
            split=legality.split,
            parts=str(legality.parts),
            conditions=list(legality.conditions),
            counterexample=_values(legality.counterexample),
            inputs=[str(placement) for placement in legality.inputs],
            outputs=[str(placement) for placement in legality.outputs],
            local_inputs=_shapes(legality.local_input_dims),
            local_outputs=_shapes(legality.local_output_dims),
            arguments=local_arguments(legality),
            solution=LengthsModel.of(legality.solution),
        )


class LegalPartsModel(Model):
    """The counts of a split: legal for all values, under a condition, never, or not decided."""

    split: str | None
    fixed_divisor: int = Field(description="every count in `always` divides it")
    always: list[int]
    conditional: dict[int, str]
    forbidden: dict[int, str]
    unknown: dict[int, str]
    up_to: int

    @classmethod
    def of(cls, counts: LegalParts) -> Self:
        return cls(
            split=counts.split,
            fixed_divisor=counts.fixed_divisor,
            always=list(counts.always),
            conditional=dict(counts.conditional),
            forbidden=dict(counts.forbidden),
            unknown=dict(counts.unknown),
            up_to=counts.up_to,
        )


class ProofModel(Model):
    """Whether a claim holds for all positive integers that satisfy the facts."""

    verdict: Literal["proved", "refuted", "conditional", "unknown"]
    reason: str
    conditions: list[str]
    counterexample: dict[str, int] | None

    @classmethod
    def of(cls, proof: Proof) -> Self:
        return cls(
            verdict=proof.verdict,
            reason=proof.reason,
            conditions=list(proof.conditions),
            counterexample=_values(proof.counterexample),
        )


class Problem(Model):
    """Why a question has no answer (RFC 9457). ``spans`` are in ``text``, the main one first."""

    type: str = "about:blank"
    title: str
    status: int = 422
    detail: str
    error: str = Field(description="AnnotationError or ShapeError")
    code: str
    text: str
    spans: list[Place]
    hint: str

    @classmethod
    def of(cls, error: DimsolveError) -> Self:
        diagnostic = error.diagnostic
        return cls(
            title=diagnostic.title,
            detail=diagnostic.reason,
            error=type(error).__name__,
            code=diagnostic.code,
            text=diagnostic.text,
            spans=[place_of(span) for span in diagnostic.spans],
            hint=diagnostic.hint,
        )


def local_arguments(legality: Legality) -> dict[str, str]:
    """Returns the arguments on one rank; lengths as text in the dimension language."""
    lengths = legality.local_values
    return {name: str(lengths.get(name, given)) for name, given in legality.given_arguments}


def _shapes(rows: Iterable[Sequence[object] | None]) -> list[Shape | None]:
    return [None if row is None else [_text(dim) for dim in row] for row in rows]


_text = lru_cache(maxsize=4096)(str)
"""The same lengths stand in inputs, outputs and bindings, and are written once."""


def _values(values: Mapping[str, int] | None) -> dict[str, int] | None:
    return None if values is None else dict(values)


def model_of(
    result: Annotation | Solution | Legality | LegalParts | Proof | Plan | DimsolveError,
) -> BaseModel:
    """Returns the model of what a public function returned or raised.

    >>> from dimsolve import prove
    >>> model_of(prove("n*(n + 1) % 2 == 0")).verdict
    'proved'
    """
    match result:
        case Annotation():
            return AnnotationModel.of(result)
        case Solution():
            return SolutionModel.of(result)
        case Legality():
            return LegalityModel.of(result)
        case LegalParts():
            return LegalPartsModel.of(result)
        case Proof():
            return ProofModel.of(result)
        case Plan():
            return result
        case DimsolveError():
            return Problem.of(result)
        case _:
            assert_never(result)


class OperatorModel(Model):
    """One callable. ``note``: why nothing of it can be split, or what to know."""

    path: str
    annotations: list[str]
    note: str


class OperatorsModel(Model):
    """The operators that are known, sorted by path: the library's and the registered ones."""

    operators: list[OperatorModel]


class VerificationModel(Model):
    """Whether an operator's annotation holds. ``culprits`` are texts that name who lies."""

    target: str
    ok: bool
    differences: dict[str, float]
    culprits: list[str]
    splits: dict[str, list[int]]
    frozen: dict[str, str]
    notes: list[str]

    @classmethod
    def of(cls, found: Verification) -> VerificationModel:
        """Makes the model of a Verification."""
        return cls(
            target=found.target,
            ok=found.ok,
            differences=dict(found.differences),
            culprits=[str(culprit) for culprit in found.culprits],
            splits={name: list(counts) for name, counts in found.splits.items()},
            frozen=dict(found.frozen),
            notes=list(found.notes),
        )


def operators(part: str = "") -> OperatorsModel:
    """Returns the operators whose path contains ``part``.

    >>> [row.path for row in operators("torch.hypot").operators]
    ['torch.hypot']
    """
    rows = [
        OperatorModel(path=found.path, annotations=list(found.annotations), note=found.note)
        for path in names()
        if part in path and (found := summary(path)) is not None
    ]
    rows += [
        OperatorModel(path=own.path, annotations=[], note="registered")
        for own in registered()
        if part in own.path
    ]
    return OperatorsModel(operators=sorted(rows, key=lambda row: row.path))


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
        Opaque(span)
        if data["kind"] == "opaque"
        else Tensor(tuple(map(_dim_of_retold, data["dims"])), span)
    )


def _dim_of_retold(data: Json) -> Dim | Star:
    span = Span(*data["span"])
    atoms = data["atoms"]
    if atoms and atoms[0]["kind"] == "star":
        return Star(Mark(atoms[0]["mark"]), span)
    return Dim(tuple(map(_atom_of_retold, atoms)), data["text"].startswith("("), span)


def _atom_of_retold(data: Json) -> Atom:
    span, mark = Span(*data["span"]), Mark(data["mark"])
    if data["kind"] == "number":
        return Number(int(data["text"]), span)
    return Identifier(data["text"].removesuffix(mark.value), mark, span)


def retold_solution(
    data: Json,
    text: str,
    inputs: Sequence[ShapesShape | None] | None,
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


def _star_rank(data: Json, inputs: Sequence[ShapesShape | None], text: str) -> int | None:
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
