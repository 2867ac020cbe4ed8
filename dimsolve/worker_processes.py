"""A few worker processes of a program that has other things to do, such as a notebook's kernel.

    job = workers.submit("prove", b'{"claim": "n > 0"}', 10.0, done)
        done(Reply(200, ...))        from another thread, once
    job.drop()                       it is stopped where it runs, or never begins

The service has a pool of its own, which knows of clients and limits. Here only as many questions
are handed over as there are processes: each that is dropped while it runs costs a process, and one
that waits costs nothing.
"""

from __future__ import annotations

import atexit
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from threading import RLock
from typing import Any

import pebble

from dimsolve.service.limits import Limits
from dimsolve.service.pool import too_late
from dimsolve.service.replies import Refusal, Reply, reply_of_error
from dimsolve.service.verbs import Verb
from dimsolve.service.worker import limit_memory, work

WORKERS = 2


class Job:
    """A question that waits, is worked on, or is done with."""

    def __init__(
        self, verb: Verb, body: bytes, seconds: float, done: Callable[[Reply], None]
    ) -> None:
        self.asked = verb, body, seconds
        self.done = done
        self.future: Future[Reply] | None = None
        self.dropped = False

    def drop(self) -> None:
        """Stops it; ``done`` is not called any more."""
        self.dropped = True
        if self.future is not None:
            self.future.cancel()


class Workers:
    """Processes that are started by the first question and end with this program."""

    def __init__(self, count: int = WORKERS) -> None:
        self._count = count
        self._lock = RLock()
        self._waiting: deque[Job] = deque()
        self._running = 0
        self._pool: Any = None

    def submit(self, verb: Verb, body: bytes, seconds: float, done: Callable[[Reply], None]) -> Job:
        """Returns a job that will be worked on for at most so many seconds."""
        job = Job(verb, body, seconds, done)
        with self._lock:
            self._waiting.append(job)
            self._begin()
        return job

    def _begin(self) -> None:
        while self._running < self._count and self._waiting:
            job = self._waiting.popleft()
            if job.dropped:
                continue
            self._running += 1
            job.future = self._alive().schedule(work, args=job.asked, timeout=job.asked[2])
            job.future.add_done_callback(partial(self._done, job))
            if job.dropped:
                job.future.cancel()

    def _done(self, job: Job, future: Future[Reply]) -> None:
        with self._lock:
            self._running -= 1
            self._begin()
        if job.dropped:
            return
        try:
            reply = Reply(*future.result())
        except BaseException as error:  # of a pool that ends, of a worker that was killed
            reply = reply_of_error(_why(error, job.asked[2]))
        job.done(reply)

    def _alive(self) -> Any:
        """The pool; it breaks when somebody kills a process that has nothing to do."""
        if self._pool is None:
            atexit.register(self.stop)
        if self._pool is None or not self._pool.active:
            self._pool = pebble.ProcessPool(
                max_workers=self._count,
                initializer=_prepare,
                initargs=(Limits().worker_bytes,),
                context=multiprocessing.get_context("spawn"),
            )
        return self._pool

    def stop(self) -> None:
        """Ends the processes."""
        with self._lock:
            self._waiting.clear()
        if self._pool is not None:
            self._pool.stop()
            self._pool.join()


def _prepare(memory: int) -> None:
    """What a process does first: an interrupt of the kernel is none of its business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit_memory(memory)


def _why(error: BaseException, seconds: float) -> Refusal:
    if isinstance(error, TimeoutError):
        return too_late(seconds)
    if isinstance(error, pebble.ProcessExpired):
        reason = "the process that worked on it was ended: it may have needed too much memory"
        return Refusal(504, "worker-ended", "the question was given up", reason)
    reason = f"{type(error).__name__}; please report this question"
    return Refusal(500, "defect", "dimsolve has a defect", reason)
