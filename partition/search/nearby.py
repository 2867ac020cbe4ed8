"""Cheaper choices near one that is known: many nodes are chosen anew at once, each time exactly.

A forest of nodes is taken at random, of which every tree touches each other node as it will; all
others stay, and dynamic programming finds the best for all of the forest. In turn with it all nodes
around one are eliminated, as far as tables stay small. What is held costs its price, which rises
while a choice does not fit and falls while it does, so that choices come and go over the limit
(strategic oscillation: Glover, 1977; large neighbourhoods: Shaw, 1998).

Deterministic: what is random follows from a seed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .bounds import Costs, Edges, Elimination
from .core import Table

AROUND = 48
"""Nodes around one that are chosen anew together, at most."""

TABLE = 1e5
"""Entries of a table, at most."""

KICK = 12
"""After so many changes in vain some nodes are chosen at random."""


class Nearby:
    """Walks from choice to choice. costs: of the options of every node, by a factor of the prices.
    offer: takes a choice, and says whether it fits.
    """

    def __init__(
        self,
        costs: Callable[[float], Costs],
        edges: Edges,
        offer: Callable[[dict[int, int]], bool],
        seed: int = 0,
    ) -> None:
        self.priced, self.edges, self.offer = costs, edges, offer
        self.random = np.random.default_rng(seed)
        self.nodes = sorted(edges)

    def walk(self, chosen: dict[int, int], rounds: int, late: Callable[[], bool]) -> dict[int, int]:
        """Goes so many steps, offers what is found, and returns where it ends."""
        factor = 1.0
        costs = self.priced(factor)
        now, vain = dict(chosen), 0
        value = self.value(costs, now)
        for number in range(rounds):
            if late():
                break
            free = self.forest() if number % 4 else self.around()
            found = {**now, **self.best(costs, now, free)}
            changed = self.value(costs, found)
            vain = 0 if changed < value else vain + 1
            now, value = found, changed
            fits = self.offer(now)
            if vain >= KICK:
                self.kick(costs, now)
                vain = 0
            if number % 8 == 7 or vain == 0:
                factor = min(max(factor * (0.97 if fits else 1.05), 0.5), 4.0)
                costs = self.priced(factor)
                value = self.value(costs, now)
        return now

    def value(self, costs: Costs, chosen: dict[int, int]) -> float:
        """Returns what a choice costs."""
        total = sum(float(own[chosen[i]]) for i, own in costs.items())
        for i in self.nodes:
            for j, table in self.edges[i].items():
                if i < j:
                    total += float(table[chosen[i], chosen[j]])
        return total

    def forest(self) -> list[int]:
        """Returns nodes of which no ring is left when all others are taken away."""
        root: dict[int, int] = {}

        def find(i: int) -> int:
            while root[i] != i:
                root[i] = root[root[i]]
                i = root[i]
            return i

        taken = []
        for place in self.random.permutation(len(self.nodes)).tolist():
            i = self.nodes[place]
            trees = [find(j) for j in self.edges[i] if j in root]
            if len(set(trees)) == len(trees):
                root[i] = i
                root.update(dict.fromkeys(trees, i))
                taken.append(i)
        return taken

    def around(self) -> list[int]:
        """Returns the nodes nearest to one."""
        start = self.nodes[int(self.random.integers(len(self.nodes)))]
        found = {start: None}
        queue = [start]
        while queue and len(found) < AROUND:
            near = [j for j in self.edges[queue.pop(0)] if j not in found]
            found.update(dict.fromkeys(near))
            queue += near
        return list(found)[:AROUND]

    def best(self, costs: Costs, now: dict[int, int], free: list[int]) -> dict[int, int]:
        """Returns the best options of these nodes beside all others; fewer, where tables would be
        large.
        """
        order = _order(free, {i: len(c) for i, c in costs.items()}, self.edges)
        inside = set(order)
        own: dict[int, Table] = {}
        edges: dict[int, dict[int, Table]] = {}
        for i in order:
            total = costs[i]
            for j, table in self.edges[i].items():
                if j not in inside:
                    total = total + table[:, now[j]]
            own[i] = total
            edges[i] = {j: table for j, table in self.edges[i].items() if j in inside}
        run = Elimination(order, own, edges)
        return run.chosen() if np.isfinite(run.least) else {}

    def kick(self, costs: Costs, now: dict[int, int]) -> None:
        """Chooses some nodes at random, where that is not forbidden."""
        for place in self.random.integers(0, len(self.nodes), 4).tolist():
            i = self.nodes[place]
            total = costs[i]
            for j, table in self.edges[i].items():
                total = total + table[:, now[j]]
            may = np.flatnonzero(np.isfinite(total))
            if len(may):
                now[i] = int(may[int(self.random.integers(len(may)))])


def _order(free: list[int], sizes: dict[int, int], edges: Edges) -> list[int]:
    """The order of a small elimination; where a table were too large its node stays as it is."""
    inside = set(free)
    near: dict[int, Any] = {i: {j for j in edges[i] if j in inside} for i in free}
    order: list[int] = []

    def weight(i: int) -> float:
        return float(np.prod([float(sizes[j]) for j in near[i]])) * sizes[i]

    weights = {i: weight(i) for i in near}
    while near:
        i = min(near, key=lambda n: (weights[n], n))
        if weights[i] > TABLE:
            i = max(near, key=lambda n: (len(near[n]), sizes[n], -n))
            around = near.pop(i)
            for j in around:
                near[j].discard(i)
        else:
            order.append(i)
            around = near.pop(i)
            for j in around:
                near[j] |= around
                near[j] -= {i, j}
        for j in around:
            weights[j] = weight(j)
    return order
