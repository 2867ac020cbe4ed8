"""What leaves the service: a status and JSON bytes, and the refusals that are no solver's answer.

    Reply(200, b'{"verdict": "proved", ...}')                    application/json
    Reply(422, b'{"title": "one identifier, two marks", ...}')   application/problem+json (RFC 9457)

A refusal is the same record as the solver's own errors, so a client reads one schema. It repeats
nothing of what was sent.

How much one client may ask of the service: every limit in one place.

Limits()                       what `dimsolve serve` uses
Limits(deadline_seconds=0.5)   what a test uses
"""

from __future__ import annotations

from dataclasses import dataclass, field
from os import cpu_count
from typing import NamedTuple

from pydantic import BaseModel

from dimsolve.api.results import Problem
from dimsolve.ir.errors import DimsolveError


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on size, time and number. Past each there is one status: 413, 408, 503, 504.

    Times are in seconds, sizes in bytes. ``deadline_seconds``: how long one question may take with
    its waiting before its worker is killed (504), ``plan_seconds`` a plan. ``waiting``: how many
    questions may wait for a worker, and ``wait_seconds`` how long, half of the deadline at most
    (503). ``workers``: how many slow questions are worked on at a time. ``head_*``: the request
    line and headers, ``read_seconds``: the body, ``write_seconds``: how long a client may leave an
    answer unread. ``worker_bytes``: the memory of one worker; ``worker_questions``: after so many
    it is replaced, so that nothing adds up. ``remembered_bytes``: answers kept to be given again.
    """

    question_bytes: int = 64 * 1024
    batch_bytes: int = 256 * 1024
    plan_bytes: int = 8 * 1024 * 1024
    deadline_seconds: float = 10.0
    plan_seconds: float = 120.0
    waiting: int = 512
    wait_seconds: float = 20.0
    workers: int = field(default_factory=lambda: max(2, cpu_count() or 2))
    worker_bytes: int = 2 * 1024**3
    worker_questions: int = 10_000
    connections: int = 800
    head_bytes: int = 32 * 1024
    head_seconds: float = 10.0
    read_seconds: float = 10.0
    write_seconds: float = 10.0
    remembered_bytes: int = 16 * 1024 * 1024

    def bytes_of(self, verb: str) -> int:
        """How long the body of a question may be."""
        return self.plan_bytes if verb == "plan" else self.question_bytes

    def seconds_of(self, verb: str) -> float:
        """How long a question may take with its waiting."""
        return self.plan_seconds if verb == "plan" else self.deadline_seconds

    def wait_seconds_of(self, verb: str) -> float:
        """How long a question may wait for a worker; the rest of its time is for the work."""
        return min(self.wait_seconds, self.seconds_of(verb) / 2)

    @property
    def stop_seconds(self) -> float:
        """How long a graceful stop may take: the longest that a request may."""
        longest = max(self.deadline_seconds, self.plan_seconds)
        return self.read_seconds + longest + self.write_seconds


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
