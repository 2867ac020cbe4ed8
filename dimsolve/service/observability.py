"""Counters and times in Prometheus' text format, at ``/metrics``.

    dimsolve_requests_total{route="/v1/check",status="200"} 17
    dimsolve_questions_total{verb="check",way="at once"} 15
    dimsolve_request_seconds_bucket{route="/v1/check",le="0.001"} 16

A route is one of ours or ``other``, so that nobody can make new series by asking.

Logs as JSON, one object a line, on stderr; never what was sent.

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
from mmap import PAGESIZE
from pathlib import Path
from threading import Event, Thread
from traceback import extract_tb
from typing import Literal, TextIO, TypeAlias

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from .pool import Pool

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


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OTHER = "other"
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

Way: TypeAlias = Literal["remembered", "at once", "worker"]


class _OfPool(Collector):
    """What the pool counts, and what its processes use; ``process_...`` is the server alone."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics as they are now."""
        killed = "Questions stopped by killing their worker."
        yield CounterMetricFamily("dimsolve_killed_questions", killed, self._pool.killed)
        pids = self._pool.processes
        yield GaugeMetricFamily("dimsolve_workers", "Worker processes.", len(pids))
        used = [size for pid in pids if (size := resident_bytes(pid)) is not None]
        about = "Resident memory of the worker processes; pages that they share count for each."
        if used:
            yield GaugeMetricFamily("dimsolve_workers_resident_memory_bytes", about, sum(used))


def resident_bytes(pid: int) -> int | None:
    """Returns what a process has in memory; None where the system does not tell."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return None
    return int(pages) * PAGESIZE


class Metrics:
    """What one server counts."""

    def __init__(self, pool: Pool) -> None:
        self._registry = registry = CollectorRegistry()
        PlatformCollector(registry=registry)
        ProcessCollector(registry=registry)
        self._requests = Counter(
            "dimsolve_requests", "Requests answered.", ["route", "status"], registry=registry
        )
        self._seconds = Histogram(
            "dimsolve_request_seconds",
            "From a request's headers to its answer.",
            ["route"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self._questions = Counter(
            "dimsolve_questions", "Questions, by how they were answered.", ["verb", "way"],
            registry=registry,
        )  # fmt: skip
        pending = Gauge(
            "dimsolve_pending_questions", "Questions for workers, running or waiting.",
            registry=registry,
        )  # fmt: skip
        pending.set_function(lambda: pool.pending)
        registry.register(_OfPool(pool))

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Counts a request."""
        self._requests.labels(route, status).inc()
        self._seconds.labels(route).observe(seconds)

    def asked(self, verb: str, way: Way) -> None:
        """Counts a question."""
        self._questions.labels(verb, way).inc()

    def text(self) -> bytes:
        """Returns all of it, as Prometheus reads it."""
        return generate_latest(self._registry)
