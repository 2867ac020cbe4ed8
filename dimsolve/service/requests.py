"""From a request to its response: from the cache, at once, or by a worker.

    body ── in the cache? ── short and usual? ──── answered at once
                 │                  └── no ───── answered by a worker, which may be killed
                 └── yes: the same bytes again

A body has to be JSON (else 415), at most so many bytes (413, and the connection is closed), within
so many seconds (408). A question has one answer, always, so answers are kept: bounded in bytes, the
least recently used one is dropped first.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from time import monotonic, perf_counter

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .answers import MAX_BYTES, VERBS, Verb, answer_at_once, is_short
from .observability import OTHER, Metrics, Way, note
from .pool import ClientGone, Pool
from .questions import BatchItem, BatchQuestion, read_question
from .replies import Limits, Refusal, Reply, reply_of_error

_OVERHEAD = 400
"""About what an entry takes beside its bytes."""


class Cache:
    """The last replies by verb and body, in at most so many bytes.

    >>> cache = Cache(1000)
    >>> cache.keep("parse", b"{}", Reply(422, b"{}"))
    >>> cache.get("parse", b"{}").status, cache.get("prove", b"{}")
    (422, None)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0
        self._replies: OrderedDict[tuple[Verb, bytes], Reply] = OrderedDict()

    def get(self, verb: Verb, body: bytes) -> Reply | None:
        """Returns the reply that was given before, or None."""
        key = verb, body
        reply = self._replies.get(key)
        if reply is not None:
            self._replies.move_to_end(key)
        return reply

    def keep(self, verb: Verb, body: bytes, reply: Reply) -> None:
        """Keeps a reply, never that the service was busy or gave up; drops others for room."""
        size = _size(body, reply)
        if reply.status >= 500 or size > self._most or (verb, body) in self._replies:
            return
        self._replies[verb, body] = reply
        self._bytes += size
        while self._bytes > self._most:
            (_, old), dropped = self._replies.popitem(last=False)
            self._bytes -= _size(old, dropped)


def _size(body: bytes, reply: Reply) -> int:
    return len(body) + len(reply.body) + _OVERHEAD


class Requests:
    """Answers requests."""

    def __init__(self, pool: Pool, metrics: Metrics, limits: Limits) -> None:
        self._pool = pool
        self._metrics = metrics
        self._limits = limits
        self._cache = Cache(limits.cache_bytes)

    async def question(self, request: Request, verb: Verb) -> Response:
        """Answers one question."""
        limits = self._limits
        body = await read_body(request, limits.bytes_of(verb), limits.read_seconds)
        reply, way = self._at_once(verb, body)
        if reply is None:
            async with _watched(request) as gone:
                reply = await self._by_worker(verb, body, gone, _client(request))
        request.scope[WAY] = way
        return response_of(reply)

    async def batch(self, request: Request) -> Response:
        """Answers many questions, as many at a time as there are workers."""
        limits = self._limits
        body = await read_body(request, limits.batch_bytes, limits.read_seconds)
        batch = read_question(BatchQuestion, body)
        places = asyncio.Semaphore(limits.workers)
        end = monotonic() + limits.deadline_seconds
        async with _watched(request) as gone:
            ask = partial(self._item, places, end, gone, _client(request))
            rows = [ask(item) for item in batch.questions]
            answers = await asyncio.gather(*rows)
        return response_of(Reply(200, b'{"answers":[%b]}' % b",".join(answers)))

    async def _item(
        self,
        places: asyncio.Semaphore,
        end: float,
        gone: asyncio.Task[None],
        client: str,
        item: BatchItem,
    ) -> bytes:
        body = item.model_dump_json(exclude={"verb"}).encode()
        async with places:
            await asyncio.sleep(0)  # others have their turn between two questions of a batch
            try:
                if monotonic() > end:
                    raise Refusal("out-of-time", seconds=self._limits.deadline_seconds)
                reply, _ = self._at_once(item.verb, body)
                if reply is None:
                    reply = await self._by_worker(item.verb, body, gone, client)
            except Refusal as refusal:
                reply = reply_of_error(refusal)
        kind = b"answer" if reply.status == 200 else b"problem"
        return b'{"status":%d,"%b":%b}' % (reply.status, kind, reply.body)

    def _at_once(self, verb: Verb, body: bytes) -> tuple[Reply | None, Way]:
        """Returns the reply that costs next to nothing; None sends the question to a worker."""
        way: Way = "remembered"
        reply = self._cache.get(verb, body)
        if reply is None:
            way = "at once"
            reply = answer_at_once(verb, body)
            if reply is not None:
                self._cache.keep(verb, body, reply)
        if reply is None:
            way = "worker"
        self._metrics.asked(verb, way)
        return reply, way

    async def _by_worker(
        self, verb: Verb, body: bytes, gone: asyncio.Task[None], client: str
    ) -> Reply:
        short = len(body) <= MAX_BYTES and is_short(read_question(VERBS[verb].question, body))
        reply = await self._pool.answer(verb, body, gone, client=client, is_short=short)
        self._cache.keep(verb, body, reply)
        return reply


