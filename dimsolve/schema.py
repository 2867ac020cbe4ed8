"""Answers as JSON: what ``--json`` prints and what the service answers.

An expression is text in the dimension language, also where it is a number, and reads back; a
counterexample's values are integers. Places in a text are half-open offsets in characters. The
names are those of the Python results:

    ds.check("m k+, k+ n -> m n", ["m, k", "k, n"], "k", 8)
    {"verdict": "conditional", "conditions": ["k % 8 == 0"], "counterexample": {"k": 1}, ...}

This module loads pydantic; import it where JSON is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, Self, TypeAlias, assert_never

from pydantic import BaseModel, Field

from dimsolve.ir.annotation import Annotation
from dimsolve.ir.errors import DimsolveError
from dimsolve.partition.legal_parts import LegalParts
from dimsolve.partition.legality import Legality
from dimsolve.partition.plan import Plan
from dimsolve.solver.proof.verdict import Proof
from dimsolve.solver.solution import Solution

from .annotation_schema import AnnotationModel as AnnotationModel
from .annotation_schema import Model as Model
from .annotation_schema import Place, place_of

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
