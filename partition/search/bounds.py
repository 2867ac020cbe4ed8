"""Lower bounds of a priced core: exact elimination where tables are small, messages elsewhere.

A priced core is one without a limit: what is held at a time costs its price. Both ways say for
every option what a choice with it costs at least, so that what lies above the target goes.

    Elimination   nodes one after the other, each into a table over its neighbours; exact. The work
                  is the largest table, so the order takes the smallest first (Bertele and Brioschi)
    Messages      costs move between edges and their ends until the sum of all minima rises no more:
                  tree-reweighted message passing, in its form of diffusion (Kolmogorov, 2006)
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from .clock import Clock
from .core import Core, Empty, Table, distinct

Costs: TypeAlias = dict[int, Table]
Edges: TypeAlias = dict[int, dict[int, Table]]
Found = TypeVar("Found")


def elimination_order(core: Core, most: float, together: float) -> list[int] | None:
    """Returns the nodes in an order of small tables; None where one has more entries than ``most``,
    or all have more than ``together``. Equal tables, such as those of repeated layers, count once.
    """
    sizes = {i: len(c) for i, c in core.costs.items()}
    near = {i: set(each) for i, each in core.edges.items()}
    weight = {i: sizes[i] * prod(sizes[j] for j in near[i]) for i in near}
    heap = [(w, i) for i, w in weight.items()]
    heapq.heapify(heap)
    order: list[int] = []
    while heap:
        w, i = heapq.heappop(heap)
        if i not in near or weight[i] != w:
            continue
        if w > most:
            return None
        order.append(i)
        around = near.pop(i)
        for j in around:
            near[j] |= around
            near[j] -= {i, j}
        for j in around:
            weight[j] = sizes[j] * prod(sizes[k] for k in near[j])
            heapq.heappush(heap, (weight[j], j))
    work = 0
    known = -1
    for scope, _, made in sums(core.costs, core.edges, order, {}, {}):
        if made > known:
            known, work = made, work + prod(sizes[n] for n in scope)
    return order if work <= together else None


@dataclass(frozen=True, slots=True)
class Near:
    """Entries of a table. ``options``: of the nodes, (entry, node); ``over``: what each costs more
    than the best option of the first node; ``least``: what a choice with it costs at least.
    ``shape``: of the table.
    """

    options: NDArray[np.int64]
    over: Table
    least: Table
    shape: tuple[int, ...]


SENT = 1 << 32
"""The first number of a table that is sent on."""

Part: TypeAlias = tuple[tuple[int, ...], int]
"""The nodes of a table, and its number: equal tables have one."""


def sums(
    costs: Costs,
    edges: Edges,
    order: list[int],
    given: dict[int, Table],
    alike: dict[int, list[int]],
) -> Iterator[tuple[tuple[int, ...], list[Part], int]]:
    """Yields for every node in order the nodes of its table, what it is the sum of, and a number
    for what is sent on: its minimum over the node. given: filled with the tables of costs and
    edges; their numbers are below 0, one for one object. alike: where what is sent on was made, the
    number that stands for it, and of a part for its last node alone; equal ones have one.
    """
    place = {i: n for n, i in enumerate(order)}
    numbers: dict[int, int] = {}
    made: dict[Any, int] = {}
    sent: dict[int, list[Part]] = {i: [] for i in order}

    def number(table: Table) -> int:
        found = numbers.setdefault(id(table), ~len(numbers))
        given.setdefault(found, table)
        return found

    for i in order:
        parts: list[Part] = [((i,), number(costs[i]))]
        parts += [((i, j), number(t)) for j, t in edges[i].items() if place[j] > place[i]]
        parts += sent.pop(i)
        names = {n for own, _ in parts for n in own} - {i}
        scope = (i, *sorted(names, key=place.__getitem__))
        at = {n: k for k, n in enumerate(scope)}
        parts.sort(key=lambda part: (len(part[0]), [at[n] for n in part[0]], part[1]))
        key = tuple([(tuple([at[n] for n in own]), each) for own, each in parts])
        found = made.setdefault(key, len(made))
        yield scope, parts, found
        if len(scope) > 1:
            rest, *last = alike.get(found, [found])
            sent[scope[1]].append((scope[1:], rest))
            sent[scope[-1]] += [(scope[-1:], each) for each in last]


class Elimination:
    """The exact minimum of nodes and edges. ``least``: infinite where there is none.

    Equal tables are made once. What is sent on is told apart by its differences alone, without what
    its last node costs in any case: along a chain of equal layers these soon repeat, as the powers
    of a matrix over (min, +) do, also beside a node that all layers see, and from there on a layer
    takes no time. Tables are made again where they are needed, not kept.
    """

    def __init__(
        self, order: list[int], costs: Costs, edges: Edges, clock: Clock | None = None
    ) -> None:
        self.order, self.clock = order, clock or Clock()
        self.children: dict[int, list[int]] = {i: [] for i in order}
        self.scopes: dict[int, tuple[tuple[int, ...], int]] = {}
        self.given: dict[int, Table] = {}
        self.parts: dict[int, list[Part]] = {}
        self.sent: dict[int, Table] = {}
        self.least = 0.0
        alike: dict[int, list[int]] = {}
        above: dict[int, float] = {}
        known: dict[bytes, int] = {}
        for scope, parts, number in sums(costs, edges, order, self.given, alike):
            i = scope[0]
            self.scopes[i] = scope, number
            if number not in self.parts:
                self.clock.check()
                self.parts[number] = [(tuple([scope.index(n) for n in p]), e) for p, e in parts]
                sent = self._table(scope, number).min(0)
                above[number], *tables = _apart(sent)
                numbers = [known.setdefault(_words(t), SENT + len(known)) for t in tables]
                self.given.update(zip(numbers, tables, strict=True))
                alike[number] = numbers
                self.sent[number] = sent
            self.least += above[number]
            if len(scope) > 1:
                self.children[scope[1]].append(i)

    def _table(self, scope: tuple[int, ...], number: int) -> Table:
        places = tuple(range(len(scope)))
        table: Any = 0.0
        for own, each in self.parts[number]:
            table = table + spread(self.given[each], own, places)
        return np.asarray(table)

    def chosen(self) -> dict[int, int]:
        """Returns the options of a choice of least cost, the first ones of equals."""
        found: dict[int, int] = {}
        for i in reversed(self.order):
            scope, number = self.scopes[i]
            total: Any = 0.0
            for own, each in self.parts[number]:
                index: Any = tuple([slice(None) if n == 0 else found[scope[n]] for n in own])
                total = total + self.given[each][index]
            found[i] = int(total.argmin())
        return found

    def marginals(self) -> Costs:
        """Returns for every option the least cost of a choice with it."""
        return self._backward(lambda _, belief: least_over(belief, (0,)))

    def near(self, most: float) -> dict[int, Near]:
        """Returns for every node the entries of its table with which a choice costs at most so
        much.
        """

        def entries(i: int, belief: Table) -> Near:
            options = np.nonzero(belief <= most)
            least = belief[options]
            over = least - belief.min(0)[options[1:]]
            return Near(np.stack(options, 1), over, least, belief.shape)

        return self._backward(entries)

    def _backward(self, ask: Callable[[int, Table], Found]) -> dict[int, Found]:
        """What is asked of every node's table, in which each entry says what a choice with it costs
        at least.
        """
        found: dict[int, Found] = {}
        down: dict[int, Any] = {}
        made: dict[Any, tuple[Found, dict[Any, Table]]] = {}
        for i in reversed(self.order):
            scope, number = self.scopes[i]
            rest = down[i] if len(scope) > 1 else self.least - self.sent[number]
            asked = [
                (self.scopes[child][1], tuple([scope.index(n) for n in self.scopes[child][0][1:]]))
                for child in self.children[i]
            ]
            key = number, _words(np.asarray(rest)), tuple(asked)
            if key not in made:
                self.clock.check()
                belief = self._table(scope, number) + rest
                made[key] = ask(i, belief), {each: self._down(belief, *each) for each in asked}
            found[i] = made[key][0]
            for child, each in zip(self.children[i], asked, strict=True):
                down[child] = made[key][1][each]
        return found

    def _down(self, belief: Table, child: int, own: tuple[int, ...]) -> Table:
        with np.errstate(invalid="ignore"):
            difference = least_over(belief, own) - self.sent[child]
        return np.where(np.isnan(difference), np.inf, difference)


def _apart(table: Table) -> tuple[float, Table, *tuple[Table, ...]]:
    """The least of a table, the rest, and of several nodes what the last one costs in any case."""
    least = float(table.min())
    if np.isinf(least):
        return least, table
    if table.ndim < 2:
        return least, table - least
    last = table.min(tuple(range(table.ndim - 1)))
    last = np.where(np.isinf(last), least, last)
    return least, table - last, last - least


def _words(table: Table) -> bytes:
    """What tells tables apart."""
    return repr(table.shape).encode() + sha256(table.tobytes()).digest()


def least_over(table: Table, kept: tuple[int, ...]) -> Table:
    """Returns the minimum over all axes but these."""
    axes = tuple([n for n in range(table.ndim) if n not in kept])
    return np.asarray(table.min(axes)) if axes else table


def spread(table: Table, own: tuple[int, ...], scope: tuple[int, ...]) -> Table:
    """Returns the table with axes for a larger scope, in its order."""
    axes = sorted(range(len(own)), key=lambda n: scope.index(own[n]))
    present = set(own)
    return table.transpose(axes)[tuple(slice(None) if n in present else None for n in scope)]


@dataclass(frozen=True, slots=True)
class Alike:
    """A table with its equal rows and columns once. ``rows``, ``columns``: of each, as it stands in
    the table, the number of those that are equal; None where few are.
    """

    small: Table
    rows: Groups | None
    columns: Groups | None

    @classmethod
    def of(cls, table: Table) -> Alike:
        """Returns the smaller table."""
        first, rows = distinct(table)
        small = table[first]
        first, columns = distinct(small.T)
        small = np.ascontiguousarray(small[:, first])
        if 2 * small.size > table.size:
            return cls(table, None, None)
        return cls(small, Groups.of(rows), Groups.of(columns))

    def turned(self) -> Alike:
        """Returns it with its ends exchanged."""
        return Alike(self.small.T, self.columns, self.rows)

    def least(self, given: Table) -> Table:
        """Returns for every row the least, with so much taken away of every column."""
        if self.rows is None or self.columns is None:
            return np.asarray((self.table(given)).min(1))
        return np.asarray(self.table(self.columns.most(given)).min(1)[self.rows.place])

    def table(self, given: Table) -> Table:
        """Returns the smaller table, with so much taken away of every column of it."""
        return np.asarray(self.small - given[None, :])

    def minimum(self, first: Table, second: Table) -> float:
        """Returns the least of all, with so much taken away of every row and column."""
        if self.rows is not None and self.columns is not None:
            first, second = self.rows.most(first), self.columns.most(second)
        return float((self.table(second) - first[:, None]).min())


@dataclass(frozen=True, slots=True)
class Groups:
    """Which are equal: ``place`` is the number of each, ``order`` lists them number by number, of
    which each begins at one of the ``starts``.
    """

    place: NDArray[np.int64]
    order: NDArray[np.int64]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, place: NDArray[np.int64]) -> Groups:
        """Returns the groups of these numbers, of which none is left out."""
        order = np.argsort(place, kind="stable")
        starts = np.flatnonzero(np.diff(place[order], prepend=-1))
        return cls(place, order, starts)

    def most(self, values: Table) -> Table:
        """Returns the most of each group."""
        return np.asarray(np.maximum.reduceat(values[self.order], self.starts))


class Messages:
    """What moves between edges and their ends. ``given[i, j]``: what the edge gives its end j."""

    def __init__(
        self, costs: Costs, edges: Edges, given: dict[tuple[int, int], Table] | None = None
    ):
        self.costs = costs
        self.edges = edges
        self.order = sorted(costs)
        known = given or {}
        self.given: dict[tuple[int, int], Table] = {}
        self.alike: dict[int, dict[int, Alike]] = {i: {} for i in self.order}
        made: dict[int, Alike] = {}
        for i in self.order:
            for j, table in edges[i].items():
                before = known.get((i, j))
                if before is None or len(before) != table.shape[1]:
                    before = np.zeros(table.shape[1])
                self.given[i, j] = before
                if i < j:
                    if id(table) not in made:
                        made[id(table)] = Alike.of(table)
                    self.alike[i][j] = made[id(table)]
                    self.alike[j][i] = made[id(table)].turned()

    def sweep(self, *, forward: bool) -> None:
        """Goes over all nodes once; each gives what it knows on to those that come later."""
        for i in self.order if forward else reversed(self.order):
            near = self.alike[i]
            if not near:
                continue
            own = self.costs[i]
            for j, alike in near.items():
                self.given[j, i] = alike.least(self.given[i, j])
                own = own + self.given[j, i]
            later = [j for j in near if (j > i) == forward]
            if later:
                share = own / max(len(later), len(near) - len(later))
                for j in later:
                    self.given[j, i] = self.given[j, i] - share

    def bound(self) -> float:
        """Returns the sum of all minima, a lower bound."""
        total = 0.0
        for i, own in self.costs.items():
            near = self.alike[i]
            total += float((own + sum(self.given[j, i] for j in near)).min())
            for j, alike in near.items():
                if i < j:
                    total += alike.minimum(self.given[j, i], self.given[i, j])
        return total

    def decoded(self, *, forward: bool) -> dict[int, int]:
        """Returns a choice: each node the best beside those before it and what later ones say, who
        were swept just before.
        """
        found: dict[int, int] = {}
        for i in self.order if forward else reversed(self.order):
            own = self.costs[i]
            for j, alike in self.alike[i].items():
                known = self.edges[i][j][:, found[j]] if j in found else None
                own = own + (alike.least(self.given[i, j]) if known is None else known)
            found[i] = int(own.argmin())
        return found


def drop_above(
    core: Core, costs: Costs, edges: Edges, given: Any, constant: float, most: float
) -> bool:
    """Drops options and pairs of them with which nothing below the target is left, by messages of
    whole numbers; whether the bound itself lies above. Raises Empty.
    """
    nodes = {i: c + sum(given[j, i] for j in edges[i]) for i, c in costs.items()}
    least = {i: float(c.min()) for i, c in nodes.items()}
    over = {i: c - least[i] for i, c in nodes.items()}
    rest = {}
    for i in edges:
        for j in edges[i]:
            if i < j:
                table = edges[i][j] - given[j, i][:, None] - given[i, j][None, :]
                own = float(table.min())
                least[i, j] = own  # type: ignore[index]
                rest[i, j] = table - own
    bound = constant + sum(least.values())
    if bound > most:
        return True
    more = dict(over)
    for (i, j), table in rest.items():
        to_j, to_i = table + over[i][:, None], table + over[j][None, :]
        more[i], more[j] = more[i] + to_i.min(1), more[j] + to_j.min(0)
        dead = to_j + over[j][None, :] > most - bound
        if (dead & np.isfinite(core.edges[i][j])).any():
            core.edges[i][j] = np.where(dead, np.inf, core.edges[i][j])
            core.edges[j][i] = core.edges[i][j].T
    for i, each in more.items():
        kept = each <= most - bound
        if not kept.all():
            core.keep(i, kept)
    return False


__all__ = ["Elimination", "Empty", "Messages", "drop_above", "elimination_order", "spread"]
