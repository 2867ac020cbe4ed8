"""`Client`: the public functions, answered by a service, with their own signatures and results.

    client = ds.Client("http://localhost:8000")
    client.check("m k+, k+ n -> m n", ["m, k", "k, n"], "k", 8).conditions      ('k % 8 == 0',)
    client.parse("m k+, k n -> m n")                                            AnnotationError

Results are of the classes that the functions return, errors of those that they raise, with the same
texts and spans. Only a service that is away, busy or has given up raises something of its own:
`ServiceError`. A client may be used by several threads at once.

HTTP is Python's own http.client: one host, JSON both ways, no redirects, no cookies. It adds no
dependency, and takes a third of the time of a general client.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import local
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, ValidationError

from dimsolve.ir.annotation import Annotation
from dimsolve.ir.checks import wrong_type
from dimsolve.ir.errors import (
    AnnotationError,
    Diagnostic,
    DimsolveError,
    GraphError,
    OperatorError,
    ShapeError,
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
    AnnotatedModel,
    AnnotationModel,
    Asked,
    LegalityModel,
    LegalPartsModel,
    ModelAnswer,
    OperatorsModel,
    Problem,
    ProofModel,
    SolutionModel,
)

if TYPE_CHECKING:
    from dimsolve.exec.graph import Graph
    from dimsolve.partition.legality import Legality, LegalParts
    from dimsolve.partition.mesh import MeshLike
    from dimsolve.partition.plan import Plan
    from dimsolve.solver.proof.verdict import Proof
    from dimsolve.solver.solution import Solution

Answer = TypeVar("Answer", bound=BaseModel)


class ServiceError(DimsolveError):
    """The service cannot be reached, refused the request, or gave the question up.

    ``status`` is the HTTP status, None where there was no answer at all.
    """

    __module__ = "dimsolve"

    def __init__(self, diagnostic: Diagnostic, status: int | None = None) -> None:
        super().__init__(diagnostic)
        self.status = status


class Connection:
    """The HTTP connections to one service, one per thread, opened when they are first needed."""

    def __init__(self, url: str, timeout: float) -> None:
        parts = _parts(url)
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
            raise ValueError(f"timeout is {timeout!r}; it has to be a positive number of seconds")
        self._class = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._host, self._port = parts.hostname or "", parts.port
        self._base = parts.path.rstrip("/")
        self._timeout = timeout
        self._open = local()

    def ask(self, method: str, path: str, question: Any = None) -> Any:
        """Returns the answer's JSON data; raises the error that the problem describes.

        A busy service is asked again when it says, until the timeout is over.
        """
        body = None if question is None else json.dumps(question, allow_nan=False).encode()
        end = monotonic() + self._timeout
        while True:
            response, data = self._exchange(method, self._base + path, body)
            wait = _seconds(response.getheader("Retry-After"))
            if response.status != 503 or not wait or monotonic() + wait >= end:
                break
            sleep(wait)
        try:
            answer = json.loads(data)
        except ValueError:
            reason = "its answer is no JSON; is it dimsolve that serves there?"
            title = f"the service answered {response.status}"
            raise ServiceError(
                Diagnostic("no-json", title, reason=reason), response.status
            ) from None
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
        while True:
            connection: HTTPConnection | None = getattr(self._open, "connection", None)
            reused = connection is not None
            if connection is None:
                connection = self._class(self._host, self._port, timeout=self._timeout)
                self._open.connection = connection
            try:
                connection.request(method, path, body, headers)
                response = connection.getresponse()
                return response, response.read()
            except (OSError, HTTPException) as error:
                self.close()
                # An open connection may have been closed by the service meanwhile: ask anew, once.
                if not (reused and isinstance(error, ConnectionError | HTTPException)):
                    raise self._no_answer(error) from None

    def _no_answer(self, error: Exception) -> ServiceError:
        name = self._host if self._port is None else f"{self._host}:{self._port}"
        if isinstance(error, TimeoutError):
            title = "the service does not answer in time"
            reason = f"{name} is slower than timeout={self._timeout:g} s"
            hint = "give Client a longer timeout, or ask about a smaller part of it"
        else:
            title = "the service does not answer"
            reason = f"{name}: {getattr(error, 'strerror', None) or error or type(error).__name__}"
            hint = "dimsolve serve --port 8000 starts one"
        return ServiceError(Diagnostic("no-answer", title, reason=reason, hint=hint))


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


_ERRORS: dict[str, type[DimsolveError]] = {
    each.__name__: each
    for each in (AnnotationError, ShapeError, OperatorError, GraphError, MeshError, PlanError)
}


def error_of(status: int, data: Any) -> DimsolveError:
    """Returns the error that a problem describes: of the class, and with the words, of the service.

    Members that are missing, or that a proxy has added, do no harm.

    >>> error_of(422, {"error": "ShapeError", "code": "c", "title": "t", "detail": "r"})
    ShapeError(Diagnostic(code='c', title='t', text='', spans=(), reason='r', hint=''))
    """
    title = f"the service answered {status}"
    empty: dict[str, Any] = {"title": title, "code": "no-problem", "detail": "", "error": ""}
    empty |= {"text": "", "hint": "", "spans": ()}
    found = data if isinstance(data, dict) else {}
    members = {name: found[name] for name in Problem.model_fields if name in found}
    try:
        problem = Problem.model_validate({**empty, **members, "status": status})
    except ValidationError:
        problem = Problem.model_validate(empty)
    error = _ERRORS.get(problem.error)
    diagnostic = problem.result()
    return ServiceError(diagnostic, status) if error is None else error(diagnostic)


@contextmanager
def _reading() -> Iterator[None]:
    """Within it an answer is read: one of another form is no answer of this service."""
    try:
        yield
    except ServiceError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, DimsolveError):
        raise ServiceError(
            Diagnostic(
                "wrong-answer",
                "the answer has another form",
                reason="this is no dimsolve service of this version",
                hint="compare the versions here and there: pip show dimsolve",
            ),
            200,
        ) from None


class Client:
    """Asks the service at ``url``, such as ``http://localhost:8000``.

    timeout: seconds for one question, with the waiting for a service that is busy.
    """

    def __init__(self, url: str, *, timeout: float = 60.0) -> None:
        self._connection = Connection(url, timeout)

    def parse(self, text: str) -> Annotation:
        """Returns what `dimsolve.parse` returns."""
        found = self._ask("parse", {"annotation": _text(text)}, AnnotationModel)
        with _reading():
            return found.result()

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
        found = self._ask("infer", question.json, SolutionModel)
        with _reading():
            return found.result(question.asked, lambda: found.steps)

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
        uneven: bool = False,
    ) -> Legality:
        """Returns what `dimsolve.check` returns."""
        question = _Operator(annotation, inputs, arguments, facts)
        cut = _cut(split, contiguous, value_split, partial, uneven)
        body = {**question.json, **cut, "parts": _length(parts)}
        found = self._ask("check", body, LegalityModel)
        with _reading():
            solution = found.solution.result(
                question.asked, lambda: self._ask("infer", question.json, SolutionModel).steps
            )
            return found.result(solution, arguments or {})

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
        uneven: bool = False,
    ) -> LegalParts:
        """Returns what `dimsolve.legal_parts` returns; ``up_to`` is at most 1000."""
        question = _Operator(annotation, inputs, arguments, facts)
        cut = _cut(split, contiguous, value_split, partial, uneven)
        body = {**question.json, **cut, "up_to": up_to}
        return self._ask("legal-parts", body, LegalPartsModel).result()

    def prove(self, claim: str | Relation, *, facts: Iterable[str | Relation] = ()) -> Proof:
        """Returns what `dimsolve.prove` returns."""
        if not isinstance(claim, str | Relation):
            raise wrong_type("claim", claim, "text or a relation", "write it as text: 'n > 0'")
        question = {"claim": str(claim), "facts": _texts(facts)}
        return self._ask("prove", question, ProofModel).result()

    def plan(
        self,
        graph: Graph | str,
        mesh: MeshLike,
        policy: Any = None,
        state: Any = None,
        *,
        uneven: str = "parameters",
    ) -> Plan:
        """Returns what `dimsolve.plan` returns. graph: or the name of an example, ``"llama:tiny"``.

        Raises TypeError for a policy that is a function: it stays in this process.
        """
        from dimsolve.partition.mesh import Mesh
        from dimsolve.partition.plan import Plan

        if callable(policy):
            raise TypeError("a function cannot be sent; give a named policy or a mapping")
        axes = {name: _length(size) for name, size in Mesh.of(mesh).axes}
        model = {"example": graph} if isinstance(graph, str) else {"graph": graph.to_json()}
        asked = {"mesh": axes, "policy": policy, "state": state, "uneven": uneven, **model}
        answer = self._connection.ask("POST", "/v1/plan", asked)
        with _reading():
            plan = Plan.from_json(json.dumps(answer))
        return plan if isinstance(graph, str) else plan.for_graph(graph)

    def annotate(
        self,
        operator: str,
        inputs: Inputs = None,
        *,
        arguments: Mapping[str, Any] | None = None,
    ) -> AnnotatedModel:
        """Returns what one of torch's functions promises for a call: the ``annotation`` for it, the
        ``arguments`` and ``conditions`` that the call adds to it, and the names of its ``tensors``.

        operator: its path. inputs: the shapes of its tensors in order; None: an example call.
        arguments: all that is no tensor, by name.
        """
        shapes = None if inputs is None else [_shape(shape) for shape in to_inputs(inputs)]
        asked = {"operator": operator, "inputs": shapes, "arguments": dict(arguments or {})}
        return self._ask("annotate", asked, AnnotatedModel)

    def model(
        self,
        config: Mapping[str, Any],
        mesh: Mapping[str, int] | None = None,
        *,
        sizes: Mapping[str, int] | None = None,
        up_to: int = 64,
    ) -> ModelAnswer:
        """Returns how a model of transformers may be cut, and what a rank holds and sends: its
        legal counts along ``axes``, ``memory`` in bytes, and ``communication``.

        config: what its ``config.json`` says. mesh: the sizes of ``dp`` and ``tp``, usually 1.
        sizes: of the inputs (``batch``, ``seq``). up_to: the largest count that is asked about.
        """
        axes = {"dp": 1, "tp": 1, **(mesh or {})}
        asked = {"config": dict(config), "mesh": axes, "sizes": dict(sizes or {}), "up_to": up_to}
        return self._ask("model", asked, ModelAnswer)

    def operators(self) -> list[dict[str, Any]]:
        """Returns what the service knows: ``{"path", "annotations", "note"}`` each."""
        answer = self._connection.ask("GET", "/v1/operators")
        with _reading():
            found = OperatorsModel.model_validate(answer).operators
        return [{**dict(row), "annotations": list(row.annotations)} for row in found]

    def close(self) -> None:
        """Closes the connection of this thread."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _ask(self, verb: str, question: Mapping[str, Any], answer: type[Answer]) -> Answer:
        data = self._connection.ask("POST", f"/v1/{verb}", question)
        with _reading():
            return answer.model_validate(data)


