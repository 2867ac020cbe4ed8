"""Requests of people who mean no good, each with the statuses that are right for it.

    python -m tests.face.service.hostile 10000

starts a service, sends so many, and prints what it took: the usual time before and after, the
memory before and after, and every status that was wrong. Deep, huge, slow, malformed, of wrong
types, that look like code, hard to decide, and sometimes one that is in order.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from dimsolve.service.answers import answer
from tests.face.running import Service, serving

CANARY = Path("/tmp/dimsolve-canary")
USUAL = {
    "annotation": "m k+, k+ n -> m n",
    "inputs": ["m, k", "k, n"],
    "split": "k",
    "parts": 8,
    "facts": ["k % 64 == 0"],
}
MATMUL = USUAL["annotation"]
CODE = (
    f"__import__('pathlib').Path('{CANARY}').touch()",
    f"(lambda: open('{CANARY}', 'w'))()",
    "exec('import os')",
    "().__class__.__bases__[0].__subclasses__()",
    "{{7*7}}${7*7}",
    "lambda: 0",
    "k if k else k",
    "[x for x in ()]",
)
HARD = (
    "9**9**9 == 0",
    "9" * 5000 + " > 0",
    "a**5 + b**5 != c**5",
    "(a + b + c + d)**16 % 720720 == 0",
    "a**16*b**16*c**16 % 97 == 0",
    "(a*b + c*d + e*f)**3 >= (a*b)**3 + (c*d)**3 + (e*f)**3",
    "x**3 + y**3 + z**3 != 42",
    "a//b//c//d//e//f == a//(b*c*d*e*f)",
    "(a % b) % (c % d) <= max(a, b, c, d)",
    "(" * 500 + "a" + ")" * 500 + " > 0",
    "+".join(f"x{i}*y{i}" for i in range(200)) + " > 0",
    "999999999999999989*n % 999999999999999989 == 0",
)
ODD = (
    "",
    " ",
    "\0",
    "->",
    "a",
    "\u202e",
    "a\u0430 -> a",
    "\U0001f600",
    "%s%n",
    "'; DROP TABLE",
    "-1",
)


class Attack(NamedTuple):
    """Bytes for a connection, and the statuses that are right: 0 is a closed connection."""

    kind: str
    data: bytes
    right: frozenset[int]
    answer: bytes | None = None
    """The exact body, where the question is in order."""


def post(path: str, body: bytes, media: str = "application/json") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {media}\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def _asked(verb: str, question: Any) -> bytes:
    return post(f"/v1/{verb}", json.dumps(question).encode())


def deep(rng: random.Random) -> Attack:
    depth = rng.choice([65, 100, 1000, 20_000])
    opening, closing = rng.choice([(b"[", b"]"), (b'{"a":', b"}")])
    body = opening * depth + b"1" + closing * rng.choice([depth, 0])
    body = body[: 60 * 1024]
    return Attack("deep", post("/v1/check", body), frozenset({400}))


def huge(rng: random.Random) -> Attack:
    size = rng.choice([70_000, 300_000, 1_000_000])
    match rng.randrange(4):
        case 0:
            return Attack("huge", post("/v1/prove", b'{"claim": "' + b"a" * size), frozenset({413}))
        case 1:
            head = b"POST /v1/prove HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            chunk = b"%x\r\n%b\r\n" % (60_000, b" " * 60_000)
            data = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 5
            return Attack("huge", data, frozenset({413}))
        case 2:
            data = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * size
            return Attack("huge", data, frozenset({431, 400}))
        case _:
            body = b'{"claim": ' + b"9" * 50_000 + b"}"
            return Attack("huge", post("/v1/prove", body), frozenset({400}))


def malformed(rng: random.Random) -> Attack:
    whole = json.dumps(USUAL).encode()
    bodies = (
        whole[: rng.randrange(len(whole))],
        bytes(rng.randrange(256) for _ in range(rng.randrange(1, 200))),
        whole.replace(b"8", b"NaN"),
        whole.replace(b"8", b"1e999"),
        whole.replace(b"k, n", b"\xff\xfe"),
        whole.replace(b"k, n", b"\\ud800"),
        whole[:-1] + b', "parts": 9}',
        whole + whole,
        b"\xef\xbb\xbf" + whole,
        whole.decode().encode("utf-16"),
    )
    return Attack("malformed", post("/v1/check", rng.choice(bodies)), frozenset({400}))


def no_http(rng: random.Random) -> Attack:
    noise = bytes(rng.randrange(256) for _ in range(50))
    lines = (
        (noise + b"\r\n\r\n", {400}),
        (b"GET / HTTP/9.9\r\n\r\n", {400}),
        (b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", {400}),
        (
            b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            {400},
        ),
        (b"DELETE /v1/check HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", {405}),
        (b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", {404}),
        (b"GET /static/..%2fapp.py HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", {404}),
        (b"GET /v1/%00 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", {404}),
        (post("/v1/check", b"{}", "text/plain"), {415}),
        (post("/v1/check", b"{}", "application/json; charset=latin-1"), {415}),
        (post("/v1/nothing", b"{}"), {404}),
    )
    data, right = rng.choice(lines)
    return Attack("no http", data, frozenset(right))


def wrong_type(rng: random.Random) -> Attack:
    wrong: Any = rng.choice([[[]], {"a": 1}, True, 1.5, None, {}, [None, {}], [[["a"]]]])
    question: dict[str, Any] = dict(USUAL)
    field = rng.choice([*USUAL, "unknown", "contiguous", "up_to"])
    question[field] = wrong
    return Attack("wrong type", _asked("check", question), frozenset({200, 422}))


def code(rng: random.Random) -> Attack:
    text = rng.choice([*CODE, *ODD])
    question = {
        "parse": {"annotation": text},
        "prove": {"claim": text, "facts": [text]},
        "infer": {"annotation": MATMUL, "inputs": [text, [text, 8]], "arguments": {text: text}},
        "check": {**USUAL, rng.choice(["annotation", "split", "parts"]): text},
        "legal-parts": {"annotation": MATMUL, "inputs": None, "split": text},
        "plan": {"example": text, "mesh": {text: text}, "policy": text},
    }
    verb = rng.choice(list(question))
    return Attack("code", _asked(verb, question[verb]), frozenset({200, 422}))


def hard(rng: random.Random) -> Attack:
    claim = rng.choice(HARD)
    return Attack("hard", _asked("prove", {"claim": claim}), frozenset({200, 422, 503, 504}))


def random_plan(rng: random.Random) -> Attack:
    graph: Any = {"version": 1, "name": "main", "inputs": [], "nodes": [], "result": None}
    graph |= {"outputs": {}, "container": None, "facts": [], "checks": [], "strict": False}
    graph["functions"] = []
    graph[rng.choice(list(graph))] = rng.choice([None, 7, "x", [1], {"a": 1}, [[1, 2]]])
    return Attack(
        "plan", _asked("plan", {"graph": graph, "mesh": {"tp": 2}}), frozenset({200, 422})
    )


def in_order(rng: random.Random) -> Attack:
    number = rng.randrange(1, 10**9)
    question = {**USUAL, "inputs": [["m", f"{number}*k"], [f"{number}*k", "n"]]}
    body = json.dumps(question).encode()
    return Attack("in order", post("/v1/check", body), frozenset({200}), answer("check", body).body)


def gone(rng: random.Random) -> Attack:
    data = _asked("prove", {"claim": rng.choice(HARD)})
    return Attack("gone", data[: rng.randrange(1, len(data) + 1)], frozenset())


KINDS: dict[Callable[[random.Random], Attack], int] = {
    deep: 10,
    huge: 8,
    malformed: 20,
    no_http: 10,
    wrong_type: 15,
    code: 15,
    hard: 2,
    random_plan: 4,
    in_order: 14,
    gone: 2,
}
"""Which, and how often of a hundred."""


class Outcome(NamedTuple):
    """``statuses`` counts (kind, status); ``wrong`` tells those that were not right."""

    statuses: Counter[tuple[str, int]]
    wrong: list[str]
    usual_before: float
    usual_after: float
    memory_before: int
    memory_after: int
    seconds: float


def attack(service: Service, requests: int, seed: int = 0, clients: int = 32) -> Outcome:
    """Sends so many hostile requests, and measures what they leave behind."""
    CANARY.unlink(missing_ok=True)
    usual_before, memory_before = usual(service), service.memory()
    began = time.monotonic()
    statuses, wrong = asyncio.run(_attack(service, requests, seed, clients))
    seconds = time.monotonic() - began
    if CANARY.exists():
        wrong.append("text was executed")
    time.sleep(0.5)
    usual_after = usual(service)
    return Outcome(
        statuses, wrong, usual_before, usual_after, memory_before, service.memory(), seconds
    )


def usual(service: Service, times: int = 300) -> float:
    """The median time of a usual question, in seconds."""
    body = json.dumps(USUAL).encode()
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        reply = service.request("POST", "/v1/check", body)
        taken.append(time.perf_counter() - began)
        assert reply.status == 200
    return statistics.median(taken)


async def _attack(
    service: Service, requests: int, seed: int, clients: int
) -> tuple[Counter[tuple[str, int]], list[str]]:
    rng = random.Random(seed)
    statuses: Counter[tuple[str, int]] = Counter()
    wrong: list[str] = []
    left = iter(range(requests))
    slow = [asyncio.create_task(_slow(service, kind)) for kind in range(8)]

    async def client() -> None:
        for _ in left:
            one = rng.choices(list(KINDS), list(KINDS.values()))[0](rng)
            status, body = await _send(service, one)
            statuses[one.kind, status] += 1
            if one.right and status not in one.right:
                wrong.append(f"{one.kind}: {status} for {one.data[-300:]!r}: {body[:300]!r}")
            elif one.answer is not None and body != one.answer:
                wrong.append(f"another answer: {body!r} for {one.data!r}")
            elif (
                status >= 400 and one.kind != "no http" and status != 431 and not _is_problem(body)
            ):
                wrong.append(f"{one.kind}: {status} is no problem: {body[:300]!r}")

    await asyncio.gather(*(client() for _ in range(clients)))
    for task in slow:
        status = await task
        statuses["slow", status] += 1
        if status not in (0, 408):
            wrong.append(f"slow: {status}")
    return statuses, wrong


def _is_problem(body: bytes) -> bool:
    try:
        return {"type", "title", "status", "detail", "code"} <= json.loads(body).keys()
    except ValueError:
        return False


async def _send(service: Service, one: Attack) -> tuple[int, bytes]:
    """Returns the status, 0 where the connection is closed without one, and the body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    try:
        writer.write(one.data)
        if not one.right:
            return 0, b""
        return await asyncio.wait_for(_reply(reader), 60)
    except (ConnectionError, asyncio.IncompleteReadError):
        return 0, b""
    finally:
        writer.close()


