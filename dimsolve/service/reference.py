"""`/docs`: the OpenAPI document as one page of HTML, without scripts and without other hosts.

    reference(app.openapi())      "<!doctype html>...<h2>POST /v1/check</h2>..."

A route is a section: what it is for, a question to copy, the fields of question and answer, the
problems. All text is escaped; nothing depends on anything but the document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from html import escape
from typing import Any

Json = Mapping[str, Any]

_EXAMPLES: dict[str, Json] = {
    "/v1/parse": {"annotation": "(h t) k+, k+ n -> h t n"},
    "/v1/infer": {
        "annotation": "(h t) k -> h t k",
        "inputs": ["8*s, k"],
        "arguments": {"h": 8},
    },
    "/v1/check": {
        "annotation": "m k+, k+ n -> m n",
        "inputs": ["m, k", ["k", 1024]],
        "split": "k",
        "parts": 8,
        "facts": ["k % 64 == 0"],
    },
    "/v1/legal-parts": {
        "annotation": "(h t) k -> h t k",
        "inputs": ["8*s, k"],
        "split": "t",
        "arguments": {"h": 4},
        "up_to": 8,
    },
    "/v1/prove": {"claim": "n*(n + 1) % 2 == 0"},
    "/v1/plan": {"example": "llama:tiny", "mesh": {"tp": 2}},
    "/v1/annotate": {
        "operator": "torch.nn.functional.conv2d",
        "inputs": ["n, 64, 56, 56", "128, 64, 3, 3"],
        "arguments": {"stride": 2, "padding": 1},
    },
    "/v1/model": {
        "config": {"model_type": "gpt2", "n_embd": 48, "n_head": 6, "n_layer": 4},
        "mesh": {"dp": 2, "tp": 3},
    },
    "/v1/batch": {"questions": [{"verb": "prove", "claim": "n > 0"}]},
}
"""A question per route, which the service answers with 200; a test asks them all."""


def examples() -> dict[str, Json]:
    """Returns a question for every route that is posted to."""
    return dict(_EXAMPLES)


_BASE = "http://localhost:8000"
_SAFE = re.compile(r"https?://[\w.:\[\]-]+", re.ASCII)


def reference(document: Json, base: str = _BASE) -> str:
    """Returns the page for an OpenAPI document. base: where the reader found it, for the commands
    to copy; a base that is no plain address is not repeated.
    """
    base = base if _SAFE.fullmatch(base) else _BASE
    return _page(json.dumps(document)).replace(_BASE, base)


@lru_cache(maxsize=1)
def _page(document: str) -> str:
    data = json.loads(document)
    schemas = data["components"]["schemas"]
    sections = [
        _section(method, path, route, schemas)
        for path, methods in data["paths"].items()
        for method, route in methods.items()
    ]
    sections.append("<h2>Models</h2>")
    sections += [_model(name, schema) for name, schema in sorted(schemas.items())]
    title = f"{escape(data['info']['title'])} {escape(data['info']['version'])}"
    return _HEAD.format(title=title) + "\n".join(sections) + "\n</main>\n</body>\n</html>\n"


_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}: the API</title>
<link rel="icon" href="static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="static/page.css">
</head>
<body>
<header class="top">
<h1>{title}</h1>
<p>The API: the Python functions over HTTP, JSON both ways.</p>
<nav aria-label="More"><a href="./">playground</a> <a href="openapi.json">OpenAPI</a></nav>
</header>
<main class="reference">
<p>Expressions are text in the dimension language (<code>8*s</code>) and read back; a whole number
may be given as a number. What is illegal is an answer, with status 200 and its reason. What cannot
be read, or contradicts itself, is a problem (RFC 9457) with the places in the text, a reason and a
hint.</p>
"""


def _section(method: str, path: str, route: Json, schemas: Json) -> str:
    anchor = escape(path.strip("/").replace("/", "-"))
    verb = f'<span class="verb">{method.upper()}</span>'
    head = f'<h2 id="{anchor}">{verb}<code>{escape(path)}</code></h2>'
    return "\n".join([head, f"<p>{escape(route['summary'])}</p>", *_parts(path, route, schemas)])


