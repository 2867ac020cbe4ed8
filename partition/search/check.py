"""Checks a proof that no choice costs less than a bound. Shares no code with the search.

A proof is a list of steps. Each keeps the law: *the least cost of the problem is at least the
smaller of the claimed bound and the least cost of what is left*. At the end nothing is left.

    ["arc", i, j]               options of i that have no partner in j go
    ["row", i]                  options of i go that with the least of all others exceed the limit
    ["slack"]                   times at which even the most of all nodes fits are looked at no more
    ["times", [t, ...]]         other times are looked at no more; at these the first node holds
                                what every option of another one holds
    ["better", i, [[a, b]]]     option a of i goes: b costs no more beside all neighbours' options,
                                and holds no more
    ["absorb", i, j]            an edge whose costs are a sum of a part for i and one for j
    ["follow", i, j]            every option of j leaves i one option: i becomes a part of j
    ["eliminate", i]            a node that holds nothing, with at most two neighbours: each pair of
                                their options takes the best of i
    ["bound", {...}]            prices per time, and messages per edge end or an order in which
                                nodes are eliminated: what a choice must cost at least; options
                                (and pairs) with which nothing below the target is left go
    ["price", w, [[t, p], ...]] the limit is looked at no more, and what is held costs p >= 0 on top
                                of w >= 1 times the costs: what fits and costs at most bound - 1
                                now costs at most w (bound - 1) + sum p limit
    ["labels", {...}]           prices and an order as in "bound"; of the entries of its tables with
                                which a choice may lie below the target, all that a choice costs and
                                holds at these times: none is below the target within the limit
    ["split", i, [[...], ...]]  cases: the options of i in groups, each with a proof of its own

Of "bound": with weight w and prices p >= 0, every choice that fits and costs at most target - 1 has
w cost + sum p (usage - limit) <= w (target - 1), whose left side is a sum of functions of single
nodes and edges. Messages move costs between an edge and its ends, which changes no total; then the
sum of all minima is a lower bound (linear programming duality, as in Wainwright and Jaakkola).
Eliminating node after node gives the exact minimum. weight 0 shows that nothing fits.

All numbers are integers, of magnitude below 2**61 as long as they are not infinite.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

INFINITE = 1 << 61
TOO_LARGE = 1 << 26  # entries of one table


class NotProved(Exception):
    """The certificate does not prove its claim."""


def _add(*parts: Any) -> Any:
    """A sum in which infinite stays infinite, and finite below it."""
    total = parts[0]
    for part in parts[1:]:
        infinite = (total >= INFINITE) | (part >= INFINITE)
        total = np.where(
            infinite, INFINITE, np.where(infinite, 0, total) + np.where(infinite, 0, part)
        )
        if np.abs(np.where(total >= INFINITE, 0, total)).max(initial=0) >= INFINITE // 2:
            raise NotProved("a number is too large")
    return total


def _infinite(table: Any) -> Any:
    return np.where(np.asarray(table) >= 1 << 60, INFINITE, table)


def _once(known: dict[int, Any], table: Any) -> Any:
    """The table with infinite numbers; known: by the identity of tables that stay."""
    if id(table) not in known:
        known[id(table)] = _infinite(table)
    return known[id(table)]


def _times(table: Any, factor: int) -> Any:
    finite = np.where(table >= INFINITE, 0, table)
    if int(np.abs(finite).max(initial=0)) * factor >= INFINITE // 2:
        raise NotProved("a number is too large")
    return np.where(table >= INFINITE, INFINITE, finite * factor)


class _State:
    """What is left of a problem: options by their first numbers, dead ones at infinite cost."""

    def __init__(self, problem: Any, bound: int) -> None:
        self.bound = bound
        self.limit = problem.limit
        known: dict[int, Any] = {}
        self.costs = {i: _once(known, c) for i, c in enumerate(problem.costs)}
        self.empty = any(not self.alive(i).any() for i in self.costs)
        self.edges: dict[int, dict[int, Any]] = {i: {} for i in self.costs}
        for (i, j), table in problem.edges.items():
            self.join(i, j, _once(known, table))
        limited = self.limit is not None
        self.usages = {i: list(u) if limited else [] for i, u in enumerate(problem.usages)}
        ends = sorted({t for each in self.usages.values() for a, b, _ in each for t in (a, b)})
        self.times = {t: n for n, t in enumerate(ends)}
        self.tight = np.ones(len(ends), bool)

    def copy(self) -> _State:
        new = object.__new__(_State)
        new.__dict__.update(self.__dict__)
        new.costs, new.usages = dict(self.costs), dict(self.usages)
        new.edges = {i: dict(each) for i, each in self.edges.items()}
        return new

    def join(self, i: int, j: int, table: Any) -> None:
        if j in self.edges[i]:
            table = _add(self.edges[i][j], table)
        self.edges[i][j], self.edges[j][i] = table, table.T

    def part(self, i: int, j: int) -> None:
        del self.edges[i][j], self.edges[j][i]

    def alive(self, i: int) -> Any:
        return self.costs[i] < INFINITE

    def drop(self, i: int, dead: Any) -> None:
        self.put(i, np.where(dead, INFINITE, self.costs[i]))

    def put(self, i: int, costs: Any) -> None:
        """Gives the options of a node other costs; a node without options leaves nothing."""
        self.costs[i] = costs
        self.empty = self.empty or not self.alive(i).any()

    def held(self, i: int) -> list[tuple[slice, Any]]:
        """What the options of a node hold, in stretches of time."""
        ends = sorted({self.times[t] for a, b, _ in self.usages[i] for t in (a, b)})
        found = []
        for a, b in pairwise(ends):
            parts = [u for s, e, u in self.usages[i] if self.times[s] <= a < self.times[e]]
            if parts:
                found.append((slice(a, b), sum(parts)))
        return found

    def extremes(self, function: Any) -> Any:
        """For every time the least, or the most, of all nodes together."""
        total = np.zeros(len(self.times), np.int64)
        for i in self.costs:
            if self.usages[i]:
                alive = self.alive(i)
                for when, usage in self.held(i):
                    total[when] += function(usage[alive]) if alive.any() else 0
        return total

    # the steps -----------------------------------------------------------------------------------

    def arc(self, i: int, j: int) -> None:
        possible = _add(self.edges[i][j], self.costs[j][None, :]) < INFINITE
        self.drop(i, ~possible.any(1))

    def row(self, nodes: Sequence[int]) -> None:
        least = self.extremes(np.min)
        for i in nodes:
            for when, usage in self.held(i):
                if self.alive(i).any():
                    own = usage[self.alive(i)].min()
                    self.drop(i, usage + (least[when].max() - own) > self.limit)
                    least[when] += usage[self.alive(i)].min(initial=INFINITE) - own

    def slack(self) -> None:
        self.tight &= self.extremes(np.max) > (self.limit or 0)

    def only(self, times: Sequence[int]) -> None:
        if any(t not in self.times for t in times) or sorted(set(times)) != list(times):
            raise NotProved("these are no times")
        ends, when = [*times, times[-1] + 1], [self.times[t] for t in times]
        whole = np.zeros(len(times), np.int64)
        for i in self.costs:
            usage = self._usage(i, when)
            least = usage[self.alive(i)].min(0) if self.alive(i).any() else 0 * whole
            whole += least
            above = np.where(self.alive(i)[:, None], usage - least, 0)
            self.usages[i] = [
                (ends[n], ends[n + 1], above[:, n]) for n in range(len(times)) if above[:, n].any()
            ]
        first = min(self.costs)
        many = len(self.costs[first])
        self.usages[first] = self.usages[first] + [
            (ends[n], ends[n + 1], np.full(many, m)) for n, m in enumerate(whole)
        ]
        self.times = {t: n for n, t in enumerate(ends)}
        self.tight = np.ones(len(ends), bool)

    def better(self, i: int, pairs: Sequence[Sequence[int]]) -> None:
        held = [u for when, u in self.held(i) if self.tight[when].any()]
        for a, b in pairs:
            if a == b or not self.alive(i)[b]:
                raise NotProved(f"option {b} of {i} is no other one")
            if not self.alive(i)[a]:
                continue
            more = int(self.costs[i][b] - self.costs[i][a])
            for j, table in self.edges[i].items():
                usable = (table[a] < INFINITE) & self.alive(j)
                if (table[b][usable] >= INFINITE).any():
                    raise NotProved(f"option {b} of {i} has fewer partners")
                more += int((table[b] - table[a])[usable].max(initial=-INFINITE))
            if more > 0 or any(u[b] > u[a] for u in held):
                raise NotProved(f"option {b} of {i} is not better than {a}")
            self.drop(i, np.arange(len(self.costs[i])) == a)

    def absorb(self, i: int, j: int) -> None:
        rows, columns = np.flatnonzero(self.alive(i)), np.flatnonzero(self.alive(j))
        table = self.edges[i][j]
        if not len(rows) or not len(columns):
            return
        block = table[np.ix_(rows, columns)]
        left, right = block[:, 0], block[0] - block[0, 0]
        if (block >= INFINITE).any() or (left[:, None] + right[None, :] != block).any():
            raise NotProved(f"the edge {i}, {j} is no sum")
        for node, index, part in ((i, rows, left), (j, columns, right)):
            whole = np.zeros(len(self.costs[node]), np.int64)
            whole[index] = part
            self.put(node, _add(self.costs[node], whole))
        self.part(i, j)

    def follow(self, i: int, j: int) -> None:
        table = _add(self.edges[i][j], self.costs[i][:, None])
        if ((table < INFINITE)[:, self.alive(j)].sum(0) > 1).any():
            raise NotProved(f"{i} does not follow {j}")
        pick = table.argmin(0)
        self.put(j, _add(self.costs[j], table[pick, np.arange(table.shape[1])]))
        self.usages[j] = self.usages[j] + [(a, b, u[pick]) for a, b, u in self.usages[i]]
        for k in list(self.edges[i]):
            table = self.edges[i][k]
            self.part(i, k)
            if k != j:
                self.join(j, k, table[pick])
        del self.costs[i], self.edges[i], self.usages[i]

    def eliminate(self, i: int) -> None:
        near = sorted(self.edges[i])
        if self.usages[i] or not 1 <= len(near) <= 2:
            raise NotProved(f"{i} cannot be eliminated")
        table = _add(self.costs[i][:, None], self.edges[i][near[0]])
        if len(near) == 2:
            table = _add(table[:, :, None], self.edges[i][near[1]][:, None, :])
        for j in near:
            self.part(i, j)
        if len(near) == 2:
            self.join(near[0], near[1], table.min(0))
        else:
            self.put(near[0], _add(self.costs[near[0]], table.min(0)))
        del self.costs[i], self.edges[i], self.usages[i]

    def price(self, weight: int, prices: Sequence[Sequence[int]]) -> None:
        if not isinstance(weight, int) or weight < 1 or self.limit is None:
            raise NotProved("there is no limit, or no cost")
        self.costs, worth = self.priced(weight, prices)
        self.bound = weight * (self.bound - 1) + worth + 1
        known: dict[int, Any] = {}
        for i in self.edges:
            for j, table in list(self.edges[i].items()):
                if i < j:
                    if id(table) not in known:
                        known[id(table)] = table, _times(table, weight)
                    own = known[id(table)][1]
                    self.edges[i][j], self.edges[j][i] = own, own.T
        self.limit, self.times = None, {}
        self.usages = {i: [] for i in self.costs}
        self.tight = np.ones(0, bool)

    # the bound -----------------------------------------------------------------------------------

    def limits(self, weight: int, prices: Any, target: int, messages: Any, order: Any) -> bool:
        """Drops what has no part in a choice below the target; whether nothing is left."""
        if weight < 0 or target < self.bound:
            raise NotProved("the target lies below the bound")
        if self.empty:
            return True
        costs, worth = self.priced(weight, prices)
        constant = -worth
        most = weight * (target - 1)
        if order is not None:
            return self._eliminated(costs, constant, most, weight, order)
        return self._passed(costs, constant, most, weight, messages)

    def priced(self, weight: int, prices: Any) -> tuple[dict[int, Any], int]:
        """Costs times a weight, with what is held at these prices, and what the limit is worth."""
        priced = np.zeros(len(self.times), np.int64)
        for time, price in prices:
            if price < 0:
                raise NotProved("a price is negative")
            priced[self.times[time]] += price
        known: dict[Any, Any] = {}
        costs = {}
        for i, own in self.costs.items():
            held = [
                (u, int(priced[self.times[a] : self.times[b]].sum())) for a, b, u in self.usages[i]
            ]
            held = [each for each in held if each[1]]
            key = id(own), *[(id(u), price) for u, price in held]
            if key not in known:
                known[key] = _add(_times(own, weight), *[_times(u, price) for u, price in held])
            costs[i] = known[key]
        return costs, int(priced.sum()) * (self.limit or 0)

    def _passed(self, costs: Any, constant: int, most: int, weight: int, messages: Any) -> bool:
        tables = {}
        for i in self.edges:
            for j in self.edges[i]:
                if i < j:
                    tables[i, j] = _times(self.edges[i][j], weight)
        for i, j, to_i, to_j in messages:
            whole = []
            for node, part in ((i, to_i), (j, to_j)):
                each = np.zeros(len(costs[node]), np.int64)
                each[self.alive(node)] = part
                whole.append(each)
                costs[node] = _add(costs[node], each)
            tables[i, j] = _add(tables[i, j], -whole[0][:, None], -whole[1][None, :])
        least: Any = {i: c.min() for i, c in costs.items()}
        for (i, j), table in tables.items():
            own = np.where(self.alive(i)[:, None] & self.alive(j)[None, :], table, INFINITE)
            tables[i, j], least[i, j] = own, own.min()
        if any(each >= INFINITE for each in least.values()):
            return True
        bound = constant + sum(int(each) for each in least.values())
        if bound > most:
            return True
        over = {i: _add(c, -least[i]) for i, c in costs.items()}
        more = dict(over)
        for (i, j), table in tables.items():
            rest = _add(table, -least[i, j])
            more[i] = _add(more[i], _add(rest, over[j][None, :]).min(1))
            more[j] = _add(more[j], _add(rest, over[i][:, None]).min(0))
            pair = _add(rest, over[i][:, None], over[j][None, :])
            dead = pair > most - bound
            joined = np.where(dead, INFINITE, self.edges[i][j])
            self.edges[i][j], self.edges[j][i] = joined, joined.T
        for i, each in more.items():
            self.drop(i, each > most - bound)
        return False

    def _eliminated(
        self, costs: Any, constant: int, most: int, weight: int, order: Sequence[int]
    ) -> bool:
        """Drops what costs too much; whether nothing is left."""
        found = False
        for i, _, index, belief in self._beliefs(costs, constant, most, weight, order):
            found = True
            axes = tuple(range(1, belief.ndim))
            dead = np.zeros(len(self.costs[i]), bool)
            dead[index] = (belief.min(axes) if axes else belief) > most
            self.drop(i, dead)
        return not found

    def labels(self, weight: int, prices: Any, target: int, order: Sequence[int]) -> bool:
        """Whether every choice costs at least the target or exceeds the limit at these times."""
        if weight < 1 or target < self.bound or self.limit is None:
            raise NotProved("there is no limit, or the target lies below the bound")
        if self.empty:
            return True
        costs, worth = self.priced(weight, prices)
        most = weight * (target - 1)
        if worth >= INFINITE // 2:
            raise NotProved("a number is too large")
        near: dict[int, Any] = {}
        for i, scope, index, belief in self._beliefs(costs, -worth, most, weight, order):
            entries = np.nonzero(belief <= most)
            over = belief[entries] - belief.min(0)[entries[1:]]
            near[i] = scope, index[entries[0]], entries, over, belief[entries]
        if not near:
            return True
        least = min(int(each[4].min(initial=INFINITE)) for each in near.values())
        price = np.array([p for _, p in prices], np.int64)
        when = [self.times[t] for t, _ in prices]
        usage = {i: self._usage(i, when) for i in order}
        alive = {i: u[self.alive(i)].min(0) for i, u in usage.items()}
        free = np.array([self.limit] * len(when), np.int64) - sum(alive.values())
        if (free < 0).any():
            return True
        # Of what is sent on: its nodes, and of each label the options there, the cost above the
        # least, and what is held above the least.
        sent: dict[int, list[Any]] = {i: [] for i in order}
        whole = np.zeros((1, 0), np.int64), np.zeros(1, np.int64), np.zeros((1, len(when)))
        for i in order:
            scope, option, entries, over, belief = near[i]
            rows = np.stack(entries, 1)
            held = (usage[i] - alive[i])[option]
            labels = rows, over, held
            slack = most - belief
            for own, other in sent.pop(i):
                at = [scope.index(n) for n in own]
                labels, slack = _pairs(labels, slack, at, other, free)
            rows, over, held = labels
            keep = _best(rows[:, 1:], over - held @ price, held)
            part = rows[keep][:, 1:], over[keep], held[keep]
            if len(scope) > 1:
                sent[scope[1]].append((scope[1:], part))
            else:
                whole, _ = _pairs(whole, most - least - whole[1], [], part, free)
                keep = _best(whole[0], whole[1] - whole[2] @ price, whole[2])
                whole = whole[0][keep], whole[1][keep], whole[2][keep]
        total = least + worth + whole[1] - (whole[2] + sum(alive.values())) @ price
        if (total <= most).any():
            raise NotProved("a choice may cost less than the target")
        return True

    def _usage(self, i: int, when: Sequence[int]) -> Any:
        """What the options of a node hold at some times."""
        found = np.zeros((len(self.costs[i]), len(when)), np.int64)
        for a, b, u in self.usages[i]:
            for n, t in enumerate(when):
                if self.times[a] <= t < self.times[b]:
                    found[:, n] += u
        return found

    def _beliefs(
        self, costs: Any, constant: int, most: int, weight: int, order: Sequence[int]
    ) -> Iterator[tuple[int, tuple[int, ...], Any, Any]]:
        """Yields for every node, the last one first, the nodes of its table, the options that are
        left, and for every entry what a choice with it costs at least; nothing where all cost more.
        """
        if sorted(order) != sorted(costs):
            raise NotProved("the order is not one of the nodes")
        index = {i: np.flatnonzero(self.alive(i)) for i in costs}
        place = {i: n for n, i in enumerate(order)}
        buckets: dict[int, list[tuple[tuple[int, ...], Any, int | None]]] = {
            i: [((i,), costs[i][index[i]], None)] for i in order
        }
        for i in order:
            for j, t in self.edges[i].items():
                if place[i] < place[j]:
                    t = _times(t[np.ix_(index[i], index[j])], weight)
                    buckets[i].append(((i, j), t, None))
        total, tables, sent = constant, {}, {}
        made: dict[Any, list[tuple[list[Any], Any, Any]]] = {}
        for i in order:
            names = {n for scope, _, _ in buckets[i] for n in scope} - {i}
            scope = (i, *sorted(names, key=place.__getitem__))
            if np.prod([float(len(index[n])) for n in scope]) > TOO_LARGE:
                raise NotProved("a table is too large")
            # Equal tables, such as those of repeated layers, are added once.
            where = [tuple([scope.index(n) for n in own]) for own, _, _ in buckets[i]]
            parts = [t for _, t, _ in buckets[i]]
            alike = made.setdefault((*where, *[hash(t.tobytes()) for t in parts]), [])
            found = next((each for each in alike if all(map(np.array_equal, each[0], parts))), None)
            if found is None:
                table = _add(*[_spread(t, own, scope) for own, t, _ in buckets[i]])
                table = np.broadcast_to(table, [len(index[n]) for n in scope])
                found = parts, table, table.min(0)
                alike.append(found)
            tables[i] = scope, found[1]
            least = sent[i] = found[2]
            shift = int(least.min())
            if shift >= INFINITE:
                return
            total += shift
            if len(scope) > 1:
                # Layers that differ by a number alone are alike, and by what the last node costs.
                last = np.zeros(least.shape[-1], np.int64)
                if len(scope) > 2:
                    last = least.min(tuple(range(least.ndim - 1)))
                    last = np.where(last < INFINITE, last - shift, 0)
                    buckets[scope[-1]].append((scope[-1:], last, None))
                rest = np.where(least < INFINITE, least - shift - last, INFINITE)
                buckets[scope[1]].append((scope[1:], rest, i))
        if total > most:
            return
        made.clear()
        roots = {i for i in order if len(tables[i][0]) == 1}
        down: dict[int, Any] = {i: np.int64(total - int(sent[i])) for i in roots}
        for i in reversed(order):
            scope, table = tables[i]
            belief = _add(table, down[i][None] if np.ndim(down[i]) else down[i])
            for _, _, child in buckets[i]:
                if child is not None:
                    own = tables[child][0][1:]
                    axes = tuple(n for n, name in enumerate(scope) if name not in own)
                    least = belief.min(axes) if axes else belief
                    message = sent[child]
                    known = (message < INFINITE) & (least < INFINITE)
                    difference = np.where(known, least, 0) - np.where(known, message, 0)
                    down[child] = np.where(known, difference, INFINITE)
            yield i, scope, index[i], belief


def _pairs(labels: Any, slack: Any, at: Sequence[int], other: Any, free: Any) -> Any:
    """Labels with those of another table that have the same options at these places, and how far
    each may still rise.
    """
    rows, over, held = labels
    theirs: dict[Any, list[int]] = {}
    for number, row in enumerate(other[0].tolist()):
        theirs.setdefault(tuple(row), []).append(number)
    mine: dict[Any, list[int]] = {}
    for number, row in enumerate(rows[:, at].tolist()):
        mine.setdefault(tuple(row), []).append(number)
    found = []
    for key, numbers in mine.items():
        beside = np.array(theirs.get(key, []), np.int64)
        step = max(1, TOO_LARGE // 64 // max(len(beside), 1))
        for start in range(0, len(numbers), step):
            own = np.array(numbers[start : start + step])
            fits = other[1][beside][None, :] <= slack[own][:, None]
            for n, most in enumerate(free):
                fits &= held[own, n][:, None] + other[2][beside, n][None, :] <= most
            first, second = np.nonzero(fits)
            found.append((own[first], beside[second]))
    first = np.concatenate([a for a, _ in found] or [np.zeros(0, np.int64)])
    second = np.concatenate([b for _, b in found] or [np.zeros(0, np.int64)])
    if len(first) > TOO_LARGE // 16:
        raise NotProved("there are too many labels")
    more = other[1][second]
    joined = rows[first], over[first] + more, held[first] + other[2][second]
    return joined, slack[first] - more


def _best(rows: Any, cost: Any, held: Any) -> Any:
    """The labels that no other one of the same row, which costs and holds no more, stands for."""
    order = np.lexsort((*held.T, cost, *rows.T))
    ends = np.flatnonzero((np.diff(rows[order], axis=0) != 0).any(1)) + 1
    found = []
    for group in np.split(order, ends):
        while len(group):
            first, group = group[:64], group[64:]
            better = (held[first][:, None, :] <= held[first][None, :, :]).all(2)
            first = first[~np.triu(better, 1).any(0)]
            better = (held[first][:, None, :] <= held[group][None, :, :]).all(2)
            group = group[~better.any(0)]
            found.append(first)
    return np.concatenate(found) if found else order


def _spread(table: Any, own: tuple[int, ...], scope: tuple[int, ...]) -> Any:
    """The table with the axes of a larger scope, in its order."""
    table = table.transpose(sorted(range(len(own)), key=lambda n: scope.index(own[n])))
    return table[tuple(slice(None) if name in own else None for name in scope)]


def _proved(state: _State, steps: Sequence[Any]) -> bool:
    """Whether the steps leave nothing."""
    for number, (kind, *given) in enumerate(steps):
        match kind:
            case "arc" | "absorb" | "follow" | "eliminate" | "better" | "row" | "slack" | "price":
                getattr(state, kind)(*given)
            case "times":
                state.only(*given)
            case "bound":
                (said,) = given
                if state.limits(
                    said["weight"],
                    said["prices"],
                    said["target"],
                    said.get("messages"),
                    said.get("order"),
                ):
                    return True
            case "labels":
                (said,) = given
                if state.labels(said["weight"], said["prices"], said["target"], said["order"]):
                    return True
            case "split":
                node, groups, proofs = given
                covered = {option for group in groups for option in group}
                if not covered.issuperset(np.flatnonzero(state.alive(node)).tolist()):
                    raise NotProved("the cases are not all")
                if len(groups) != len(proofs) or number + 1 != len(steps):
                    raise NotProved("each case needs a proof")
                for group, proof in zip(groups, proofs, strict=True):
                    case = state.copy()
                    case.drop(node, ~np.isin(np.arange(len(case.costs[node])), group))
                    if not _proved(case, proof):
                        return False
                return True
            case _:
                raise NotProved(f"there is no step {kind!r:.40}")
        if state.empty:
            return True
    return state.empty


def check_bound(problem: Any, bound: int, steps: Sequence[Any]) -> None:
    """Raises NotProved unless the steps prove that no choice that fits costs less than ``bound``;
    with a bound of 2**60: that nothing fits.
    """
    if not _checked(_State(problem, bound), steps):
        raise NotProved("the proof leaves something")


def survivors_of(problem: Any, bound: int, steps: Sequence[Any]) -> list[Any]:
    """Returns for every node a mask of the options that the steps leave: a choice that fits and
    costs less than ``bound`` has no other. Raises NotProved for steps that say anything else.
    """
    if any(step[:1] not in (["arc"], ["row"], ["slack"], ["bound"]) for step in steps):
        raise NotProved("options are dropped by bounds alone")
    state = _State(problem, bound)
    if _checked(state, steps):
        return [np.zeros(len(c), bool) for c in problem.costs]
    return [state.alive(i) for i in range(len(problem.costs))]


def _checked(state: _State, steps: Sequence[Any]) -> bool:
    try:
        return _proved(state, steps)
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise NotProved(f"the proof cannot be read: {error!r:.200}") from None


def check_choice(problem: Any, chosen: Sequence[int], cost: int) -> None:
    """Raises NotProved unless the choice fits and has this cost."""
    if len(chosen) != len(problem.costs):
        raise NotProved("the choice has another number of nodes")
    for own, k in zip(problem.costs, chosen, strict=True):
        if not isinstance(k, int) or not 0 <= k < len(own):
            raise NotProved("there is no such option")
    total = sum(int(own[k]) for own, k in zip(problem.costs, chosen, strict=True))
    total += sum(int(t[chosen[i], chosen[j]]) for (i, j), t in problem.edges.items())
    if total != cost or total >= 1 << 60:
        raise NotProved(f"the choice costs {total}, not {cost}")
    if problem.limit is not None:
        held: dict[int, int] = {}
        for each, k in zip(problem.usages, chosen, strict=True):
            for start, stop, usage in each:
                held[start] = held.get(start, 0) + int(usage[k])
                held[stop] = held.get(stop, 0) - int(usage[k])
        now = 0
        for time in sorted(held):
            now += held[time]
            if now > problem.limit:
                raise NotProved(f"the choice holds {now} at {time}, more than {problem.limit}")
