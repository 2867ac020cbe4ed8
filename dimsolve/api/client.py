"""`Client`: the public functions, answered by a service, with their own signatures and results.

    client = ds.Client("http://localhost:8000")
    client.check("m k+, k+ n -> m n", ["m, k", "k, n"], "k", 8).conditions      ('k % 8 == 0',)
    client.parse("m k+, k n -> m n")                                            AnnotationError

Results are of the classes that the functions return, errors of those that they raise, with the same
texts and spans. Only a service that is away, busy or has given up raises something of its own:
`ServiceError`. A client may be used by several threads at once.

One HTTP connection to a service, kept open: a question out, JSON or a DimsolveError back.

Python's own http.client is enough: one host, JSON both ways, no redirects, no cookies. It adds no
dependency, and takes a third of the time of a general client.

    wire = Wire("http://localhost:8000", timeout=30)
    wire.ask("POST", "/v1/prove", {"claim": "n > 0"})      {"verdict": "proved", ...}
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from json import dumps
from threading import local
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import SplitResult, urlsplit

from dimsolve.ir.annotation import Annotation
from dimsolve.ir.checks import wrong_type
from dimsolve.ir.errors import (
    AnnotationError,
    Diagnostic,
    DimsolveError,
    GraphError,
    OperatorError,
    ShapeError,
    Span,
)
from dimsolve.ir.expression import Relation
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.partition.mesh import MeshError
from dimsolve.partition.plan_data import PlanError
from dimsolve.solver.algebra.dims import symbols_of
from dimsolve.solver.algebra.poly import Poly
from dimsolve.solver.identifier_facts import IdentifierFacts
from dimsolve.solver.infer import Inputs
from dimsolve.solver.layout import identifiers_of
from dimsolve.solver.proof.facts import read_facts, to_facts
from dimsolve.solver.shapes import to_arguments, to_dim, to_inputs, to_shape

from .results import (
    retold_annotation,
    retold_legal_parts,
    retold_legality,
    retold_proof,
    retold_solution,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

    from dimsolve.exec.graph import Graph
    from dimsolve.partition.legality import Legality, LegalParts
    from dimsolve.partition.mesh import MeshLike
    from dimsolve.partition.plan import Plan
    from dimsolve.solver.proof.verdict import Proof
    from dimsolve.solver.shapes import Shape
    from dimsolve.solver.solution import Solution


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


__all__ = ["Client", "ServiceError"]


class Client:
    """Asks the service at ``url``, such as ``http://localhost:8000``.

    timeout: seconds for one question, with the waiting for a service that is busy.
    """

    def __init__(self, url: str, *, timeout: float = 60.0) -> None:
        self._wire = Wire(url, timeout)

    def parse(self, text: str) -> Annotation:
        """Returns what `dimsolve.parse` returns."""
        with _reading():
            return retold_annotation(self._ask("parse", {"annotation": _text(text)}))

    def infer(
        self,
        annotation: str | Annotation,
        inputs: Inputs = None,
        *,
        arguments: Mapping[str, Any] | None = None,
        facts: Iterable[str | Relation] = (),
    ) -> Solution:
        """Returns what `dimsolve.infer` returns; its ``solutions()`` are at most 1000."""
        question = _Operator(annotation, inputs, arguments, facts)
        data = self._ask("infer", question.json)
        with _reading():
            return retold_solution(data, *question.told, lambda: data["steps"])

    def check(
        self,
        annotation: str | Annotation,
        inputs: Inputs,
        split: str | tuple[int, int],
        parts: Any,
        *,
        arguments: Mapping[str, Any] | None = None,
        facts: Iterable[str | Relation] = (),
        contiguous: bool = False,
        value_split: Collection[int] = (),
        partial: str = "sum",
    ) -> Legality:
        """Returns what `dimsolve.check` returns."""
        question = _Operator(annotation, inputs, arguments, facts)
        cut = _cut(split, contiguous, value_split, partial)
        data = self._ask("check", {**question.json, **cut, "parts": _length(parts)})
        with _reading():
            solution = retold_solution(
                data["solution"],
                *question.told,
                lambda: self._ask("infer", question.json)["steps"],
            )
            return retold_legality(data, solution, arguments or {})

    def legal_parts(
        self,
        annotation: str | Annotation,
        inputs: Inputs,
        split: str | tuple[int, int],
        *,
        arguments: Mapping[str, Any] | None = None,
        facts: Iterable[str | Relation] = (),
        up_to: int | None = None,
        contiguous: bool = False,
        value_split: Collection[int] = (),
        partial: str = "sum",
    ) -> LegalParts:
        """Returns what `dimsolve.legal_parts` returns; ``up_to`` is at most 1000."""
        question = _Operator(annotation, inputs, arguments, facts)
        cut = _cut(split, contiguous, value_split, partial)
        data = self._ask("legal-parts", {**question.json, **cut, "up_to": up_to})
        with _reading():
            return retold_legal_parts(data)

    def prove(self, claim: str | Relation, *, facts: Iterable[str | Relation] = ()) -> Proof:
        """Returns what `dimsolve.prove` returns."""
        data = self._ask("prove", {"claim": _claim(claim), "facts": _texts(facts)})
        with _reading():
            return retold_proof(data)

    def plan(self, graph: Graph | str, mesh: MeshLike, policy: Any = None) -> Plan:
        """Returns what `dimsolve.plan` returns. graph: or the name of an example, ``"llama:tiny"``.

        Raises TypeError for a policy that is a function: it stays in this process.
        """
        from dimsolve.partition.mesh import Mesh
        from dimsolve.partition.plan import Plan

        if callable(policy):
            raise TypeError("a function cannot be sent; give a named policy or a mapping")
        axes = {name: _length(size) for name, size in Mesh.of(mesh).axes}
        asked: dict[str, Any] = {"mesh": axes, "policy": policy}
        if isinstance(graph, str):
            told = self._ask("plan", {**asked, "example": graph})
        else:
            told = self._ask("plan", {**asked, "graph": graph.to_json()})
        with _reading():
            plan = Plan.from_json(dumps(told))
        return plan if isinstance(graph, str) else plan.for_graph(graph)

    def operators(self) -> list[dict[str, Any]]:
        """Returns what the service knows: ``{"path", "annotations", "note"}`` each."""
        answer = self._wire.ask("GET", "/v1/operators")
        with _reading():
            found: list[dict[str, Any]] = answer["operators"]
            return [{key: row[key] for key in ("path", "annotations", "note")} for row in found]

    def close(self) -> None:
        """Closes the connection of this thread."""
        self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _ask(self, verb: str, question: Mapping[str, Any]) -> Any:
        data = self._wire.ask("POST", f"/v1/{verb}", question)
        with _reading():
            _check_form(verb, data)
        return data


def _check_form(verb: str, data: Any) -> None:
    """Raises ValueError for an answer that has not the form of this version's schema."""
    from . import results as schema

    models: dict[str, type[BaseModel]] = {
        "parse": schema.AnnotationModel,
        "infer": schema.SolutionModel,
        "check": schema.LegalityModel,
        "legal-parts": schema.LegalPartsModel,
        "prove": schema.ProofModel,
    }
    if verb in models:
        models[verb].model_validate(data)


