"""An annotation as JSON: operands, dimensions and atoms, each with its place in the text.

    ds.parse("m k+, k+ n -> m n")
    {"text": "m k+, k+ n -> m n", "inputs": [{"text": "m k+", "kind": "tensor", ...}, ...],
     "identifiers": {"m": "", "k": "+", "n": ""}, ...}

`schema` holds the other answers; the base of all models stands here, because they build on it.
"""

from __future__ import annotations

from typing import Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from dimsolve.ir.annotation import Annotation, Dim, Identifier, Number, Opaque, Operand, Star
from dimsolve.ir.span import Span

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
        dims = [] if isinstance(operand, Opaque) else [_dim(dim) for dim in operand.dims]
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


def _dim(dim: Dim | Star) -> DimModel:
    atoms = (dim,) if isinstance(dim, Star) else dim.atoms
    return DimModel(text=str(dim), atoms=[_atom(atom) for atom in atoms], span=place_of(dim.span))


def _atom(atom: Identifier | Number | Star) -> AtomModel:
    place = place_of(atom.span)
    match atom:
        case Identifier():
            return AtomModel(text=str(atom), kind="identifier", mark=atom.mark.value, span=place)
        case Number():
            return AtomModel(text=str(atom), kind="number", span=place)
        case Star():
            return AtomModel(text=str(atom), kind="star", mark=atom.mark.value, span=place)
