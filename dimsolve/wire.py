"""One HTTP connection to a service, kept open: a question out, JSON or a DimsolveError back.

Python's own http.client is enough: one host, JSON both ways, no redirects, no cookies. It adds no
dependency, and takes a third of the time of a general client.

    wire = Wire("http://localhost:8000", timeout=30)
    wire.ask("POST", "/v1/prove", {"claim": "n > 0"})      {"verdict": "proved", ...}
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import local
from time import monotonic, sleep
from typing import Any
from urllib.parse import SplitResult, urlsplit

from dimsolve.ir.errors import AnnotationError, Diagnostic, DimsolveError, OperatorError, ShapeError
from dimsolve.ir.graph import GraphError
from dimsolve.ir.span import Span
from dimsolve.partition.mesh import MeshError
from dimsolve.partition.plan_errors import PlanError


class ServiceError(DimsolveError):
    """The service cannot be reached, refused the request, or gave the question up.

    ``status`` is the HTTP status, None where there was no answer at all.
    """

    __module__ = "dimsolve"

    def __init__(self, diagnostic: Diagnostic, status: int | None = None) -> None:
        super().__init__(diagnostic)
        self.status = status


_ERRORS: dict[str, type[DimsolveError]] = {
    kind.__name__: kind
    for kind in (AnnotationError, ShapeError, OperatorError, GraphError, MeshError, PlanError)
}


class Wire:
    """Connections to one service, one per thread, opened when they are first needed."""

    def __init__(self, url: str, timeout: float) -> None:
        parts = _parts(url)
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
            raise ValueError(f"timeout is {timeout!r}; it has to be a positive number of seconds")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port
        self._base = parts.path.rstrip("/")
        self._timeout = timeout
        self._open = local()

    def ask(self, method: str, path: str, question: Any = None) -> Any:
        """Returns the answer's JSON data; raises the error that the problem tells.

        A busy service is asked again when it says, until the timeout is over.
        """
        body = None if question is None else json.dumps(question, allow_nan=False).encode()
        end = monotonic() + self._timeout
        while True:
            response, data = self._exchange(method, self._base + path, body)
            wait = _seconds(response.getheader("Retry-After"))
            if response.status == 503 and wait and monotonic() + wait < end:
                sleep(wait)
                continue
            answer = _json_of(response.status, data)
            if response.status == 200:
                return answer
            raise error_of(response.status, answer)

    def close(self) -> None:
        """Closes this thread's connection; another question opens it again."""
        connection: HTTPConnection | None = getattr(self._open, "connection", None)
        if connection is not None:
            self._open.connection = None
            connection.close()

    def _exchange(self, method: str, path: str, body: bytes | None) -> tuple[HTTPResponse, bytes]:
        headers = {"Accept": "application/json, application/problem+json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        for fresh in (False, True):
            connection, kept = self._connection(fresh)
            try:
                connection.request(method, path, body, headers)
                response = connection.getresponse()
                return response, response.read()
            except (ConnectionError, HTTPException) as error:
                self.close()
                if not kept:  # one that was kept may have been closed meanwhile: ask anew
                    raise _unreachable(self._name, error) from None
            except TimeoutError:
                self.close()
                raise _too_slow(self._name, self._timeout) from None
            except OSError as error:
                self.close()
                raise _unreachable(self._name, error) from None
        raise AssertionError("the second connection is not a kept one")

    @property
    def _name(self) -> str:
        return self._host if self._port is None else f"{self._host}:{self._port}"

    def _connection(self, fresh: bool) -> tuple[HTTPConnection, bool]:
        """The thread's connection, and whether it was open before."""
        kept: HTTPConnection | None = getattr(self._open, "connection", None)
        if kept is not None and not fresh:
            return kept, True
        kind = HTTPSConnection if self._secure else HTTPConnection
        self._open.connection = made = kind(self._host, self._port, timeout=self._timeout)
        return made, False


def _parts(url: Any) -> SplitResult:
    """The parts of an address. Raises ValueError for what is none."""
    if isinstance(url, str):
        with suppress(ValueError):
            parts = urlsplit(url if "://" in url else f"http://{url}")
            if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
                return parts
    raise ValueError(f"{url!r} is no address such as http://localhost:8000")


def _seconds(text: str | None) -> float:
    """After how many seconds to ask again: a number, or a date (RFC 9110); 0 for neither."""
    if text is None:
        return 0.0
    if text.strip().isdecimal():
        return float(text)
    with suppress(ValueError, TypeError):
        return max((parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds(), 0.0)
    return 0.0


def wrong_answer() -> ServiceError:
    """Returns the error for an answer of another form than this version's service gives."""
    return ServiceError(
        Diagnostic(
            "wrong-answer",
            "the answer has another form",
            reason="this is no dimsolve service of this version",
            hint="compare the versions here and there: pip show dimsolve",
        ),
        200,
    )


def _too_slow(name: str, timeout: float) -> ServiceError:
    return ServiceError(
        Diagnostic(
            "no-answer",
            "the service does not answer in time",
            reason=f"{name} is slower than timeout={timeout:g} s",
            hint="give Client a longer timeout, or ask about a smaller part of it",
        )
    )


def error_of(status: int, problem: Any) -> DimsolveError:
    """Returns the error that a problem tells: of the class, and with the words, that it had there.

    >>> error_of(422, {"error": "ShapeError", "code": "c", "title": "t", "detail": "r"})
    ShapeError(Diagnostic(code='c', title='t', text='', spans=(), reason='r', hint=''))
    """
    if not isinstance(problem, dict):
        problem = {}
    diagnostic = Diagnostic(
        code=str(problem.get("code", "no-problem")),
        title=str(problem.get("title", f"the service answered {status}")),
        text=str(problem.get("text", "")),
        spans=_spans(problem.get("spans", ())),
        reason=str(problem.get("detail", "")),
        hint=str(problem.get("hint", "")),
    )
    kind = _ERRORS.get(str(problem.get("error")))
    return ServiceError(diagnostic, status) if kind is None else kind(diagnostic)


def _spans(data: Any) -> tuple[Span, ...]:
    try:
        return tuple(Span(int(start), int(stop)) for start, stop in data)
    except (TypeError, ValueError):
        return ()


def _json_of(status: int, data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        reason = "its answer is no JSON; is it dimsolve that serves there?"
        diagnostic = Diagnostic("no-json", f"the service answered {status}", reason=reason)
        raise ServiceError(diagnostic, status) from None


def _unreachable(name: str, error: Exception) -> ServiceError:
    return ServiceError(
        Diagnostic(
            code="no-answer",
            title="the service does not answer",
            reason=f"{name}: {getattr(error, 'strerror', None) or error or type(error).__name__}",
            hint="dimsolve serve --port 8000 starts one",
        )
    )