@contextmanager
def _reading() -> Iterator[None]:
    """Within it an answer is read: one of another form is no answer of this service."""
    try:
        yield
    except ServiceError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, DimsolveError):
        raise wrong_answer() from None


class _Operator:
    """A question about an operator: ``json``, and ``told``, what its solution is made of."""

    def __init__(
        self,
        annotation: str | Annotation,
        inputs: Inputs,
        arguments: Mapping[str, Any] | None,
        facts: Iterable[str | Relation],
    ) -> None:
        self._text = _text(annotation)
        self._inputs = None if inputs is None else to_inputs(inputs)
        self._facts = _texts(facts)
        self.json = {
            "annotation": self._text,
            "inputs": None if self._inputs is None else [_shape(shape) for shape in self._inputs],
            "arguments": {
                name: _argument(name, value) for name, value in to_arguments(arguments).items()
            },
            "facts": self._facts,
        }

    @property
    def told(self) -> tuple[str, list[Shape | None] | None, IdentifierFacts]:
        shapes = None if self._inputs is None else [to_shape(shape) for shape in self._inputs]
        return self._text, shapes, self._known(read_annotation(self._text), shapes or ())

    def _known(self, annotation: Annotation, shapes: Iterable[Shape | None]) -> IdentifierFacts:
        """The facts, and the identifiers that they may speak of: all that are no symbols."""
        dims = [dim for shape in shapes for dim in shape or () if isinstance(dim, Poly)]
        others = identifiers_of(annotation).keys() - set[str]().union(*map(symbols_of, dims))
        return IdentifierFacts(read_facts(self._facts), frozenset(others))


def _shape(shape: Any) -> Any:
    """A shape as JSON: text stays text, so that an error points into it."""
    if shape is None or isinstance(shape, str):
        return shape
    if not isinstance(shape, Iterable):
        to_shape(shape)  # raises the error for what is no shape
    return [None if dim is None else _length(dim) for dim in shape]


def _length(value: Any) -> int | str:
    if isinstance(value, str) or type(value) is int:
        return value
    dim = to_dim(value)
    return dim if isinstance(dim, int) else str(dim)


def _argument(name: str, value: Any) -> Any:
    """An argument as JSON. Raises ServiceError for what cannot be sent."""
    if value is None or isinstance(value, str | int | float):
        return str(value) if isinstance(value, float) and value - value != 0 else value
    try:
        return _length(value)
    except DimsolveError:
        raise ServiceError(
            Diagnostic(
                "cannot-be-sent",
                "an argument cannot be sent",
                reason=f"argument {name} is a {type(value).__name__}; what is sent is a number, a "
                "text or a length",
                hint=f"leave {name} out, or ask here: dimsolve.infer(...)",
            )
        ) from None


def _cut(
    split: str | tuple[int, int], contiguous: bool, value_split: Collection[int], partial: str
) -> dict[str, Any]:
    return {
        "split": list(split) if isinstance(split, tuple) else split,
        "contiguous": contiguous,
        "value_split": list(value_split),
        "partial": partial,
    }


def _texts(facts: Iterable[str | Relation]) -> list[str]:
    return [str(fact) for fact in to_facts(facts)]


def _text(annotation: Any) -> str:
    """The text of an annotation; raises what `dimsolve.parse` raises for what is none."""
    if isinstance(annotation, Annotation):
        return annotation.text or str(annotation)
    return annotation if isinstance(annotation, str) else read_annotation(annotation).text


def _claim(claim: Any) -> str:
    if isinstance(claim, str | Relation):
        return str(claim)
    raise wrong_type("claim", claim, "text or a relation", "write it as text: 'n > 0'")
