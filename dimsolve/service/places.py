"""Who is next: places at the workers, given to clients in turn.

    places = Places(2)
    place = await places.take("10.0.0.7")      at once, or when it is this client's turn
    places.give_back(place)

One who asks many slow questions waits behind everybody else who asks one. Beside the usual places
there are two that slow questions of a busy client cannot take: one for short questions, and one for
clients of whom nothing is worked on. A client is an address.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["usual", "short", "newcomer"]


class Place(NamedTuple):
    """A place that a client has."""

    kind: Kind
    client: str


class _Waiting(NamedTuple):
    turn: asyncio.Future[Place]
    is_short: bool


class Places:
    """So many usual places, and one of each other kind."""

    def __init__(self, usual: int) -> None:
        self._most: dict[Kind, int] = {"usual": usual, "short": 1, "newcomer": 1}
        self._taken: Counter[Kind] = Counter()
        self._of_client: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[_Waiting]] = OrderedDict()

    async def take(self, client: str, is_short: bool = False) -> Place:
        """Returns a place as soon as it is the client's turn; `give_back` has to follow."""
        one = _Waiting(asyncio.get_running_loop().create_future(), is_short)
        self._waiting.setdefault(client, deque()).append(one)
        self._hand_out()
        try:
            return await one.turn
        except asyncio.CancelledError:
            if one.turn.done() and not one.turn.cancelled():
                self.give_back(one.turn.result())
            else:
                self._leave(client, one)
            raise

    def give_back(self, place: Place) -> None:
        """Frees a place, for whoever is next."""
        self._taken[place.kind] -= 1
        self._of_client[place.client] -= 1
        if not self._of_client[place.client]:
            del self._of_client[place.client]
        self._hand_out()

    def ahead(self, client: str) -> int:
        """How many questions will be begun before one more of this client: of each other client at
        most as many as this one has waiting.
        """
        ours = len(self._waiting.get(client, ())) + 1
        others = [len(row) for name, row in self._waiting.items() if name != client]
        return ours - 1 + sum(min(row, ours) for row in others)

    def _leave(self, client: str, one: _Waiting) -> None:
        row = self._waiting.get(client)
        if row is not None and one in row:
            row.remove(one)
            if not row:
                del self._waiting[client]

    def _hand_out(self) -> None:
        """Gives every free place to the client whose turn it is."""
        while (found := self._next()) is not None:
            client, one, kind = found
            self._leave(client, one)
            if client in self._waiting:
                self._waiting.move_to_end(client)
            self._taken[kind] += 1
            self._of_client[client] += 1
            one.turn.set_result(Place(kind, client))

    def _next(self) -> tuple[str, _Waiting, Kind] | None:
        for client, row in self._waiting.items():
            here = [one for one in row if not one.turn.cancelled()]
            for one in (*here[:1], *(each for each in here if each.is_short)):
                kind = self._free_for(client, one)
                if kind is not None:
                    return client, one, kind
        return None

    def _free_for(self, client: str, one: _Waiting) -> Kind | None:
        allowed: tuple[tuple[Kind, bool], ...] = (
            ("usual", True),
            ("short", one.is_short),
            ("newcomer", client not in self._of_client),
        )
        for kind, may in allowed:
            if may and self._taken[kind] < self._most[kind]:
                return kind
        return None