def _client(request: Request) -> str:
    """Who asks: an address."""
    return request.client.host if request.client is not None else ""


@asynccontextmanager
async def _watched(request: Request) -> AsyncIterator[asyncio.Task[None]]:
    """Gives a task that is done when the client has gone away."""
    gone = asyncio.create_task(wait_until_gone(request))
    try:
        yield gone
    finally:
        gone.cancel()


_CHARSETS = ("", "charset=utf-8", 'charset="utf-8"')


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """Returns the bytes of the body. Raises Refusal, or ClientGone where the client went away."""
    headers = request.headers
    media, _, parameters = headers.get("content-type", "").lower().partition(";")
    if media.strip() != "application/json" or parameters.strip() not in _CHARSETS:
        raise Refusal("not-json-type")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise Refusal("content-encoding")
    if int(headers.get("content-length", "0")) > most:
        raise Refusal("too-large", most=most)
    chunks: list[bytes] = []
    size, more = 0, True
    try:
        async with asyncio.timeout(seconds):
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                chunks.append(message.get("body", b""))
                more = message.get("more_body", False)
                size += len(chunks[-1])
                if size > most:
                    raise Refusal("too-large", most=most)
    except TimeoutError:
        raise Refusal("late-body", seconds=seconds) from None
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def wait_until_gone(request: Request) -> None:
    """Returns when the client has gone away; the body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def response_of(reply: Reply) -> Response:
    """Returns the HTTP response that is a reply."""
    headers = {"Retry-After": str(reply.retry_after)} if reply.retry_after else None
    return Response(reply.body, reply.status, headers, reply.media_type)


_STOPPING = response_of(reply_of_error(Refusal("stopping", retry_after=1)))
WAY = "dimsolve.way"
"""Where a request's scope says how it was answered, for the logs."""


class Observed:
    """An ASGI middleware: every request leaves a line in the log and a count in the metrics, and
    neither says what was sent. ``routes`` are the paths that are named; all others are ``other``.
    What is under way when the service stops at once is answered here: 503.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, routes: frozenset[str]) -> None:
        self._app = app
        self._metrics = metrics
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on and sees what becomes of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()
        status: int | None = None

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except asyncio.CancelledError:
            if status is None:
                await _STOPPING(scope, receive, sending)
        finally:
            self._note(scope, status or 500, perf_counter() - began)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = scope["path"] if scope["path"] in self._routes else OTHER
        self._metrics.answered(route, status, seconds)
        fields: dict[str, object] = {
            "method": scope["method"],
            "route": route,
            "status": status,
            "ms": round(seconds * 1e3, 3),
        }
        if WAY in scope:
            fields["way"] = scope[WAY]
        note(logging.ERROR if status == 500 else logging.INFO, "answered", fields)
