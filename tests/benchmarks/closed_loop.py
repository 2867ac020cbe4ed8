"""Clients that each wait for an answer before they ask again, in a process of their own.

    python closed_loop.py PORT METHOD PATH CLIENTS SECONDS BODY...

prints a JSON object: answers a second, and the median and the 99th percentile in seconds. ``{i}``
in a body is a number that was not used before.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from itertools import count
from time import perf_counter


class Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        request = self.loop.request()
        self.began = perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.data += data
        head, end, body = self.data.partition(b"\r\n\r\n")
        if not end:
            return
        _, _, size = head.lower().partition(b"content-length: ")
        if len(body) < int(size.split(b"\r\n")[0]):
            return
        assert head.split()[1] == b"200", self.data
        self.data = b""
        now = perf_counter()
        self.loop.taken.append(now - self.began)
        if now < self.loop.end:
            self.ask()
        else:
            self.transport.close()


class Loop:
    """All connections."""

    def __init__(self, method: str, path: str, body: str) -> None:
        self.taken: list[float] = []
        self.end = 0.0
        self._head = f"{method} {path} HTTP/1.1\r\nHost: x\r\n"
        self._body = body
        self._numbers = count(random.randrange(10**6, 10**9))

    def request(self) -> bytes:
        body = self._body.replace("{i}", str(8 * next(self._numbers)))
        if not body:
            return f"{self._head}\r\n".encode()
        media = "Content-Type: application/json\r\n"
        return f"{self._head}{media}Content-Length: {len(body)}\r\n\r\n{body}".encode()

    async def run(self, port: int, clients: int, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self.end = perf_counter() + seconds
        for _ in range(clients):
            await loop.create_connection(lambda: Client(self), "127.0.0.1", port)
        await asyncio.sleep(seconds + 0.3)


def main() -> None:
    port, method, path, clients, seconds, body = sys.argv[1:]
    loop = Loop(method, path, body)
    asyncio.run(loop.run(int(port), int(clients), float(seconds)))
    taken = sorted(loop.taken)
    print(
        json.dumps(
            {
                "a_second": len(taken) / float(seconds),
                "median": taken[len(taken) // 2],
                "p99": taken[len(taken) * 99 // 100],
            }
        )
    )


if __name__ == "__main__":
    main()
