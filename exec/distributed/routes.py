"""Rows that go to the ranks which they are meant for, and what becomes of them back.

    rows (4, h) to 1, 0, 0, 1      two go to rank 0, two to rank 1; from the other ranks come others
    there(rows)                    all that are meant for this rank, rank by rank
    back(made)                     (4, ...) in the order of the rows that were given

How many come is known only when it runs: ranks tell each other first. Along several axes rows go
along the outer one, and from there along the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from .communicator import Communicator


class MoveRows(Function):
    """Rows to the ranks, so many to each; gradients come back the same way."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, given: list[int], got: list[int], end: Communicator
    ) -> Tensor:
        ctx.way = got, given, end
        return end.exchange(rows, given, got)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        if not torch.is_grad_enabled():
            return ctx.way[-1].exchange(gradient, *ctx.way[:2]), None, None, None
        return MoveRows.apply(gradient, *ctx.way), None, None, None


@dataclass(frozen=True, slots=True)
class _Leg:
    """The way along one axis. order: of the rows by the rank that they go to; places: back from
    there. given, got: how many rows go to each rank, and come from each.
    """

    end: Communicator
    order: Tensor
    places: Tensor
    given: list[int]
    got: list[int]

    @classmethod
    def of(cls, to: Tensor, end: Communicator) -> _Leg:
        order = to.argsort(stable=True)
        places = torch.empty_like(order)
        places[order] = torch.arange(len(order), device=order.device)
        given = torch.bincount(to, minlength=end.size)
        got = end.all_to_all(given.unsqueeze(1)).squeeze(1)
        return cls(end, order, places, given.tolist(), got.tolist())

    def there(self, rows: Tensor) -> Tensor:
        ordered = rows.index_select(0, self.order)
        made: Tensor = MoveRows.apply(ordered, self.given, self.got, self.end)
        return made

    def back(self, rows: Tensor) -> Tensor:
        made: Tensor = MoveRows.apply(rows, self.got, self.given, self.end)
        return made.index_select(0, self.places)


class RankRoutes:
    """See `dimsolve.partition.rules.rule.Routes`. ends: of the axes, outer first; ``to`` counts
    their ranks as one number, the last axis fastest.
    """

    def __init__(self, to: Tensor, ends: Sequence[Communicator]) -> None:
        self._legs: list[_Leg] = []
        below = 1
        for end in ends:
            below *= end.size
        for place, end in enumerate(ends, 1):
            below //= end.size
            leg = _Leg.of(to // below, end)
            self._legs.append(leg)
            if place < len(ends):
                to = leg.there(to % below)

    def there(self, rows: Tensor) -> Tensor:
        for leg in self._legs:
            rows = leg.there(rows)
        return rows

    def back(self, rows: Tensor) -> Tensor:
        for leg in reversed(self._legs):
            rows = leg.back(rows)
        return rows
