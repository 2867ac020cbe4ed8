"""Answers that are given again to the same question: a question has one answer, always.

Bounded in bytes, the least recently used one is forgotten first. Only answers to what was asked are
kept, never that the service was busy or gave up.

    remembered = Remembered(1000)
    remembered.keep("prove", b"...", Reply(200, b"{}"))
    remembered.get("prove", b"...")                        Reply(200, b"{}")
"""

from __future__ import annotations

from collections import OrderedDict

from .replies import Reply
from .verbs import Verb

_OVERHEAD = 400
"""About what an entry takes beside its bytes."""


class Remembered:
    """The last replies by verb and body, in at most so many bytes.

    >>> remembered = Remembered(1000)
    >>> remembered.keep("parse", b"{}", Reply(422, b"{}"))
    >>> remembered.get("parse", b"{}").status, remembered.get("prove", b"{}")
    (422, None)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0
        self._replies: OrderedDict[tuple[Verb, bytes], Reply] = OrderedDict()

    def get(self, verb: Verb, body: bytes) -> Reply | None:
        """Returns the reply that was given before, or None."""
        key = verb, body
        reply = self._replies.get(key)
        if reply is not None:
            self._replies.move_to_end(key)
        return reply

    def keep(self, verb: Verb, body: bytes, reply: Reply) -> None:
        """Keeps a reply, and forgets others where there is no room."""
        size = _size(body, reply)
        if reply.status >= 500 or size > self._most or (verb, body) in self._replies:
            return
        self._replies[verb, body] = reply
        self._bytes += size
        while self._bytes > self._most:
            (_, old), forgotten = self._replies.popitem(last=False)
            self._bytes -= _size(old, forgotten)


def _size(body: bytes, reply: Reply) -> int:
    return len(body) + len(reply.body) + _OVERHEAD
