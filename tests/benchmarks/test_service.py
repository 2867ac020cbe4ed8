"""How many questions a second the service answers, beside an empty FastAPI route.

    pytest tests/benchmarks/test_service.py -s

Both servers run on this machine with the same HTTP parser; clients wait for an answer before they
ask again. The two are measured in turns, and the medians of the turns are compared: the aim is a
third. "New" questions have sizes that were never asked about, "again" is the very same question.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import pytest

CLIENTS = 8
SECONDS = 1.0
TURNS = 5
AIM = 1 / 3
HERE = Path(__file__).parent
EMPTY = """
import sys, uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.get("/empty")
async def empty():
    return {}
uvicorn.run(app, port=int(sys.argv[1]), http="httptools", loop="asyncio", ws="none",
            access_log=False, log_level="error")
"""


def check(inputs: list[Any], facts: tuple[str, ...] = ()) -> str:
    question = {"annotation": "m k+, k+ n -> m n", "inputs": inputs, "split": "k", "parts": 8}
    return json.dumps({**question, "facts": list(facts)})


NEW = [["m", "{i}*k"], ["{i}*k", "n"]]
QUESTIONS = {
    "check, again": ("/v1/check", check(["m, k", "k, n"], ("k % 64 == 0",))),
    "check, new numbers": ("/v1/check", check([[64, "{i}"], ["{i}", 512]])),
    "check, new symbols": ("/v1/check", check(NEW)),
    "check, new symbols and a fact": ("/v1/check", check(NEW, ("k % 64 == 0",))),
    "check, new and conditional": ("/v1/check", check([["m", "{i}*k + 1"], ["{i}*k + 1", "n"]])),
    "prove, new": ("/v1/prove", json.dumps({"claim": "{i}*n*(n + 1) % 2 == 0"})),
}


def measured(port: int, method: str, path: str, body: str) -> dict[str, float]:
    words = [port, method, path, CLIENTS, SECONDS, body]
    program = [sys.executable, str(HERE / "closed_loop.py"), *map(str, words)]
    run = subprocess.run(program, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(run.stdout)
    return figures


@contextmanager
def serving(*program: str) -> Iterator[int]:
    """Runs a server on a free port, which is the last word of its command line."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    words = [sys.executable, *program, str(port)]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[int, int]]:
    with serving("-c", EMPTY) as empty, serving("-m", "dimsolve", "serve", "--port") as ours:
        yield empty, ours


@pytest.mark.parametrize("name", QUESTIONS)
def test_throughput_beside_an_empty_route(name: str, servers: tuple[int, int]) -> None:
    empty, ours = servers
    path, body = QUESTIONS[name]
    pairs = [
        (measured(empty, "GET", "/empty", ""), measured(ours, "POST", path, body))
        for _ in range(TURNS)
    ]
    base, asked = (
        {key: median(row[i][key] for row in pairs) for key in pairs[0][i]} for i in (0, 1)
    )
    ratio = median(ours["a_second"] / empty["a_second"] for empty, ours in pairs)
    print(
        f"\n{name:<30} {asked['a_second']:6.0f}/s of {base['a_second']:6.0f}/s: {ratio:4.0%} "
        f"(aim {AIM:.0%})   median {asked['median'] * 1e3:.2f} ms, p99 {asked['p99'] * 1e3:.2f} ms "
        f"(empty {base['p99'] * 1e3:.2f} ms)"
    )
