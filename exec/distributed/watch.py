"""Watches the ranks of a process group, so that none waits for ever for one that failed.

    rank 1 raises           writes its failure into the store, under a key that all ranks look at
    rank 0 in a collective  looks at the key twice a second, and raises RankFailure

Every rank has one watch: a thread that looks, counts its own beats, and posts what this rank is
doing. A rank that is killed or stopped writes nothing; the others find that its beats have stopped.
A rank that sleeps goes on beating; it is the one outside of any collective. What a rank is doing is
found by whoever knows its programs (`observe_with`).

The store is asked in the watch's thread only: who asks waits no longer than PATIENCE, also where
the process that holds the store is stopped and never answers.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar
from weakref import ref

import torch.distributed as dist

from .failures import Activity, Failure

INTERVAL = 0.2
"""Seconds between two looks at the store."""

SILENCE = 1.5
"""Seconds without a beat after which a rank is taken for dead."""

PATIENCE = 10.0
"""Seconds that the store has for an answer, and the watch's thread for its end."""

STORE = "the process that holds the store of the process group"

LATEST = 8
"""So many of the objects that answer are kept after everybody else has let them go."""

T = TypeVar("T")


class Answering(Protocol):
    """What other ranks may ask something, through the store."""

    def answer(self) -> None:
        """Looks whether it was asked, and answers."""


class Watch:
    """This process' watch over its process group.

    timeout: seconds that this rank waits for others; None: what the process group allows. waits:
    the collective that it waits in, or "". raised: the call that ended with a failure here, or
    because of another rank's, whatever has become of the error.
    """

    def __init__(self, base: Any, rank: int, world: int) -> None:
        self.rank = rank
        self.world = world
        self.raised = ""
        self._over = 0  # failures that all ranks have had alike
        self._known: tuple[int, Failure] | None = None
        self.tasks: list[Callable[[Any], None]] = []
        self._answers: list[ref[Answering]] = []
        self._latest: deque[Answering] = deque(maxlen=LATEST)
        self.timeout: float | None = None
        self.waits = ""
        self._since = time.monotonic()
        self._posted = ""
        self._base = base
        self._store = self.store("dimsolve/watch")
        self._misses = 0
        self._questions: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._live, name="dimsolve-watch", daemon=True)
        self._thread.start()
        atexit.register(self.end)

    @property
    def failure(self) -> Failure | None:
        """The failure that ended the run, as far as it is known."""
        return self._known[1] if self._known is not None and self._known[0] == self._over else None

    def report(self, failure: Failure) -> None:
        """Tells all ranks of a failure; the first one counts."""
        if self.failure is not None:
            return
        text, over = json.dumps(failure.to_json()), self._over
        key = f"failure/{over}"
        try:
            told = self.ask(lambda: self._store.compare_set(key, "", text), 2.0)
            self._known = over, Failure(**json.loads(told))
        except (RuntimeError, TimeoutError):
            self._known = over, failure  # the store does not answer: nobody can be told

    def note_raised(self, call: str) -> None:
        """Notes that a call has ended with an error here. call: the same text on ranks that fail
        alike, "" where another rank's failure ended it.
        """
        self.raised = call or "another rank's failure"
        key = f"raised/{self._over}/{self.rank}"
        with suppress(RuntimeError, TimeoutError):  # the store is gone, and nobody can be told
            self.ask(lambda: self._store.set(key, self.raised))

    def is_over(self, seconds: float) -> bool:
        """Whether every rank's call has failed alike, so that all are at one place again and may
        go on. Waits so long for the others to fail.
        """
        keys = [f"raised/{self._over}/{rank}" for rank in range(self.world)]
        until = time.monotonic() + seconds

        def told() -> set[bytes | str]:
            return {self._store.get(key) if self._store.check([key]) else "" for key in keys}

        while "" in (found := self.ask(told)) and found <= {"", self.raised.encode()}:
            if time.monotonic() > until:
                return False
            time.sleep(INTERVAL / 4)
        if found != {self.raised.encode()}:
            return False
        self._over += 1
        self.raised = ""
        return True

    def answer_with(self, known: Answering) -> None:
        """Asks something with every look as long as it lives. The last few are kept a while:
        another rank may still ask for what one of them knew.
        """
        self._answers = [each for each in self._answers if each() is not None]
        self._answers.append(ref(known))
        self._latest.append(known)

    def store(self, prefix: str) -> Any:
        """Returns the watch's connection to the store under a prefix, for questions of `ask`."""
        from torch.distributed.distributed_c10d import PrefixStore

        return PrefixStore(prefix, self._base)

    def ask(self, question: Callable[[], T], patience: float = PATIENCE) -> T:
        """Returns what a question to the store gives. Raises TimeoutError where it does not answer,
        and what it raises: RuntimeError where it is gone.
        """
        if threading.current_thread() is self._thread:
            return question()
        answer: Future[T] = Future()

        def answered() -> None:
            try:
                answer.set_result(question())
            except Exception as error:
                answer.set_exception(error)

        self._questions.put(answered)
        return answer.result(patience if self._thread.is_alive() else INTERVAL)

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
        try:
            if waited is not None:
                self._ask_for_details()
            found = self.silent_rank(here, waited)
            if found is None and waited is not None:
                found = self._busy_rank(here, waited)
        except TimeoutError:
            return self.without_store(
                "does not answer: it is stopped, or its machine is gone", here
            )
        if found is not None and waited is not None:
            self.report(found)
        return found

    def without_store(self, what: str, here: str = "") -> Failure:
        """Returns the failure of the process that holds the store. what: it does, in words."""
        was = f"\nrank {self.rank} was in {here}" if here else ""
        return Failure(0, "the first rank", f"{STORE} {what}{was}")

    def silent_rank(self, here: str = "", waited: float | None = None) -> Failure | None:
        """Returns the failure of a rank whose beats have stopped; None where all go on."""
        before = self.beats()
        until = time.monotonic() + SILENCE
        while time.monotonic() < until:
            time.sleep(INTERVAL)
            if self.failure is not None:
                return self.failure
        after = self.beats()
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
        doing = {rank: self._activity_of(rank) for rank in range(self.world) if rank != self.rank}
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
        doing = self._activity_of(rank)
        lines = [reason]
        if here:
            own = _observed.activity()
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

    def _ask_for_details(self) -> None:
        """Asks all ranks to post what they do with shapes; they look at this with every beat."""
        with suppress(RuntimeError):  # the store is gone, and so are the answers
            self.ask(lambda: self._store.set("roll", "1"))

    def _activity_of(self, rank: int) -> Activity:
        key = f"doing/{rank}"
        with suppress(RuntimeError, TimeoutError):  # the store is gone, and what it knew with it
            text = self.ask(lambda: self._store.check([key]) and self._store.get(key))
            if text:
                return Activity.from_json(text)
        return Activity()

    def _post(self) -> None:
        """Posts what this rank is doing, where that has changed."""
        text = _observed.activity(self.waits, details=self._store.check(["roll"])).to_json()
        if text != self._posted:
            self._store.set(f"doing/{self.rank}", text)
            self._posted = text

    def end(self) -> None:
        """Stops looking, and waits for the thread to leave.

        A thread that comes back from the store while the interpreter is taken down would be ended
        inside of torch, and the process with it, by SIGABRT. So it is given the time to come back.
        """
        atexit.unregister(self.end)
        self._questions.put(None)
        self._thread.join(timeout=PATIENCE)

    def beats(self) -> list[int] | None:
        """Returns how often each rank has looked; None where the store does not answer."""

        def beats() -> list[int]:
            return [int(self._store.add(f"beat/{rank}", 0)) for rank in range(self.world)]

        try:
            return self.ask(beats)
        except RuntimeError:
            return None

    def _live(self) -> None:
        """Looks at the store, and answers what this process asks it in between, until the end."""
        due = time.monotonic() + INTERVAL
        while dist.is_initialized():
            left = due - time.monotonic()
            if left <= 0:
                self._look()
                due = time.monotonic() + INTERVAL
                continue
            with suppress(Empty):
                question = self._questions.get(timeout=left)
                if question is None:
                    return
                question()

    def _look(self) -> None:
        """Says that this rank lives, and what it is at, and looks for a failure."""
        try:
            self._store.add(f"beat/{self.rank}", 1)
            self._post()
            over = self._over
            key = f"failure/{over}"
            told = self._store.check([key]) and self._store.get(key)
            for task in list(self.tasks):
                task(self._store)
            for known in [each() for each in self._answers]:
                if known is not None:
                    known.answer()
            self._misses = 0
        except RuntimeError:
            self._misses += 1
            if self._misses > 5 and self.failure is None:
                self._known = self._over, self.without_store("is gone")
            return
        if told and self.failure is None:
            self._known = over, Failure(**json.loads(told))


