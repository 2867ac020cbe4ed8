"""Loaded by the process from which workers are forked, and by nothing else.

It has to outlive a signal to the whole group: were it gone, the answers under way would be lost. It
ends when the server ends. Importing this is how multiprocessing lets one prepare that process.
"""

from __future__ import annotations

import signal

signal.signal(signal.SIGTERM, signal.SIG_IGN)
