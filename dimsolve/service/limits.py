"""How much one client may ask of the service: every limit in one place.

Limits()                       what `dimsolve serve` uses
Limits(deadline_seconds=0.5)   what a test uses
"""

from __future__ import annotations

from dataclasses import dataclass, field
from os import cpu_count


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on size, time and number. Past each there is one status: 413, 408, 503, 504.

    Times are in seconds, sizes in bytes. ``deadline_seconds``: how long one question may take with
    its waiting before its worker is killed (504), ``plan_seconds`` a plan. ``waiting``: how many
    questions may wait for a worker, and ``wait_seconds`` how long, half of the deadline at most
    (503). ``workers``: how many slow questions are worked on at a time. ``head_*``: the request
    line and headers, ``read_seconds``: the body, ``write_seconds``: how long a client may leave an
    answer unread. ``worker_bytes``: the memory of one worker; ``worker_questions``: after so many
    it is replaced, so that nothing adds up. ``remembered_bytes``: answers kept to be given again.
    """

    question_bytes: int = 64 * 1024
    batch_bytes: int = 256 * 1024
    plan_bytes: int = 8 * 1024 * 1024
    deadline_seconds: float = 10.0
    plan_seconds: float = 120.0
    waiting: int = 512
    wait_seconds: float = 20.0
    workers: int = field(default_factory=lambda: max(2, cpu_count() or 2))
    worker_bytes: int = 2 * 1024**3
    worker_questions: int = 10_000
    connections: int = 800
    head_bytes: int = 32 * 1024
    head_seconds: float = 10.0
    read_seconds: float = 10.0
    write_seconds: float = 10.0
    remembered_bytes: int = 16 * 1024 * 1024

    def bytes_of(self, verb: str) -> int:
        """How long the body of a question may be."""
        return self.plan_bytes if verb == "plan" else self.question_bytes

    def seconds_of(self, verb: str) -> float:
        """How long a question may take with its waiting."""
        return self.plan_seconds if verb == "plan" else self.deadline_seconds

    def wait_seconds_of(self, verb: str) -> float:
        """How long a question may wait for a worker; the rest of its time is for the work."""
        return min(self.wait_seconds, self.seconds_of(verb) / 2)

    @property
    def stop_seconds(self) -> float:
        """How long a graceful stop may take: the longest that a request may."""
        longest = max(self.deadline_seconds, self.plan_seconds)
        return self.read_seconds + longest + self.write_seconds
