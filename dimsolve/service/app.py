"""The application: its routes, what they say of themselves, and how it starts and stops.

    POST /v1/parse /v1/infer /v1/check /v1/legal-parts /v1/prove /v1/plan /v1/annotate /v1/model
         /v1/batch
    GET  /v1/operators /healthz /readyz /metrics /openapi.json /docs /models /operators /

Bodies are read and written here and not by FastAPI's own models: a question is read strictly and
once, and an answer is bytes already. FastAPI has the routes and their description: /openapi.json is
made of the models that read the questions and write the answers, so it cannot say anything else.

The playground at ``/``, the reference at ``/docs`` and their parts come from ``static`` and from no
other host, and the headers hold browsers to that: no script, style or picture of anybody else, no
requests to anybody else, no frame around a page.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version
from mimetypes import add_type
from pathlib import Path
from typing import Any, Literal, TypeAlias

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from dimsolve.api.results import Model, OperatorsModel, Problem

from . import observability as measured
from .answers import VERBS, BatchAnswer, Verb, operators_reply
from .pool import ClientGone, Pool
from .questions import BatchQuestion
from .reference import reference
from .replies import JSON, PROBLEM, Limits, Refusal, reply_of, reply_of_error
from .requests import Observed, Requests, response_of

STATIC = Path(__file__).with_name("static")
_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
}
HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in _POLICY.items()),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # asked for again each time, and answered "not modified"
}


def add_pages(app: FastAPI) -> None:
    """Adds the routes of the pages; they are no part of the API's description."""

    def page_of(name: str) -> Endpoint:
        async def page(request: Request) -> Response:
            return FileResponse(STATIC / f"{name}.html", headers=HEADERS)

        return page

    async def docs(request: Request) -> Response:
        base = f"{request.url.scheme}://{request.headers.get('host', '')}"
        text = await run_in_threadpool(reference, app.openapi(), base)
        return HTMLResponse(text, headers=HEADERS)

    add_type("text/javascript", ".js")  # some systems say text/plain, which no browser runs
    pages = {"/": "index", "/models": "models", "/operators": "operators"}
    for path, page in [*((path, page_of(name)) for path, name in pages.items()), ("/docs", docs)]:
        app.add_api_route(path, page, methods=["GET", "HEAD"], include_in_schema=False)
    app.mount("/static", Parts(directory=STATIC), name="static")


class Parts(StaticFiles):
    """Scripts and styles, with the headers of the pages."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """Returns a file, or that it is not modified."""
        response = super().file_response(*args, **kwargs)
        response.headers.update(HEADERS)
        return response


_REF = "#/components/schemas/{model}"
_PROBLEMS = {
    400: "The body is not JSON.",
    404: "There is no such thing.",
    405: "This path has another method.",
    408: "The request came too slowly.",
    413: "The body is too large.",
    415: "The media type is not JSON.",
    422: "The question cannot be read, or contradicts itself.",
    431: "The headers are too large.",
    503: "The service is busy; ask again later.",
    504: "The question was given up: its time or memory ran out.",
}
OF_QUESTION = (400, 405, 408, 413, 415, 422, 431, 503, 504)
OF_STATE = (405, 431, 503)
Json: TypeAlias = dict[str, Any]
Endpoint: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]


_RETRY_AFTER: Json = {
    "Retry-After": {"description": "seconds", "schema": {"type": "integer", "minimum": 1}}
}


def content(model: type[BaseModel], media: str = JSON) -> Json:
    """Returns the OpenAPI content that is a model."""
    return {media: {"schema": {"$ref": _REF.format(model=model.__name__)}}}


def schemas(questions: list[type[BaseModel]], answers: list[type[BaseModel]]) -> Json:
    """Returns the component schemas of the models."""
    modes: list[Any] = [(model, "validation") for model in questions]
    modes += [(model, "serialization") for model in [*answers, Problem]]
    _, document = models_json_schema(modes, ref_template=_REF)
    found: Json = _widely_read(document["$defs"])
    return found


def _widely_read(schema: Any) -> Any:
    """Returns the schema with pairs as arrays of two: many tools do not know ``prefixItems``."""
    if isinstance(schema, list):
        return [_widely_read(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: _widely_read(value) for key, value in schema.items()}
    kinds = plain.get("prefixItems")
    if isinstance(kinds, list) and all(kind == kinds[0] for kind in kinds):
        del plain["prefixItems"]
        plain["items"] = kinds[0]
    return plain


class State(Model):
    """How the service is."""

    status: Literal["alive", "ready"]


def create_app(limits: Limits | None = None) -> FastAPI:
    """Returns the application; its workers start and stop with it."""
    limits = limits or Limits()
    pool = Pool(limits)
    metrics = measured.Metrics(pool)
    app = FastAPI(
        title="dimsolve",
        version=version("dimsolve"),
        summary="Symbolic shapes and provably legal partitions.",
        lifespan=_lifespan(pool),
        redirect_slashes=False,
        docs_url=None,  # FastAPI's page loads its parts from other hosts; `pages` has one of ours
        redoc_url=None,
        exception_handlers=ERRORS,
    )
    app.router.route_class = DirectRoute
    _add_questions(app, Requests(pool, metrics, limits))
    _add_states(app, pool, metrics)
    add_pages(app)
    routes = frozenset(getattr(route, "path", "") for route in app.routes)
    app.add_middleware(Observed, metrics=metrics, routes=routes)
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    return app


class DirectRoute(APIRoute):
    """A route whose endpoint takes the request and returns the response: nothing is injected."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Returns the endpoint itself."""
        return self.endpoint


