"""Whether all ranks' backward passes come to a part's outputs alike.

    inputs="local"    rank 0: part(x).a.sum().backward()      rank 1: part(x).b.sum().backward()
    AgreementError on both, before anything is sent:
      rank 0 goes back through output 'a' in call 1 of program 0
      rank 1 goes back through output 'b' in call 1 of program 0

What a backward pass sends follows from the outputs that gradients come to: the programs are the
same on all ranks, and what stands behind an output goes in one order. So an output that gradients
come to is an event of the pass, and all ranks must have the same events in one order.

What follows on what is learned: loss, loss, loss. An event that has followed before, and nothing
else has, sends nothing. Another one is asked about in the store, before the rank goes on; the
others answer from their watches, and what they have learned is the same, so no rank can have
another event without asking. From where several events have followed, as with a loss that is added
in some steps, ranks compare a number in a collective. In some passes (`is_compared`) all ask.

What torch.compile has compiled sends the same whatever comes, and is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from dimsolve.ir.errors import Problem

from ..distributed.failures import Failure
from ..distributed.meeting import STILL, Meeting
from ..distributed.watch import Watch
from ..lowering.values import labelled
from .given_inputs import is_compared
from .mesh import RankMesh

HISTORY = 64
"""How many events a rank remembers."""


class Passes:
    """The events of the backward passes of some ranks. differ: the error of ranks that have other
    events; alone: of a rank that has one more than others.
    """

    def __init__(
        self, guard: Watch, ranks: Sequence[int], differ: Problem[Any], alone: Problem[Any]
    ) -> None:
        self.guard, self.ranks = guard, list(ranks)
        self._differ, self._alone = differ, alone
        self._store = guard.store(f"dimsolve/passes/{'-'.join(map(str, ranks))}")
        self._parts = 0
        self.begin_anew()
        guard.answer_with(self)

    def begin_anew(self) -> None:
        """A part has been made, by all ranks: nothing is known of its passes."""
        self._parts += 1
        self._count = 0
        self._last: object = None
        self._follows: dict[object, set[object]] = {}
        self._noted: dict[int, tuple[int, int, str]] = {}

    def come(self, kind: object, text: str, ends: RankMesh) -> None:
        """Takes an event. kind: what it is, whenever it comes. text: what it is now, in words.
        Raises an error on all ranks where they have different ones.
        """
        self._count += 1
        follows = self._follows.setdefault(self._last, set())
        asks = is_compared(self._count)
        if len(follows) > 1 and not asks:
            asks = not _is_common(text, ends)
        elif kind not in follows:
            asks = True
        if asks:
            self._ask(text)
        else:
            self._noted[self._count % HISTORY] = self._parts, self._count, text
        follows.add(kind)
        self._last = kind

    def _ask(self, text: str) -> None:
        """Compares what all ranks have now."""
        topic = f"{self._parts}/{self._count}"
        self.guard.ask(lambda: self._store.set("asked", topic))
        here = f"the comparison of backward passes, at {text}"
        meeting = Meeting(
            self.guard, self.ranks, text, self._store, topic, self._alone, here, 2 * STILL
        )
        told = meeting.wait(f"came to {text}")
        texts = {rank: said.split(" to ", 1)[1] for rank, said in told.items()}
        first, mine = self.ranks[0], self.guard.rank
        for rank, other in texts.items():
            if other != texts[first]:
                error = self._differ(rank=first, own=texts[first], other=rank, others=other)
                if any(said.startswith("went") for said in told.values()):
                    # They wait in a collective by now: only the watch can reach them.
                    self.guard.report(Failure(mine, f"rank {mine}", str(error)))
                raise error

    def answer(self) -> None:
        """Says what this rank's event was, where others have asked and it has gone on."""
        if not self._store.check(["asked"]):
            return
        topic = self._store.get("asked").decode()
        parts, _, count = topic.partition("/")
        noted = self._noted.get(int(count) % HISTORY)
        if noted is not None and noted[:2] == (int(parts), int(count)):
            self._store.set(f"{topic}/{self.guard.rank}", f"went to {noted[2]}")


def _is_common(text: str, ends: RankMesh) -> bool:
    """Whether all ranks have the same text. They call this together."""
    code = blake2b(text.encode(), digest_size=8).digest()
    table = torch.tensor([int.from_bytes(code, "big", signed=True)], device=ends.device)
    for end in ends.communicators.values():
        table = labelled(end, "the comparison of backward passes").all_gather(table).view(-1)
    return len(set(table.tolist())) == 1


def note_outputs(result: Any, names: Sequence[str], come: Callable[[int, str], None]) -> None:
    """Has a backward pass call a function when gradients come to an output of this call, with its
    place and its name.

    result: of a program; names: of the tree's leaves.
    """
    seen: set[int] = set()
    for place, (leaf, name) in enumerate(zip(tree_leaves(result), names, strict=False)):
        node = leaf.grad_fn if isinstance(leaf, Tensor) else None
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))

        def coming(_: Any, place: int = place, name: str = name) -> None:
            come(place, name)

        node.register_prehook(coming)
