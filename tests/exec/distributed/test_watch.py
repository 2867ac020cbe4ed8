"""The watch's thread: nobody waits for its store for ever, and it has left when a process ends."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch.distributed as dist

from dimsolve.exec.distributed import watch as watching
from dimsolve.exec.distributed.watch import Watch
from tests.exec import stopping
from tests.oracles.ranks import world


class StuckStore(dist.Store):
    """A store whose process is stopped, until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.free = threading.Event()

    def add(self, key: str, value: int) -> int:
        self.asked.set()
        self.free.wait()
        return 0

    def check(self, keys: Any) -> bool:
        self.free.wait()
        return False

    def set(self, key: str, value: Any) -> None:
        self.free.wait()


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A watch whose thread waits for a store that does not answer."""
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    store = StuckStore()
    monkeypatch.setattr(Watch, "store", lambda self, prefix: store)
    guard = Watch(store, 1, 2)
    assert store.asked.wait(30)
    yield guard, store
    store.free.set()
    guard.end()


def test_a_store_that_does_not_answer_is_blamed(
    stuck: tuple[Watch, StuckStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    guard, _ = stuck
    monkeypatch.setattr(watching.Watch.ask, "__defaults__", (0.1,))
    found = guard.blame("the all-reduce of float32 (4,)", 5.0)
    assert found is not None
    assert str(found) == (
        "the first rank failed\n"
        "  the process that holds the store of the process group does not answer: it is stopped, "
        "or its machine is gone\n"
        "  rank 1 was in the all-reduce of float32 (4,)"
    )


def test_the_end_waits_for_a_thread_that_is_inside_of_the_store(
    stuck: tuple[Watch, StuckStore],
) -> None:
    """Where it came back later, the interpreter would end it there, and the process by SIGABRT."""
    guard, store = stuck
    threading.Timer(2.0, store.free.set).start()
    guard.end()
    assert not guard._thread.is_alive()


def test_parts_that_were_let_go_are_soon_asked_no_more() -> None:
    """A session makes hundreds; each would cost a question to the store five times a second."""
    found = world(2).run(stopping.made_and_let_go, 12)
    assert found == [watching.LATEST + 1] * 2  # and what compares their backward passes
