"""`/docs` says what the service does: its questions are answered, its links lead somewhere."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from dimsolve.service.reference import examples, reference
from tests.face.running import Service


class Page(HTMLParser):
    """The ids, the links and the visible text of a page, and which elements are left open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.links += [value for name, value in attrs if name in ("href", "src") and value]
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def page(service: Service) -> Page:
    reply = service.request("GET", "/docs")
    assert reply.status == 200 and reply.headers["content-type"].startswith("text/html")
    return Page(reply.body.decode())


def test_every_route_and_every_field_is_there(service: Service, page: Page) -> None:
    document = service.request("GET", "/openapi.json").json
    for path, methods in document["paths"].items():
        for route in methods.values():
            assert path in page.text and route["summary"] in page.text
    for name, schema in document["components"]["schemas"].items():
        assert name in page.ids
        assert all(field in page.text for field in schema.get("properties", ()))
    assert page.open == []


def test_links_lead_somewhere_here(service: Service, page: Page) -> None:
    assert len(page.ids) == len(set(page.ids))
    for link in page.links:
        if link.startswith("#"):
            assert link[1:] in page.ids
        else:
            assert not re.match(r"\w+:|//", link)
            assert service.request("GET", f"/{link.removeprefix('./')}").status == 200


@pytest.mark.parametrize("path", examples())
def test_its_questions_are_answered(service: Service, page: Page, path: str) -> None:
    body = json.dumps(examples()[path])
    assert body in page.text
    reply = service.request("POST", path, body.encode())
    assert reply.status == 200, reply.json


def test_every_question_has_an_example(service: Service) -> None:
    paths = service.request("GET", "/openapi.json").json["paths"]
    assert {path for path, methods in paths.items() if "post" in methods} == set(examples())


def test_a_description_is_text() -> None:
    """Whatever stands in the document, it is shown and not obeyed."""
    evil = "<script>alert(1)</script>"
    answer = {"200": {"content": {"application/json": {"schema": {"$ref": "#/x/M"}}}}}
    document = {
        "info": {"title": evil, "version": evil},
        "paths": {f"/{evil}": {"get": {"summary": evil, "responses": answer}}},
        "components": {
            "schemas": {"M": {"description": evil, "properties": {evil: {"type": evil}}}}
        },
    }
    page = Page(reference(document))
    assert page.text.count(evil) >= 6
    assert "script" not in page.open
