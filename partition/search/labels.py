"""The exact minimum within the limit, by labels: what a choice costs, and what it holds.

Prices leave a gap where one step more or less is held, as with layers of which some are stored in
parts. Elimination at these prices says of every entry of every table what a choice with it costs at
least, and few lie within the gap. Of those alone the tables are made again, with a list of labels
in place of a number: the cost, and what is held at a few times. A label goes that another one of
its entry is at least as good as, that holds too much with the least of all others, or whose cost
comes below the target no more (shortest paths with resources: Handler and Zang, 1980).

    80 layers that each hold 1 GiB, or cost 7 more      81 labels at the end, not 2**80 choices
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .bounds import Elimination, Near
from .clock import Clock
from .core import Table

Index: TypeAlias = NDArray[np.int64]

MOST_LABELS = 1 << 19
"""Labels of one table, at most."""

BESIDE = 16
"""With how many labels before it, in the order of costs, each is compared first."""

TOGETHER = 1 << 12
"""Labels of one entry that are compared with each other, at most."""


ENTRY = -1
"""In the parts of a label, the entry of its own table."""


class TooMany(Exception):
    """There are more labels than are kept."""


@dataclass(slots=True)
class Labels:
    """``cells``: to which entry of what is sent on each belongs. ``over``: what it costs more than
    the least of all choices, at the prices; ``least``: than which it can never cost less. ``held``:
    at every time, above the least. ``option``: of the node. ``parts``: for every node whose table
    is a part of this one, which of its labels.
    """

    cells: Index
    over: Table
    least: Table
    held: Table
    option: Index
    parts: dict[int, Index]

    def taken(self, index: Any) -> Labels:
        """Returns some of them."""
        return Labels(
            self.cells[index],
            self.over[index],
            self.least[index],
            self.held[index],
            self.option[index],
            {child: each[index] for child, each in self.parts.items()},
        )


def cheapest(
    run: Elimination,
    usages: dict[int, Table],
    prices: Sequence[float],
    limit: float,
    most: float,
    clock: Clock,
) -> dict[int, int] | None:
    """Returns the choice of least cost of those that hold no more than the limit at some times, and
    cost at most ``most`` without prices; None where there is none. run: at the prices of these
    times. usages: what the options of a node hold at them, (option, time); of nodes that hold
    anything. Raises TooMany, and TimeUp.
    """
    price = np.asarray(prices, np.float64)
    least = sum([held.min(0) for held in usages.values()], np.zeros(len(price)))
    room = limit - least
    top = most + float(price.sum()) * limit
    if (room < 0).any() or run.least > top:
        return None
    near = run.near(top)
    made: dict[int, Labels] = {}
    whole = Labels(
        np.zeros(1, np.int64),
        np.zeros(1),
        np.full(1, run.least),
        np.zeros((1, len(price))),
        np.zeros(1, np.int64),
        {},
    )
    for i in run.order:
        clock.check()
        labels = _begun(near[i], usages.get(i), len(price))
        for child in run.children[i]:
            place = [run.scopes[i][0].index(n) for n in run.scopes[child][0][1:]]
            labels = _joined(labels, _cells(near[i], place, labels), child, made[child], top, room)
        own = list(range(1, len(run.scopes[i][0])))
        labels.cells = _cells(near[i], own, labels)
        if not len(labels.over):
            return None
        made[i] = labels = _undominated(labels, price)
        if not own:
            whole = _joined(whole, np.zeros(len(whole.over), np.int64), i, labels, top, room)
            if not len(whole.over):
                return None
            whole = _undominated(whole, price)
    cost = run.least + whole.over - (whole.held + least) @ price
    fits = np.flatnonzero(cost <= most)
    if not len(fits):
        return None
    return _followed(run, made, whole, int(fits[cost[fits].argmin()]))


def _followed(
    run: Elimination, made: dict[int, Labels], whole: Labels, number: int
) -> dict[int, int]:
    """The options of a label, and of all that it is made of."""
    found: dict[int, int] = {}
    asked = {i: int(each[number]) for i, each in whole.parts.items()}
    for i in reversed(run.order):
        labels, own = made[i], asked[i]
        found[i] = int(labels.option[own])
        asked.update({child: int(each[own]) for child, each in labels.parts.items()})
    return found


def _cells(near: Near, place: list[int], labels: Labels) -> Index:
    """The numbers of the entries of a smaller table, over the nodes at these places."""
    found = np.zeros(len(labels.over), np.int64)
    for n in place:
        found = found * near.shape[n] + near.options[labels.parts[ENTRY], n]
    return found


def _begun(near: Near, usage: Table | None, times: int) -> Labels:
    """A label for every entry of a table that is near the least."""
    option = near.options[:, 0]
    above = np.zeros((near.shape[0], times)) if usage is None else usage - usage.min(0)
    number = np.arange(len(option))
    return Labels(number, near.over, near.least, above[option], option, {ENTRY: number})


def _joined(
    labels: Labels, cells: Index, child: int, others: Labels, top: float, room: Table
) -> Labels:
    """Each label with each of another table that belongs to the same entry, as far as it is near
    the least and fits.
    """
    count = int(max(cells.max(initial=-1), others.cells.max(initial=-1))) + 1
    order = np.argsort(others.cells, kind="stable")
    many = np.bincount(others.cells, minlength=count)
    first = np.cumsum(many) - many
    times = many[cells]
    parts = []
    total = 0
    # So many are joined at once as there is room for.
    ends = np.cumsum(times)
    start = 0
    while start < len(times):
        before = ends[start - 1] if start else 0
        stop = max(int(np.searchsorted(ends, before + MOST_LABELS, "right")), start + 1)
        own = np.repeat(np.arange(start, stop), times[start:stop])
        within = np.arange(len(own)) - np.repeat(
            ends[start:stop] - times[start:stop] - before, times[start:stop]
        )
        other = order[first[cells[own]] + within]
        keep = labels.least[own] + others.over[other] <= top
        own, other = own[keep], other[keep]
        held = labels.held[own] + others.held[other]
        keep = (held <= room).all(1)
        own, other, held = own[keep], other[keep], held[keep]
        each = labels.taken(own)
        each.over = each.over + others.over[other]
        each.least = each.least + others.over[other]
        each.held = held
        each.parts[child] = other
        parts.append(each)
        total += len(own)
        if total > MOST_LABELS:
            raise TooMany
        start = stop
    if len(parts) == 1:
        return parts[0]
    return Labels(
        np.concatenate([each.cells for each in parts]),
        np.concatenate([each.over for each in parts]),
        np.concatenate([each.least for each in parts]),
        np.concatenate([each.held for each in parts]),
        np.concatenate([each.option for each in parts]),
        {key: np.concatenate([each.parts[key] for each in parts]) for key in parts[0].parts},
    )


def _undominated(labels: Labels, price: Table) -> Labels:
    """Without those that another one of the same entry is at least as good as."""
    labels.parts.pop(ENTRY, None)
    cost = labels.over - labels.held @ price
    order = np.lexsort((*labels.held.T, cost, labels.cells))
    for beside in range(1, BESIDE + 1):
        cells, held = labels.cells[order], labels.held[order]
        same = cells[beside:] == cells[:-beside]
        if not same.any():
            return labels.taken(order)
        worse = same & (held[:-beside] <= held[beside:]).all(1)
        order = order[np.concatenate([np.ones(beside, bool), ~worse])]
    kept = []
    cells = labels.cells[order]
    for group in np.split(order, np.flatnonzero(np.diff(cells)) + 1):
        for start in range(0, len(group), TOGETHER):
            part = group[start : start + TOGETHER]
            if len(part) > BESIDE:
                held = labels.held[part]
                worse = np.ones((len(part), len(part)), bool)
                for column in held.T:
                    worse &= column[:, None] <= column[None, :]
                part = part[~np.triu(worse, 1).any(0)]
            kept.append(part)
    return labels.taken(np.concatenate(kept))
