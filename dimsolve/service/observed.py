"""Every request leaves a line in the log and a count in the metrics; neither says what was sent.

A request that is under way when the service stops at once is answered here: 503.
"""

from __future__ import annotations

import asyncio
import logging
from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .desk import WAY, response_of
from .logs import note
from .metrics import OTHER, Metrics
from .replies import Refusal, reply_of_error

_STOPPING = response_of(
    reply_of_error(
        Refusal(
            503,
            "stopping",
            "the service stops",
            "it was told to stop at once",
            "ask again when it has started again",
            retry_after=1,
        )
    )
)


class Observed:
    """An ASGI middleware. ``routes`` are the paths that are named; all others are ``other``."""

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
