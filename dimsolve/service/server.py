"""`dimsolve serve`: one process that reads and answers, and its workers.

SIGTERM stops it gracefully: no new connection is taken, and every request that is under way gets
its answer before the process leaves, with exit code 0.
"""

from __future__ import annotations

import signal
from math import ceil
from types import FrameType

import uvicorn

from .app import create_app
from .limits import Limits
from .logs import json_logs
from .protocol import guarded

_KEEP_ALIVE_SECONDS = 15


def serve(host: str, port: int, limits: Limits | None = None) -> None:
    """Serves until SIGTERM or SIGINT. port: 0 takes a free one, which the log tells."""
    limits = limits or Limits()
    config = uvicorn.Config(
        create_app(limits),
        host=host,
        port=port,
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
    # uvicorn sends the signal again when it has stopped; by then all is done.
    signal.signal(signal.SIGTERM, _leave)
    with json_logs():
        uvicorn.Server(config).run()


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)
