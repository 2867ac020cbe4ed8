"""The answers of a batch: each has the status that it would have alone."""

from __future__ import annotations

from typing import Literal

from dimsolve.schema import (
    AnnotationModel,
    LegalityModel,
    LegalPartsModel,
    Model,
    Problem,
    ProofModel,
    SolutionModel,
)


class ItemAnswer(Model):
    """A question that was answered."""

    status: Literal[200]
    answer: LegalityModel | SolutionModel | LegalPartsModel | ProofModel | AnnotationModel


class ItemProblem(Model):
    """A question that has no answer, and why."""

    status: int
    problem: Problem


class BatchAnswer(Model):
    """One entry per question, in the same order."""

    answers: list[ItemAnswer | ItemProblem]
