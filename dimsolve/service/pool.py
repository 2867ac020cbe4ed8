"""Worker processes for questions that may take long: each has a deadline, and the deadline kills.

A thread cannot be stopped while big integers hold the interpreter, a process can. The pool is
pebble's; here are the limits around it: how many may wait, how long, and what the client is told.

    await pool.answer("prove", b'{"claim": "n > 0"}')    Reply(200, ...)
    the same, past the deadline                          Refusal 504
    the same, with too many before it                    Refusal 503, Retry-After
"""

from __future__ import annotations

import asyncio
import multiprocessing
from concurrent.futures import BrokenExecutor, Future
from typing import Any

import pebble

from .limits import Limits
from .replies import Refusal, Reply
from .verbs import Verb
from .worker import prepare, ready, work

_RETRY_SECONDS = 1
_AHEAD = 2
"""Questions per worker that are handed over: one is worked on and the next one lies ready."""
_KILL_SECONDS = 0.05
"""Workers ignore the polite signal, see `worker.prepare`: pebble need not wait for its effect."""


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


class Pool:
    """Answers questions in worker processes."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pool: Any = None
        self._ready = False
        self._places = asyncio.Semaphore(_AHEAD * limits.workers)
        self._plan_places = asyncio.Semaphore(max(1, limits.workers // 2))
        """Plans take long: some workers are left for questions."""
        self.pending = 0
        """Questions that are worked on or wait."""
        self.killed = 0
        """Questions that were stopped by killing the worker."""

    async def start(self) -> None:
        """Starts the workers, and returns when all of them are ready."""
        pebble.CONSTS.term_timeout = _KILL_SECONDS
        self._pool = self._new_pool()
        started = [self._pool.schedule(ready) for _ in range(self._limits.workers)]
        await asyncio.gather(*map(asyncio.wrap_future, started))
        self._ready = True

    @property
    def ready(self) -> bool:
        """Whether the workers have started."""
        return self._ready

    def stop(self) -> None:
        """Stops the workers; blocks until they have ended."""
        self._ready = False
        if self._pool is not None:
            self._pool.stop()
            self._pool.join()

    async def answer(
        self, verb: Verb, body: bytes, gone: asyncio.Task[None] | None = None
    ) -> Reply:
        """Returns the reply that a worker gives.

        gone: done when the client has gone away; then the question is dropped. Raises Refusal: 503
        where too many wait or it waited too long, 504 past the deadline. Raises ClientGone.
        """
        if self.pending >= _AHEAD * self._limits.workers + self._limits.waiting:
            raise _busy(f"{self._limits.waiting} questions wait for a worker already")
        self.pending += 1
        try:
            places = self._plan_places if verb == "plan" else self._places
            await self._place(places)
            try:
                return await self._worked(verb, body, gone)
            finally:
                places.release()
        finally:
            self.pending -= 1

    async def _place(self, places: asyncio.Semaphore) -> None:
        try:
            async with asyncio.timeout(self._limits.wait_seconds):
                await places.acquire()
        except TimeoutError:
            raise _busy(f"no worker was free within {self._limits.wait_seconds:g} s") from None

    async def _worked(self, verb: Verb, body: bytes, gone: asyncio.Task[None] | None) -> Reply:
        if gone is not None and gone.done():
            raise ClientGone
        future = asyncio.wrap_future(self._schedule(verb, body))
        try:
            both: set[asyncio.Future[Any]] = {future} if gone is None else {future, gone}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not future.done():
                raise ClientGone
            return future.result()
        except TimeoutError:
            self.killed += 1
            raise too_late(self._limits.seconds_of(verb)) from None
        except pebble.ProcessExpired:
            raise _out_of_memory() from None
        except BrokenExecutor:
            raise _busy("the workers are being replaced") from None
        finally:
            if future.cancel():  # nobody will look at the answer: the worker is killed
                self.killed += 1

    def _schedule(self, verb: Verb, body: bytes) -> Future[Reply]:
        seconds = self._limits.seconds_of(verb)
        if not self._pool.active:
            # pebble's pool breaks when a worker is killed from outside while it has nothing to do.
            self._pool = self._new_pool()
        future: Future[Reply] = self._pool.schedule(
            work, args=(verb, body, seconds), timeout=seconds
        )
        return future

    def _new_pool(self) -> Any:
        methods = multiprocessing.get_all_start_methods()
        method = "forkserver" if "forkserver" in methods else "spawn"
        context: Any = multiprocessing.get_context(method)
        if method == "forkserver":
            context.set_forkserver_preload(["dimsolve.service.forking"])
        return pebble.ProcessPool(
            max_workers=self._limits.workers,
            max_tasks=self._limits.worker_questions,
            initializer=prepare,
            initargs=(self._limits.worker_bytes,),
            context=context,
        )


def _busy(reason: str) -> Refusal:
    return Refusal(
        503,
        "busy",
        "the service is busy",
        reason,
        "ask again after the seconds in Retry-After",
        retry_after=_RETRY_SECONDS,
    )


def too_late(seconds: float) -> Refusal:
    """The answer to a question whose time is over."""
    return Refusal(
        504,
        "out-of-time",
        "the question was given up",
        f"it was not answered within {seconds:g} s",
        "ask about a smaller part of it",
    )


def _out_of_memory() -> Refusal:
    return Refusal(
        504,
        "out-of-memory",
        "the question was given up",
        "it needs more memory than one question may have",
        "ask about a smaller part of it",
    )
