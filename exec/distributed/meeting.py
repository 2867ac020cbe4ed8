"""`meet`: before a collective that not every rank may know of, such as one that a hook asks for.

    rank 0    a hook on its logits asks for an all-gather      meets, and waits for rank 1
    rank 1    no hook: is in the next all-reduce               rank 0 finds out, and both raise

The ranks count in the store that they have come. Nobody is waited for who waits in something else:
where all other ranks wait and nothing moves, or one has ended, those who have come are told.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch.distributed as dist

from dimsolve.ir.errors import DimsolveError, Problem

from .communicator import Communicator
from .failures import Failure, rank_failure
from .watch import INTERVAL, Watch, chosen_timeout, watch

STILL = 3.0
"""Seconds in which nothing has moved."""

SILENT = 30.0
"""Seconds without a beat after which a rank that is missed is taken for dead, at most."""

LONGEST = 1800.0
"""Seconds that a rank waits at most, where nothing else is set: as long as torch's collectives."""

_ALONE = Problem(
    DimsolveError,
    "not-alone",
    "rank {rank} asks for {what}, and other ranks do not",
    "it is gathered from all ranks, and {who}",
    "register the hook, call retain_grad or ask autograd.grad for it on every rank",
)

_times: Counter[str] = Counter()


def meet(end: Communicator, what: str) -> None:
    """Waits until all ranks of a group have come for the same. Raises DimsolveError where some will
    not come, and what another rank's failure raises.
    """
    group, guard = getattr(end, "group", None), watch()
    if group is None or guard is None or end.size == 1:
        return
    name = f"{group.group_name}/{what}"
    _times[name] += 1
    ranks, store = dist.get_process_group_ranks(group), guard.store("dimsolve/watch")
    Meeting(guard, ranks, what, store, f"meeting/{name}/{_times[name]}", _ALONE).wait()


class Meeting:
    """Ranks that come for the same, and what each says there. what: they have come for, in words.
    store, key: where they come. alone: the error of a rank for which others will not come. here:
    what a rank waits in, where that is told by more than what it has come for. still: seconds in
    which nothing has moved.
    """

    def __init__(
        self,
        guard: Watch,
        ranks: Sequence[int],
        what: str,
        store: Any,
        key: str,
        alone: Problem[Any],
        here: str = "",
        still: float = STILL,
    ) -> None:
        self.guard, self.ranks, self.what, self.here = guard, list(ranks), what, here or what
        self.store, self.key, self.alone = store, key, alone
        self.longest, self.still = guard.timeout or chosen_timeout() or LONGEST, still

    def wait(self, said: str = "1") -> dict[int, str]:
        """Says something, waits until all have come, and returns what each has said."""
        guard, key, store = self.guard, self.key, self.store
        guard.ask(lambda: store.set(f"{key}/{guard.rank}", said))
        begun = time.monotonic()
        guard.wait_in(self.here, begun)
        seen, since = "", begun
        beats, beaten = guard.beats(), begun
        while missing := self._missing():
            if guard.failure is not None:
                raise rank_failure(guard.failure, f"rank {guard.rank}: {self.here}")
            now = time.monotonic()
            time.sleep(INTERVAL / 100 if now - begun < INTERVAL else INTERVAL / 4)
            if now - since > self.still:
                waiting, before, beats = guard.waiting(), beats, guard.beats()
                if before is None or beats is None or before[missing[0]] != beats[missing[0]]:
                    beaten = now
                if now - beaten > min(SILENT, self.longest / 2):
                    self._end(round(now - begun))
                still = len(waiting) == guard.world - 1 and str(waiting) == seen
                if still or now - begun > self.longest:
                    self._raise(missing[0], waiting)
                seen, since = str(waiting), time.monotonic()
        guard.waits = ""
        return guard.ask(lambda: {r: store.get(f"{key}/{r}").decode() for r in self.ranks})

    def _missing(self) -> list[int]:
        def missing() -> list[int]:
            return [rank for rank in self.ranks if not self.store.check([f"{self.key}/{rank}"])]

        return self.guard.ask(missing)

    def _end(self, waited: float) -> None:
        """Raises what has become of a rank that is silent."""
        silent = self.guard.silent_rank(self.here, waited)
        if silent is not None:
            self.guard.report(silent)
            raise rank_failure(silent, f"rank {self.guard.rank}: {self.here}")

    def _raise(self, missing: int, waiting: dict[int, str]) -> None:
        rank = self.guard.rank
        who = f"rank {missing} waits in {waiting.get(missing, 'nothing')}"
        error = self.alone(rank=rank, what=self.what, who=who)
        self.guard.report(Failure(rank, f"rank {rank}", str(error)))
        told = self.guard.failure
        raise error if told is None or told.rank == rank else rank_failure(told, self.here)
