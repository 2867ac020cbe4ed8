"""`meet`: before a collective that not every rank may know of, such as one that a hook asks for.

    rank 0    a hook on its logits asks for an all-gather      meets, and waits for rank 1
    rank 1    no hook: is in the next all-reduce               rank 0 finds out, and both raise

The ranks count in the store that they have come. Nobody is waited for who waits in something else:
where all other ranks wait and nothing moves, or one has ended, those who have come are told.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import torch.distributed as dist

from dimsolve.ir.errors import DimsolveError, Problem

from .communicator import Communicator
from .failures import Failure, rank_failure
from .watch import INTERVAL, Watch, watch

STILL = 3.0
"""Seconds in which nothing has moved."""

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
    _Meeting(guard, group, what, f"meeting/{name}/{_times[name]}").wait()


class _Meeting:
    def __init__(self, guard: Watch, group: Any, what: str, key: str) -> None:
        self.guard, self.what, self.key = guard, what, key
        self.ranks = dist.get_process_group_ranks(group)
        self.store = guard.store("dimsolve/watch")

    def wait(self) -> None:
        """Waits until all have come."""
        guard, key = self.guard, f"{self.key}/{self.guard.rank}"
        guard.ask(lambda: self.store.set(key, "1"))
        guard.wait_in(self.what, time.monotonic())
        seen, since = "", time.monotonic()
        while missing := self._missing():
            if guard.failure is not None:
                raise rank_failure(guard.failure, f"rank {guard.rank}: {self.what}")
            time.sleep(INTERVAL / 20 if time.monotonic() - since < INTERVAL else INTERVAL)
            if time.monotonic() - since > STILL:
                waiting = guard.waiting()
                still = len(waiting) == guard.world - 1 and str(waiting) == seen
                silent = None if still else guard.silent_rank(self.what)
                if still or silent is not None:
                    self._raise(missing[0], waiting, silent)
                seen, since = str(waiting), time.monotonic()
        guard.waits = ""

    def _missing(self) -> list[int]:
        def missing() -> list[int]:
            return [rank for rank in self.ranks if not self.store.check([f"{self.key}/{rank}"])]

        return self.guard.ask(missing)

    def _raise(self, missing: int, waiting: dict[int, str], silent: Failure | None) -> None:
        who = f"rank {missing} waits in {waiting.get(missing, 'nothing')}"
        if silent is not None:
            who = f"{silent.place}: {silent.reason}"
        rank = self.guard.rank
        error = _ALONE(rank=rank, what=self.what, who=who)
        self.guard.report(Failure(rank, f"rank {rank}", str(error)))
        raise error
