"""How long a search may take, and what it says meanwhile.

    searching   5.71 s a step, at least 5.68 s (gap 0.6 %)   12 of 60 s

The line stands on a terminal, or below a notebook's cell, once a search has taken a second. It is
wiped when the search ends.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import monotonic
from typing import TextIO

SHOWN_AFTER = 1.0
"""Seconds after which the line is shown."""

SHOWN_EVERY = 0.2
"""Seconds between two lines."""


class TimeUp(Exception):
    """The time is over; what was begun is left."""


class Clock:
    """Ends after so many seconds, and with the ``whole`` of which it is a part. text: what the line
    says, where there is one; stream: where it stands, None for nowhere.
    """

    def __init__(
        self,
        seconds: float = float("inf"),
        text: Callable[[], str] | None = None,
        stream: TextIO | None = None,
        whole: Clock | None = None,
    ) -> None:
        self.began = self.shown = monotonic()
        self.seconds = seconds
        self.text, self.stream = text, stream
        self.whole = whole
        self._width = 0

    @property
    def late(self) -> bool:
        """Whether the time is over. Whoever asks lets the line be shown."""
        if self.whole is not None and self.whole.late:
            return True
        now = monotonic()
        if self.stream is not None and now - self.shown > SHOWN_EVERY:
            self._show(now)
        return now - self.began >= self.seconds

    def says(self, text: Callable[[], str]) -> None:
        """Lets the line say this."""
        if self.whole is not None:
            self.whole.says(text)
        self.text = text

    def check(self) -> None:
        """Raises TimeUp when the time is over."""
        if self.late:
            raise TimeUp

    def part(self, share: float) -> Clock:
        """Returns a clock that ends with this one, and after a share of the time that is left."""
        left = self.began + self.seconds - monotonic()
        return Clock(left * share, whole=self)

    def stop(self) -> None:
        """Lets the time be over now."""
        self.seconds = 0.0

    def interrupt(self) -> None:
        """Lets the time be over now, also that of which this is a part."""
        self.stop()
        if self.whole is not None:
            self.whole.interrupt()

    def wipe(self) -> None:
        """Takes the line away, for good."""
        if self.stream is not None and self._width:
            self._write("")
        self.stream = None

    def _show(self, now: float) -> None:
        self.shown = now
        taken = now - self.began
        if self.text is not None and taken >= SHOWN_AFTER:
            of = f" of {self.seconds:.0f}" if self.seconds < float("inf") else ""
            self._write(f"{self.text()}   {taken:.0f}{of} s")

    def _write(self, text: str) -> None:
        assert self.stream is not None
        end = "\r" if not text else ""
        self.stream.write("\r" + text.ljust(self._width) + end)
        self.stream.flush()
        self._width = len(text)


def watched() -> TextIO | None:
    """Returns stderr where somebody looks on: a terminal, or a notebook."""
    stream = sys.stderr
    if stream is None or not (stream.isatty() or type(stream).__module__ == "ipykernel.iostream"):
        return None
    return stream
