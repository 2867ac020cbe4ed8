"""From a question to the reply, with nothing of the web: the same in the server and in a worker.

    answer("prove", b'{"claim": "n > 0"}')    Reply(200, b'{"verdict":"proved",...}')
    answer("prove", b'{"claim": "n > "}')     Reply(422, b'{"title":...}'), a problem

A worker process costs about 120 µs a question, several times the answer to a usual one. So the
usual one is answered where it is read, and its form alone says, in microseconds, that it is usual:

    check("m k+, k+ n -> m n", ["m, k", "k, n"], "k", 8)      usual: lengths given, parts a number
    check("(a b) (b c) -> a b c", ["s, t"], ...)              not: the general solver is needed
    legal_parts("a b -> a b", ["8*s, 6"], "a", up_to=16)      usual: so many checks
    legal_parts("a b -> a b", ["8*s, 6"], "a", up_to=1000)    not, but short: a worker answers soon
    prove(...)                                                not: the work depends on the numbers

Usual means: every length follows at once, as a number or a product of a number and symbols, and
what is known are remainders and bounds of different symbols. Both ways end in the same function;
nothing depends on this but time. tests/face/service/test_usual.py looks for slow ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias, assert_never

from pydantic import BaseModel

from dimsolve.api.results import (
    AnnotatedModel,
    AnnotationModel,
    LegalityModel,
    LegalPartsModel,
    Model,
    ModelAnswer,
    Problem,
    ProofModel,
    SolutionModel,
    model_of,
    operators,
)
from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.partition.legality import check, legal_parts
from dimsolve.partition.plan import Plan
from dimsolve.solver.algebra.dims import symbols_of
from dimsolve.solver.algebra.poly import Dim, Poly
from dimsolve.solver.calls import infer, operator_named
from dimsolve.solver.infer import solve_quickly
from dimsolve.solver.proof.prove import prove
from dimsolve.solver.shapes import to_shape

from .configs import ModelQuestion, model_answer
from .library import annotated
from .plans import PlanQuestion, plan_of
from .questions import (
    AnnotateQuestion,
    Argument,
    CheckQuestion,
    InferQuestion,
    LegalPartsQuestion,
    ParseQuestion,
    ProveQuestion,
    Shape,
    read_question,
)
from .replies import Refusal, Reply, reply_of, reply_of_error

Verb: TypeAlias = Literal[
    "parse", "infer", "check", "legal-parts", "prove", "plan", "annotate", "model"
]
AnyQuestion: TypeAlias = (
    ParseQuestion
    | InferQuestion
    | CheckQuestion
    | LegalPartsQuestion
    | ProveQuestion
    | PlanQuestion
    | AnnotateQuestion
    | ModelQuestion
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
    "annotate": Route(AnnotateQuestion, AnnotatedModel),
    "model": Route(ModelQuestion, ModelAnswer),
}


MAX_BYTES = 2_048
"""Longer questions are not even read here."""
MAX_FACTS = 3
MAX_NUMBER = 1 << 63
MAX_COUNTS = 16
"""So many counts are judged in one or two milliseconds."""
_FACT = re.compile(r"\s*([^\W\d]\w{0,63})\s*(?:%\s*\d{1,6}\s*==\s*\d{1,6}|>=?\s*\d{1,6})\s*")
_NUMBER = re.compile(r"\s*\d{1,18}\s*", re.ASCII)
_LENGTHS = re.compile(r"[\w\s,]*(?:\*[\w\s,]+)*")
"""Names and numbers, products of them, and commas: whatever it says, it is read in no time."""


def is_usual(question: AnyQuestion) -> bool:
    """Says whether the question may be answered at once, in at most a few milliseconds.

    >>> is_usual(CheckQuestion(annotation="a b -> b a", inputs=["8*s, 6"], split="a", parts=4))
    True
    >>> is_usual(ProveQuestion(claim="a**5 + b**5 != c**5"))
    False
    """
    match question:
        case CheckQuestion() if question.contiguous or not _is_count(question.parts):
            return False
        case LegalPartsQuestion() if question.contiguous or (question.up_to or 64) > MAX_COUNTS:
            return False
        case _:
            return is_short(question)


def is_short(question: AnyQuestion) -> bool:
    """Says whether a worker certainly answers the question within a second or so, so that it need
    not wait behind slow ones.

    >>> is_short(LegalPartsQuestion(annotation="a -> a", inputs=["8*s"], split="a", up_to=256))
    True
    """
    match question:
        case InferQuestion() | CheckQuestion() | LegalPartsQuestion():
            return _is_at_once(question)
        case ParseQuestion():
            return True
        case ProveQuestion() | PlanQuestion() | AnnotateQuestion() | ModelQuestion():
            return False
        case _:
            assert_never(question)


def _is_count(parts: int | str) -> bool:
    if isinstance(parts, int):
        return abs(parts) < MAX_NUMBER
    return _NUMBER.fullmatch(parts) is not None


def _is_at_once(question: InferQuestion | CheckQuestion | LegalPartsQuestion) -> bool:
    """Whether all lengths follow by exact divisions, and nothing hard is known or left to show."""
    known, inputs = _names_of_facts(question.facts), question.inputs
    if known is None or inputs is None:
        return False
    if not (all(map(_is_plain, inputs)) and all(map(_is_plain_dim, question.arguments.values()))):
        return False
    try:
        if operator_named(question.annotation) is not None:
            return False
        lengths = solve_quickly(question.annotation, inputs, question.arguments)
        if lengths is None or not all(map(_is_product, lengths.values())):
            return False
        doubtful = known & lengths.keys()
        if not doubtful:
            return True
        # A fact about an identifier that is no symbol becomes an equation for the general solver.
        dims = [dim for shape in inputs for dim in to_shape(shape) or () if isinstance(dim, Poly)]
        return doubtful <= set[str]().union(*map(symbols_of, dims))
    except DimsolveError:
        return True  # it cannot be read, or has the wrong rank: the answer is that error


def _names_of_facts(facts: Sequence[str]) -> set[str] | None:
    """The symbols of simple facts; None where one is not simple, or two are about one symbol."""
    if len(facts) > MAX_FACTS:
        return None
    found = [_FACT.fullmatch(fact) for fact in facts]
    names = {match[1] for match in found if match}
    return names if len(names) == len(facts) else None


def _is_plain(shape: Shape) -> bool:
    if isinstance(shape, list):
        return all(map(_is_plain_dim, shape))
    return shape is None or shape.strip() == "()" or _LENGTHS.fullmatch(shape) is not None


def _is_plain_dim(dim: Argument) -> bool:
    if isinstance(dim, str):
        return _LENGTHS.fullmatch(dim) is not None
    return not isinstance(dim, int) or abs(dim) < MAX_NUMBER


def _is_product(length: Dim) -> bool:
    """Whether a length is a number, or a number times symbols."""
    if isinstance(length, int):
        return length < MAX_NUMBER
    if len(length.terms) != 1:
        return False
    ((monomial, coefficient),) = length.terms.items()
    return coefficient < MAX_NUMBER and all(isinstance(atom, str) for atom, _ in monomial)


def answer(verb: Verb, body: bytes) -> Reply:
    """Returns the reply to a request's body: an answer, or the problem why there is none."""
    try:
        return answer_question(read_question(VERBS[verb].question, body))
    except Refusal as refusal:
        return reply_of_error(refusal)


