"""Results as JSON: one pydantic model per result, for the service, ``--json``, client and widget.

    ds.check("m k+, k+ n -> m n", ["m, k", "k, n"], "k", 8)
    {"verdict": "conditional", "conditions": ["k % 8 == 0"], "counterexample": {"k": 1}, ...}

``Model.of(result)`` makes the model of what a public function returned, ``model.result()`` rebuilds
the library's class from it, without solving again. An expression is text in the dimension language,
also where it is a number, and its own reader reads it back: nothing that a service sends is ever
evaluated. A counterexample's values are integers. Places in a text are half-open offsets in
characters.

This module loads pydantic; import it where JSON is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

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
from dimsolve.ir.errors import Diagnostic, DimsolveError, Span
from dimsolve.ir.operator import registered
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.partition.legality import Legality, LegalParts, MeshLegality
from dimsolve.partition.placement import read_placement
from dimsolve.partition.rules.rule import Rule
from dimsolve.solver.algebra.poly import Dim as Length
from dimsolve.solver.choices import Choices
from dimsolve.solver.equations import Step
from dimsolve.solver.identifier_facts import IdentifierFacts
from dimsolve.solver.layout import layout_of, star_position
from dimsolve.solver.operators import names, summary
from dimsolve.solver.proof.verdict import Proof
from dimsolve.solver.shapes import Shape, dim_of_text
from dimsolve.solver.solution import Solution

Place: TypeAlias = tuple[int, int]
MarkText: TypeAlias = Literal["", "+", "^"]
Expression: TypeAlias = str
ShapeText: TypeAlias = tuple[Expression, ...]
Texts: TypeAlias = tuple[str, ...]

_text = lru_cache(maxsize=4096)(str)
"""The same lengths stand in inputs, outputs and bindings, and are written once."""


class Model(BaseModel):
    """The base of all: immutable, and no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", from_attributes=True)

    @classmethod
    def of(cls, result: Any) -> Self:
        """Returns the model of a result whose attributes have the names of the JSON."""
        return cls.model_validate(result)


class AtomModel(Model):
    """An identifier, a number or ``*`` as it stands in a dimension."""

    text: str
    kind: Literal["identifier", "number", "star"]
    mark: MarkText = ""
    span: Place

    @classmethod
    def of(cls, atom: Identifier | Number | Star) -> Self:
        mark: Any = "" if isinstance(atom, Number) else atom.mark.value
        kind: Any = type(atom).__name__.lower()
        return cls(text=str(atom), kind=kind, mark=mark, span=_place(atom.span))

    def result(self) -> Atom:
        mark, span = Mark(self.mark), Span(*self.span)
        if self.kind == "number":
            return Number(int(self.text), span)
        return Identifier(self.text.removesuffix(mark.value), mark, span)


class DimModel(Model):
    """One annotated dimension: a product of atoms."""

    text: str
    atoms: tuple[AtomModel, ...]
    span: Place

    @classmethod
    def of(cls, dim: Dim | Star) -> Self:
        atoms = (dim,) if isinstance(dim, Star) else dim.atoms
        return cls(text=str(dim), atoms=tuple(map(AtomModel.of, atoms)), span=_place(dim.span))

    def result(self) -> Dim | Star:
        span = Span(*self.span)
        if self.atoms and self.atoms[0].kind == "star":
            return Star(Mark(self.atoms[0].mark), span)
        return Dim(tuple(atom.result() for atom in self.atoms), self.text.startswith("("), span)


class OperandModel(Model):
    """One annotated tensor, or ``?``."""

    text: str
    kind: Literal["tensor", "opaque"]
    dims: tuple[DimModel, ...]
    span: Place

    @classmethod
    def of(cls, operand: Operand) -> Self:
        dims = () if isinstance(operand, Opaque) else tuple(map(DimModel.of, operand.dims))
        kind: Any = type(operand).__name__.lower()
        return cls(text=str(operand), kind=kind, dims=dims, span=_place(operand.span))

    def result(self) -> Operand:
        span = Span(*self.span)
        if self.kind == "opaque":
            return Opaque(span)
        return Tensor(tuple(dim.result() for dim in self.dims), span)


