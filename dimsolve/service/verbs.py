"""The verbs: what each reads and what it answers.

Routes, workers and /openapi.json go by this table.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from pydantic import BaseModel

from dimsolve.partition.plan import Plan
from dimsolve.schema import (
    AnnotationModel,
    LegalityModel,
    LegalPartsModel,
    ProofModel,
    SolutionModel,
)

from .planning import PlanQuestion
from .questions import (
    CheckQuestion,
    InferQuestion,
    LegalPartsQuestion,
    ParseQuestion,
    ProveQuestion,
)

Verb: TypeAlias = Literal["parse", "infer", "check", "legal-parts", "prove", "plan"]
AnyQuestion: TypeAlias = (
    ParseQuestion
    | InferQuestion
    | CheckQuestion
    | LegalPartsQuestion
    | ProveQuestion
    | PlanQuestion
)


class Route(NamedTuple):
    """The models of a verb's question and answer."""

    question: type[AnyQuestion]
    answer: type[BaseModel]


VERBS: dict[Verb, Route] = {
    "parse": Route(ParseQuestion, AnnotationModel),
    "infer": Route(InferQuestion, SolutionModel),
    "check": Route(CheckQuestion, LegalityModel),
    "legal-parts": Route(LegalPartsQuestion, LegalPartsModel),
    "prove": Route(ProveQuestion, ProofModel),
    "plan": Route(PlanQuestion, Plan),
}