def answer_question(question: AnyQuestion) -> Reply:
    """Returns the reply to a question that is read already."""
    try:
        return reply_of(ask(question))
    except (DimsolveError, Refusal) as error:
        return reply_of_error(error)


def answer_at_once(verb: Verb, body: bytes) -> Reply | None:
    """Returns the reply to a question that is cheap, or cannot be read; None for any other."""
    if len(body) > MAX_BYTES:
        return None
    try:
        question = read_question(VERBS[verb].question, body)
        return answer_question(question) if is_usual(question) else None
    except Refusal as refusal:
        return reply_of_error(refusal)


def ask(question: AnyQuestion) -> BaseModel:
    """Returns the model of what the Python function of the same name answers, or raises its error.

    >>> ask(ProveQuestion(claim="n*(n + 1) % 2 == 0")).verdict
    'proved'
    """
    match question:
        case ParseQuestion():
            return model_of(read_annotation(question.annotation))
        case ProveQuestion():
            return model_of(prove(question.claim, facts=question.facts))
        case PlanQuestion():
            return plan_of(question)
        case AnnotateQuestion():
            return annotated(question)
        case ModelQuestion():
            return model_answer(question)
    asked = question.annotation, question.inputs
    known: dict[str, Any] = {"arguments": question.arguments, "facts": question.facts}
    if isinstance(question, InferQuestion):
        return model_of(infer(*asked, **known))
    split: Any = question.split if isinstance(question.split, str) else tuple(question.split)
    for name in ("contiguous", "value_split", "partial", "uneven"):
        known[name] = getattr(question, name)
    if isinstance(question, CheckQuestion):
        return model_of(check(*asked, split, question.parts, **known))
    return model_of(legal_parts(*asked, split, up_to=question.up_to, **known))


class ItemAnswer(Model):
    """A question that was answered."""

    status: Literal[200]
    answer: (
        LegalityModel
        | SolutionModel
        | LegalPartsModel
        | ProofModel
        | AnnotationModel
        | AnnotatedModel
    )


class ItemProblem(Model):
    """A question that has no answer, and why."""

    status: int
    problem: Problem


class BatchAnswer(Model):
    """One entry per question, in the same order."""

    answers: list[ItemAnswer | ItemProblem]


@lru_cache(maxsize=1)
def operators_reply() -> Reply:
    """Returns the reply that lists them; it takes a quarter of a second, once."""
    return reply_of(operators())
