"""`dimsolve serve`: one process that reads and answers, and its workers.

SIGTERM, or Ctrl-C, stops it gracefully: no new connection is taken, and every request that is under
way gets its answer before the process leaves, with exit code 0. A second Ctrl-C does not wait: what
is under way is answered 503, and the exit code is 130.

uvicorn reads HTTP; three things it leaves open are closed here, or one who sends a byte a minute
would keep a connection for ever:

- how long a request's head may take and how large it may be, and how many clients are connected;
- how long an answer may lie unread;
- an answer that is given before the request's body is read ends the connection, for what is left of
  the body would be taken for the next request. It is thrown away for a moment: a client that still
  sends would lose the answer when the connection is reset.

Sockets are bound before anything else starts, so that a port that is taken is said at once.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from math import ceil
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn
from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .app import create_app
from .observability import json_logs
from .replies import PROBLEM, Limits, Refusal, reply_of_error

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class CannotListen(Exception):
    """There is no such address, or its port is taken or forbidden. Its text says which."""


def bound(host: str, port: int) -> list[socket.socket]:
    """Returns a socket for every address of a host, all of one port; 0: a free one. Raises
    CannotListen.
    """
    found: list[socket.socket] = []
    for family, address in _addresses(host, port):
        if found and port == 0:
            address = (address[0], found[0].getsockname()[1], *address[2:])
        try:
            found.append(_listening(family, address))
        except OSError as error:
            if found and error.errno != errno.EADDRINUSE:
                continue  # a name may have addresses that this machine has not
            for made in found:
                made.close()
            raise CannotListen(_reason(error, host, port)) from None
    return found


def _listening(family: socket.AddressFamily, address: tuple[str, int]) -> socket.socket:
    # Said to be TCP: asyncio switches Nagle's algorithm off, which costs 40 ms, only where it is.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
        made.listen(2048)
    except OSError:
        made.close()
        raise
    return made


def url_of(host: str, sockets: list[socket.socket]) -> str:
    """Returns the address for a browser."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{sockets[0].getsockname()[1]}"


def _addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, tuple[str, int]]]:
    with suppress(OSError, UnicodeError):
        rows = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        return list(dict.fromkeys((family, address) for family, *_, address in rows))  # type: ignore[misc]
    raise CannotListen(f"there is no address {host!r}; --host 127.0.0.1 is this machine alone")


def _reason(error: OSError, host: str, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"port {port} is taken; --port 0 takes a free one"
        case errno.EACCES:
            return f"port {port} needs more rights than you have; --port 0 takes a free one"
        case errno.EADDRNOTAVAIL:
            return f"this machine has no address {host!r}; --host 127.0.0.1 is this machine alone"
        case _:
            return f"{host!r} port {port}: {error.strerror}"


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
            self._refuse(Refusal("connected", count=self.limits.connections, retry_after=1))
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
            self._refuse(Refusal("head-too-large", most=self.limits.head_bytes))

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
        self._refuse(Refusal("late-head", seconds=self.limits.head_seconds))

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
        self._write_and_linger(Refusal("not-http"))

    def _write_and_linger(self, refusal: Refusal) -> None:
        reply = reply_of_error(refusal)
        head = [
            f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}",
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


_KEEP_ALIVE_SECONDS = 15
_LAST_WORDS_SECONDS = 0.1
_FORCED = 130
"""The exit code of what Ctrl-C has ended."""


def serve(host: str, port: int, limits: Limits | None = None) -> int:
    """Serves until SIGTERM or SIGINT, and returns the exit code. port: 0 takes a free one, which
    the log tells. Raises CannotListen.
    """
    limits = limits or Limits()
    sockets = bound(host, port)
    config = uvicorn.Config(
        create_app(limits),
        http=guarded(limits),
        ws="none",
        loop="asyncio",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=ceil(limits.stop_seconds),
    )
    server = _Server(config, url_of(host, sockets))
    # uvicorn sends the signals again when it has stopped; by then all is done.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _nothing)
    with json_logs():
        server.run(sockets)
    return _FORCED if server.force_exit else 0


class _Server(uvicorn.Server):
    """Says where it listens, also to who looks at a terminal."""

    def __init__(self, config: uvicorn.Config, url: str) -> None:
        super().__init__(config)
        self._url = url

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts, and says so."""
        await super().startup(sockets)
        if not self.started:
            return
        logging.getLogger("uvicorn.error").info("Uvicorn running on %s", self._url)
        if sys.stdout.isatty():
            print(f"dimsolve answers at {self._url} (Ctrl-C stops it)", flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops; also where nobody wants to wait, the workers end and the clients are told."""
        await super().shutdown(sockets)
        if self.force_exit:
            await self.lifespan.shutdown()
            await asyncio.sleep(_LAST_WORDS_SECONDS)


def _nothing(number: int, frame: FrameType | None) -> None:
    """What is left to do when a signal comes again."""
