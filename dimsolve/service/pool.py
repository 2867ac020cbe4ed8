"""Worker processes for questions that may take long: each has a deadline, and the deadline kills.

A thread cannot be stopped while big integers hold the interpreter, a process can. The pool is
pebble's; here are the limits around it: how many may wait, how long, and what the client is told.

    await pool.answer("prove", b'{"claim": "n > 0"}')    Reply(200, ...)
    the same, past the deadline                          Refusal 504
    the same, with too many before it                    Refusal 503, Retry-After

The deadline is for the whole of it: a question waits for half of it at most, and is worked on for
what is left. A worker that ends is no answer: the question is asked once more.

`Places` says who is next: places at the workers are given to clients, which are addresses, in turn.
One who asks many slow questions waits behind everybody else who asks one. Beside the usual places
there are two that slow questions of a busy client cannot take: one for short questions, and one for
clients of whom nothing is worked on.

A worker answers one question after another. The pool kills it when a question's time is over;
should the server be gone, the kernel does; where the kernel cannot, an alarm rings a little after
the question's time, and nobody handles it.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections import Counter, OrderedDict, deque
from concurrent.futures import BrokenExecutor, Future
from importlib import import_module
from math import ceil
from time import monotonic
from typing import Any, Literal, NamedTuple, TypeAlias

import pebble

from .answers import Verb
from .replies import OF_MODELS, Limits, Refusal, Reply

Kind: TypeAlias = Literal["usual", "short", "newcomer"]


class Place(NamedTuple):
    """A place that a client has."""

    kind: Kind
    client: str


class _Waiting(NamedTuple):
    turn: asyncio.Future[Place]
    is_short: bool


class Places:
    """So many usual places, and one of each other."""

    def __init__(self, usual: int) -> None:
        self._most: dict[Kind, int] = {"usual": usual, "short": 1, "newcomer": 1}
        self._taken: Counter[Kind] = Counter()
        self._of_client: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[_Waiting]] = OrderedDict()

    async def take(self, client: str, is_short: bool = False) -> Place:
        """Returns a place as soon as it is the client's turn; `give_back` has to follow."""
        one = _Waiting(asyncio.get_running_loop().create_future(), is_short)
        self._waiting.setdefault(client, deque()).append(one)
        self._hand_out()
        try:
            return await one.turn
        except asyncio.CancelledError:
            if one.turn.done() and not one.turn.cancelled():
                self.give_back(one.turn.result())
            else:
                self._leave(client, one)
            raise

    def give_back(self, place: Place) -> None:
        """Frees a place, for whoever is next."""
        self._taken[place.kind] -= 1
        self._of_client[place.client] -= 1
        if not self._of_client[place.client]:
            del self._of_client[place.client]
        self._hand_out()

    def ahead(self, client: str) -> int:
        """How many questions will be begun before one more of this client: of each other client at
        most as many as this one has waiting.
        """
        ours = len(self._waiting.get(client, ())) + 1
        others = [len(row) for name, row in self._waiting.items() if name != client]
        return ours - 1 + sum(min(row, ours) for row in others)

    def _leave(self, client: str, one: _Waiting) -> None:
        row = self._waiting.get(client)
        if row is not None and one in row:
            row.remove(one)
            if not row:
                del self._waiting[client]

    def _hand_out(self) -> None:
        """Gives every free place to the client whose turn it is."""
        while (found := self._next()) is not None:
            client, one, place = found
            self._leave(client, one)
            if client in self._waiting:
                self._waiting.move_to_end(client)
            self._taken[place] += 1
            self._of_client[client] += 1
            one.turn.set_result(Place(place, client))

    def _next(self) -> tuple[str, _Waiting, Kind] | None:
        """The next question that may begin, with its client and the place that it takes."""
        for client, row in self._waiting.items():
            here = [one for one in row if not one.turn.cancelled()]
            for one in (*here[:1], *(each for each in here if each.is_short)):
                allowed: dict[Kind, bool] = {
                    "usual": True,
                    "short": one.is_short,
                    "newcomer": client not in self._of_client,
                }
                for place, may in allowed.items():
                    if may and self._taken[place] < self._most[place]:
                        return client, one, place
        return None


_GRACE = 5.0
OUT_OF_MEMORY = 77
"""The exit code of a worker that reached its limit of memory."""


def prepare(memory: int) -> None:
    """Prepares this process to be a worker that uses at most so many bytes.

    A stop of the service is the server's to handle: it waits for the answers under way. So signals
    that are sent to the whole group are not for workers.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_server()
    limit_memory(memory)


def limit_memory(memory: int) -> None:
    """Lets this process use at most so many bytes, where the system can say so."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = memory if most == resource.RLIM_INFINITY else min(memory, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


def _end_with_server() -> None:
    """Lets the kernel end this process when the server ends: the pipe between them signals that,
    and the signal's default is the end. Python would look at the pipe only between two operations.
    """
    parent = multiprocessing.parent_process()
    try:
        import fcntl
    except ImportError:  # not on Windows
        return
    if parent is None or not hasattr(fcntl, "F_SETOWN"):
        return
    pipe = parent.sentinel
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
    if not parent.is_alive():
        os._exit(0)  # it has ended already


def work(verb: Verb, body: bytes, seconds: float) -> Reply:
    """Returns the reply to a request's body."""
    from .answers import answer

    alarm = getattr(signal, "setitimer", None)
    if alarm is not None:
        alarm(signal.ITIMER_REAL, seconds + _GRACE)
    try:
        return answer(verb, body)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)  # half-made objects must not see another question
    finally:
        if alarm is not None:
            alarm(signal.ITIMER_REAL, 0)


def ready() -> None:
    """Loads what questions need; the pool asks it before the first one."""
    import_module("dimsolve.service.answers")


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
        places = self._plan_places if verb in OF_MODELS else self._places
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
                        raise Refusal("out-of-memory") from None
                except BrokenExecutor:
                    continue
            raise Refusal("workers-ended", retry_after=1)
        except TimeoutError:
            self.killed += 1
            if waited > _NOTICED * whole:
                reason = f"of {whole:g} s, it waited {waited:.1f} s for a worker"
                raise self._busy(reason, self._places, "") from None
            raise Refusal("out-of-time", seconds=whole) from None
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
        seconds = min(max(seconds, 1), _MOST_RETRY_SECONDS)
        return Refusal("busy", reason=reason, retry_after=seconds)

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
