"""A graph, a mesh and a machine as the `Problem` that a search solves.

    an operator    its options: a choice on every axis, legal for all sizes that the plan serves
    a value        what it costs to bring it from how it is made to all that it is needed as
    memory         parameters with gradients and optimiser states all the time; what is made from
                   the operator that makes it to its last use, or to the end where the backward
                   pass needs it; what it is converted to likewise, from the value on

A value with one user stands at the edge between the two. One with several has a node of its own,
whose options are sets of needs: conversions are shared. Where these sets are too many the value is
*relaxed*: its users share the price of the dearest of their needs, so that what is said is never
too much, and exact where all need the same. A problem with relaxed values bounds the exact one from
below; and the options that it leaves below a known plan have few sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any, TypeVar

import numpy as np

from dimsolve.solver.algebra.dims import evaluate
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.shapes import dim_of_text

from ..aliasing import VIEWS
from ..communication import shared_bytes
from ..cost import Costs
from ..mesh import Mesh
from ..plan_data import Gradient
from ..reshard import Collective, item_bytes, sends
from ..search.clock import Clock
from ..search.problem import FORBIDDEN, Held, Numbers, Problem
from .assemble import sends_of
from .network import Edge, Network, Operator
from .vocabulary import Option, Vocabulary
from .ways import Needs, Ways, mask_of

MOST_PAIRS = 600
"""Ways to make a value times sets of its needs, up to which it has a node of its own."""

MOST_PAIRED = 4
"""Users of a relaxed value, up to which they bear its price in pairs."""

OF_A_PARAMETER = 2
"""A parameter and its gradient; optimiser states come on top."""

M = TypeVar("M")
Kept = list[list[Option]]
"""Options of every operator; alike operators have the same list."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A problem whose first nodes are the operators. ``relaxed``: how many values are."""

    problem: Problem
    options: Kept
    relaxed: int


