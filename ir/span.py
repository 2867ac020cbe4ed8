"""Where in a text something stands: half-open offsets, ``text[start:stop]``."""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """Offsets into the text that was read, in characters: ``start`` is included, ``stop`` is not.

    >>> "m k+ -> m"[slice(*Span(2, 4))]
    'k+'
    """

    start: int
    stop: int