async def _reply(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    size = next(
        (int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"),
        0,
    )
    return int(head.split()[1]), await reader.readexactly(size)


async def _slow(service: Service, kind: int) -> int:
    """A byte now and then, of a head or of a body, until the service has had enough."""
    data = post("/v1/prove", b'{"claim": "n > 0"}')
    start = 10 if kind % 2 else data.index(b"\r\n\r\n") + 6
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    try:
        writer.write(data[:start])
        reply = asyncio.ensure_future(_reply(reader))
        for byte in data[start:]:
            done, _ = await asyncio.wait({reply}, timeout=2)
            if done:
                break
            writer.write(bytes([byte]))
        return (await asyncio.wait_for(reply, 60))[0]
    except (ConnectionError, asyncio.IncompleteReadError):
        return 0
    finally:
        writer.close()


def main(requests: int) -> None:
    with serving() as service:
        found = attack(service, requests)
        for (kind, status), count in sorted(found.statuses.items()):
            print(f"{kind:<12} {status:>4} {count:>7}")
        print(f"{requests} requests in {found.seconds:.1f} s")
        print(
            f"usual time  {found.usual_before * 1e3:.2f} ms, then {found.usual_after * 1e3:.2f} ms"
        )
        print(f"memory      {found.memory_before >> 20} MiB, then {found.memory_after >> 20} MiB")
        print("wrong      ", len(found.wrong), *found.wrong[:20], sep="\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
