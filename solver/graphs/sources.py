"""Where in the model's own code something was written: the nearest frame outside of dimsolve and
torch.

Files are written relative to the package that they were installed with, or to the working
directory, so that a graph says the same on every machine.

    transformers/models/llama/modeling_llama.py:269
"""

from __future__ import annotations

import sys
from functools import lru_cache
from linecache import getline
from pathlib import Path

from dimsolve.ir.node import Source

_OWN = ("dimsolve", "torch")


def caller() -> Source | None:
    """Returns the line that called dimsolve; None where there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in _OWN:
            return source(frame.f_code.co_filename, frame.f_lineno)
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None


def source(filename: str, line: int) -> Source:
    """Returns the line of a file as a source."""
    return Source(relative(filename), line, getline(filename, line).strip())


@lru_cache(maxsize=1024)
def relative(filename: str) -> str:
    """Returns a file's name without what belongs to this machine.

    >>> relative("/somewhere/site-packages/transformers/models/llama/modeling_llama.py")
    'transformers/models/llama/modeling_llama.py'
    """
    parts = Path(filename).parts
    for marker in ("site-packages", "dist-packages"):
        if marker in parts:
            return "/".join(parts[len(parts) - parts[::-1].index(marker) :])
    try:
        return Path(filename).resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return parts[-1] if parts else filename