class AnnotationModel(Model):
    """What an annotation says. ``source`` is what was read; places are offsets into it."""

    text: str
    source: str
    inputs: tuple[OperandModel, ...]
    outputs: tuple[OperandModel, ...]
    identifiers: dict[str, MarkText] = Field(description="the mark of each identifier")

    @classmethod
    def of(cls, annotation: Annotation) -> Self:
        inputs = tuple(map(OperandModel.of, annotation.inputs))
        outputs = tuple(map(OperandModel.of, annotation.outputs))
        return cls(
            text=str(annotation),
            source=annotation.text,
            inputs=inputs,
            outputs=outputs,
            identifiers={
                atom.text.removesuffix(atom.mark): atom.mark
                for operand in (*inputs, *outputs)
                for dim in operand.dims
                for atom in dim.atoms
                if atom.kind == "identifier"
            },
        )

    def result(self) -> Annotation:
        inputs, outputs = (
            tuple(operand.result() for operand in side) for side in (self.inputs, self.outputs)
        )
        return Annotation(inputs, outputs, self.source)


def _place(span: Span) -> Place:
    return span.start, span.stop


@dataclass(frozen=True)
class Asked:
    """An operator's question, which its answer does not repeat: the annotation, the shapes (None
    where none were given), and the facts.
    """

    text: str
    shapes: Sequence[Shape | None] | None
    facts: IdentifierFacts


class LengthsModel(Model):
    """Inferred shapes: what an identifier is, and what is left open."""

    outputs: tuple[ShapeText | None, ...]
    bindings: dict[str, Expression]
    conditions: Texts = Field(description="what must still hold for these inputs to match")
    free: Texts
    expansions: dict[str, Texts]

    @classmethod
    def of(cls, solution: Solution) -> Self:
        return cls(**_lengths(solution))

    def result(self, asked: Asked, steps: Callable[[], Iterable[StepModel]]) -> Solution:
        """Returns the solution. steps: gives what ``explain()`` says, when somebody asks for it."""
        annotation = read_annotation(asked.text)
        shapes = [None] * len(annotation.inputs) if asked.shapes is None else asked.shapes
        values = {name: dim_of_text(length) for name, length in self.bindings.items()}
        return Solution(
            text=asked.text,
            layout=layout_of(asked.text, self._star_rank(annotation, shapes)),
            inputs=tuple(shapes),
            values=values,
            conditions=self.conditions,
            free=self.free,
            facts=asked.facts.of(values),
            trace=lambda: tuple(Step(step.conclusion, step.reason) for step in steps()),
            choices=self._choices,
            explored=asked.shapes is None,
        )

    def _choices(self, limit: int) -> Choices | None:
        return None if self.free else Choices([{}])

    def _star_rank(self, annotation: Annotation, shapes: Sequence[Shape | None]) -> int | None:
        """How many dimensions ``*`` stands for: as many as have names; None where that is open."""
        names = self.expansions.get("*", ())
        if names:
            return len(names)
        given = zip(annotation.inputs, shapes, strict=True)
        stars = [shape for operand, shape in given if star_position(operand) is not None]
        return 0 if any(shape is not None for shape in stars) else None


class StepModel(Model):
    """One step of a solution: what was concluded, and from what."""

    conclusion: str
    reason: str


class SolutionModel(LengthsModel):
    """Inferred shapes and why. ``solutions``: the choices of the free identifiers, null where they
    are not finitely many; of many, the first.
    """

    solutions: tuple[dict[str, int], ...] | None
    solutions_complete: bool = Field(
        description="whether `solutions` are all; else, where they are not null, they are finitely "
        "many and these are the first"
    )
    steps: tuple[StepModel, ...]
    explanation: Texts = Field(description="the annotation, a line per step, the shapes")

    @classmethod
    def of(cls, solution: Solution) -> Self:
        choices = solution.solutions()
        steps = solution.trace()  # solved once for the steps and their text
        return cls(
            **_lengths(solution),
            solutions=choices,
            solutions_complete=choices is not None and choices.complete,
            steps=tuple(map(StepModel.of, steps)),
            explanation=tuple(replace(solution, trace=lambda: steps).explain().splitlines()),
        )

    def _choices(self, limit: int) -> Choices | None:
        found = self.solutions
        if found is None:
            return None
        return Choices(found[:limit], complete=self.solutions_complete and len(found) <= limit)


