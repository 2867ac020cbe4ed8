"""What is left of a problem while it is searched, and the reductions that keep its optimum.

    arcs        an option without a partner at some neighbour goes
    rows        an option that with the least of all others exceeds the limit goes
    better      an option goes where another costs no more, whatever the neighbours take, and needs
                no more memory
    absorbed    an edge whose costs are a sum of a part for either end is added to the nodes
    followed    a node that its neighbour leaves one option becomes a part of it
    eliminated  a node with at most two neighbours, that holds nothing, becomes an edge between them

Each is written down as a step of the proof (`dimsolve.partition.search.check`). Tables are float64
that hold whole numbers below 2**53, so sums are exact, and infinity stands for what is forbidden.
Tables are never changed in place: equal ones may be one object, and a copy of a core is cheap. What
is done to tables is remembered by their identity, so that equal parts of a model, such as layers,
are reduced once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from .clock import Clock
from .problem import FORBIDDEN, Numbers, Problem

M = TypeVar("M")
Table: TypeAlias = NDArray[np.float64]
EXACT = 1 << 52
BLOCK = 1 << 20
"""Entries that are compared at once."""


class Empty(Exception):
    """A node has no option left: nothing is below the target."""


class Core:
    """Nodes with the options that are left. ``ids``: their numbers in the problem. ``steps``: of
    the proof. ``reached``: a bound that messages have shown. ``followed``: nodes that became a part
    of another, with the option for each of its. ``only_bounds``: no option goes because another is
    as good: what goes is in no choice below the target.
    """

    def __init__(self, problem: Problem, *, only_bounds: bool = False) -> None:
        self.problem = problem
        self.only_bounds = only_bounds
        self.limit = float("inf") if problem.limit is None else problem.limit
        limited = problem.limit is not None
        infinite = _Once(lambda t: np.where(t >= FORBIDDEN, np.inf, t.astype(np.float64)))
        self.memo: dict[Any, Any] = {}
        self.costs: dict[int, Table] = {i: infinite(c) for i, c in enumerate(problem.costs)}
        self.ids = {i: np.arange(len(c)) for i, c in self.costs.items()}
        self.edges: dict[int, dict[int, Table]] = {i: {} for i in self.costs}
        for (i, j), table in problem.edges.items():
            self.edges[i][j] = infinite(table)
            self.edges[j][i] = self.turned(self.edges[i][j])
        ends = {t for each in problem.usages for a, b, _ in each for t in (a, b)} if limited else ()
        self.times = sorted(ends)
        self.place = {t: n for n, t in enumerate(self.times)}
        number = _Once(lambda u: u.astype(np.float64))
        self.usages: dict[int, list[tuple[int, int, Table]]] = {
            i: [(self.place[a], self.place[b], number(u)) for a, b, u in each] if limited else []
            for i, each in enumerate(problem.usages)
        }
        self.tight = np.ones(len(self.times), bool)
        self.followed: list[tuple[int, tuple[int, ...], Any]] = []
        self.steps: list[Any] = []
        self.reached = -(1 << 60)
        for i, own in list(self.costs.items()):
            if not np.isfinite(own).all():
                self.keep(i, np.isfinite(own))

    def copy(self) -> Core:
        """Returns a core with the same tables and a proof of its own."""
        new = object.__new__(Core)
        new.__dict__.update(self.__dict__)
        new.costs, new.ids, new.usages = dict(self.costs), dict(self.ids), dict(self.usages)
        new.edges = {i: dict(each) for i, each in self.edges.items()}
        new.followed, new.steps = list(self.followed), []
        return new

    @property
    def options(self) -> int:
        """How many options are left in all."""
        return sum(map(len, self.costs.values()))

    def once(self, key: Any, given: tuple[Any, ...], make: Callable[..., M]) -> M:
        """Returns what is made of these tables, once for each of them."""
        own = (key, *map(id, given))
        if own not in self.memo:
            self.memo[own] = make(*given), given
        found: M = self.memo[own][0]
        return found

    def turned(self, table: Table) -> Table:
        """Returns a table with its ends exchanged."""
        return self.once("turned", (table,), np.transpose)

    def plus(self, first: Table, second: Table) -> Table:
        """Returns the sum of two tables."""
        return self.once("plus", (first, second), np.add)

    def taken(self, table: Table, index: Any) -> Table:
        """Returns some rows of a table."""
        return self.once(("taken", index.tobytes()), (table,), lambda t: t[index])

    def choice(self, chosen: dict[int, int]) -> list[int]:
        """Returns the option of every node of the problem, by its number there."""
        found = {i: int(self.ids[i][k]) for i, k in chosen.items()}
        for i, near, option in reversed(self.followed):
            found[i] = int(option[tuple([found[j] for j in near])])
        return [found[i] for i in range(len(self.problem.costs))]

    def keep(self, i: int, kept: Any) -> None:
        """Keeps some options of a node, given as a mask."""
        index = np.flatnonzero(kept)
        if not len(index):
            raise Empty
        self.costs[i], self.ids[i] = self.taken(self.costs[i], index), self.ids[i][index]
        self.usages[i] = [(a, b, self.taken(u, index)) for a, b, u in self.usages[i]]
        for j, table in self.edges[i].items():
            self.edges[i][j] = self.taken(table, index)
            self.edges[j][i] = self.turned(self.edges[i][j])

    def held(self, i: int) -> list[tuple[slice, Table]]:
        """Returns what the options of a node hold, in stretches of time."""
        found = []
        for a, b in pairwise(sorted({t for s, e, _ in self.usages[i] for t in (s, e)})):
            parts = [u for s, e, u in self.usages[i] if s <= a < e]
            if parts:
                found.append((slice(a, b), sum(parts[1:], parts[0])))
        return found

    def total(self, function: Any) -> Table:
        """Returns for every time the least, or the most, that all nodes hold together."""
        found = np.zeros(len(self.times))
        for i in self.costs:
            for when, usage in self.held(i):
                found[when] += function(usage)
        return found

    def at(self, held: dict[int, int]) -> dict[int, int]:
        """Returns what is held from each of its times on, of what is held at all times."""
        found, now = {}, 0
        for time in sorted({*held, *self.times}):
            now = held.get(time, now)
            if time in self.place:
                found[time] = now
        return found

    def only(self, times: Sequence[int]) -> None:
        """Looks at these times alone. What every option of a node holds then is held by the first
        node, so that few are left that hold anything.
        """
        self.steps.append(["times", list(times)])
        stretches = [(self.place[t], n) for n, t in enumerate(times)]
        whole = np.zeros(len(times))
        for i, own in self.usages.items():
            found = []
            for place, n in stretches:
                parts = [u for a, b, u in own if a <= place < b]
                if parts:
                    usage, least = self.once(("above", len(parts)), tuple(parts), _above)
                    whole[n] += least
                    if usage is not None:
                        found.append((n, n + 1, usage))
            self.usages[i] = found
        self.times = [*times, times[-1] + 1]
        self.place = {t: n for n, t in enumerate(self.times)}
        self.tight = np.ones(len(self.times), bool)
        first = min(self.costs)
        everywhere = [(n, n + 1, np.full(len(self.costs[first]), m)) for n, m in enumerate(whole)]
        self.usages[first] = [*self.usages[first], *everywhere]

    # reductions ----------------------------------------------------------------------------------

    def reduce(self, clock: Clock | None = None) -> None:
        """Reduces until nothing more follows. Raises Empty where a node has no option left, TimeUp
        when the clock says so.
        """
        while True:
            self._locally(clock or Clock())
            if not self.times or not self.rows():
                return
            tight = self.tight & (self.total(np.max) > self.limit)
            if (tight != self.tight).any():
                self.tight = tight
                self.steps.append(["slack"])

    def rows(self) -> bool:
        """Drops options that hold too much with the least of all others; whether any."""
        least = self.total(np.min)
        changed: list[int] = []
        for i in list(self.costs):
            for when, usage in self.held(i):
                # The options may be fewer than when the stretches were listed.
                usage = usage if i not in changed else _now(self, i, when)
                own = usage.min()
                kept = usage + (least[when].max() - own) <= self.limit
                if not kept.all():
                    if not changed:
                        self.steps.append(["row", changed])
                    if i not in changed:
                        changed.append(i)
                    self.keep(i, kept)
                    least[when] += usage[kept].min() - own
        return bool(changed)

    def _locally(self, clock: Clock) -> None:
        queue = dict.fromkeys(sorted(self.costs))
        while queue:
            i = next(iter(queue))
            del queue[i]
            if i in self.costs:
                clock.check()
                for j in self._node(i):
                    if j in self.costs:
                        queue[j] = None

    def _node(self, i: int) -> list[int]:
        """Reduces at one node; returns the nodes to look at again."""
        touched: list[int] = []
        for j in list(self.edges[i]):
            rows, columns, parts = self.once("shape", (self.edges[i][j],), _shape)
            if not rows.all():
                self.steps.append(["arc", i, j])
                self.keep(i, rows)
                touched += [i, *self.edges[i]]
                rows, columns, parts = self.once("shape", (self.edges[i][j],), _shape)
            if parts is not None and not self.only_bounds:
                self.steps.append(["absorb", i, j])
                self.costs[i] = self.plus(self.costs[i], parts[0])
                self.costs[j] = self.plus(self.costs[j], parts[1])
                del self.edges[i][j], self.edges[j][i]
                touched += [i, j]
        if self.only_bounds:
            return touched
        for j, table in self.edges[i].items():
            _, columns, _ = self.once("shape", (table,), _shape)
            if (columns <= 1).all():
                return [*touched, *self._follow(i, j, np.isfinite(table))]
        if len(self.costs[i]) > 1 and self._better(i):
            touched += [i, *self.edges[i]]
        if 0 < len(self.edges[i]) <= 2 and not self.usages[i] and i not in touched:
            touched += self._eliminate(i)
        return touched

    def _eliminate(self, i: int) -> list[int]:
        """Each pair of options of the neighbours takes the best option of the node."""
        near = sorted(self.edges[i])
        tables = [self.edges[i][j] for j in near]
        product = 1
        for table in tables:
            product *= table.shape[1]
        if product * len(self.costs[i]) > BLOCK:
            return []
        best, pick = self.once("least", (self.costs[i], *tables), _least)
        self.steps.append(["eliminate", i])
        options = np.zeros([len(self.problem.costs[j]) for j in near], np.int64)
        options[np.ix_(*[self.ids[j] for j in near])] = self.ids[i][pick]
        self.followed.append((i, tuple(near), options))
        for j in near:
            del self.edges[j][i]
        around: list[int] = []
        if len(near) == 1:
            self.costs[near[0]] = self.plus(self.costs[near[0]], best)
            if not np.isfinite(self.costs[near[0]]).all():
                self.keep(near[0], np.isfinite(self.costs[near[0]]))
                around = list(self.edges[near[0]])
        else:
            j, k = near
            if k in self.edges[j]:
                best = self.plus(self.edges[j][k], best)
            self.edges[j][k], self.edges[k][j] = best, self.turned(best)
        del self.costs[i], self.ids[i], self.usages[i], self.edges[i]
        return [*near, *around]

    def _follow(self, i: int, j: int, finite: Any) -> list[int]:
        if not finite.any(0).all():
            self.steps.append(["arc", j, i])
            self.keep(j, finite.any(0))
            finite = np.isfinite(self.edges[i][j])
        self.steps.append(["follow", i, j])
        pick = finite.argmax(0)
        options = np.zeros(len(self.problem.costs[j]), np.int64)
        options[self.ids[j]] = self.ids[i][pick]
        self.followed.append((i, (j,), options))
        self.costs[j] = self.once(
            ("follow", pick.tobytes()),
            (self.costs[j], self.costs[i], self.edges[i][j]),
            lambda own, other, table: own + other[pick] + table[pick, np.arange(len(pick))],
        )
        self.usages[j] = self.usages[j] + [
            (a, b, self.taken(u, pick)) for a, b, u in self.usages[i]
        ]
        near = list(self.edges[i])
        for k in near:
            table = self.taken(self.edges[i][k], pick)
            del self.edges[k][i]
            if k != j:
                table = table if k not in self.edges[j] else self.plus(self.edges[j][k], table)
                self.edges[j][k], self.edges[k][j] = table, self.turned(table)
        del self.costs[i], self.ids[i], self.usages[i], self.edges[i]
        return [*near, *self.edges[j]]

    def _better(self, i: int) -> bool:
        """Drops the options that another one of the node is at least as good as."""
        tables = list(self.edges[i].values())
        held = [u for when, u in self.held(i) if self.tight[when].any()]
        if held:
            dead, pairs = self._worse(self.costs[i], tables, held)
        else:
            given = (self.costs[i], *sorted(tables, key=id))
            dead, pairs = self.once(
                "better", given, lambda costs, *tables: self._worse(costs, tables, [])
            )
        if pairs:
            ids = self.ids[i].tolist()
            self.steps.append(["better", i, [[ids[a], ids[b]] for a, b in pairs]])
            self.keep(i, ~dead)
        return bool(pairs)

    def _worse(
        self, costs: Table, tables: Sequence[Table], held: Sequence[Table]
    ) -> tuple[Any, list[tuple[int, int]]]:
        """Which options another one is at least as good as, and which."""
        more = costs[:, None] - costs[None, :]  # [b, a]: what b costs more than a, at worst
        for table in tables:
            if not np.isfinite(more).any():
                break
            more = more + self.once("worst", (table,), worst_difference)
        good = more <= 0
        for usage in held:
            good &= usage[:, None] <= usage[None, :]
        np.fill_diagonal(good, False)
        dead = np.zeros(len(costs), bool)
        pairs = []
        for a in np.flatnonzero(good.any(0)).tolist():
            others = np.flatnonzero(good[:, a] & ~dead)
            if len(others):
                dead[a] = True
                pairs.append((a, int(others[0])))
        return dead, pairs


def _shape(table: Table) -> tuple[Any, Any, Any]:
    """Of a table which rows have a finite entry, how many each column has, and its parts where it
    is a sum of a part for either end.
    """
    finite = np.isfinite(table)
    parts = None
    if finite.all():
        left, right = table[:, 0], table[0] - table[0, 0]
        if (left[:, None] + right[None, :] == table).all():
            parts = left, right
    return finite.any(1), finite.sum(0), parts


def _above(*parts: Table) -> tuple[Table | None, float]:
    """What options hold more than the least of them, None for nothing; and that."""
    total = sum(parts[1:], parts[0])
    least = float(total.min())
    return (total - least if np.ptp(total) else None), least


def _least(costs: Table, *tables: Table) -> tuple[Table, Any]:
    """The least of all options for every pair of the neighbours', and the first that has it."""
    if len(tables) == 1:
        total = costs[:, None] + tables[0]
    else:
        total = (costs[:, None] + tables[0])[:, :, None] + tables[1][:, None, :]
    pick = total.argmin(0)
    return np.take_along_axis(total, pick[None], 0)[0], pick


