"""What may be asked, as data: one model per route, with the names of the Python arguments.

    POST /v1/check
    {"annotation": "m k+, k+ n -> m n", "inputs": ["m, k", ["k", 1024]], "split": "k", "parts": 8}

Types are strict: ``"8*s"`` is an expression and ``8`` a number; ``8.5`` and ``true`` are neither.
Texts are read by the solver's own readers, so an unreadable one has the same error as in Python.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat, ValidationError

from dimsolve.ir.characters import shown
from dimsolve.ir.strict_json import UnreadableJson, read_json

from .replies import Refusal

MAX_COUNT = 1_000
MAX_BATCH = 256
_EXACT = 1 << 53
"""Up to here every whole number has a float of its own."""
_SHOWN_ERRORS = 3
_SHOWN_CHARACTERS = 200


def whole(value: Any) -> Any:
    """JSON has one kind of number: ``8.0`` is the integer 8, as in JSON Schema."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < _EXACT
    return int(value) if whole else value


Int: TypeAlias = Annotated[int, BeforeValidator(whole)]
Length: TypeAlias = Annotated[
    Int | str, Field(description="a number, or text in the dimension language", examples=["8*s"])
]
Shape: TypeAlias = Annotated[
    str | list[Length | None] | None,
    Field(
        description="text for all dimensions, or one entry each, null where it is not known; "
        "null for no tensor or a shape that is not known",
        examples=["8*s, k", ["k", 1024]],
    ),
]
Argument: TypeAlias = int | FiniteFloat | bool | str | None


class Question(BaseModel):
    """The base of all: strict, immutable, and no unknown fields."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class ParseQuestion(Question):
    """What does an annotation say?"""

    annotation: str = Field(examples=["(h t) k+, k+ n -> h t n"])


class _Operator(Question):
    annotation: str = Field(examples=["m k+, k+ n -> m n"])
    inputs: list[Shape] | None = Field(
        default=None,
        description="one shape per annotated input; null: the identifiers are the symbols",
        examples=[["m, k", ["k", 1024]]],
    )
    arguments: dict[str, Argument] = Field(
        default={}, description="the operator's same-named arguments", examples=[{"m": 64}]
    )
    facts: list[str] = Field(
        default=[], description="what is known about the symbols", examples=[["k % 64 == 0"]]
    )


class _Split(_Operator):
    split: str | Annotated[list[Int], Field(min_length=2, max_length=2)] = Field(
        description="an identifier, or [index, dim]", examples=["k", [0, 1]]
    )
    contiguous: bool = Field(default=False, description="only layouts of one block per rank")
    value_split: list[Int] = Field(
        default=[], description="the inputs, by number, that are summands"
    )
    partial: Literal["sum", "max", "min", "prod", "avg"] = Field(
        default="sum", description="what joins the parts of a '+' split"
    )
    uneven: bool = Field(
        default=False, description="where equal parts are not right, parts as torch's chunk makes"
    )


class InferQuestion(_Operator):
    """Which shapes come out, and what are the lengths of the identifiers?"""


class CheckQuestion(_Split):
    """May this identifier be split into so many parts, and what does every rank hold?"""

    parts: Length = Field(description="into how many: a number, or a symbol", examples=[8, "n"])


class LegalPartsQuestion(_Split):
    """Which counts are legal: always, under a condition, never?"""

    up_to: Annotated[int, Field(ge=1, le=MAX_COUNT), BeforeValidator(whole)] | None = Field(
        default=None, description="the largest count asked about; null: 64", examples=[16]
    )


class ProveQuestion(Question):
    """Does a claim hold for all positive integers that satisfy the facts?"""

    claim: str = Field(examples=["n*(n + 1) % 2 == 0"])
    facts: list[str] = Field(
        default=[], description="what is known about the symbols", examples=[["n >= 2"]]
    )


class AnnotateQuestion(Question):
    """What does one of torch's functions promise for a call with these arguments?"""

    operator: str = Field(examples=["torch.nn.functional.conv2d"])
    inputs: list[Shape] | None = Field(
        default=None,
        description="the shapes of the call's tensors, in order; null for one that is left out; "
        "null for all: an example call",
        examples=[["n, 64, 56, 56", "128, 64, 3, 3"]],
    )
    arguments: dict[str, Argument | list[Argument]] = Field(
        default={}, description="all that is no tensor, by name", examples=[{"stride": 2}]
    )


