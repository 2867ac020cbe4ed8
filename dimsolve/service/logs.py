"""Logs as JSON, one object a line, on stderr; never what was sent.

    {"time": "2025-01-31T12:00:00.123Z", "level": "info", "event": "answered", "route": "/v1/check",
     "status": 200, "ms": 0.42, "way": "at once"}

Lines are written by a thread, ten times a second: a terminal or a pipe that nobody reads must not
hold the answers up. Past so many unwritten lines the oldest are lost.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from threading import Event, Thread
from traceback import extract_tb
from typing import TextIO

LOGGER = logging.getLogger("dimsolve.service")
_UNWRITTEN = 10_000
_SECONDS = 0.1


def note(level: int, event: str, fields: dict[str, object]) -> None:
    """Logs an event with further members, and does not look for the calling line."""
    if LOGGER.isEnabledFor(level):
        record = LOGGER.makeRecord(
            LOGGER.name, level, "", 0, event, (), None, extra={"fields": fields}
        )
        LOGGER.handle(record)


class JsonFormatter(logging.Formatter):
    """A log record as one line of JSON; ``extra={"fields": {...}}`` are further members."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line. Of an exception: its class and places, for its text may quote."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[0] is not None:
            frames = extract_tb(record.exc_info[2])
            line["exception"] = record.exc_info[0].__name__
            line["places"] = [f"{frame.filename}:{frame.lineno}" for frame in frames[-8:]]
        return json.dumps(line)


class ThreadedHandler(logging.Handler):
    """Hands lines to a thread that writes them."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._lines: deque[str] = deque(maxlen=_UNWRITTEN)
        self._closing = Event()
        self._thread = Thread(target=self._write_all, name="logs", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Takes a record; never waits."""
        self._lines.append(self.format(record))

    def _write_all(self) -> None:
        closing = False
        while not closing:
            closing = self._closing.wait(_SECONDS)
            lines: list[str] = []
            while self._lines:
                lines.append(self._lines.popleft())
            if lines:
                with suppress(OSError, ValueError):
                    self._stream.write("\n".join([*lines, ""]))
                    self._stream.flush()

    def close(self) -> None:
        """Writes what is left, if somebody reads it soon."""
        self._closing.set()
        self._thread.join(timeout=1)
        super().close()


@contextmanager
def json_logs() -> Iterator[None]:
    """Within it, this package and uvicorn log JSON to stderr."""
    handler = ThreadedHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    loggers = [LOGGER, logging.getLogger("uvicorn"), logging.getLogger("uvicorn.error")]
    for logger in loggers:
        logger.handlers = [handler] if logger.name != "uvicorn.error" else []
        logger.setLevel(logging.INFO)
        logger.propagate = logger.name == "uvicorn.error"
    try:
        yield
    finally:
        handler.close()
        for logger in loggers:
            logger.handlers = []
