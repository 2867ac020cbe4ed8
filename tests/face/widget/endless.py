"""A worker's work where the counts of ``endless`` are never found, and one about
``deadly`` kills the process; spawned processes import it.
"""

from __future__ import annotations

import os
import signal
import time

from dimsolve.service import pool as worker
from dimsolve.service.answers import Verb
from dimsolve.service.replies import Reply


def work(verb: Verb, body: bytes, seconds: float) -> Reply:
    """As the real one, or never, or not at all."""
    while b'"endless"' in body and verb == "legal-parts":
        time.sleep(1)
    if b'"deadly"' in body:
        os.kill(os.getpid(), signal.SIGKILL)
    return worker.work(verb, body, seconds)
