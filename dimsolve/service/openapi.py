"""What /openapi.json says of each route: its question, its answer, every problem it may have.

The models are those that read the questions and write the answers, so it cannot say anything else.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from dimsolve.schema import Problem

from .replies import JSON, PROBLEM

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
Json = dict[str, Any]


class Described(NamedTuple):
    """``responses`` and ``openapi_extra`` of a FastAPI route."""

    responses: dict[int | str, Json]
    extra: Json


def operation(
    question: type[BaseModel] | None, answer: Json, problems: tuple[int, ...]
) -> Described:
    """Returns what a route reads and answers, as OpenAPI has it."""
    responses: dict[int | str, Json] = {200: {"description": "The answer.", "content": answer}}
    for status in problems:
        responses[status] = {
            "description": _PROBLEMS[status],
            "content": content(Problem, PROBLEM),
            **({"headers": _RETRY_AFTER} if status == 503 else {}),
        }
    if question is None:
        return Described(responses, {})
    body = {"required": True, "content": content(question)}
    return Described(responses, {"requestBody": body})


_RETRY_AFTER: Json = {
    "Retry-After": {"description": "seconds", "schema": {"type": "integer", "minimum": 1}}
}


def content(model: type[BaseModel], media: str = JSON) -> Json:
    """Returns the OpenAPI content that is a model."""
    return {media: {"schema": {"$ref": _REF.format(model=model.__name__)}}}


def plain(media: str) -> Json:
    """Returns the OpenAPI content that is text."""
    return {media: {"schema": {"type": "string"}}}


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