def _lengths(solution: Solution) -> dict[str, Any]:
    return {
        "outputs": _shapes(solution.output_dims),
        "bindings": {name: _text(length) for name, length in solution.values.items()},
        "conditions": solution.conditions,
        "free": solution.free,
        "expansions": solution.expansions,
    }


def _shapes(rows: Iterable[Sequence[object] | None]) -> tuple[ShapeText | None, ...]:
    return tuple([None if row is None else tuple(map(_text, row)) for row in rows])


_OF_UNEQUAL = ("part", "waste")


class LegalityModel(Model):
    """Whether a split is legal, and what every rank holds. A placement is text: ``S(0)``, ``R``."""

    verdict: Literal["legal", "conditional", "illegal", "unknown"]
    reason: str
    split: str | None
    parts: Expression
    conditions: Texts
    counterexample: dict[str, int] | None
    inputs: Texts
    outputs: Texts
    local_inputs: tuple[ShapeText | None, ...]
    local_outputs: tuple[ShapeText | None, ...]
    arguments: dict[str, Expression]
    part: Expression | None = Field(
        default=None, description="the length of a rank's part, where the parts are unequal"
    )
    waste: str | None = Field(
        default=None, description="how many times an equal share the longest of them has"
    )
    solution: LengthsModel = Field(description="the whole shapes, before the split")

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Equal parts have no words for what is unequal."""
        return {k: v for k, v in write(self).items() if v is not None or k not in _OF_UNEQUAL}

    @classmethod
    def of(cls, legality: Legality) -> Self:
        lengths = legality.local_values
        return cls(
            verdict=legality.verdict,
            reason=legality.reason,
            split=legality.split,
            parts=str(legality.parts),
            conditions=legality.conditions,
            counterexample=None
            if legality.counterexample is None
            else dict(legality.counterexample),
            inputs=tuple(map(str, legality.inputs)),
            outputs=tuple(map(str, legality.outputs)),
            local_inputs=_shapes(legality.local_input_dims),
            local_outputs=_shapes(legality.local_output_dims),
            part=str(lengths[legality.split]) if legality.uneven and legality.split else None,
            waste=str(legality.waste) if legality.uneven else None,
            arguments={n: str(lengths.get(n, given)) for n, given in legality.given_arguments},
            solution=LengthsModel.of(legality.solution),
        )

    def result(self, solution: Solution, arguments: Mapping[str, Any]) -> Legality:
        """Returns the legality of a split of this solution; arguments as they were given."""
        split = self.split
        has_rule = split is not None and self.verdict != "illegal"
        inputs, outputs = (tuple(map(read_placement, side)) for side in (self.inputs, self.outputs))
        legality = Legality(
            solution=solution,
            split=split,
            parts=dim_of_text(self.parts),
            verdict=self.verdict,
            reason=self.reason,
            conditions=self.conditions,
            counterexample=self.counterexample,
            rule=Rule(split or "", inputs, outputs) if has_rule else None,
            # An answer without a rule speaks of no arguments.
            given_arguments=tuple((n, v) for n, v in arguments.items() if n in self.arguments),
        )
        # Cached properties that would be worked out: they are known already.
        known = vars(legality)
        known["local_input_dims"] = _dims(self.local_inputs)
        known["local_output_dims"] = _dims(self.local_outputs)
        if split is not None and split in arguments and has_rule:
            part = dim_of_text(self.arguments[split])
            known["local_values"] = {**solution.values, split: part}
        return legality


class MeshLegalityModel(Model):
    """Whether several splits of one operator are legal at once; each by itself in ``axes``."""

    axes: tuple[LegalityModel, ...]
    verdict: Literal["legal", "conditional", "illegal", "unknown"]
    reason: str
    conditions: Texts

    @classmethod
    def of(cls, found: MeshLegality) -> Self:
        return cls(
            axes=tuple(map(LegalityModel.of, found.axes)),
            verdict=found.verdict,
            reason=found.reason,
            conditions=found.conditions,
        )


def _dims(rows: Iterable[ShapeText | None]) -> tuple[tuple[Length, ...] | None, ...]:
    return tuple(None if row is None else tuple(map(dim_of_text, row)) for row in rows)


class LegalPartsModel(Model):
    """The counts of a split: legal for all values, under a condition, never, or not decided."""

    split: str | None
    fixed_divisor: int = Field(description="every count in `always` divides it")
    always: tuple[int, ...]
    conditional: dict[int, str]
    forbidden: dict[int, str]
    unknown: dict[int, str]
    up_to: int
    uneven: dict[int, str] = Field(
        default={}, description="counts that cut unequal parts, with what that wastes"
    )

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Where unequal parts were not asked for there is no word of them."""
        return {k: v for k, v in write(self).items() if v or k != "uneven"}

    def result(self) -> LegalParts:
        return LegalParts(**dict(self))


