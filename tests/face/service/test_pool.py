"""A deadline truly stops the work, also work that holds the interpreter, and the pool goes on."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

import pytest

from dimsolve.service import answers
from dimsolve.service import pool as pools
from dimsolve.service.answers import Verb
from dimsolve.service.pool import ClientGone, Pool
from dimsolve.service.replies import Limits, Refusal, Reply

SHORT = Limits(deadline_seconds=0.4, workers=2, waiting=3, wait_seconds=1.5)
CLAIM = b'{"claim": "n*(n + 1) % 2 == 0"}'


def spin(*_: Any) -> Reply:
    while True:
        pass


def multiply(*_: Any) -> Reply:
    """One operation on big integers: no thread and no signal handler runs meanwhile."""
    return Reply(200, b"%d" % (3 ** (10**9)).bit_length())


def swallow(*_: Any) -> Reply:
    """Work that will not be interrupted."""
    while True:
        try:
            spin()
        except BaseException:
            continue


def eat(verb: Verb, body: bytes, seconds: float) -> Reply:
    """A worker's own work, on a question that takes all the memory that it may have."""

    def answer(*_: Any) -> Reply:
        kept = [bytearray(1 << 20) for _ in range(100_000)]
        return Reply(200, b"%d" % len(kept))

    answers.answer = answer
    return pools.work(verb, body, seconds)


def run(limits: Limits, play: Callable[[Pool], Awaitable[None]]) -> None:
    async def scene() -> None:
        pool = Pool(limits)
        await pool.start()
        try:
            await play(pool)
        finally:
            pool.stop()
        assert pool.pending == 0

    asyncio.run(scene())


async def assert_answers(pool: Pool) -> None:
    reply = await pool.answer("prove", CLAIM)
    assert reply.status == 200 and b'"proved"' in reply.body


@pytest.mark.parametrize("work", [spin, multiply, swallow])
def test_the_deadline_stops_what_nothing_else_stops(
    work: Callable[..., Reply], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(pool: Pool) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(pools, "work", work)
            began = monotonic()
            with pytest.raises(Refusal) as caught:
                await pool.answer("prove", CLAIM)
        assert (caught.value.problem.status, caught.value.problem.code) == (504, "out-of-time")
        assert monotonic() - began < 30
        assert pool.killed == 1
        await assert_answers(pool)

    run(SHORT, play)


def test_a_worker_that_takes_too_much_memory_ends_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(pool: Pool) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(pools, "work", eat)
            with pytest.raises(Refusal) as caught:
                await pool.answer("prove", CLAIM)
        assert caught.value.problem.code == "out-of-memory"
        assert pool.killed == 0, "it ended by itself, at its limit"
        await assert_answers(pool)

    # A worker is forked with all that this process's server of forks has loaded: torch, at times.
    run(Limits(workers=1, worker_bytes=2 << 30, deadline_seconds=600), play)


def test_a_client_that_goes_away_frees_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(pool: Pool) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(pools, "work", spin)
            gone = asyncio.create_task(asyncio.sleep(0.3))
            with pytest.raises(ClientGone):
                await pool.answer("prove", CLAIM, gone)
        await assert_answers(pool)

    run(Limits(workers=1, deadline_seconds=60), play)


def test_a_full_queue_is_said_at_once_and_loses_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(pool: Pool) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(pools, "work", spin)
            asked = [pool.answer("prove", CLAIM) for _ in range(20)]
            found = await asyncio.gather(*asked, return_exceptions=True)
        problems = [error.problem for error in found if isinstance(error, Refusal)]
        assert len(problems) == 20
        assert {problem.code for problem in problems} == {"busy", "out-of-time"}
        assert sum(problem.status == 503 for problem in problems) >= 13
        busy = [error for error in found if isinstance(error, Refusal) and error.retry_after]
        assert {error.problem.status for error in busy} == {503}
        await assert_answers(pool)

    run(SHORT, play)


def test_a_worker_killed_from_outside_is_replaced() -> None:
    async def play(pool: Pool) -> None:
        (worker, *_) = pool._pool._pool_manager.worker_manager.workers
        os.kill(worker, signal.SIGKILL)
        await asyncio.sleep(0.5)
        await assert_answers(pool)

    run(SHORT, play)


def test_workers_outlive_signals_to_the_whole_group() -> None:
    async def play(pool: Pool) -> None:
        workers = list(pool._pool._pool_manager.worker_manager.workers)
        for worker in workers:
            os.kill(worker, signal.SIGTERM)
            os.kill(worker, signal.SIGINT)
        await assert_answers(pool)
        assert list(pool._pool._pool_manager.worker_manager.workers) == workers

    run(SHORT, play)
