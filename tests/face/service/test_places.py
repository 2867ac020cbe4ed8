"""Nobody who asks little waits for somebody who asks much."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from dimsolve.service.pool import Place, Places


def test_the_clients_take_turns() -> None:
    async def scene() -> list[str]:
        places = Places(1)
        order: list[str] = []

        async def ask(client: str) -> None:
            place = await places.take(client)
            order.append(client)
            await asyncio.sleep(0)
            places.give_back(place)

        busy = await places.take("a")
        second = await places.take("b")  # the newcomer's place
        asked = [asyncio.create_task(ask(client)) for client in "aaaaaabc"]
        await asyncio.sleep(0)
        places.give_back(busy)
        places.give_back(second)
        await asyncio.gather(*asked)
        return order

    order = asyncio.run(scene())
    assert max(order.index("b"), order.index("c")) <= 3 and Counter(order)["a"] == 6


def test_a_short_question_and_a_newcomer_have_places_of_their_own() -> None:
    async def scene() -> list[str]:
        places = Places(2)
        held = [await places.take("a") for _ in range(2)]
        slow = [asyncio.create_task(places.take("a")) for _ in range(10)]
        await asyncio.sleep(0)
        held += [await places.take("a", is_short=True), await places.take("b")]
        assert not any(task.done() for task in slow)
        for task in slow:
            task.cancel()
        return [place.kind for place in held]

    assert asyncio.run(scene()) == ["usual", "usual", "short", "newcomer"]


@pytest.mark.parametrize("seed", range(30))
def test_places_are_neither_lost_nor_made(seed: int) -> None:
    """Whoever comes, goes or gives up waiting: afterwards all places are free."""
    rng = random.Random(seed)

    async def scene() -> None:
        places = Places(2)
        taken: Counter[str] = Counter()

        async def ask() -> None:
            client = rng.choice("abc")
            place = await places.take(client, rng.random() < 0.3)
            taken[place.kind] += 1
            assert taken["usual"] <= 2 and taken["short"] <= 1 and taken["newcomer"] <= 1
            try:
                await asyncio.sleep(rng.random() / 500)
            finally:
                taken[place.kind] -= 1
                places.give_back(place)

        tasks = [asyncio.create_task(ask()) for _ in range(40)]
        for task in rng.sample(tasks, 15):
            await asyncio.sleep(rng.random() / 1000)
            task.cancel()
        done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
        assert all(found is None or isinstance(found, asyncio.CancelledError) for found in done)
        assert [await places.take(c) for c in "xxy"] == [
            Place("usual", "x"),
            Place("usual", "x"),
            Place("newcomer", "y"),
        ]

    asyncio.run(scene())


def test_who_waits_is_told_how_many_are_ahead() -> None:
    async def scene() -> tuple[int, int]:
        places = Places(1)
        await places.take("a")
        waiting = [asyncio.create_task(places.take("a")) for _ in range(5)]
        await asyncio.sleep(0)
        counted = places.ahead("a"), places.ahead("z")
        for task in waiting:
            task.cancel()
        return counted

    assert asyncio.run(scene()) == (5, 1)
