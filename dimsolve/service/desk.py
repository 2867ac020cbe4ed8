"""Where questions come in and answers go out: remembered, at once, or by a worker.

body ── remembered? ── short and usual? ──── answered at once
             │                  └── no ───── answered by a worker, which may be killed
             └── yes: the same bytes again
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from time import monotonic

from starlette.requests import Request
from starlette.responses import Response

from dimsolve.ir.errors import DimsolveError

from .answers import answer_question
from .limits import Limits
from .memory import Remembered
from .metrics import Metrics, Way
from .pool import Pool, too_late
from .questions import BatchItem, BatchQuestion, read_question
from .reading import read_body, wait_until_gone
from .replies import Refusal, Reply, reply_of_error
from .usual import MAX_BYTES, is_short, is_usual
from .verbs import VERBS, Verb

WAY = "dimsolve.way"
"""Where a request's scope says how it was answered, for the logs."""


class Desk:
    """Answers requests."""

    def __init__(self, pool: Pool, metrics: Metrics, limits: Limits) -> None:
        self._pool = pool
        self._metrics = metrics
        self._limits = limits
        self._remembered = Remembered(limits.remembered_bytes)

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
                    raise too_late(self._limits.deadline_seconds)
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
        reply = self._remembered.get(verb, body)
        if reply is None and len(body) <= MAX_BYTES:
            way = "at once"
            reply = _usual_reply(verb, body)
            if reply is not None:
                self._remembered.keep(verb, body, reply)
        if reply is None:
            way = "worker"
        self._metrics.asked(verb, way)
        return reply, way

    async def _by_worker(
        self, verb: Verb, body: bytes, gone: asyncio.Task[None], client: str
    ) -> Reply:
        short = len(body) <= MAX_BYTES and is_short(read_question(VERBS[verb].question, body))
        reply = await self._pool.answer(verb, body, gone, client=client, is_short=short)
        self._remembered.keep(verb, body, reply)
        return reply


def _usual_reply(verb: Verb, body: bytes) -> Reply | None:
    try:
        question = read_question(VERBS[verb].question, body)
        return answer_question(question) if is_usual(question) else None
    except (Refusal, DimsolveError) as error:
        return reply_of_error(error)


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


def response_of(reply: Reply) -> Response:
    """Returns the HTTP response that is a reply."""
    headers: dict[str, str] = {}
    if reply.retry_after:
        headers["Retry-After"] = str(reply.retry_after)
    return Response(reply.body, reply.status, headers, reply.media_type)
