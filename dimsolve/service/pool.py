"""Worker processes for questions that may take long: each has a deadline, and the deadline kills.

A thread cannot be stopped while big integers hold the interpreter, a process can. The pool is
pebble's; here are the limits around it: how many may wait, how long, and what the client is told.

    await pool.answer("prove", b'{"claim": "n > 0"}')    Reply(200, ...)
    the same, past the deadline                          Refusal 504
    the same, with too many before it                    Refusal 503, Retry-After

The deadline is for the whole of it: a question waits for half of it at most, and is worked on for
what is left. A worker that ends is no answer: the question is asked once more.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from concurrent.futures import BrokenExecutor, Future
from math import ceil
from time import monotonic
from typing import Any

import pebble

from .limits import Limits
from .places import Place, Places
from .replies import Refusal, Reply
from .verbs import Verb
from .worker import OUT_OF_MEMORY, prepare, ready, work

_EXTRA = 2
"""Workers beside the usual ones, for the places that are kept free (`Places`)."""
_MOST_RETRY_SECONDS = 60
_NOTICED = 0.1
"""Who waited for more than this part of the deadline was kept waiting by others."""
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
        self._places = Places(limits.workers)
        self._plan_places = Places(max(1, limits.workers // 2))
        """Plans take long: some workers are left for questions."""
        self._mean_seconds = 0.1
        """About how long a question is worked on."""
        self.pending = 0
        """Questions that are worked on or wait."""
        self.killed = 0
        """Questions that were stopped by killing the worker."""

    async def start(self) -> None:
        """Starts the workers, and returns when all of them are ready."""
        pebble.CONSTS.term_timeout = _KILL_SECONDS
        self._pool = self._new_pool()
        started = [self._pool.schedule(ready) for _ in range(self._workers)]
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

    @property
    def processes(self) -> list[int]:
        """The ids of the worker processes."""
        if self._pool is None:
            return []
        return list(self._pool._pool_manager.worker_manager.workers)

    @property
    def _workers(self) -> int:
        return self._limits.workers + _EXTRA

    async def answer(
        self,
        verb: Verb,
        body: bytes,
        gone: asyncio.Task[None] | None = None,
        *,
        client: str = "",
        is_short: bool = False,
    ) -> Reply:
        """Returns the reply that a worker gives.

        gone: done when the client has gone away; then the question is dropped. client: who asks;
        clients have their turns. is_short: it certainly takes no long time. Raises Refusal: 503
        where too many wait or it waited too long, 504 past the deadline. Raises ClientGone.
        """
        limits = self._limits
        places = self._plan_places if verb == "plan" else self._places
        if self.pending >= self._workers + limits.waiting:
            raise self._busy(
                f"{limits.waiting} questions wait for a worker already", places, client
            )
        self.pending += 1
        began = monotonic()
        try:
            place = await self._place(places, client, is_short, limits.wait_seconds_of(verb))
            try:
                waited = monotonic() - began
                return await self._worked(verb, body, gone, waited)
            finally:
                places.give_back(place)
        finally:
            self.pending -= 1

    async def _place(self, places: Places, client: str, is_short: bool, seconds: float) -> Place:
        try:
            async with asyncio.timeout(seconds):
                return await places.take(client, is_short)
        except TimeoutError:
            reason = f"no worker was free within {seconds:g} s"
            raise self._busy(reason, places, client) from None

    async def _worked(
        self, verb: Verb, body: bytes, gone: asyncio.Task[None] | None, waited: float
    ) -> Reply:
        """The reply of a worker; one that ends is replaced, and another one is asked, once."""
        whole = self._limits.seconds_of(verb)
        began = monotonic()
        try:
            for _ in range(2):
                left = whole - waited - (monotonic() - began)
                try:
                    return await self._once(verb, body, gone, max(left, 0.0))
                except pebble.ProcessExpired as ended:
                    if ended.exitcode == OUT_OF_MEMORY:
                        raise _out_of_memory() from None
                except BrokenExecutor:
                    continue
            raise _ended()
        except TimeoutError:
            self.killed += 1
            if waited > _NOTICED * whole:
                reason = f"of {whole:g} s, it waited {waited:.1f} s for a worker"
                raise self._busy(reason, self._places, "") from None
            raise too_late(whole) from None
        finally:
            self._mean_seconds += 0.1 * (monotonic() - began - self._mean_seconds)

    async def _once(
        self, verb: Verb, body: bytes, gone: asyncio.Task[None] | None, seconds: float
    ) -> Reply:
        if gone is not None and gone.done():
            raise ClientGone
        future = asyncio.wrap_future(self._schedule(verb, body, seconds))
        try:
            both: set[asyncio.Future[Any]] = {future} if gone is None else {future, gone}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not future.done():
                raise ClientGone
            return future.result()
        finally:
            if future.cancel():  # nobody will look at the answer: the worker is killed
                self.killed += 1

    def _busy(self, reason: str, places: Places, client: str) -> Refusal:
        """A refusal that says when to ask again: when those that are ahead will have had a turn."""
        ahead = 1 + places.ahead(client)
        seconds = ceil(ahead * self._mean_seconds / self._limits.workers)
        return Refusal(
            503,
            "busy",
            "the service is busy",
            reason,
            "ask again after the seconds in Retry-After",
            retry_after=min(max(seconds, 1), _MOST_RETRY_SECONDS),
        )

    def _schedule(self, verb: Verb, body: bytes, seconds: float) -> Future[Reply]:
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
            max_workers=self._workers,
            max_tasks=self._limits.worker_questions,
            initializer=prepare,
            initargs=(self._limits.worker_bytes,),
            context=context,
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


def _ended() -> Refusal:
    return Refusal(
        503,
        "worker-ended",
        "the question has no answer",
        "the process that worked on it ended, and another one after it",
        "ask again; if it happens again, this question is a defect: please report it",
        retry_after=1,
    )