class Observer:
    """Finds what this process is doing and what exceptions say; this one knows no programs."""

    def activity(self, waits: str = "", *, details: bool = False) -> Activity:
        """Returns what this process is doing. waits: what it waits in. details: with shapes."""
        return Activity(waits=waits)

    def failure(self, error: BaseException, rank: int) -> Failure:
        """Returns what an exception on this rank says."""
        return Failure(rank, f"rank {rank}", f"{type(error).__name__}: {error}")


_observed = Observer()


def observe_with(observer: Observer) -> None:
    """Sets who finds what this process is doing."""
    global _observed
    _observed = observer


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
        _watch, _watched = Watch(_own_store(), dist.get_rank(), dist.get_world_size()), group
        _report_uncaught()
    return _watch


def end_watch() -> None:
    """Ends the watch, and lets go of the process group."""
    global _watch, _watched
    if _watch is not None:
        _watch.end()
    _watch = _watched = None


def _own_store() -> Any:
    """The process group's store through a connection of its own."""
    from torch.distributed.distributed_c10d import _get_default_store

    store = _get_default_store()
    clone = getattr(store, "clone", None)
    return clone() if clone is not None else store


def chosen_timeout(group: Any = None) -> float | None:
    """Returns the seconds that a process group was told to wait; None where nobody has chosen, and
    it waits as long as torch always does. group: None is the world.
    """
    from torch.distributed.constants import default_pg_nccl_timeout, default_pg_timeout

    found: Any = group if group is not None else dist.group.WORLD
    for device in found._device_types:
        options = getattr(found._get_backend(device), "options", None)
        timeout = getattr(options, "_timeout", None)
        if timeout is not None and timeout not in (default_pg_timeout, default_pg_nccl_timeout):
            return float(timeout.total_seconds())
    return None


def inherit_timeout(group: Any) -> None:
    """Lets a group for which nobody has chosen wait no longer than the world: torch gives a new
    group its own default, half an hour, whatever the world was given.
    """
    from torch.distributed.distributed_c10d import _set_pg_timeout

    world = chosen_timeout()
    if world is not None and chosen_timeout(group) is None:
        _set_pg_timeout(timedelta(seconds=world), group)


def _report_uncaught() -> None:
    """An exception that ends this process is told to the other ranks before it does."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        if _watch is not None and not isinstance(error, KeyboardInterrupt):
            _watch.report(_observed.failure(error, _watch.rank))
        before(kind, error, traceback)

    hook.__dict__["dimsolve"] = os.getpid()
    if "dimsolve" not in getattr(before, "__dict__", {}):
        sys.excepthook = hook
