"""Answers for the widget that never hold the kernel: at once, or from a worker with a deadline.

    answering.ask("view 1", [{"verb": "parse", ...}, {"verb": "legal-parts", ...}], tell)
        tell(0, {"status": 200, "answer": {...}})     at once: it is certainly cheap
        tell(1, {"status": 200, "answer": {...}})     later, from another thread
        tell(1, {"status": 504, "problem": {...}})    or that it was given up

The kernel's main thread runs the person's cells, and neither it nor any other thread can be stopped
while big integers hold the interpreter. A process can: as in the service, what may take long is
answered by a worker process, and a deadline kills it. A new batch of the same view replaces the one
before it, whose questions are dropped.

The service has a pool of its own, which knows of clients and limits. Here only as many questions
are handed over as there are processes: each that is dropped while it runs costs a process, and one
that waits costs nothing.
"""

from __future__ import annotations

import atexit
import json
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from threading import Lock, RLock, Timer
from typing import Any

import pebble

from dimsolve.service.answers import Verb, answer_at_once
from dimsolve.service.pool import limit_memory, work
from dimsolve.service.replies import Limits, Refusal, Reply, reply_of_error

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
        return Refusal("out-of-time", seconds=seconds)
    if isinstance(error, pebble.ProcessExpired):
        return Refusal("worker-ended")
    return Refusal("defect", reason=f"{type(error).__name__}; please report this question")


Tell = Callable[[int, dict[str, Any]], None]
"""Hears an answer and the number of its question; from any thread."""
SECONDS = 10.0
"""How long all questions of a batch may take together."""
_VERBS: tuple[Verb, ...] = ("parse", "infer", "check", "legal-parts", "prove", "annotate")


class Answering:
    """Answers batches of questions."""

    def __init__(self) -> None:
        self._batches: dict[str, _Batch] = {}

    def ask(self, view: str, questions: Sequence[Mapping[str, Any]], tell: Tell) -> None:
        """Answers the questions, each once, and drops what this view asked before.

        Returns at once, and what is cheap has then been told. The rest is told from other threads,
        within `SECONDS`.
        """
        if before := self._batches.pop(view, None):
            before.drop()
        later: dict[int, tuple[Verb, bytes]] = {}
        for number, question in enumerate(questions):
            asked = dict(question)
            verb = asked.pop("verb", None)
            body = json.dumps(asked).encode()
            if verb not in _VERBS:
                reply: Reply | None = reply_of_error(Refusal("no-such-verb", verbs=_VERBS))
            else:
                reply = answer_at_once(verb, body)
            if reply is None:
                later[number] = verb, body
            else:
                tell(number, item_of(reply))
        if later:
            self._batches[view] = _Batch(later, tell)


class _Batch:
    """Questions that workers answer, until all are told or nobody wants to know."""

    def __init__(self, asked: Mapping[int, tuple[Verb, bytes]], tell: Tell) -> None:
        self._tell = tell
        self._lock = Lock()
        self._open = set(asked)
        self._timer = Timer(SECONDS, self._give_up)
        self._timer.daemon = True
        self._jobs: dict[int, Job] = {
            number: _workers.submit(verb, body, SECONDS, partial(self._settle, number))
            for number, (verb, body) in asked.items()
        }
        self._timer.start()

    def drop(self) -> None:
        """Tells no more, and stops the workers that are at it."""
        with self._lock:
            self._open.clear()
        self._timer.cancel()
        for job in reversed(list(self._jobs.values())):  # those that wait first
            job.drop()

    def _give_up(self) -> None:
        for number in list(self._jobs):
            self._settle(number, reply_of_error(Refusal("out-of-time", seconds=SECONDS)))
        self.drop()

    def _settle(self, number: int, reply: Reply) -> None:
        with self._lock:
            if number not in self._open:
                return
            self._open.discard(number)
            if not self._open:
                self._timer.cancel()
        self._tell(number, item_of(reply))


def item_of(reply: Reply) -> dict[str, Any]:
    """Returns a reply as ``/v1/batch`` has it.

    >>> item_of(Reply(200, b'{"verdict": "proved"}'))
    {'status': 200, 'answer': {'verdict': 'proved'}}
    """
    kind = "answer" if reply.status == 200 else "problem"
    return {"status": reply.status, kind: json.loads(reply.body)}


_workers = Workers()