def _lifespan(pool: Pool) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await pool.start()
        await run_in_threadpool(operators_reply)
        await run_in_threadpool(app.openapi)
        gc.collect()
        gc.freeze()  # what is loaded now stays: no collection has to look at it again
        try:
            yield
        finally:
            await run_in_threadpool(pool.stop)

    return lifespan


def _add_questions(app: FastAPI, requests: Requests) -> None:
    for verb, (question, answer) in VERBS.items():
        about = (question.__doc__ or "").partition("\n")[0]
        _add(app, verb, _asking(requests, verb), about, content(answer), question)
    about = "Many questions at once, each answered for itself."
    _add(app, "batch", requests.batch, about, content(BatchAnswer), BatchQuestion)


def _asking(requests: Requests, verb: Verb) -> Endpoint:
    async def ask(request: Request) -> Response:
        return await requests.question(request, verb)

    return ask


def _add_states(app: FastAPI, pool: Pool, metrics: measured.Metrics) -> None:
    async def operators(request: Request) -> Response:
        return response_of(operators_reply())

    async def healthz(request: Request) -> Response:
        return response_of(reply_of(State(status="alive")))

    async def readyz(request: Request) -> Response:
        if not pool.ready:
            raise Refusal("not-ready", retry_after=1)
        return response_of(reply_of(State(status="ready")))

    async def metrics_text(request: Request) -> Response:
        return Response(metrics.text(), media_type=measured.CONTENT_TYPE)

    state, text = content(State), {"text/plain": {"schema": {"type": "string"}}}
    listed = content(OperatorsModel)
    _add(app, "operators", operators, "The operators that are known.", listed)
    _add(app, "healthz", healthz, "Is the process alive?", state)
    _add(app, "readyz", readyz, "Are the workers ready?", state)
    _add(app, "metrics", metrics_text, "Counts and times for Prometheus.", text)


def _add(
    app: FastAPI,
    name: str,
    endpoint: Endpoint,
    about: str,
    answer: Json,
    question: type[BaseModel] | None = None,
) -> None:
    """Adds a route with what it reads and answers, as OpenAPI has it."""
    responses: dict[int | str, Json] = {200: {"description": "The answer.", "content": answer}}
    for status in OF_QUESTION if question else OF_STATE:
        described = {"description": _PROBLEMS[status], "content": content(Problem, PROBLEM)}
        responses[status] = described | ({"headers": _RETRY_AFTER} if status == 503 else {})
    body = {"requestBody": {"required": True, "content": content(question)}} if question else None
    app.add_api_route(
        f"/v1/{name}" if question or name == "operators" else f"/{name}",
        endpoint,
        methods=["POST" if question else "GET"],
        response_class=Response,
        operation_id=name,
        summary=about,
        description=about,
        responses=responses,
        openapi_extra=body,
    )


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return response_of(reply_of_error(error))


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    name = {404: "no-such-path", 405: "no-such-method"}.get(error.status_code, "refused")
    reason = str(error.detail) if name == "refused" else ""
    refusal = Refusal(name, status=error.status_code, reason=reason)
    response = response_of(reply_of_error(refusal))
    response.headers.update(error.headers or {})
    return response


async def _client_gone(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # nobody reads it; the log does


async def _defect(request: Request, error: Exception) -> Response:
    return response_of(reply_of_error(Refusal("defect")))


ERRORS: dict[int | type[Exception], Any] = {
    Refusal: _refused,
    HTTPException: _not_found,
    ClientGone: _client_gone,
    Exception: _defect,
}


def _described(app: FastAPI) -> dict[str, Any]:
    """Returns the OpenAPI document, made once."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title, version=app.version, summary=app.summary, routes=app.routes
        )
        questions: list[type[BaseModel]] = [*(r.question for r in VERBS.values()), BatchQuestion]
        answers: list[type[BaseModel]] = [r.answer for r in VERBS.values()]
        answers += [BatchAnswer, OperatorsModel, State]
        document.setdefault("components", {})["schemas"] = schemas(questions, answers)
        app.openapi_schema = document
    return app.openapi_schema
