"""Every route answers as the Python function of its name does, or says why not (RFC 9457)."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

import dimsolve as ds
from dimsolve.api.results import model_of
from tests.face.running import Service

MATMUL = "m k+, k+ n -> m n"
SHAPES = ["m, k", ["k", 1024]]
QUESTIONS: list[tuple[str, dict[str, Any], Any]] = [
    ("parse", {"annotation": "(h t) k+, ? -> h t, 3"}, lambda: ds.parse("(h t) k+, ? -> h t, 3")),
    ("infer", {"annotation": MATMUL}, lambda: ds.infer(MATMUL)),
    (
        "infer",
        {"annotation": "(h t) k -> h t k", "inputs": ["8*s, k"], "arguments": {"h": 3}},
        lambda: ds.infer("(h t) k -> h t k", ["8*s, k"], arguments={"h": 3}),
    ),
    (
        "check",
        {"annotation": MATMUL, "inputs": SHAPES, "split": "k", "parts": 8},
        lambda: ds.check(MATMUL, SHAPES, "k", 8),
    ),
    (
        "check",
        {"annotation": MATMUL, "inputs": SHAPES, "split": [0, 1], "parts": "n", "partial": "max"},
        lambda: ds.check(MATMUL, SHAPES, (0, 1), "n", partial="max"),
    ),
    (
        "check",
        {"annotation": "m^ n -> m^ n", "inputs": None, "split": "m", "parts": 2},
        lambda: ds.check("m^ n -> m^ n", None, "m", 2),
    ),
    (
        "legal-parts",
        {"annotation": "a b -> a b", "inputs": ["8*s, 6"], "split": "a", "up_to": 9},
        lambda: ds.legal_parts("a b -> a b", ["8*s, 6"], "a", up_to=9),
    ),
    (
        "prove",
        {"claim": "h % 8 == 0", "facts": ["h*t == 768"]},
        lambda: ds.prove("h % 8 == 0", facts=["h*t == 768"]),
    ),
]


@pytest.mark.parametrize(("verb", "question", "python"), QUESTIONS, ids=range(len(QUESTIONS)))
def test_an_answer_is_that_of_the_python_function(
    service: Service, verb: str, question: dict[str, Any], python: Any
) -> None:
    for _ in range(2):  # the second time it is remembered
        reply = service.ask(verb, question)
        assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
        assert reply.json == json.loads(model_of(python()).model_dump_json())


def test_an_error_is_the_problem_of_the_python_error(service: Service) -> None:
    reply = service.ask("parse", {"annotation": "m k+, k n -> m n"})
    assert reply.status == 422
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json == {
        "type": "about:blank",
        "title": "one identifier, two marks",
        "status": 422,
        "detail": "'k' is marked '+' in input 0 and not marked in input 1; "
        "write the same mark at both",
        "error": "AnnotationError",
        "code": "two-marks",
        "text": "m k+, k n -> m n",
        "spans": [[2, 4], [6, 7]],
        "hint": "",
    }


def test_a_batch_answers_each_question_as_if_it_were_alone(service: Service) -> None:
    asked = [(verb, question) for verb, question, _ in QUESTIONS]
    asked.append(("prove", {"claim": "n >"}))
    reply = service.ask("batch", {"questions": [{"verb": v, **q} for v, q in asked]})
    assert reply.status == 200
    rows = reply.json["answers"]
    assert len(rows) == len(asked)
    for row, (verb, question) in zip(rows, asked, strict=True):
        alone = service.ask(verb, question)
        assert row == {
            "status": alone.status,
            ("answer" if alone.status == 200 else "problem"): alone.json,
        }


CHECK = json.dumps(QUESTIONS[3][1]).encode()
TWICE = CHECK[:-1] + b', "parts": 1}'
NO_EXAMPLE = b'{"mesh": {}, "example": "x:y"}'


@pytest.mark.parametrize(
    ("method", "path", "body", "media", "status", "code"),
    [
        ("POST", "/v1/check", b"{", "application/json", 400, "not-json"),
        ("POST", "/v1/check", b"[" * 1000, "application/json", 400, "too-deep"),
        ("POST", "/v1/check", b"\xff", "application/json", 400, "not-utf-8"),
        ("POST", "/v1/check", TWICE, "application/json", 400, "duplicate-key"),
        ("POST", "/v1/check", CHECK, "text/plain", 415, "not-json-type"),
        ("POST", "/v1/check", CHECK, None, 415, "not-json-type"),
        ("POST", "/v1/check", CHECK, "application/json; charset=latin-1", 415, "not-json-type"),
        ("POST", "/v1/check", b" " * 70_000, "application/json", 413, "too-large"),
        ("POST", "/v1/check", b"{}", "application/json", 422, "wrong-form"),
        ("POST", "/v1/check", b"[]", "application/json", 422, "wrong-form"),
        ("POST", "/v1/plan", NO_EXAMPLE, "application/json", 422, "no-such-example"),
        ("GET", "/v1/check", b"", None, 405, "no-such-method"),
        ("DELETE", "/healthz", b"", None, 405, "no-such-method"),
        ("GET", "/v1/nothing", b"", None, 404, "no-such-path"),
        ("GET", "/static/../app.py", b"", None, 404, "no-such-path"),
        ("GET", "/static/%2e%2e/app.py", b"", None, 404, "no-such-path"),
    ],
)  # fmt: skip
def test_a_refusal_is_a_problem_with_its_status(
    service: Service, method: str, path: str, body: bytes, media: str | None, status: int, code: str
) -> None:
    reply = service.request(method, path, body, media)
    assert (reply.status, reply.json["status"], reply.json["code"]) == (status, status, code)
    assert reply.headers["content-type"] == "application/problem+json"
    assert ("allow" in reply.headers) == (status == 405)


def test_a_wrong_form_names_the_place_and_not_the_value(service: Service) -> None:
    reply = service.ask("check", {"annotation": MATMUL, "split": "k", "parts": True, "secret": 1})
    assert reply.json["detail"] == (
        "parts: should be a valid integer or a valid string; secret: Extra inputs are not permitted"
    )


def test_text_is_never_executed(service: Service, tmp_path: Any) -> None:
    canary = tmp_path / "canary"
    text = f"__import__('pathlib').Path('{canary}').touch()"
    for verb, question in (
        ("parse", {"annotation": text}),
        ("prove", {"claim": text}),
        ("infer", {"annotation": MATMUL, "inputs": [text, text]}),
        ("plan", {"example": text, "mesh": {"tp": 2}}),
    ):
        assert service.ask(verb, question).status == 422
    assert not canary.exists()


def test_states_pages_and_metrics(service: Service) -> None:
    assert service.request("GET", "/healthz").json == {"status": "alive"}
    assert service.request("GET", "/readyz").json == {"status": "ready"}
    metrics = service.request("GET", "/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert b'dimsolve_requests_total{route="/readyz",status="200"}' in metrics.body
    page = service.request("GET", "/")
    assert page.status == 200 and b'<html lang="en">' in page.body
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert service.request("GET", "/docs").status == 200
    paths = {row["path"] for row in service.request("GET", "/v1/operators").json["operators"]}
    assert {"torch.matmul", "torch.nn.functional.linear"} <= paths


def test_unknown_paths_make_no_new_series(service: Service) -> None:
    for number in range(5):
        service.request("GET", f"/made-up-{number}")
    assert b"made-up" not in service.request("GET", "/metrics").body


def test_logs_are_json_and_quote_nothing(service: Service) -> None:
    service.ask("parse", {"annotation": "very_secret_name ->"})
    service.request("GET", "/very_secret_path?very_secret_query")
    time.sleep(0.5)  # lines are written ten times a second
    assert {"time", "level", "event", "route", "status", "ms"} <= service.logged()[-1].keys()
    assert "very_secret" not in service.log.read_text()


@pytest.mark.parametrize(
    ("more", "code", "hint"),
    [
        ({"arguments": {"H": 8}}, "unknown-argument", "did you mean 'h'?"),
        ({"facts": ["S % 8 == 0"]}, "unknown-name", "did you mean 's'?"),
    ],
)
def test_names_that_a_question_does_not_have_are_a_problem(
    service: Service, more: dict[str, Any], code: str, hint: str
) -> None:
    question = {"annotation": "(h t) k -> h t k", "inputs": ["8*s, k"], **more}
    for route, rest in (("infer", {}), ("check", {"split": "h", "parts": 2})):
        reply = service.ask(route, question | rest)
        assert reply.status == 422
        assert reply.headers["content-type"] == "application/problem+json"
        assert (reply.json["code"], reply.json["hint"]) == (code, hint)