class ParseItem(ParseQuestion):
    """A question of a batch."""

    verb: Literal["parse"]


class InferItem(InferQuestion):
    """A question of a batch."""

    verb: Literal["infer"]


class CheckItem(CheckQuestion):
    """A question of a batch."""

    verb: Literal["check"]


class LegalPartsItem(LegalPartsQuestion):
    """A question of a batch."""

    verb: Literal["legal-parts"]


class ProveItem(ProveQuestion):
    """A question of a batch."""

    verb: Literal["prove"]


class AnnotateItem(AnnotateQuestion):
    """A question of a batch."""

    verb: Literal["annotate"]


BatchItem: TypeAlias = Annotated[
    ParseItem | InferItem | CheckItem | LegalPartsItem | ProveItem | AnnotateItem,
    Field(discriminator="verb"),
]


class BatchQuestion(Question):
    """Many questions at once, each answered for itself, in the same order."""

    questions: list[BatchItem] = Field(
        max_length=MAX_BATCH, examples=[[{"verb": "prove", "claim": "n*(n + 1) % 2 == 0"}]]
    )


AQuestion = TypeVar("AQuestion", bound=BaseModel)


def read_question(model: type[AQuestion], body: bytes) -> AQuestion:
    """Returns the question that a request's body is.

    Raises Refusal: 400 for what is no JSON, 422 for JSON of another form.

    >>> read_question(ProveQuestion, b'{"claim": "n > 0"}')
    ProveQuestion(claim='n > 0', facts=[])
    """
    try:
        data = read_json(body)
        return model.model_validate(data)
    except UnreadableJson as error:
        raise Refusal("unreadable", code=error.code, reason=error.reason) from None
    except ValidationError as error:
        reason = said(error, data)
        raise Refusal("wrong-form", reason=reason, model=model.__name__) from None


def said(error: ValidationError, data: Any) -> str:
    """Returns what is wrong, a place at a time: ``parts: should be a valid integer``.

    The values are left out: anybody may have sent them.
    """
    rows: list[Any] = error.errors(include_url=False, include_input=False, include_context=False)
    places: dict[str, list[str]] = {}
    for row in rows:
        place = _place(row["loc"], data, row["type"] == "missing") or "body"
        places.setdefault(place, []).append(row["msg"])
    lines = [f"{place}: {_joined(messages)}" for place, messages in places.items()]
    more = len(lines) - _SHOWN_ERRORS
    shorter = [shown(line, _SHOWN_CHARACTERS) for line in lines[:_SHOWN_ERRORS]]
    return "; ".join([*shorter, *([f"and {more} more"] if more > 0 else [])])


def _joined(messages: list[str]) -> str:
    """What a place should be: the alternatives in one sentence."""
    first, *others = dict.fromkeys(messages)
    shorter = [message.removeprefix("Input should be ") for message in others]
    return " or ".join([first.removeprefix("Input "), *shorter])


def _place(location: tuple[str | int, ...], data: Any, is_missing: bool) -> str:
    """The keys and indices on the way to an error; pydantic names the alternatives it tried too."""
    keys: list[str] = []
    for part in location:
        inside = range(len(data)) if isinstance(data, list) else data
        if isinstance(inside, dict | range) and part in inside:
            data = data[part]
            keys.append(str(part))
    if is_missing:
        keys.append(str(location[-1]))
    return ".".join(keys)
