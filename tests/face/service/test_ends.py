"""How processes end: workers, the server, and what the clients are told."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.face.running import Reply, Service, descendants, serving

SLOW = {
    "annotation": "(a b c d e) k+, k+ n -> a b c d e n",
    "inputs": ["s*k*(s+1)*(k+3), k*s", "k*s, n*n*s"],
    "split": "k",
    "facts": ["s % 7 == 3", "k % 12 == 5"],
}
QUICK = {"annotation": "m k+, k+ n -> m n", "inputs": ["a, b", "b, n"], "split": "k"}


@contextmanager
def asking(service: Service, up_to: int) -> Iterator[Future[Reply]]:
    """Somebody asks a slow question, and a worker has begun with it."""
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(service.ask, "legal-parts", {**SLOW, "up_to": up_to})
        time.sleep(1.0)
        assert not future.done()
        yield future


def busiest(service: Service) -> int:
    """The worker that works: workers are children of the process that forks them."""
    server = service.process.pid
    return max((pid for pid in descendants(server) if _parent(pid) != server), key=_ticks)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11])


def test_a_worker_that_is_killed_is_replaced_and_the_question_answered() -> None:
    with serving("--workers", "1", "--deadline", "60") as service, asking(service, 500) as asked:
        os.kill(busiest(service), signal.SIGKILL)
        assert asked.result().status == 200


def test_a_worker_that_is_always_killed_is_not_blamed_on_memory() -> None:
    with serving("--workers", "1", "--deadline", "60") as service, asking(service, 1000) as asked:
        for _ in range(2):
            os.kill(busiest(service), signal.SIGKILL)
            time.sleep(1.5)
        problem = asked.result().json
    assert (problem["status"], problem["code"], problem["detail"], problem["hint"]) == (
        503,
        "worker-ended",
        "the process that worked on it ended, and another one after it",
        "ask again; if it happens again, this question is a defect: please report it",
    )


def test_busy_workers_end_with_a_server_that_is_killed() -> None:
    with serving("--deadline", "60") as service:
        with ThreadPoolExecutor(1) as thread:
            asked = thread.submit(service.ask, "legal-parts", {**SLOW, "up_to": 1000})
            time.sleep(1.0)
            workers = descendants(service.process.pid)
            service.process.kill()
            service.process.wait()
            with pytest.raises(ConnectionError):
                asked.result()
        end = time.monotonic() + 3
        while (left := [pid for pid in workers if _runs(pid)]) and (time.monotonic() < end):
            time.sleep(0.05)
        assert left == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0(number: signal.Signals) -> None:
    with serving() as service:
        service.process.send_signal(number)
        assert service.process.wait(30) == 0
        assert "Traceback" not in service.log.read_text()


def test_a_second_ctrl_c_does_not_wait_and_says_so() -> None:
    with serving("--deadline", "60") as service, asking(service, 1000) as asked:
        began = time.monotonic()
        for _ in range(2):
            service.process.send_signal(signal.SIGINT)
            time.sleep(0.3)
        reply = asked.result()
        assert (reply.status, reply.json["code"]) == (503, "stopping")
        assert reply.json["detail"] == "it was told to stop at once"
        assert reply.headers["content-type"] == "application/problem+json"
        assert service.process.wait(10) == 130
        assert time.monotonic() - began < 10
        assert "Traceback" not in service.log.read_text()
        assert "exception" not in service.log.read_text()


def test_a_stop_takes_no_longer_than_the_deadline() -> None:
    """Also where many wait: the deadline counts the waiting."""
    with (
        serving("--workers", "1", "--deadline", "4") as service,
        ThreadPoolExecutor(6) as threads,
    ):
        began = time.monotonic()
        asked = [
            threads.submit(service.ask, "legal-parts", {**SLOW, "up_to": 1000 - n})
            for n in range(6)
        ]
        time.sleep(0.5)
        service.process.send_signal(signal.SIGTERM)
        replies = [future.result() for future in asked]
        assert service.process.wait(30) == 0
        assert time.monotonic() - began < 4 + 3
    assert {reply.status for reply in replies} <= {503, 504}
    late = [reply for reply in replies if reply.status == 503]
    assert late and all(1 <= int(reply.headers["retry-after"]) <= 60 for reply in late)


def test_a_usual_question_does_not_wait_for_slow_ones_of_the_same_client() -> None:
    with (
        serving("--workers", "2", "--deadline", "20") as service,
        ThreadPoolExecutor(12) as threads,
    ):
        slow = [
            threads.submit(service.ask, "legal-parts", {**SLOW, "up_to": 1000 - n})
            for n in range(12)
        ]
        time.sleep(1.5)
        for up_to in (16, 64, 256):  # at once, and in the lane of short ones
            began = time.monotonic()
            assert service.ask("legal-parts", {**QUICK, "up_to": up_to}).status == 200
            assert time.monotonic() - began < 5
        assert not all(future.done() for future in slow)
        service.process.kill()


def test_a_port_that_is_taken_is_said_and_nothing_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        program = [sys.executable, "-m", "dimsolve", "serve", "--port", str(port)]
        found = subprocess.run(program, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == f"port {port} is taken; --port 0 takes a free one\n"


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("no.such.host.invalid", "there is no address 'no.such.host.invalid'"),
        ("192.0.2.1", "this machine has no address '192.0.2.1'"),
    ],
)
def test_an_address_that_is_none_is_said(host: str, text: str) -> None:
    program = [sys.executable, "-m", "dimsolve", "serve", "--host", host, "--port", "0"]
    found = subprocess.run(program, capture_output=True, text=True)
    assert found.returncode == 2
    assert found.stderr == f"{text}; --host 127.0.0.1 is this machine alone\n"


def test_a_terminal_gets_one_plain_line_with_the_address() -> None:
    ours, theirs = os.openpty()
    program = [sys.executable, "-m", "dimsolve", "serve", "--port", "0"]
    process = subprocess.Popen(program, stdout=theirs, stderr=subprocess.DEVNULL)
    try:
        line = os.read(ours, 1000).decode()
    finally:
        process.terminate()
        process.wait(30)
    assert re.fullmatch(r"dimsolve answers at http://127\.0\.0\.1:\d+ \(Ctrl-C stops it\)\s*", line)


def test_metrics_count_what_was_killed_and_name_whose_memory_it_is(service: Service) -> None:
    text = service.request("GET", "/metrics").body.decode()
    assert "# TYPE dimsolve_killed_questions_total counter" in text
    workers = re.search(r"^dimsolve_workers (\d+)", text, re.MULTILINE)
    assert workers and int(workers[1]) >= 2
    memory = re.search(r"^dimsolve_workers_resident_memory_bytes (\S+)", text, re.MULTILINE)
    assert memory and float(memory[1]) > 1e6