class ProofModel(Model):
    """Whether a claim holds for all positive integers that satisfy the facts."""

    verdict: Literal["proved", "refuted", "conditional", "unknown"]
    reason: str
    conditions: Texts
    counterexample: dict[str, int] | None

    def result(self) -> Proof:
        return Proof(self.verdict, self.conditions, self.counterexample, self.reason)


class Problem(Model):
    """Why a question has no answer (RFC 9457). ``spans`` are in ``text``, the main one first."""

    type: str = "about:blank"
    title: str
    status: int = 422
    detail: str
    error: str = Field(description="AnnotationError or ShapeError")
    code: str
    text: str
    spans: tuple[Place, ...]
    hint: str

    @classmethod
    def of(cls, error: DimsolveError) -> Self:
        found = error.diagnostic
        return cls(
            title=found.title,
            detail=found.reason,
            error=type(error).__name__,
            code=found.code,
            text=found.text,
            spans=tuple(map(_place, found.spans)),
            hint=found.hint,
        )

    def result(self) -> Diagnostic:
        """Returns what the error says; its class is the one named ``error``."""
        spans = tuple(Span(*place) for place in self.spans)
        return Diagnostic(self.code, self.title, self.text, spans, self.detail, self.hint)


class OperatorModel(Model):
    """One callable. ``note``: why nothing of it can be split, or what to know."""

    path: str
    annotations: Texts
    note: str


class OperatorsModel(Model):
    """The operators that are known, sorted by path: the library's and the registered ones."""

    operators: tuple[OperatorModel, ...]


def operators(part: str = "") -> OperatorsModel:
    """Returns the operators whose path contains ``part``.

    >>> [row.path for row in operators("torch.hypot").operators]
    ['torch.hypot']
    """
    found = [OperatorModel.of(each) for path in names() if part in path and (each := summary(path))]
    found += [
        OperatorModel(path=own.path, annotations=(), note="registered")
        for own in registered()
        if part in own.path
    ]
    return OperatorsModel(operators=tuple(sorted(found, key=lambda row: row.path)))


class VerificationModel(Model):
    """Whether an operator's annotation holds. ``culprits`` are texts that name who lies."""

    target: str
    ok: bool
    differences: dict[str, float]
    culprits: tuple[Annotated[str, BeforeValidator(str)], ...]
    splits: dict[str, tuple[int, ...]]
    frozen: dict[str, str]
    notes: Texts


class FindingModel(Model):
    """What is wrong with a plan, or not proved. ``change``: rules that would correct it."""

    verdict: Literal["legal", "illegal", "unknown"]
    about: Literal["forward", "gradients", "style"]
    module: str
    line: str
    reason: str
    hint: str
    change: dict[str, str]


