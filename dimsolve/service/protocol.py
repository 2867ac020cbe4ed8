"""Connections that keep the service waiting are closed: slow heads, endless heads, unread answers.

uvicorn bounds how long a connection may be idle, but not how long a request's head may take or how
large it may be, nor how long an answer may lie unread. One who sends a byte a minute would keep a
connection for ever.

An answer that is given before the request's body is read ends the connection: what is left of the
body would be taken for the next request. It is thrown away for a moment, for a client that still
sends would lose the answer when the connection is reset.

    POST /v1/check, text/plain, 250000 bytes      415, Connection: close
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .limits import Limits
from .replies import PROBLEM, Refusal, reply_of_error

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

_REASONS = {
    400: "Bad Request",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}
_LINGER_SECONDS = 2.0


def guarded(limits: Limits) -> type[HttpToolsProtocol]:
    """Returns the protocol class of uvicorn with these limits on its connections."""
    return type("GuardedProtocol", (_Guarded,), {"limits": limits})


class _Guarded(HttpToolsProtocol):
    limits: Limits
    _head_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _chunk_bytes = 0
    _lingers = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            reason = f"{self.limits.connections} clients are connected"
            self._refuse(Refusal(503, "busy", "the service is busy", reason, retry_after=1))
        else:
            self._start_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head()
        self._stop_write()
        super().connection_lost(exc)

    # The head of a request ----------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing() or self._lingers:
            return
        self._head_bytes += len(data)
        self._chunk_bytes = len(data)
        self._unset_keepalive_if_required()
        self._feed(data)
        if self.transport.is_closing() or self._lingers:
            return
        cycle = self.cycle
        waiting = cycle is None or (cycle.response_complete and not cycle.more_body)
        if self._head_timer is None and waiting:
            self._start_head()  # something came that is no request yet, a lone line end for one
        if self._head_timer is not None and self._head_bytes > self.limits.head_bytes:
            title = "the headers are too large"
            reason = f"at most {self.limits.head_bytes} bytes are read"
            self._refuse(Refusal(431, "head-too-large", title, reason))

    def _feed(self, data: bytes) -> None:
        """Reads on; the upgrade to another protocol is not taken, and what follows is a request."""
        while data:
            try:
                self.parser.feed_data(data)
                return
            except HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
            except HttpParserError:
                self.send_400_response("")
                return

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._start_head()
        self._head_bytes = self._chunk_bytes

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._chunk_bytes = 0  # what follows in this chunk is another request

    def on_headers_complete(self) -> None:
        self._stop_head()
        super().on_headers_complete()
        cycle: Any = self.cycle
        cycle.send = partial(self._send, cycle, cycle.send)

    def _start_head(self) -> None:
        self._stop_head()
        self._head_bytes = 0
        self._head_timer = self.loop.call_later(self.limits.head_seconds, self._head_is_late)

    def _stop_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        if not self._head_bytes:
            self.transport.close()  # connected and said nothing: nobody waits for an answer
            return
        reason = f"no request came within {self.limits.head_seconds:g} s"
        self._refuse(Refusal(408, "too-slow", "the request is too slow", reason))

    # An answer before the end of the request -----------------------------------------------------

    async def _send(self, cycle: RequestResponseCycle, send: Any, message: Any) -> None:
        """Sends a part of an answer; one that comes early is the last on its connection."""
        if cycle.more_body and not cycle.response_started:
            cycle.keep_alive = False
            cycle.transport = _Lingering(self.transport, self._linger)  # type: ignore[assignment]
        await send(message)

    def _linger(self) -> None:
        """Ends the connection for us; what the client still sends is thrown away for a moment."""
        if not self.transport.can_write_eof():
            self.transport.close()
            return
        self._lingers = True
        self.pipeline.clear()
        self._stop_head()
        self.transport.write_eof()
        self.loop.call_later(_LINGER_SECONDS, self.transport.abort)

    def shutdown(self) -> None:
        if not self._lingers:
            super().shutdown()

    # What is refused here ------------------------------------------------------------------------

    def _refuse(self, refusal: Refusal) -> None:
        self._stop_head()
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False  # first the answer that is under way, then the end
            return
        self._write_and_linger(refusal)

    def send_400_response(self, msg: str) -> None:
        """What came is no HTTP, perhaps in the middle of a body that somebody waits for."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if cycle.response_started:
                self.transport.abort()
                return
            cycle.disconnected = True
            cycle.message_event.set()
        self._stop_head()
        self._write_and_linger(Refusal(400, "not-http", "this is not HTTP", "it cannot be read"))

    def _write_and_linger(self, refusal: Refusal) -> None:
        reply = reply_of_error(refusal)
        head = [
            f"HTTP/1.1 {reply.status} {_REASONS[reply.status]}",
            f"content-type: {PROBLEM}",
            f"content-length: {len(reply.body)}",
            *([f"retry-after: {reply.retry_after}"] if reply.retry_after else []),
            "connection: close",
        ]
        self.transport.write("\r\n".join([*head, "", ""]).encode() + reply.body)
        self._linger()

    # An answer that is not read -----------------------------------------------------------------

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_write()

    def resume_writing(self) -> None:
        self._stop_write()
        super().resume_writing()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self._start_write()

    def _start_write(self) -> None:
        self._stop_write()
        self._write_timer = self.loop.call_later(self.limits.write_seconds, self._is_unread)

    def _stop_write(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _is_unread(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()


class _Lingering:
    """A transport that is not closed at once: as much of it as an answer needs."""

    def __init__(self, transport: asyncio.Transport, linger: Callable[[], None]) -> None:
        self.write = transport.write
        self.is_closing = transport.is_closing
        self.close = linger
