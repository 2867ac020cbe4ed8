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
    store, key: where they come. alone: the error of a rank for which others will not come.
    """

    def __init__(
        self,
        guard: Watch,
        ranks: Sequence[int],
        what: str,
        store: Any,
        key: str,
        alone: Problem[Any],
    ) -> None:
        self.guard, self.ranks, self.what = guard, list(ranks), what
        self.store, self.key, self.alone = store, key, alone
        self.longest = guard.timeout or chosen_timeout() or LONGEST

    def wait(self, said: str = "1") -> dict[int, str]:
        """Says something, waits until all have come, and returns what each has said."""
        guard, key, store = self.guard, self.key, self.store
        guard.ask(lambda: store.set(f"{key}/{guard.rank}", said))
        begun = time.monotonic()
        guard.wait_in(self.what, begun)
        seen, since = "", begun
        while missing := self._missing():
            if guard.failure is not None:
                raise rank_failure(guard.failure, f"rank {guard.rank}: {self.what}")
            now = time.monotonic()
            time.sleep(INTERVAL / 100 if now - begun < INTERVAL else INTERVAL / 4)
            if now - since > STILL:
                waiting = guard.waiting()
                still = len(waiting) == guard.world - 1 and str(waiting) == seen
                silent = None if still else guard.silent_rank(self.what)
                if still or silent is not None or now - begun > self.longest:
                    self._raise(missing[0], waiting, silent)
                seen, since = str(waiting), time.monotonic()
        guard.waits = ""
        return guard.ask(lambda: {r: store.get(f"{key}/{r}").decode() for r in self.ranks})

    def _missing(self) -> list[int]:
        def missing() -> list[int]:
            return [rank for rank in self.ranks if not self.store.check([f"{self.key}/{rank}"])]

        return self.guard.ask(missing)

    def _raise(self, missing: int, waiting: dict[int, str], silent: Failure | None) -> None:
        who = f"rank {missing} waits in {waiting.get(missing, 'nothing')}"
        if silent is not None:
            who = f"{silent.place}: {silent.reason}"
        rank = self.guard.rank
        error = self.alone(rank=rank, what=self.what, who=who)
        self.guard.report(Failure(rank, f"rank {rank}", str(error)))
        raise error
