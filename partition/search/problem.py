"""The problem that a search solves, as pure data: no graph, no mesh, no operators.

Every node takes one of its options. Minimise the costs of the options and of the pairs of options
at the edges; at every time the usages of all nodes together may not exceed the limit. Costs and
usages are whole numbers, so that every sum is exact; a cost of `FORBIDDEN` may not be taken.

    costs    (array([3, 5]), array([0, 4, 1]))
    edges    {(0, 1): array([[0, 7, 7], [7, 0, FORBIDDEN]])}
    usages   (((0, 2, array([8, 4])),), ())          node 0 holds 8 or 4 at the times 0 and 1
    limit    6

This is the problem of the ASPLOS 2025 contest on intra-operator parallelism (google/iopddl).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.int64]
Held: TypeAlias = tuple[int, int, Numbers]
"""From a time to before another: what each option of a node holds then."""

FORBIDDEN = 1 << 60
"""A cost that no choice may have. Sums of all others stay below it."""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Nodes with options, edges between two nodes (the smaller number first), usages and a limit.

    Equal arrays are one object: repeated parts of a model then cost no memory, and are searched
    once. Made by `of`.
    """

    costs: tuple[Numbers, ...]
    edges: Mapping[tuple[int, int], Numbers]
    usages: tuple[tuple[Held, ...], ...]
    limit: int | None

    @classmethod
    def of(
        cls,
        costs: Iterable[Any],
        edges: Iterable[tuple[int, int, Any]],
        usages: Iterable[Iterable[tuple[int, int, Any]]] = (),
        limit: int | None = None,
    ) -> Problem:
        """Returns the problem; parallel edges add, an edge from a node to itself is a cost.

        >>> p = Problem.of([[3, 5], [0, 4]], [(0, 1, [[0, 7], [7, 0]])])
        >>> p.cost([0, 0])
        3
        """
        known: dict[int, tuple[Any, Numbers]] = {}
        equal: dict[Any, Numbers] = {}

        def one(table: Any) -> Numbers:
            """Of equal tables the first, so that what is made of it is made once."""
            found = np.ascontiguousarray(table, np.int64)
            return equal.setdefault((found.shape, found.tobytes()), found)

        def clipped(table: Any) -> Numbers:
            if id(table) not in known:
                known[id(table)] = table, one(np.minimum(table, FORBIDDEN))
            return known[id(table)][1]

        turned: dict[int, tuple[Any, Numbers]] = {}
        own = [clipped(each) for each in costs]
        found: dict[tuple[int, int], Numbers] = {}
        for first, second, table in edges:
            matrix = clipped(table)
            if matrix.shape != (len(own[first]), len(own[second])):
                matrix = matrix.reshape(len(own[first]), len(own[second]))
            if first == second:
                own[first] = np.minimum(own[first] + matrix.diagonal(), FORBIDDEN)
                continue
            if first > second:
                if id(matrix) not in turned:
                    turned[id(matrix)] = matrix, matrix.T
                first, second, matrix = second, first, turned[id(matrix)][1]
            before = found.get((first, second))
            found[first, second] = (
                matrix if before is None else np.minimum(before + matrix, FORBIDDEN)
            )
        held = tuple(tuple((a, b, one(u)) for a, b, u in each if a < b) for each in usages)
        return cls(tuple(own), found, held or ((),) * len(own), limit)

    @property
    def entries(self) -> int:
        """How many entries all tables have, equal ones counted once.

        >>> import numpy as np
        >>> table = np.zeros((2, 2), np.int64)
        >>> Problem.of([[0, 1]] * 3, [(0, 1, table), (1, 2, table)]).entries
        4
        """
        return sum({id(table): table.size for table in self.edges.values()}.values())

    def cost(self, chosen: Sequence[int]) -> int:
        """Returns the cost of one option per node; FORBIDDEN or more where it may not be taken."""
        total = sum(int(own[k]) for own, k in zip(self.costs, chosen, strict=True))
        return total + sum(int(m[chosen[i], chosen[j]]) for (i, j), m in self.edges.items())

    def held(self, chosen: Sequence[int]) -> dict[int, int]:
        """Returns what is held from each time on at which that changes."""
        steps: dict[int, int] = {}
        for each, k in zip(self.usages, chosen, strict=True):
            for start, stop, usage in each:
                steps[start] = steps.get(start, 0) + int(usage[k])
                steps[stop] = steps.get(stop, 0) - int(usage[k])
        total, found = 0, {}
        for time in sorted(steps):
            total += steps[time]
            found[time] = total
        return found

    def most_held(self, chosen: Sequence[int]) -> int:
        """Returns the most that is held at any time."""
        return max(self.held(chosen).values(), default=0)

    def fits(self, chosen: Sequence[int]) -> bool:
        """Whether the limit holds at every time."""
        return self.limit is None or self.most_held(chosen) <= self.limit
