"""Tells ranks of each other's failures, so that none waits for one that will not come.

    rank 1 raises           writes what failed into the store, under a key that all ranks look at
    rank 0 in a collective  looks at the key twice a second, and raises RankFailure

Every rank of a process group has one watch: a thread that looks, counts its own beats, and posts
what this rank is doing. A rank that is killed or stopped writes nothing; the others then find that
its beats have stopped. A rank that sleeps goes on beating; it is the one that waits for nobody.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from .failure import Failure
from .whereabouts import Doing, whereabouts

INTERVAL = 0.2
"""Seconds between two looks at the store."""

SILENCE = 1.5
"""Seconds without a beat after which a rank is taken for dead."""


class Stopped(BaseException):
    """This process was told to end, because another rank has ended."""


class Watch:
    """This process' watch over its process group.

    timeout: seconds that this rank waits for others; None: what the process group allows. waits:
    the collective that it waits in, or "".
    """

    def __init__(self, store: Any, rank: int, world: int) -> None:
        self.rank = rank
        self.world = world
        self.failure: Failure | None = None
        self.duties: list[Callable[[Any], None]] = []
        self.timeout: float | None = None
        self.waits = ""
        self._since = time.monotonic()
        self._posted = ""
        self._store = store
        self._lock = threading.Lock()
        self._misses = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, name="dimsolve-watch", daemon=True)
        self._thread.start()
        atexit.register(self.end)

    def report(self, failure: Failure) -> None:
        """Tells all ranks of a failure; the first one counts."""
        if self.failure is not None:
            return
        if not self._lock.acquire(timeout=2):
            self.failure = failure  # the store does not answer: nobody can be told
            return
        try:
            told = self._store.compare_set("failure", "", json.dumps(failure.to_json()))
            self.failure = Failure(**json.loads(told))
        except RuntimeError:
            self.failure = failure
        finally:
            self._lock.release()

    def known_failure(self, seconds: float = 0.0) -> Failure | None:
        """Returns the failure that ended the run, waiting so long for one to be told."""
        until = time.monotonic() + seconds
        while self.failure is None and time.monotonic() < until:
            time.sleep(INTERVAL / 4)
        return self.failure

    def blame(self, here: str = "", waited: float | None = None) -> Failure | None:
        """Returns the failure that made a collective of this rank fail, as far as it is known.

        here: the collective. waited: the seconds after which this rank gave up; None where the
        collective broke.
        """
        known = self.known_failure(3 * INTERVAL)
        if known is not None:
            return known
        if waited is not None:
            self._call_roll()
        found = self.silent_rank(here, waited)
        if found is None and waited is not None:
            found = self._busy_rank(here, waited)
            if found is not None:
                self.report(found)
        return found

    def silent_rank(self, here: str = "", waited: float | None = None) -> Failure | None:
        """Returns the failure of a rank whose beats have stopped; None where all go on."""
        before = self._beats()
        until = time.monotonic() + SILENCE
        while time.monotonic() < until:
            time.sleep(INTERVAL)
            if self.failure is not None:
                return self.failure
        after = self._beats()
        if before is None or after is None:
            return None
        silent = [r for r in range(self.world) if r != self.rank and after[r] == before[r]]
        if not silent:
            return None
        reason = "it ended without a word: it was killed, or its machine is gone"
        if waited is not None:
            reason = f"it gave no sign of life, and rank {self.rank} waited {waited:g} s for it: "
            reason += "it is stopped, hangs outside of Python, or its machine is gone"
        return self._missed(silent[0], reason, here)

    def wait_in(self, what: str, since: float) -> None:
        """Notes that this rank waits for others, and since when."""
        self.waits, self._since = what, since

    def waited(self) -> float:
        """Returns the seconds since it began to wait."""
        return round(time.monotonic() - self._since)

    def waiting(self) -> dict[int, str]:
        """Returns what the other ranks wait in, as far as they wait."""
        doing = {rank: self._doing(rank) for rank in range(self.world) if rank != self.rank}
        return {rank: found.waits for rank, found in doing.items() if found.waits}

    def _busy_rank(self, here: str, waited: float) -> Failure | None:
        """The first rank that goes on beating, and waits for nobody: others wait for it."""
        waiting = self.waiting()
        busy = [r for r in range(self.world) if r != self.rank and r not in waiting]
        if not busy:
            return None
        reason = f"it did not come, and rank {self.rank} waited {waited:g} s for it"
        return self._missed(busy[0], reason, here)

    def _missed(self, rank: int, reason: str, here: str) -> Failure:
        """The failure of a rank that others wait for, with what it is known to have been at."""
        doing = self._doing(rank)
        lines = [reason]
        if here:
            own = whereabouts()
            is_step = own.operator and not own.operator.startswith(("conversion", "begun", "share"))
            step = f", at {own}" if is_step else ""
            lines.append(f"rank {self.rank} was in {here}{step}")
        if doing.waits:
            lines.append(f"it was last seen waiting in {doing.waits}")
        elif str(doing):
            lines.append(f"it was last seen in {doing}")
        shapes = dict(doing.shapes)
        return Failure(
            rank, f"rank {rank}", "\n".join(lines), doing.operator, doing.node, doing.source, shapes
        )

    def _call_roll(self) -> None:
        """Asks all ranks to post what they do with shapes; they look at this with every beat."""
        try:
            with self._lock:
                self._store.set("roll", "1")
        except RuntimeError:
            pass  # the store is gone, and so are the answers

    def _doing(self, rank: int) -> Doing:
        key = f"doing/{rank}"
        try:
            with self._lock:
                if self._store.check([key]):
                    return Doing.from_json(self._store.get(key))
        except RuntimeError:
            pass  # the store is gone, and what it knew with it
        return Doing()

    def _post(self) -> None:
        """Posts what this rank is doing, where that has changed."""
        text = whereabouts(self.waits, details=self._store.check(["roll"])).to_json()
        if text != self._posted:
            self._store.set(f"doing/{self.rank}", text)
            self._posted = text

    def end(self) -> None:
        """Stops looking."""
        self._ended.set()
        self._thread.join(timeout=1)

    def _beats(self) -> list[int] | None:
        try:
            with self._lock:
                return [int(self._store.add(f"beat/{rank}", 0)) for rank in range(self.world)]
        except RuntimeError:
            return None

    def _look(self) -> None:
        while not self._ended.wait(INTERVAL):
            try:
                with self._lock:
                    self._store.add(f"beat/{self.rank}", 1)
                    self._post()
                    told = self._store.check(["failure"]) and self._store.get("failure")
                    for duty in list(self.duties):
                        duty(self._store)
                self._misses = 0
            except RuntimeError:
                self._misses += 1
                if self._misses > 5 and self.failure is None:
                    reason = "the process that holds the store of the process group is gone"
                    self.failure = Failure(0, "the first rank", reason)
                continue
            if told and self.failure is None:
                self.failure = Failure(**json.loads(told))


_watch: Watch | None = None
_watched: Any = None


def watch() -> Watch | None:
    """Returns the watch of this process' process group, started when it is first asked for; None
    where there is no process group.
    """
    global _watch, _watched
    if not dist.is_initialized():
        return None
    group = dist.group.WORLD
    if _watched is not group:
        if _watch is not None:
            _watch.end()
        store = own_store("dimsolve/watch")
        _watch, _watched = Watch(store, dist.get_rank(), dist.get_world_size()), group
        _report_uncaught()
    return _watch


def own_store(prefix: str) -> Any:
    """Returns the process group's store under a prefix, through a connection of its own."""
    from torch.distributed.distributed_c10d import PrefixStore, _get_default_store

    store = _get_default_store()
    clone = getattr(store, "clone", None)
    return PrefixStore(prefix, clone() if clone is not None else store)


def _report_uncaught() -> None:
    """An exception that ends this process is told to the other ranks before it does."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        if _watch is not None and not isinstance(error, KeyboardInterrupt):
            from .failure import failure_of

            _watch.report(failure_of(error, _watch.rank, f"rank {_watch.rank}", None))
        before(kind, error, traceback)

    hook.__dict__["dimsolve"] = os.getpid()
    if "dimsolve" not in getattr(before, "__dict__", {}):
        sys.excepthook = hook