def _parts(path: str, route: Json, schemas: Json) -> Iterator[str]:
    if path in _EXAMPLES:
        body = json.dumps(_EXAMPLES[path])
        pre = f'<pre tabindex="0" aria-label="{escape(path)} with curl">'  # it may scroll
        yield f"{pre}<code>{escape(_curl(path, body))}</code></pre>"
    if "requestBody" in route:
        yield "<h3>Question</h3>"
        yield from _fields(route["requestBody"], schemas)
    yield "<h3>Answer</h3>"
    yield from _fields(route["responses"]["200"], schemas)
    problems = [
        (status, reply["description"])
        for status, reply in route["responses"].items()
        if status != "200"
    ]
    rows = "".join(f"<li><code>{escape(s)}</code> {escape(text)}</li>" for s, text in problems)
    yield f"<details><summary>Problems</summary><ul>{rows}</ul></details>"


def _curl(path: str, body: str) -> str:
    quoted = "'" + body.replace("'", "'\\''") + "'"
    return f"curl {_BASE}{path} \\\n  -H 'Content-Type: application/json' \\\n  --data-raw {quoted}"


def _fields(content: Json, schemas: Json) -> Iterator[str]:
    """A table for every object that the content may be."""
    ((media, body),) = content["content"].items()
    found = list(_objects(body["schema"], schemas))
    if not found:
        yield f"<p><code>{escape(media)}</code></p>"
    for schema in found:
        yield _table(schema)


def _table(schema: Json) -> str:
    """The fields of an object: name, type, what it is."""
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{_linked(field)}</td>"
        f"<td>{escape(_about(field, name in schema.get('required', ())))}</td></tr>"
        for name, field in schema.get("properties", {}).items()
    )
    head = "<thead><tr><th>field</th><th>type</th><th>meaning</th></tr></thead>"
    return f"<table>{head}<tbody>{rows}</tbody></table>"


def _model(name: str, schema: Json) -> str:
    head = f'<h3 id="{escape(name)}">{escape(name)}</h3>'
    about = f"<p>{escape(str(schema.get('description', '')))}</p>"
    fields = _table(schema) if "properties" in schema else f"<p>{_linked(schema)}</p>"
    return f"{head}\n{about}\n{fields}"


def _linked(field: Json) -> str:
    """A type in words; the names of models lead to them."""
    return re.sub(r"\b([A-Z]\w+)\b", r'<a href="#\1">\1</a>', escape(_type(field)))


def _objects(schema: Json, schemas: Json) -> Iterator[Json]:
    """The schemas with properties that a schema stands for: itself, or its alternatives."""
    resolved = _resolved(schema, schemas)
    alternatives: Iterable[Json] = resolved.get("anyOf", ())
    if "properties" in resolved:
        yield resolved
    for alternative in alternatives:
        yield from _objects(alternative, schemas)


def _resolved(schema: Json, schemas: Json) -> Json:
    reference = schema.get("$ref")
    return schemas[reference.rpartition("/")[2]] if reference else schema


def _about(field: Json, is_required: bool) -> str:
    about = str(field.get("description", ""))
    if is_required or "default" not in field:
        return about
    usual = json.dumps(field["default"])
    return f"{about}; usually {usual}" if about else f"usually {usual}"


def _type(field: Json) -> str:
    """A schema's type in words: ``array of string or null``."""
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "anyOf" in field or "oneOf" in field:
        kinds = dict.fromkeys(map(_type, field.get("anyOf") or field["oneOf"]))
        return " or ".join(kinds)
    if "enum" in field or "const" in field:
        return " or ".join(json.dumps(value) for value in field.get("enum", [field.get("const")]))
    match field.get("type"):
        case "array":
            return f"array of {_type(field.get('items', {}))}"
        case "object":
            inside = field.get("additionalProperties")
            return f"object of {_type(inside)}" if isinstance(inside, dict) else "object"
        case None:
            return "anything"
        case kind:
            return str(kind)