def worst_difference(table: Table) -> Table:
    """Returns for rows b and a how much more b may cost, beside any partner that a has."""
    first, place = distinct(table)
    rows = table[first]
    rows = rows[:, distinct(rows.T)[0]]
    count, width = rows.shape
    finite = np.isfinite(rows)
    known = np.where(finite, rows, 0.0)
    whole = bool(finite.all())
    found = np.zeros((count, count))
    if known.any():
        step = max(1, BLOCK // (count * width))
        for start in range(0, count, step):
            difference = known[start : start + step, None, :] - known[None, :, :]
            if not whole:
                difference = np.where(finite[None, :, :], difference, -np.inf)
            found[start : start + step] = difference.max(2)
    if not whole:
        numbers = finite.astype(np.float32)
        found[(1 - numbers) @ numbers.T > 0] = np.inf
    return found[np.ix_(place, place)]


def distinct(table: Table) -> tuple[Any, Any]:
    """Returns where each distinct row of a table stands first, and which of these each row is. Rows
    are told apart by a sum with weights, and those with the same sum are compared.
    """
    words = np.ascontiguousarray(table).view(np.int64)
    _, first, place = np.unique(words @ _weights(table.shape[1]), True, True)
    if not (words == words[first][place]).all():
        _, first, place = np.unique(table, True, True, axis=0)
    return first, place.reshape(-1)


@lru_cache
def _weights(count: int) -> Numbers:
    return np.random.default_rng(0).integers(1, 1 << 62, count)


def _now(core: Core, i: int, when: slice) -> Table:
    return next(usage for stretch, usage in core.held(i) if stretch == when)


class _Once:
    """A function of tables that makes one result for one object."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.known: dict[int, tuple[Any, Any]] = {}

    def __call__(self, table: Any) -> Any:
        if id(table) not in self.known:
            self.known[id(table)] = table, self.function(table)
        return self.known[id(table)][1]
