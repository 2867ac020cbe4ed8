"""Planning without garbage collection.

What planning makes is in no cycles, so a collection finds nothing; but it goes through everything
there is, the graph and the model too, and takes longer than planning itself.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Puts the collection of cycles off until the end, where it was on."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
