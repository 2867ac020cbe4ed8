"""Counters and times in Prometheus' text format, at ``/metrics``.

    dimsolve_requests_total{route="/v1/check",status="200"} 17
    dimsolve_questions_total{verb="check",way="at once"} 15
    dimsolve_request_seconds_bucket{route="/v1/check",le="0.001"} 16

A route is one of ours or ``other``, so that nobody can make new series by asking.
"""

from __future__ import annotations

from collections.abc import Iterator
from mmap import PAGESIZE
from pathlib import Path
from typing import Literal, TypeAlias

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
