"""A request has one answer, and an answer answers its own request, however the bytes arrive."""

from __future__ import annotations

import random
import socket
import time

import pytest

from tests.face.running import Service

PROVE = b'{"claim": "1 == 1"}'
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
"""What a body is made of here: it must never be taken for a request."""
HUGE = REQUEST * 8000
CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (len(HUGE), HUGE)


def head(line: str, *fields: str) -> bytes:
    return "\r\n".join([f"{line} HTTP/1.1", "Host: x", *fields, "", ""]).encode()


def exchanged(service: Service, pieces: list[bytes], pause: float, wait: float = 4.0) -> bytes:
    """All that the service says to these pieces, until it closes or says nothing more."""
    with socket.create_connection(("127.0.0.1", service.port), wait) as connection:
        data = b""
        try:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause)
            while part := connection.recv(1 << 16):
                data += part
        except TimeoutError:
            pass
        return data


def statuses(data: bytes) -> list[int]:
    return [int(part[:3]) for part in data.split(b"HTTP/1.1 ")[1:]]


LENGTH = f"Content-Length: {len(HUGE)}"
JSON = "Content-Type: application/json"
TEXT = "Content-Type: text/plain"
EARLY = {
    "wrong media type": (head("POST /v1/check", TEXT, LENGTH), HUGE, 415),
    "no type, in chunks": (head("POST /v1/check", "Transfer-Encoding: chunked"), CHUNKED, 415),
    "another method": (head("PUT /v1/check", JSON, LENGTH), HUGE, 405),
    "a method without a body": (head("GET /healthz", LENGTH), HUGE, 200),
    "no such path": (head("POST /v2", JSON, LENGTH), HUGE, 404),
    "too large": (head("POST /v1/check", JSON, LENGTH), HUGE, 413),
    "too large in chunks": (
        head("POST /v1/check", JSON, "Transfer-Encoding: chunked"), CHUNKED, 413,
    ),
    "waits to be asked": (head("POST /v1/check", TEXT, LENGTH, "Expect: 100-continue"), HUGE, 415),
}  # fmt: skip


@pytest.mark.parametrize("name", EARLY)
@pytest.mark.parametrize("pause", [0.0, 0.1])
def test_an_early_answer_is_the_only_one_and_the_last(
    service: Service, name: str, pause: float
) -> None:
    opening, body, status = EARLY[name]
    halves = [body[: len(body) // 3], body[len(body) // 3 :]]
    data = exchanged(service, [opening, *halves, REQUEST], pause)
    assert statuses(data) == [status]
    assert b"connection: close" in data.partition(b"\r\n\r\n")[0].lower().split(b"\r\n")


def test_requests_in_a_row_have_answers_in_a_row(service: Service) -> None:
    """However they are cut: one answer each, in order, until one of them ends the connection."""
    rng = random.Random(7)
    wrong = head("POST /v1/check", TEXT, "Content-Length: 5") + b"12345"
    right = head("POST /v1/prove", JSON, f"Content-Length: {len(PROVE)}") + PROVE
    asked_to_wait = head(
        "POST /v1/prove", JSON, f"Content-Length: {len(PROVE)}", "Expect: 100-continue"
    )
    rows = [(wrong, [415]), (right, [200]), (REQUEST, [200]), (asked_to_wait + PROVE, [100, 200])]
    for _ in range(25):
        chosen = [rng.choice(rows) for _ in range(rng.randint(1, 6))]
        stream = b"".join(data for data, _ in chosen)
        cuts = sorted(rng.sample(range(1, len(stream)), rng.randint(0, 5)))
        pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
        data = exchanged(service, pieces, rng.choice([0.0, 0.01]), wait=0.3)
        found = [status for status in statuses(data) if status != 100]
        expected = [status[-1] for _, status in chosen]
        assert found == expected[: len(found)]
        if len(found) < len(expected):
            assert found[-1] == 415 and b"connection: close" in data.lower()


@pytest.mark.parametrize("upgrade", ["h2c", "websocket"])
def test_an_upgrade_that_is_not_taken_leaves_the_connection_in_order(
    service: Service, upgrade: str
) -> None:
    """`curl --http2` asks for one."""
    asking = head("GET /healthz", f"Upgrade: {upgrade}", "Connection: Upgrade")
    assert statuses(exchanged(service, [asking, REQUEST], 0.1, wait=1.0)) == [200, 200]
    found = statuses(exchanged(service, [asking + REQUEST], 0.0, wait=1.0))
    assert found == [200, 200]