class CountModel(Model):
    """Whether a plan is right for one count of ranks. ``collectives``: of a training step."""

    count: int
    verdict: Literal["legal", "illegal", "unknown"]
    forward: Literal["legal", "illegal", "unknown"]
    gradients: Literal["legal", "illegal", "unknown"]
    findings: tuple[FindingModel, ...]
    bytes_per_rank: int
    calls: int
    proved: int
    collectives: int
    saved: int
    corrected: dict[str, str] | None


class EveryCountModel(Model):
    """What is proved of all counts. ``legal``: all of them, or those that were examined."""

    kind: Literal["always", "condition", "never", "examined"]
    legal: tuple[int, ...]
    condition: str
    because: str
    examined: tuple[int, ...]


class AuditModel(Model):
    """For which counts another engine's plan is right for a model."""

    model: str
    ok: bool
    plan: dict[str, str]
    sizes: dict[str, tuple[int, ...]]
    counts: tuple[CountModel, ...]
    unused: Texts
    whole: dict[str, int]
    bytes_whole: int
    every: EveryCountModel | None


_MODELS: dict[str, type[Model]] = {
    "Audit": AuditModel,
    "Annotation": AnnotationModel,
    "Solution": SolutionModel,
    "Legality": LegalityModel,
    "MeshLegality": MeshLegalityModel,
    "LegalParts": LegalPartsModel,
    "Proof": ProofModel,
    "Verification": VerificationModel,
    "DimsolveError": Problem,
}
"""By the name of the result's class, or of its base."""


def model_of(result: Any) -> BaseModel:
    """Returns the model of what a public function returned or raised; a Plan is one itself.

    >>> from dimsolve import prove
    >>> model_of(prove("n*(n + 1) % 2 == 0")).verdict
    'proved'
    """
    if isinstance(result, BaseModel):
        return result
    model = next(
        _MODELS[base.__name__] for base in type(result).__mro__ if base.__name__ in _MODELS
    )
    return model.of(result)


class AnnotatedModel(Model):
    """The annotation that holds for one call, and what the other routes take with it."""

    operator: str
    tensors: Texts = Field(description="the call's tensors by the names of the parameters")
    annotation: str
    inputs: tuple[ShapeText | None, ...] | None
    arguments: dict[str, Expression] = Field(description="lengths that the inputs do not give")
    value_split: tuple[int, ...]
    partial: str
    conditions: Texts = Field(description="what the call needs beyond its annotation")
    note: str = Field(description="why nothing can be split, where nothing can")


class CountsModel(Model):
    """Which counts an axis may have. Counts are texts such as ``3, 5-7``."""

    always: str
    uneven: dict[str, str] = Field(
        description="counts that cut unequal parts, with what the fullest rank has"
    )
    conditional: dict[str, str] = Field(description="counts to the condition")
    never: dict[str, str] = Field(description="counts to who forbids them: operator, file and line")
    unknown: dict[str, str]


class MemoryModel(Model):
    """Bytes of one rank in a training step with Adam."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    gathered: int
    total: int


class TrafficModel(Model):
    """The collectives of one sort in a training step; bytes sent by one rank in all of them."""

    collective: str
    axis: str
    direction: str
    count: int
    bytes: int


class ModelAnswer(Model):
    """How a model may be cut. ``problem``: why this mesh or these sizes have no plan; then there
    are no bytes.
    """

    model: str = Field(description="the class of transformers")
    dtype: str
    parameters: int = Field(description="how many numbers the whole model's parameters are")
    traced: str = Field(description="how many layers were traced, and why that is enough")
    inputs: dict[str, str]
    axes: dict[str, CountsModel]
    conditions: Texts
    problem: Problem | None
    sizes: dict[str, int]
    memory: MemoryModel | None
    whole: MemoryModel | None = Field(description="the same on one device")
    communication: tuple[TrafficModel, ...]
    notes: Texts
