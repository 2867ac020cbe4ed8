"""What leaves the service: a status and JSON bytes, and the refusals that are no solver's answer.

    Reply(200, b'{"verdict": "proved", ...}')                    application/json
    Reply(422, b'{"title": "one identifier, two marks", ...}')   application/problem+json (RFC 9457)

A refusal is the same record as the solver's own errors, so a client reads one schema. It repeats
nothing of what was sent. `Limits` says how much one client may ask for, `REFUSALS` what it is told
beyond that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from os import cpu_count
from typing import NamedTuple

from pydantic import BaseModel

from dimsolve.api.results import Problem
from dimsolve.ir.errors import DimsolveError

OF_MODELS = ("plan", "model")
"""The verbs that take long: they have their own deadline and places."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on size, time and number. Past each there is one status: 413, 408, 503, 504.

    Times are in seconds, sizes in bytes. ``deadline_seconds``: how long one question may take with
    its waiting before its worker is killed (504), ``plan_seconds`` a plan. ``waiting``: how many
    questions may wait for a worker, and ``wait_seconds`` how long, half of the deadline at most
    (503). ``workers``: how many slow questions are worked on at a time. ``head_*``: the request
    line and headers, ``read_seconds``: the body, ``write_seconds``: how long a client may leave an
    answer unread. ``worker_bytes``: the memory of one worker; ``worker_questions``: after so many
    it is replaced, so that nothing adds up. ``cache_bytes``: answers kept to be given again.
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
    cache_bytes: int = 16 * 1024 * 1024

    def bytes_of(self, verb: str) -> int:
        """How long the body of a question may be."""
        return {"plan": self.plan_bytes, "model": self.batch_bytes}.get(verb, self.question_bytes)

    def seconds_of(self, verb: str) -> float:
        """How long a question may take with its waiting."""
        return self.plan_seconds if verb in OF_MODELS else self.deadline_seconds

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

    name: a row of `REFUSALS`, filled with ``places``. reason, code, status: instead of the row's.
    """

    def __init__(
        self,
        name: str,
        *,
        reason: str = "",
        code: str = "",
        status: int = 0,
        retry_after: int = 0,
        **places: object,
    ) -> None:
        row = REFUSALS[name]
        super().__init__(row.title)
        self.retry_after = retry_after
        self.problem = Problem(
            title=row.title,
            status=status or row.status,
            detail=reason or row.reason.format(**places),
            error="ServiceError",
            code=code or row.code or name,
            text="",
            spans=(),
            hint=row.hint.format(**places),
        )


class Row(NamedTuple):
    """A refusal: its HTTP status, and what it says. ``code`` is stable and kebab-case, as in
    `Diagnostic`; "" is the row's name.
    """

    status: int
    title: str
    reason: str = ""
    hint: str = ""
    code: str = ""


_BUSY = "the service is busy"
_SLOW = "the request is too slow"
_NO_JSON = "the body is no JSON in UTF-8"
_GIVEN_UP = "the question was given up"
_SMALLER = "ask about a smaller part of it"
_DEFECT = "dimsolve has a defect"

REFUSALS: dict[str, Row] = {
    "not-http": Row(400, "this is not HTTP", "it cannot be read"),
    "unreadable": Row(400, "the body cannot be read as JSON"),  # the code is the JSON reader's
    "refused": Row(400, "the request is refused"),
    "no-such-path": Row(404, "there is no such path", "see /docs for those that are"),
    "no-such-verb": Row(404, "there is no such verb", "there are {verbs}"),
    "no-such-method": Row(405, "this path has another method", "see the header Allow"),
    "late-head": Row(408, _SLOW, "no request came within {seconds:g} s", code="too-slow"),
    "late-body": Row(408, _SLOW, "its body took more than {seconds:g} s", code="too-slow"),
    "too-large": Row(
        413, "the body is too large", "at most {most} bytes are read", "ask in smaller parts"
    ),
    "not-json-type": Row(
        415,
        _NO_JSON,
        "the media type has to be application/json",
        "send the header Content-Type: application/json",
    ),
    "content-encoding": Row(415, _NO_JSON, "compressed bodies are not read", "send it as it is"),
    "wrong-form": Row(422, "the question has another form", hint="see {model} in /docs"),
    "rules-left-behind": Row(
        422,
        "the service cannot plan this operator",
        "{operator} has transform rules, which are functions of your process: {rules}; of others "
        "the promise is enough",
        "plan it where they are: dimsolve.plan(graph, mesh, policy)",
    ),
    "no-such-graph": Row(
        422,
        "this graph cannot be planned",
        "{error} at {place}",
        "if Graph.to_json wrote it, this is a defect of dimsolve: please report it",
    ),
    "no-such-model-type": Row(
        422,
        "this is no config of transformers",
        "its model_type is '{called}'; transformers has no such one",
        "{hint}",
    ),
    "no-head": Row(
        422,
        "this model is not planned here",
        "'{called}' has no class for language modelling or for the classification of images",
        "trace it yourself: dimsolve.trace(model, kwargs=example)",
    ),
    "no-such-dtype": Row(422, "there is no such dtype", "it is '{called}'", "write {known}"),
    "too-many-layers": Row(
        422, "this config is too large", "{called} has more than {most:,}", "make it smaller"
    ),
    "no-such-model": Row(
        422, "transformers builds no model of this config", "{model}: {error}", "correct the config"
    ),
    "model-fails": Row(
        422, "the model does not run on its example", "{model}: {error}", "correct the config"
    ),
    "not-alike": Row(
        422,
        "the layers of this model are not alike",
        "a part of {model} has other parameters than its whole would have",
        "trace it yourself: dimsolve.trace(model, kwargs=example)",
    ),
    "no-such-axis": Row(
        422, "there is no such axis", "'{called}' is no axis here; there are {known}"
    ),
    "no-such-size": Row(
        422, "there is no such size", "'{called}' is no size of the inputs; they are {known}"
    ),
    "no-such-operator": Row(
        422, "the library does not have this callable", "there is no '{called}'", "{hint}"
    ),
    "no-example-call": Row(
        422, "there is no example call", "the library has none of {path}", "give the shapes"
    ),
    "no-such-example": Row(422, "there is no such example", "there are {examples}"),
    "not-installed": Row(
        422,
        "this example is not installed",
        "it needs another package",
        "pip install 'dimsolve[models]'",
    ),
    "head-too-large": Row(431, "the headers are too large", "at most {most} bytes are read"),
    "defect": Row(500, _DEFECT, "this question found one; please report it"),
    "busy": Row(503, _BUSY, hint="ask again after the seconds in Retry-After"),
    "connected": Row(503, _BUSY, "{count} clients are connected", code="busy"),
    "not-ready": Row(503, "the service is not ready", "its workers are starting"),
    "stopping": Row(
        503,
        "the service stops",
        "it was told to stop at once",
        "ask again when it has started again",
    ),
    "workers-ended": Row(
        503,
        "the question has no answer",
        "the process that worked on it ended, and another one after it",
        "ask again; if it happens again, this question is a defect: please report it",
        code="worker-ended",
    ),
    "worker-ended": Row(
        504,
        _GIVEN_UP,
        "the process that worked on it was ended: it may have needed too much memory",
    ),
    "out-of-time": Row(504, _GIVEN_UP, "it was not answered within {seconds:g} s", _SMALLER),
    "out-of-memory": Row(
        504, _GIVEN_UP, "it needs more memory than one question may have", _SMALLER
    ),
}


def json_of(model: BaseModel) -> bytes:
    """Returns the JSON document of a model."""
    document: bytes = model.__pydantic_serializer__.to_json(model)
    return document


def reply_of(model: BaseModel) -> Reply:
    """Returns the reply that is an answer."""
    return Reply(200, json_of(model))


def reply_of_error(error: DimsolveError | Refusal) -> Reply:
    """Returns the reply that says why there is no answer.

    >>> reply_of_error(Refusal("no-such-path")).status
    404
    """
    if isinstance(error, Refusal):
        return Reply(error.problem.status, json_of(error.problem), error.retry_after)
    problem = Problem.of(error)
    return Reply(problem.status, json_of(problem))