class Formulation:
    """What does not change while options are dropped: costs of options and ways of values."""

    def __init__(
        self,
        network: Network,
        mesh: Mesh,
        costs: Costs,
        sizes: Mapping[str, int],
        memory: int | None,
        states: int,
    ) -> None:
        self.network, self.mesh, self.costs, self.sizes = network, mesh, costs, sizes
        self.memory, self.states = memory, states
        self.numbers: dict[Dim, int] = {}
        self.vocabulary = Vocabulary(network, mesh, self.value)
        self.ways = Ways(network, list(costs.mesh.items()))
        self.counts = self.ways.counts
        self.known: dict[Any, Any] = {}
        self.last = self._last_uses()
        self.end = len(network.operators) + 1

    def value(self, dim: Dim) -> int:
        """Returns a length at the sizes."""
        if isinstance(dim, int):
            return dim
        if dim not in self.numbers:
            self.numbers[dim] = evaluate(dim, self.sizes)
        return self.numbers[dim]

    def once(self, key: Any, make: Callable[[], M]) -> M:
        """Returns what was made for a key, once."""
        if key not in self.known:
            self.known[key] = make()
        found: M = self.known[key]
        return found

    def options(self) -> Kept:
        """Returns all options of every operator."""
        return [self.vocabulary.of(operator) for operator in self.network.operators]

    def kept(self, options: Kept, masks: Sequence[Any]) -> Kept:
        """Returns the options that are left; alike operators with alike ones have the same list."""

        def left(own: list[Option], mask: Any) -> list[Option]:
            key = "kept", id(own), mask.tobytes()
            few = self.once(key, lambda: (own, [o for o, k in zip(own, mask, strict=True) if k]))
            return few[1]

        return [
            own if mask.all() else left(own, mask) for own, mask in zip(options, masks, strict=True)
        ]

    def instance(
        self, options: Kept, most: int | None = None, clock: Clock | None = None
    ) -> Instance:
        """Returns the problem of these options. most: in place of `MOST_PAIRS`. Raises TimeUp when
        the clock says so.
        """
        most = MOST_PAIRS if most is None else most
        return _Instance(self, options, most).made(clock or Clock())

    # of operators --------------------------------------------------------------------------------

    def operator_costs(self, operator: Operator, options: list[Option]) -> Numbers:
        """Returns the picoseconds of each option, without conversions."""
        edges = self.network.edges
        tensors = [None if n is None else edges[n] for n in (*operator.inputs, *operator.outputs)]
        kinds = tuple([None if e is None else (e.dims, e.dtype, e.gradient) for e in tensors])
        key = "operator", operator.node.name, operator.skipped, kinds, id(options)

        def make() -> Numbers:
            return np.array([self._operator_cost(operator, o, tensors) for o in options], np.int64)

        found: Numbers = self.once(key, make)
        return found

    def _operator_cost(
        self, operator: Operator, option: Option, tensors: Sequence[Edge | None]
    ) -> int:
        if operator.skipped:
            return 0
        count = len(operator.inputs)
        moved = sum(
            self.sizes_of(edge)[mask_of(tuple([choice.at(n) for choice in option.choices]))]
            for n, edge in enumerate(tensors)
            if edge is not None
        )
        flags = [edge.gradient for edge in tensors[count:] if edge is not None]
        gradient: Gradient = "always" if "always" in flags else "never"
        local = option.local
        lengths = self.once(
            ("lengths", id(local)),
            lambda: (local, {name: self.value(n) for name, n in local.lengths.items()}),
        )[1]
        points = prod(lengths.values())
        outputs = operator.node.outputs
        dtype = outputs[0].dtype if outputs else None
        total = self.costs.operator(operator.node.name, points, moved, dtype, gradient, lengths)
        if any(choice.rule is not None for choice in option.choices):
            sent = sends_of(self.network, self.mesh, operator, local, option.choices, {})
            for each in sent:
                if each.runs == "always":
                    size = self.value(dim_of_text(each.bytes))
                    total += self.costs.collective(each.collective, each.axis, size)
        return total

    # of values -----------------------------------------------------------------------------------

    def sizes_of(self, edge: Edge) -> list[int]:
        """Returns the bytes that a rank has of a value, by what axes cut it, as bits; 0 for a value
        whose shape is not known.
        """
        return self.once(("sizes", edge.dims, edge.dtype), lambda: self._sizes_of(edge))

    def _sizes_of(self, edge: Edge) -> list[int]:
        axes = range(len(self.counts))
        if edge.dims is None or None in edge.dims:
            return [0] * (1 << len(axes))
        whole = prod(self.value(d) for d in edge.dims if d is not None) * item_bytes(edge.dtype)
        cut = [prod(self.counts[a] for a in axes if m >> a & 1) for m in range(1 << len(axes))]
        return [whole // parts for parts in cut]

    def price(self, edge: Edge) -> Callable[[int, tuple[Collective, ...], int], int]:
        """Returns the picoseconds of collectives along an axis for a value that some axes cut."""
        sizes = self.sizes_of(edge)
        unknown = edge.dims is None or None in edge.dims

        def price(axis: int, collectives: tuple[Collective, ...], mask: int) -> int:
            name, count = self.mesh.axes[axis]
            size = item_bytes(edge.dtype) if unknown else sizes[mask]
            size *= self.counts[axis] if mask >> axis & 1 else 1
            sent = self.value(sends(collectives, size, count))
            each = shared_bytes(collectives, sent, self.counts[axis])
            return sum(self.costs.collective(kind, name, own) for kind, own in each)

        return price

    def prices(self, edge: Edge, made: Sequence[int | None], needs: Sequence[Needs]) -> Numbers:
        """Returns for ways to make a value (rows) and sets of needs (columns) the time to bring it
        there; FORBIDDEN where there is no way.
        """
        kind = edge.dims, edge.dtype, edge.gradient
        table = self.ways.table(edge, made, needs)
        key = "prices", kind, id(table)

        def make() -> Numbers:
            many = len(self.ways)
            prices = self.once(
                ("ways", kind, many), lambda: self.ways.prices(edge, self.price(edge))
            )
            return np.asarray(prices[table], np.int64)

        found: Numbers = self.once(key, make)
        return found

    def copies(self, edge: Edge, made: Sequence[int | None], needs: Sequence[Needs]) -> Numbers:
        """Returns in the same way the bytes of what it is converted to."""
        table = self.ways.table(edge, made, needs)
        return np.asarray(self.ways.copied(self.sizes_of(edge))[table], np.int64)

    def least(self, edge: Edge, made: Sequence[int | None], needs: Sequence[Needs]) -> Numbers:
        """Returns in the same way what it costs at least, whatever else the value is brought to."""
        kind = edge.dims, edge.dtype, edge.gradient
        key = "least", kind, tuple(made), tuple(needs)

        def make() -> Numbers:
            rows = list(dict.fromkeys(made))
            single = sorted({n for each in needs for n in each})
            table = self.ways.least(edge, rows, single, self.price(edge))
            place = {n: c for c, n in enumerate(single)}
            columns = [
                table[:, [place[n] for n in sorted(each)]].max(1)
                if each
                else np.zeros(len(rows), np.int64)
                for each in needs
            ]
            at = {r: n for n, r in enumerate(rows)}
            table = np.minimum(np.stack(columns, 1), FORBIDDEN)
            return np.asarray(table[[at[m] for m in made]], np.int64)

        found: Numbers = self.once(key, make)
        return found

    def branches(
        self, edge: Edge, made: Sequence[int | None], needs: tuple[list[Needs], ...]
    ) -> tuple[Numbers, list[Numbers]]:
        """Returns what it costs at least to bring a value from each way to make it to each layout,
        and from each of these to the needs of every user. Where two need the same, and the gradient
        is shared, that need is a layout of its own, from which nothing else is reached.
        """
        kind = edge.dims, edge.dtype, edge.gradient
        key = "branches", kind, tuple(made), tuple(map(tuple, needs))

        def make() -> tuple[Numbers, list[Numbers]]:
            ways = self.ways
            asked = sorted({n for own in needs for each in own for n in each})
            layouts = ways.between([m for m in made if m is not None], asked)
            plain = (False,) * len(self.counts)
            points = [frozenset([ways.need((ways.layouts[m], plain))]) for m in layouts]
            both = {s for a, b in combinations(needs, 2) for s in set(a) & set(b)}
            shared = sorted([s for s in both if any(any(ways.needs[n][1]) for n in s)], key=sorted)

            def onward(own: Sequence[Needs]) -> Numbers:
                table = np.full((len(points) + len(shared), len(own)), FORBIDDEN, np.int64)
                table[: len(points)] = self.least(edge, layouts, own)
                for number, each in enumerate(shared):
                    table[len(points) + number, [each == n for n in own]] = 0
                return table

            return self.least(edge, made, [*points, *shared]), [onward(own) for own in needs]

        return self.once(key, make)

    def layouts_made(self, operator: int, output: int, options: list[Option]) -> list[int]:
        """Returns the layouts of an output, by option."""
        return self.once(
            ("made", id(options), output),
            lambda: (options, [self.ways.layout(o.made(output)) for o in options]),
        )[1]

    def needs_of(self, edge: Edge, places: tuple[int, ...], options: list[Option]) -> list[Needs]:
        """Returns the sets of needs at these inputs, by option."""
        gradient = edge.gradient != "never"
        return self.once(
            ("needs", id(options), places, gradient),
            lambda: (
                options,
                [frozenset([self.ways.need(o.need(p, gradient)) for p in places]) for o in options],
            ),
        )[1]

    def until(self, edge: Edge) -> int:
        """Returns the time at which a value is freed."""
        return self.end if edge.gradient == "always" else self.last[edge.number] + 1

    def _last_uses(self) -> list[int]:
        """The last operator that uses each value; a view uses what it is taken from as long as it
        is used itself.
        """
        network = self.network
        last = [len(network.operators) if e.returned else -1 for e in network.edges]
        for operator in reversed(network.operators):
            end = operator.number
            if operator.node.name in VIEWS:
                end = max([end, *(last[out] for out in operator.outputs if out is not None)])
            for own in operator.inputs:
                if own is not None:
                    last[own] = max(last[own], end)
        for edge in network.edges:
            if edge.producer is not None:
                last[edge.number] = max(last[edge.number], edge.producer[0])
        return last


class _Instance:
    """A problem while it is made."""

    def __init__(self, form: Formulation, options: Kept, most: int) -> None:
        self.form, self.options, self.most = form, options, most
        self.network = form.network
        self.limited = form.memory is not None
        self.node_costs: list[Numbers] = []
        self.usages: list[list[Held]] = []
        self.edges: list[tuple[int, int, Numbers]] = []
        self.relaxed = 0
        self.whole: Needs = frozenset([form.ways.whole])

    def made(self, clock: Clock) -> Instance:
        form = self.form
        for operator, options in zip(self.network.operators, self.options, strict=True):
            clock.check()
            self.node_costs.append(form.operator_costs(operator, options))
            self.usages.append([])
        for edge in self.network.edges:
            clock.check()
            self._value(edge)
        problem = Problem.of(self.node_costs, self.edges, self.usages, form.memory)
        return Instance(problem, self.options, self.relaxed)

    def _value(self, edge: Edge) -> None:
        """Adds the cost and the bytes of one value, between those who make and use it."""
        form = self.form
        users: dict[int, list[int]] = {}
        for number, place in edge.uses:
            if not self.network.operators[number].skipped:
                users.setdefault(number, []).append(place)
        given = {
            number: form.needs_of(edge, tuple(places), self.options[number])
            for number, places in users.items()
        }
        returned = self.whole if edge.returned else frozenset()
        if edge.producer is None:
            self._input(edge, given, returned)
            return
        producer, output = edge.producer
        made = form.layouts_made(producer, output, self.options[producer])
        operator = self.network.operators[producer]
        if self.limited and not operator.skipped and operator.node.name not in VIEWS:
            sizes = form.sizes_of(edge)
            own = [sizes[mask_of(form.ways.layouts[m])] for m in made]
            self._hold(producer, producer, form.until(edge), own)
        if not given:
            self._add(producer, self._first(form.prices(edge, made, [returned]).T))
            if self.limited:
                held = form.copies(edge, made, [returned])[:, 0]
                self._hold(producer, producer, form.until(edge), held)
            return
        if returned:
            given = {user: self._with(needs, returned) for user, needs in given.items()}
        if len(given) == 1:
            ((user, needs),) = given.items()
            pairs = len(set(made)) * len(set(needs))
            copied = self.limited and form.copies(edge, made, needs).any()
            if not copied or pairs > self.most:
                self.relaxed += bool(copied)
                self.edges.append((producer, user, form.prices(edge, made, needs)))
                return
        sets = self._sets(given.values(), returned, len(set(made)))
        if sets is None:
            self._relax(edge, producer, made, given)
            return
        number = len(self.node_costs)
        self.usages.append([])
        if self.limited:
            starts = list(dict.fromkeys(made))
            pairs_of = [(m, s) for m in starts for s in sets]
            self.node_costs.append(form.prices(edge, starts, sets).reshape(-1))
            self.edges.append((producer, number, self._allowed("made", made, pairs_of)))
            held = form.copies(edge, starts, sets).reshape(-1)
            self._hold(number, producer, form.until(edge), held)
        else:
            pairs_of = [(0, s) for s in sets]
            self.node_costs.append(self._nothing(len(sets)))
            self.edges.append((producer, number, form.prices(edge, made, sets)))
        for user, needs in given.items():
            self.edges.append((user, number, self._allowed("needs", needs, pairs_of)))

    def _with(self, needs: list[Needs], returned: Needs) -> list[Needs]:
        key = "returned", id(needs)
        return self.form.once(key, lambda: (needs, [n | returned for n in needs]))[1]

    def _input(self, edge: Edge, given: Mapping[int, list[Needs]], returned: Needs) -> None:
        """What a caller gives, and parameters: stored as they are used."""
        form = self.form
        if not given:
            return
        if len(given) == 1:
            ((user, own),) = given.items()
            needs = own if not returned else [n | returned for n in own]
            self._add(user, self._first(form.prices(edge, [None], needs)))
            self._stored(edge, user, needs)
            return
        sets = self._sets(given.values(), returned, 1)
        if sets is None:
            self._relax(edge, None, [None], given)
            return
        number = len(self.node_costs)
        self.usages.append([])
        self.node_costs.append(self._first(form.prices(edge, [None], sets)))
        pairs = [(0, s) for s in sets]
        for user, needs in given.items():
            self.edges.append((user, number, self._allowed("needs", needs, pairs)))
        self._stored(edge, number, sets)

    def _relax(
        self,
        edge: Edge,
        producer: int | None,
        made: list[Any],
        given: Mapping[int, list[Needs]],
    ) -> None:
        """Adds what a value costs at least. The conversions to two needs are a tree, which branches
        at some layout: a node chooses it. Of more users every pair of one and another bears
        a part, and of many each user: all together never more than the dearest of them.
        """
        self.relaxed += 1
        users = list(given.items())
        count = len(users)
        if count > MOST_PAIRED:
            for number, (user, needs) in enumerate(users):
                least = self.form.least(edge, made, needs)
                self._join(producer, user, self._part(least, count, number == 0))
            return
        # Where all but one need the same, as keys and values do, nothing is lost.
        kinds = [id(self.options[user]) for user, _ in users]
        users.sort(key=lambda each: kinds.count(id(self.options[each[0]])))
        for number, second in enumerate(users[1:]):
            first, parts = users[0], count - 1
            to_branch, tables = self.form.branches(edge, made, (first[1], second[1]))
            hub = len(self.node_costs)
            self.usages.append([])
            self.node_costs.append(self._nothing(to_branch.shape[1]))
            self._join(producer, hub, self._part(to_branch, parts, number == 0))
            for (user, _), table in zip((first, second), tables, strict=True):
                self.edges.append((hub, user, self._part(table, parts, number == 0)))

    def _first(self, table: Numbers) -> Numbers:
        """The first row of a table, as one object."""
        first: Numbers = self.form.once(("first", id(table)), lambda: (table, table[0]))[1]
        return first

    def _nothing(self, count: int) -> Numbers:
        return self.form.once(("nothing", count), lambda: np.zeros(count, np.int64))

    def _join(self, producer: int | None, node: int, table: Numbers) -> None:
        if producer is None:
            self._add(node, self._first(table))
        else:
            self.edges.append((producer, node, table))

    def _part(self, table: Numbers, count: int, first: bool) -> Numbers:
        """A part of so many; the first of them takes what is left over."""
        if count == 1:
            return table
        key = "part", id(table), count, first
        return self.form.once(key, lambda: (table, _share(table, first, count)))[1]

    def _sets(
        self, given: Iterable[list[Needs]], returned: Needs, starts: int
    ) -> list[Needs] | None:
        """The sets of needs that the users of a value may have together; None where they are too
        many.
        """
        lists = list(given)
        key = "sets", tuple(map(id, lists)), returned, self.most // starts

        def make() -> list[Needs] | None:
            found: dict[Needs, None] = {returned: None}
            for needs in lists:
                own = dict.fromkeys(needs)
                found = dict.fromkeys(a | b for a in found for b in own)
                if len(found) * starts > self.most:
                    return None
            return sorted(found, key=lambda s: (len(s), sorted(s)))

        return self.form.once(key, lambda: (lists, make()))[1]

    def _allowed(self, kind: str, rows: Sequence[Any], pairs: list[tuple[Any, Needs]]) -> Numbers:
        """0 for a layout, or needs, that an option of a value's node has; else FORBIDDEN."""

        def make() -> Numbers:
            if kind == "made":
                free = [[row == m for m, _ in pairs] for row in rows]
            else:
                free = [[row <= s for _, s in pairs] for row in rows]
            return np.where(np.array(free, bool), 0, FORBIDDEN)

        found: Numbers = self.form.once((kind, tuple(rows), tuple(pairs)), make)
        return found

    def _stored(self, edge: Edge, node: int, needs: Sequence[Needs]) -> None:
        """What is held of an input of the graph all the time."""
        if not self.limited:
            return
        form = self.form
        times = {"parameter": OF_A_PARAMETER + form.states, "buffer": 1}.get(edge.kind, 0)
        sizes = form.sizes_of(edge)
        stored = [sizes[mask_of(form.ways.layouts[form.ways.stored(n)])] for n in needs]
        held = times * np.array(stored) + form.copies(edge, [None], needs)[0]
        self._hold(node, 0, form.end, held)

    def _hold(self, node: int, start: int, stop: int, held: Any) -> None:
        self.usages[node].append((start, stop, np.asarray(held, np.int64)))

    def _add(self, node: int, costs: Numbers) -> None:
        before = self.node_costs[node]
        key = "sum", id(before), id(costs)
        self.node_costs[node] = self.form.once(
            key, lambda: (before, costs, np.minimum(before + costs, FORBIDDEN))
        )[2]


def _share(table: Numbers, first: bool, count: int) -> Numbers:
    own = table // count
    if first:
        own = table - (count - 1) * own
    return np.where(table >= FORBIDDEN, FORBIDDEN, own)
