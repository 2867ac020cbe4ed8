"""A service of its own, started as users start it, and raw requests to it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

START_SECONDS = 60.0


class Reply(NamedTuple):
    """A status, headers in lower case, and a body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Service:
    """A running `dimsolve serve`."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self.log = log

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def logged(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def ask(self, verb: str, question: Any, timeout: float = 300.0) -> Reply:
        return self.request("POST", f"/v1/{verb}", json.dumps(question).encode(), timeout=timeout)

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        media: str | None = "application/json",
        timeout: float = 300.0,
    ) -> Reply:
        typed = f"Content-Type: {media}\r\n" if body and media else ""
        sized = f"Content-Length: {len(body)}\r\n" if body else ""
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{typed}{sized}\r\n"
        return self.raw(head.encode() + body, timeout)

    def raw(self, data: bytes, timeout: float = 300.0) -> Reply:
        with socket.create_connection(("127.0.0.1", self.port), timeout) as connection:
            connection.sendall(data)
            return read_reply(connection)

    def memory(self) -> int:
        """The resident bytes of the server and its workers."""
        return sum(map(_resident, [self.process.pid, *descendants(self.process.pid)]))

    def stop(self, timeout: float = 300.0) -> int:
        """Asks it to stop, and returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)


def read_reply(connection: socket.socket) -> Reply:
    """Reads one reply; ConnectionError where the connection ends before it."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _some(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    while len(body) < int(headers.get("content-length", 0)):
        body += _some(connection)
    return Reply(int(status.split()[1]), headers, body)


def _some(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise ConnectionError("the connection ended")
    return data


@contextmanager
def serving(*options: str) -> Iterator[Service]:
    """Runs ``dimsolve serve`` on a free port; kills it if it is still there at the end."""
    with TemporaryDirectory() as directory:
        log = Path(directory, "log")
        with log.open("wb") as errors:
            program = [sys.executable, "-P", "-m", "dimsolve", "serve", "--port", "0", *options]
            process = subprocess.Popen(program, stderr=errors)
        try:
            yield Service(process, _port(process, log), log)
        finally:
            orphans = descendants(process.pid)
            if process.poll() is None:
                process.kill()
                process.wait()
            for orphan in orphans:
                _end(orphan)


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        text = log.read_text()
        found = re.search(r"running on http://127\.0\.0\.1:(\d+)", text)
        if found:
            return int(found[1])
        assert process.poll() is None, text
        time.sleep(0.05)
    raise AssertionError(log.read_text())


def descendants(pid: int) -> list[int]:
    """All processes that a process started, and those that they started."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    threads = [path for path in Path(f"/proc/{pid}/task").iterdir() if path.name != str(pid)]
    for thread in threads:
        try:
            children += (thread / "children").read_text().split()
        except OSError:
            continue
    found = [int(child) for child in children]
    return found + [below for child in found for below in descendants(child)]


def _resident(pid: int) -> int:
    """A process's bytes in memory, each page that it shares with others counted in part."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    (line,) = (line for line in rollup.splitlines() if line.startswith("Pss:"))
    return int(line.split()[1]) * 1024


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
