"""From a question to the reply, with nothing of the web: the same in the server and in a worker.

answer("prove", b'{"claim": "n > 0"}')    Reply(200, b'{"verdict":"proved",...}')
answer("prove", b'{"claim": "n > "}')     Reply(422, b'{"title":...}'), a problem
"""

from __future__ import annotations

from typing import Any, assert_never

from pydantic import BaseModel

from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.partition.check import check
from dimsolve.partition.legal_parts import legal_parts
from dimsolve.schema import model_of
from dimsolve.solver.infer import infer
from dimsolve.solver.proof.prove import prove

from .planning import PlanQuestion, plan_of
from .questions import (
    CheckQuestion,
    InferQuestion,
    LegalPartsQuestion,
    ParseQuestion,
    ProveQuestion,
    read_question,
)
from .replies import Refusal, Reply, reply_of, reply_of_error
from .verbs import VERBS, AnyQuestion, Verb


def answer(verb: Verb, body: bytes) -> Reply:
    """Returns the reply to a request's body: an answer, or the problem why there is none."""
    try:
        return reply_of(ask(read_question(VERBS[verb].question, body)))
    except (DimsolveError, Refusal) as error:
        return reply_of_error(error)


def answer_question(question: AnyQuestion) -> Reply:
    """Returns the reply to a question that is read already."""
    try:
        return reply_of(ask(question))
    except DimsolveError as error:
        return reply_of_error(error)


def ask(question: AnyQuestion) -> BaseModel:
    """Returns the model of what the Python function of the same name answers, or raises its error.

    >>> ask(ProveQuestion(claim="n*(n + 1) % 2 == 0")).verdict
    'proved'
    """
    match question:
        case ParseQuestion():
            return model_of(read_annotation(question.annotation))
        case InferQuestion():
            return model_of(infer(question.annotation, question.inputs, **_known(question)))
        case CheckQuestion():
            split = _split(question)
            return model_of(
                check(question.annotation, question.inputs, split, question.parts, **_cut(question))
            )
        case LegalPartsQuestion():
            split = _split(question)
            return model_of(
                legal_parts(
                    question.annotation,
                    question.inputs,
                    split,
                    up_to=question.up_to,
                    **_cut(question),
                )
            )
        case ProveQuestion():
            return model_of(prove(question.claim, facts=question.facts))
        case PlanQuestion():
            return plan_of(question)
        case _:
            assert_never(question)


def _known(question: InferQuestion | CheckQuestion | LegalPartsQuestion) -> dict[str, Any]:
    return {"arguments": question.arguments, "facts": question.facts}


def _cut(question: CheckQuestion | LegalPartsQuestion) -> dict[str, Any]:
    return {
        **_known(question),
        "contiguous": question.contiguous,
        "value_split": question.value_split,
        "partial": question.partial,
    }


def _split(question: CheckQuestion | LegalPartsQuestion) -> str | tuple[int, int]:
    split = question.split
    return split if isinstance(split, str) else (split[0], split[1])
