"""`dimsolve serve`: one process that reads and answers, and its workers.

SIGTERM, or Ctrl-C, stops it gracefully: no new connection is taken, and every request that is under
way gets its answer before the process leaves, with exit code 0. A second Ctrl-C does not wait: what
is under way is answered 503, and the exit code is 130.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from math import ceil
from types import FrameType

import uvicorn

from .app import create_app
from .limits import Limits
from .listening import bound, url_of
from .logs import json_logs
from .protocol import guarded

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
