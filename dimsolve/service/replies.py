"""What leaves the service: a status and JSON bytes, and the refusals that are no solver's answer.

    Reply(200, b'{"verdict": "proved", ...}')                    application/json
    Reply(422, b'{"title": "one identifier, two marks", ...}')   application/problem+json (RFC 9457)

A refusal is the same record as the solver's own errors, so a client reads one schema. It repeats
nothing of what was sent.
"""

from __future__ import annotations

from typing import NamedTuple

from pydantic import BaseModel

from dimsolve.ir.errors import DimsolveError
from dimsolve.schema import Problem

JSON = "application/json"
PROBLEM = "application/problem+json"


class Reply(NamedTuple):
    """A status code, a JSON document, and after how many seconds to ask again (0: no such time)."""

    status: int
    body: bytes
    retry_after: int = 0

    @property
    def media_type(self) -> str:
        """Problems have a type of their own."""
        return PROBLEM if self.status >= 400 else JSON


class Refusal(Exception):
    """A request that is refused before it is a question, or because of limits.

    ``status`` is the HTTP status; ``code`` is kebab-case and stable, as in `Diagnostic`.
    """

    def __init__(
        self, status: int, code: str, title: str, reason: str, hint: str = "", retry_after: int = 0
    ) -> None:
        super().__init__(title)
        self.problem = Problem(
            title=title,
            status=status,
            detail=reason,
            error="ServiceError",
            code=code,
            text="",
            spans=[],
            hint=hint,
        )
        self.retry_after = retry_after


def json_of(model: BaseModel) -> bytes:
    """Returns the JSON document of a model."""
    document: bytes = model.__pydantic_serializer__.to_json(model)
    return document


def reply_of(model: BaseModel) -> Reply:
    """Returns the reply that is an answer."""
    return Reply(200, json_of(model))


def reply_of_error(error: DimsolveError | Refusal) -> Reply:
    """Returns the reply that says why there is no answer.

    >>> reply_of_error(Refusal(404, "no-such-path", "there is no such path", "")).status
    404
    """
    match error:
        case Refusal():
            return Reply(error.problem.status, json_of(error.problem), error.retry_after)
        case DimsolveError():
            problem = Problem.of(error)
            return Reply(problem.status, json_of(problem))
