"""Equal questions have equal answers, here and from the service, each in the asker's own words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

import dimsolve as ds
from dimsolve.ir.read_expression import read_relations
from tests.face.running import Service

MATMUL = "m k+, k+ n -> m n"
QUESTIONS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((MATMUL, ["m, k", "k, n"], "k", 8), {}),
    ((MATMUL, ["m, k", "k, n"], "k", 4), {}),
    ((MATMUL, ["m, k", "k, n"], "m", 8), {}),
    ((MATMUL, ["m, 8", "8, n"], "k", 8), {}),
    ((MATMUL, ["m, k", "k, n"], "k", 8), {"facts": ["k % 8 == 0"]}),
    ((MATMUL, ["m, k", "k, n"], "k", 8), {"partial": "max"}),
    ((MATMUL, None, "k", 8), {}),
    ((MATMUL, ["m, k", "j, n"], "k", 8), {}),
    (("(h t) k -> h t k", ["8*s, k"], "h", 2), {"arguments": {"h": 4}}),
    (("(h t) k -> h t k", ["8*s, k"], "t", 2), {"arguments": {"h": 4}, "facts": ["s >= 2"]}),
    (("(h t) k -> h t k", ["24, k"], "t", 2), {"facts": ["h >= 2"]}),
    (("a^ b -> a^ b", ["3, 4"], "a", 2), {}),
]


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[ds.Client]:
    with ds.Client(service.url) as made:
        yield made


def test_answers_are_equal_exactly_where_questions_are(client: ds.Client) -> None:
    near = [ds.check(*args, **options) for args, options in QUESTIONS]
    again = [ds.check(*args, **options) for args, options in QUESTIONS]
    far = [client.check(*args, **options) for args, options in QUESTIONS]
    for (i, one), (j, other) in product(enumerate(near), enumerate([*again, *far])):
        equal = i == j % len(QUESTIONS)
        assert (one == other) is equal, (QUESTIONS[i], QUESTIONS[j % len(QUESTIONS)])
        if equal:
            assert hash(one) == hash(other) and one.solution == other.solution
    assert near[0] != "legal" and near[0].solution != 3
    assert len({*near, *again, *far}) == len(QUESTIONS)


def test_solutions_are_equal_too(client: ds.Client) -> None:
    for args, options in QUESTIONS:
        asked = {key: value for key, value in options.items() if key != "partial"}
        near, far = ds.infer(*args[:2], **asked), client.infer(*args[:2], **asked)
        assert near == far and hash(near) == hash(far)


def test_without_shapes_the_identifiers_are_the_sizes(client: ds.Client) -> None:
    for annotation, split, shapes in (
        ("a b -> a b", "a", ["a, b"]),
        (MATMUL, "k", ["m, k", "k, n"]),
    ):
        explored = ds.check(annotation, None, split, 4)
        assert explored.local_inputs == ds.check(annotation, shapes, split, 4).local_inputs
        assert client.check(annotation, None, split, 4).local_inputs == explored.local_inputs
    assert ds.check("a, a -> a", ["a", None], "a", 4).local_inputs[1] is None
    assert ds.check("a, ? -> a", None, "a", 4).local_inputs[1] is None


SPELLINGS = ["k  ==    s", "k == s", "k==s", "(k) == s"]


def test_an_answer_quotes_the_asker(service: Service) -> None:
    annotation = "(h t) k -> h t k"
    for text in (*SPELLINGS, *reversed(SPELLINGS)):
        near = ds.infer(annotation, facts=[text])
        reply = service.ask("infer", {"annotation": annotation, "facts": [text]})
        for lines in (near.explain().splitlines(), reply.json["explanation"]):
            assert [line for line in lines if line.endswith(f"    fact {text}")], lines
        relations = read_relations(text)
        assert ds.infer(annotation, facts=relations).explain() == near.explain()


@pytest.mark.parametrize("gap", ["", " ", "   "])
def test_an_error_points_into_the_asker_s_text(gap: str) -> None:
    text = f"a{gap}%{gap}(n{gap}-{gap}3) == 0"
    with pytest.raises(ds.DimsolveError) as caught:
        ds.infer("a -> a", facts=[text, f"n{gap}=={gap}3"])
    assert caught.value.diagnostic.text in ("", text, f"n{gap}=={gap}3")


def test_commands_in_the_docs_ask_the_host_that_the_reader_found(service: Service) -> None:
    def named(host: str) -> set[str]:
        head = f"GET /docs HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        page = service.raw(head.encode()).body.decode()
        assert "<b>" not in page
        return set(re.findall(r"curl (\S+)/v1", page))

    assert named(f"127.0.0.1:{service.port}") == {f"http://127.0.0.1:{service.port}"}
    assert named("shapes.example.org") == {"http://shapes.example.org"}
    assert named("<b>evil</b>") == {"http://localhost:8000"}


def test_the_bounds_of_a_number_are_in_the_schema(service: Service) -> None:
    schemas = service.request("GET", "/openapi.json").json["components"]["schemas"]
    found = schemas["LegalPartsQuestion"]["properties"]["up_to"]["anyOf"][0]
    assert found == {"type": "integer", "minimum": 1, "maximum": 1000}
    assert not re.search(r'"(ge|le|gt|lt)":', json.dumps(schemas))
    asked = {"annotation": "a -> a", "split": "a"}
    assert service.ask("legal-parts", {**asked, "up_to": 2.0}).status == 200
    assert service.ask("legal-parts", {**asked, "up_to": 1001}).status == 422


def test_the_examples_of_a_question_make_one_that_is_answered(service: Service) -> None:
    """All combinations of the examples that the schema gives its fields."""
    document = service.request("GET", "/openapi.json").json
    schemas = document["components"]["schemas"]
    checked = 0
    for path, methods in document["paths"].items():
        if "post" not in methods:
            continue
        content = methods["post"]["requestBody"]["content"]["application/json"]["schema"]
        for model in _models(content, schemas):
            fields = {k: v["examples"] for k, v in model["properties"].items() if "examples" in v}
            assert set(model["required"]) <= set(fields)
            for chosen in product(*fields.values()):
                reply = service.ask(
                    path.removeprefix("/v1/"), dict(zip(fields, chosen, strict=True))
                )
                assert reply.status == 200, (path, chosen, reply.json)
                checked += 1
    assert checked >= 10


def _models(schema: Any, schemas: Any) -> Iterator[Any]:
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if "properties" in schema:
        yield schema
    for part in schema.get("anyOf", ()):
        yield from _models(part, schemas)
