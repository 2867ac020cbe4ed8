"""What a worker process does: one question after another, each until it is answered or killed.

The pool kills a worker whose time is over. Should the server be gone, the kernel does it.
Where the kernel cannot, an alarm rings a little after the question's time, and nobody handles it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .replies import Reply
    from .verbs import Verb

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
