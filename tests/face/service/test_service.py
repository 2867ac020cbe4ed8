"""The running service under load, under attack, and while it stops."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dimsolve.service.answers import answer
from tests.face.running import Service, descendants, read_reply, serving

from .hostile import attack

SLOW = {"annotation": "a b -> a b", "inputs": ["s, t"], "split": "a", "up_to": 400}
"""A question that takes a worker some tenths of a second."""


def test_two_hundred_clients_at_once_lose_no_answer(service: Service) -> None:
    """At once, by workers, and refused ones, each exactly the answer that it has alone."""
    asked = []
    for number in range(200):
        questions = (
            ("check", {"annotation": "a -> a", "inputs": [[number]], "split": "a", "parts": 2}),
            ("prove", {"claim": f"{number + 2}*n % 2 == 0"}),
            ("parse", {"annotation": f"a{number} b -> "}),
            ("infer", {"annotation": "(h t) -> h t", "inputs": [[number + 1]]}),
        )
        verb, question = questions[number % 4]
        asked.append((verb, json.dumps(question).encode()))
    with ThreadPoolExecutor(200) as threads:
        replies = list(
            threads.map(lambda row: service.request("POST", f"/v1/{row[0]}", row[1]), asked)
        )
    for (verb, body), reply in zip(asked, replies, strict=True):
        expected = answer(verb, body)  # type: ignore[arg-type]
        assert (reply.status, reply.body) == (expected.status, expected.body)


def test_hostile_requests_get_no_wrong_status_and_leave_nothing_behind() -> None:
    """`python -m tests.face.service.hostile 10000` is longer; its figures are not asserted."""
    with serving() as service:
        attack(service, 1500, seed=1)  # what is made once is made, and memories are full
        found = attack(service, 1500, seed=2)
        assert found.wrong == []
        assert found.memory_after < found.memory_before + (64 << 20)
        assert service.process.poll() is None


def test_sigterm_finishes_what_is_under_way() -> None:
    with serving("--deadline", "60") as service:
        body = json.dumps(SLOW).encode()
        connections = []
        for _ in range(6):
            connection = socket.create_connection(("127.0.0.1", service.port), 60)
            head = f"POST /v1/legal-parts HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
            connection.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
            connections.append(connection)
        half = socket.create_connection(("127.0.0.1", service.port), 60)
        half.sendall(b"POST /v1/prove HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
        half.sendall(b'Content-Length: 18\r\n\r\n{"claim":')
        time.sleep(0.3)
        workers = descendants(service.process.pid)
        assert workers
        for pid in [service.process.pid, *workers]:  # as a supervisor does that ends the group
            os.kill(pid, signal.SIGTERM)
        time.sleep(0.1)
        half.sendall(b' "n > 0"}')
        expected = answer("legal-parts", body)
        for connection in connections:
            assert read_reply(connection).body == expected.body
            connection.close()
        assert read_reply(half).json["verdict"] == "proved"
        half.close()
        assert service.process.wait(60) == 0
        assert _left(workers) == []


def test_a_server_that_is_killed_leaves_no_worker_behind() -> None:
    with serving() as service:
        workers = descendants(service.process.pid)
        service.process.kill()
        service.process.wait()
        assert _left(workers) == []


def _left(pids: list[int], seconds: float = 30) -> list[int]:
    """The processes that still run after a while."""
    end = time.monotonic() + seconds
    while any(map(_runs, pids)) and time.monotonic() < end:
        time.sleep(0.1)
    return [pid for pid in pids if _runs(pid)]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