class _Operator:
    """A question about an operator: ``json``, and ``asked``, what its solution is made of."""

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
    def asked(self) -> Asked:
        shapes = None if self._inputs is None else [to_shape(shape) for shape in self._inputs]
        dims = [dim for shape in shapes or () for dim in shape or () if isinstance(dim, Poly)]
        # Facts may speak of identifiers: of all names that are no symbols of the shapes.
        names = identifiers_of(read_annotation(self._text)).keys()
        identifiers = names - set[str]().union(*map(symbols_of, dims))
        facts = IdentifierFacts(read_facts(self._facts), frozenset(identifiers))
        return Asked(self._text, shapes, facts)


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
    split: str | tuple[int, int],
    contiguous: bool,
    value_split: Collection[int],
    partial: str,
    uneven: bool,
) -> dict[str, Any]:
    return {
        "split": list(split) if isinstance(split, tuple) else split,
        "contiguous": contiguous,
        "value_split": list(value_split),
        "partial": partial,
        "uneven": uneven,
    }


def _texts(facts: Iterable[str | Relation]) -> list[str]:
    return [str(fact) for fact in to_facts(facts)]


def _text(annotation: Any) -> str:
    """The text of an annotation; raises what `dimsolve.parse` raises for what is none."""
    if isinstance(annotation, Annotation):
        return annotation.text or str(annotation)
    return annotation if isinstance(annotation, str) else read_annotation(annotation).text
