"""A graph, a mesh and a machine as the `Problem` that a search solves.

    an operator    its options: a choice on every axis, legal for all sizes that the plan serves
    a value        what it costs to bring it from how it is made to all that it is needed as
    memory         parameters with gradients and optimiser states all the time, and of all else what
                   a rank holds at least (`least_held`): no plan that fits is left out

A value with one user stands at the edge between the two. One with several has a node of its own,
whose options are sets of needs: conversions are shared. Where these sets are too many the value is
*relaxed*: its users share the price of the dearest of their needs, so that what is said is never
too much, and exact where all need the same. A problem with relaxed values bounds the exact one from
below; and the options that it leaves below a known plan have few sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import combinations, product
from math import prod
from typing import Any, TypeVar, cast

import numpy as np

from dimsolve.solver.algebra.dims import evaluate
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.shapes import dim_of_text

from ..checkpoints import extents_of
from ..communication import shared_bytes
from ..cost import GROUPS, Costs, points_of
from ..layout import Layout, local_dims
from ..mesh import Mesh, part_symbol
from ..placement import Partial, Shard
from ..plan_data import Gradient
from ..reshard import Collective, conversion, item_bytes, sends
from ..search.clock import Clock
from ..search.problem import FORBIDDEN, Held, Numbers, Problem
from ..transit import Way, held_by
from .assemble import sends_of
from .cases import PLAIN, Case, Stored, StoredUses
from .conversions import shape_text
from .inside import Inside
from .least_held import Hold, LeastHeld
from .network import Edge, Network, Operator
from .requirements import Uneven
from .vocabulary import Option, Vocabulary
from .ways import Cut, Needs, Price, Ways, cut_of

MOST_PAIRS = 600
"""Ways to make a value times sets of its needs, up to which it has a node of its own."""

UNITS = 26
"""Bits of a limit of memory: what is held is counted in units of so many bytes that no more are
needed, so that prices of a unit can be whole numbers. What a unit is not filled by is left out.
"""

MOST_PAIRED = 4
"""Users of a relaxed value, up to which they bear its price in pairs."""

M = TypeVar("M")
Kept = list[list[Option]]
"""Options of every operator; alike operators have the same list."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A problem whose first nodes are the operators. ``relaxed``: how many values are. ``unit``:
    bytes in which what is held is counted.
    """

    problem: Problem
    options: Kept
    relaxed: int
    unit: int = 1


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
        case: Case = PLAIN,
        uneven: Uneven = "refuse",
    ) -> None:
        self.network, self.mesh, self.costs, self.sizes = network, mesh, costs, sizes
        # Of unequal parts the first is the longest.
        self.first = {part_symbol(axis): 1 for axis in mesh.names}
        self.memory, self.states = memory, states
        self.numbers: dict[Dim, int] = {}
        self.vocabulary = Vocabulary(network, mesh, self.value, uneven)
        self.ways = Ways(network, list(costs.mesh.items()), self._holds_at)
        self.counts = self.ways.counts
        self.known: dict[Any, Any] = {}
        self._take(case)

    def _take(self, case: Case) -> None:
        network = self.network
        self.case = case
        self.stored = StoredUses(network, self.mesh, case)
        nodes = [operator.node.id for operator in network.operators]
        self.extents = extents_of(nodes, case.regions)
        self.around: list[list[int]] = [[] for _ in nodes]
        for number, extent in enumerate(self.extents):  # the outer ones first
            for operator in range(extent.start, extent.stop):
                self.around[operator].append(number)
        self._least: LeastHeld | None = None
        self._holds: dict[int, list[Hold]] = {}

    def of(self, case: Case, memory: int | None) -> Formulation:
        """Returns the formulation of another case, and with this limit; the two share what both
        have in common.
        """
        found = copy(self)
        found.memory = memory
        found._take(case)
        return found

    @property
    def least(self) -> LeastHeld:
        """What a rank holds at least."""
        if self._least is None:
            sizes = [self.size_of(edge) for edge in self.network.edges]
            self._least = LeastHeld(self.network, self.extents, sizes)
            for hold in self._least.holds():
                self._holds.setdefault(hold.operator, []).append(hold)
        return self._least

    def value(self, dim: Dim) -> int:
        """Returns a length at the sizes."""
        if isinstance(dim, int):
            return dim
        if dim not in self.numbers:
            self.numbers[dim] = evaluate(dim, {**self.first, **self.sizes})
        return self.numbers[dim]

    def _holds_at(self, length: Dim, parts: int) -> bool:
        return self.value(length) % parts == 0

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
        runs = 1 + len(self.around[operator.number])
        key = "operator", operator.node.name, operator.skipped, kinds, id(options), runs

        def make() -> Numbers:
            costs = [self._operator_cost(operator, o, tensors, runs) for o in options]
            return np.array(costs, np.int64)

        found: Numbers = self.once(key, make)
        return found

    def least_alone(self, options: Kept) -> int:
        """Returns what all operators cost at least, each alone: values cost nothing less."""
        own = zip(self.network.operators, options, strict=True)
        costs = [self.operator_costs(operator, each) for operator, each in own]
        return sum(int(each.min(initial=FORBIDDEN)) for each in costs)

    def _operator_cost(
        self, operator: Operator, option: Option, tensors: Sequence[Edge | None], runs: int
    ) -> int:
        if operator.skipped:
            return 0
        count = len(operator.inputs)
        moved = sum(
            self.size_of(edge, tuple([choice.at(n) for choice in option.choices]))
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
        function = operator.node.name
        group = GROUPS.get(function, ("", 0))[0]
        given_all = [
            count
            for (_, count), choice in zip(self.mesh.axes, option.choices, strict=True)
            if choice.name == group
            and not (choice.rule is not None and local.rules[choice.rule].routes)
        ]
        among = prod(map(self.value, given_all))
        points = cast("int", points_of(function, lengths, among))
        outputs = operator.node.outputs
        dtype = outputs[0].dtype if outputs else None
        total = self.costs.operator(function, points, moved, dtype, gradient, lengths, runs)
        if any(choice.rule is not None for choice in option.choices):
            sent = sends_of(self.network, self.mesh, operator, local, option.choices, {})
            for each in sent:
                if each.runs == "always":
                    size = self.value(dim_of_text(each.bytes))
                    times = runs if each.direction == "forward" else 1
                    total += times * self.costs.collective(each.collective, each.axis, size)
        return total

    # of values -----------------------------------------------------------------------------------

    def size_of(self, edge: Edge, layout: Layout = ()) -> int:
        """Returns the bytes of a value, or of the longest part of it; 0 where its shape is not
        known.
        """
        return self.part_of(edge, cut_of(layout, self.counts[: len(layout)]))

    def part_of(self, edge: Edge, cut: Cut) -> int:
        """Returns the bytes of the longest part of a value of which so many units are dealt out."""
        known: dict[Cut, int] = self.once(("sizes", edge.dims, edge.dtype), dict)
        if cut not in known:
            known[cut] = self._part_of(edge, cut)
        return known[cut]

    def _part_of(self, edge: Edge, cut: Cut) -> int:
        if edge.dims is None or None in edge.dims:
            return 0
        whole = prod(self.value(d) for d in edge.dims if d is not None) * item_bytes(edge.dtype)
        if whole == 0:
            return 0
        units = [self.value(each) for each in cut]
        most = [-(-own // n) for own, n in zip(units, self.counts, strict=False) if own > 1]
        return whole * prod(most) // prod(units)

    def price(self, edge: Edge) -> Price:
        """Returns the picoseconds of collectives along an axis for a value that some axes cut."""
        unknown = edge.dims is None or None in edge.dims

        def price(axis: int, collectives: tuple[Collective, ...], cut: Cut) -> int:
            name, count = self.mesh.axes[axis]
            size = item_bytes(edge.dtype) if unknown else self.part_of(edge, cut)
            size *= self.counts[axis] if cut[axis] != 1 else 1
            sent = self.value(sends(collectives, size, count))
            each = shared_bytes(collectives, sent, self.counts[axis])
            return sum(self.costs.collective(kind, name, own) for kind, own in each)

        return price

    def prices(self, edge: Edge, made: Sequence[int | None], needs: Sequence[Needs]) -> Numbers:
        """Returns for ways to make a value (rows) and sets of needs (columns) the time to bring it
        there; FORBIDDEN where there is no way.
        """
        again = self.again(edge)
        kind = edge.dims, edge.dtype, edge.gradient, again
        table = self.ways.table(edge, made, needs)
        key = "prices", kind, id(table)

        def make() -> Numbers:
            many = len(self.ways)
            prices = self.once(
                ("ways", kind, many), lambda: self.ways.prices(edge, self.price(edge), again)
            )
            return np.asarray(prices[table], np.int64)

        found: Numbers = self.once(key, make)
        return found

    def at_least(self, edge: Edge, made: Sequence[int | None], needs: Sequence[Needs]) -> Numbers:
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

    def returning(self, edge: Edge, made: Sequence[int], needs: Sequence[Needs]) -> Numbers:
        """Returns the bytes that are held while a value is made whole for the caller, beside the
        whole: what it is made of, and what that conversion needs. Rows are the ways to make it,
        columns what its only user needs.
        """
        key = "returning", edge.dims, edge.dtype, edge.gradient, tuple(made), tuple(needs)

        def make() -> Numbers:
            rows, columns = list(dict.fromkeys(made)), list(dict.fromkeys(needs))
            found = np.array([[self._returning(edge, m, own) for own in columns] for m in rows])
            at = {m: n for n, m in enumerate(rows)}, {own: n for n, own in enumerate(columns)}
            return found[np.ix_([at[0][m] for m in made], [at[1][own] for own in needs])]

        return self.once(key, make)

    def _returning(self, edge: Edge, made: int, needs: Needs) -> int:
        ways, names, facts = self.ways, self.mesh.names, self.network.facts
        given = [ways.needs[n] for n in sorted(needs)]
        step = ways.conversions.last_step(edge, ways.layouts[made], given)
        if step is None:
            return 0
        before, after = step.before[step.axis], step.after[step.axis]
        forward = conversion(before, after, step.shared).forward
        if not forward:
            return 0
        shapes = [
            local_dims(edge.dims, each, self.counts, facts) for each in (step.before, step.after)
        ]
        own, whole = (self.bytes_of(shape_text(shape), edge.dtype) for shape in shapes)
        lengths = [0 if dim is None else self.value(dim) for dim in shapes[0] or ()]
        way = Way(names[step.axis], str(before), str(after), forward)
        return own + held_by(way, own, whole, lengths, self.counts[step.axis])

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
            layouts = ways.between(edge, [m for m in made if m is not None], asked)
            plain = (False,) * len(self.counts)
            points = [frozenset([ways.need((ways.layouts[m], plain))]) for m in layouts]
            both = {s for a, b in combinations(needs, 2) for s in set(a) & set(b)}
            shared = sorted([s for s in both if any(any(ways.needs[n][1]) for n in s)], key=sorted)

            def onward(own: Sequence[Needs]) -> Numbers:
                table = np.full((len(points) + len(shared), len(own)), FORBIDDEN, np.int64)
                table[: len(points)] = self.at_least(edge, layouts, own)
                for number, each in enumerate(shared):
                    table[len(points) + number, [each == n for n in own]] = 0
                return table

            return self.at_least(edge, made, [*points, *shared]), [onward(own) for own in needs]

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

    def storage(self, edge: Edge, needs: Mapping[int, Needs], returned: Needs) -> Stored:
        """Returns what it takes to store a parameter whose users need it so."""
        given = {user: [self.ways.needs[n] for n in sorted(own)] for user, own in needs.items()}
        if returned:
            given[len(self.network.operators)] = [self.ways.needs[n] for n in returned]
        places = [self.stored.place(user) for user in given]
        alike = tuple([None if place is None else places.index(place) for place in places])
        fixed = self.stored.storage.is_whole(edge)
        kind = edge.dims, edge.dtype, edge.gradient, fixed, alike
        key = "storage", self.case.states, kind, tuple(map(tuple, given.values()))
        found: Stored = self.once(key, lambda: self.stored.of(self, edge, given))
        return found

    def more(self, other: Formulation) -> int | None:
        """Returns what a choice of operators costs more in this case than in another, at least,
        memory aside: what is run again, and what parameters cost, whatever they are needed as.
        Below 0 where some may cost less; None where there are too many ways to need one.
        """
        mine, theirs = self.case, other.case
        if theirs.recompute and not mine.recompute:
            return None
        options, total = self.options(), 0
        if mine.regions != theirs.regions:
            for operator, own in zip(self.network.operators, options, strict=True):
                again, once = (form.operator_costs(operator, own) for form in (self, other))
                total += int((again - once).min(initial=FORBIDDEN))
        differ = mine.states != theirs.states or mine.regions != theirs.regions
        if differ and (mine.states or theirs.states):
            for edge in self.network.edges:
                found = self.more_for(other, edge, options) if edge.parameter else 0
                if found is None:
                    return None
                total += found
        return total

    def more_for(self, other: Formulation, edge: Edge, options: Kept) -> int | None:
        """Returns what a parameter costs more than in another case, at least, whatever it is needed
        as; None where there are too many ways to need it.
        """
        users: dict[int, list[int]] = {}
        for number, place in edge.uses:
            if not self.network.operators[number].skipped:
                users.setdefault(number, []).append(place)
        forms = self, other
        fixed = [form.stored.storage.is_whole(edge) for form in forms]
        places = [[form.stored.place(user) for user in users] for form in forms]
        alike = [tuple(map(each.index, each)) for each in places]
        asked = [(id(options[n]), tuple(places)) for n, places in users.items()]
        kind = edge.dims, edge.dtype, edge.gradient, edge.returned, *asked
        key = "more", self.case.states, other.case.states, *fixed, *alike, kind

        def make() -> tuple[Any, int | None]:
            own = [
                dict.fromkeys(self.needs_of(edge, tuple(places), options[number]))
                for number, places in users.items()
            ]
            if prod(map(len, own)) > MOST_PAIRS:
                return options, None
            returned = frozenset([self.ways.whole]) if edge.returned else frozenset()
            every = [dict(zip(users, each, strict=True)) for each in product(*own)]
            costs = [[form.storage(edge, e, returned).cost for e in every] for form in forms]
            least = min((mine - theirs for mine, theirs in zip(*costs, strict=True)), default=0)
            return options, least

        return self.once(key, make)[1]

    def text(self, text: str) -> int:
        """Returns the value of a length that is written."""
        found: int = self.once(("text", text), lambda: self.value(dim_of_text(text)))
        return found

    def bytes_of(self, shape: Sequence[str | None] | None, dtype: str | None) -> int:
        """Returns the bytes of a tensor; 0 where its shape is not known."""
        if shape is None or None in shape:
            return 0
        return prod(self.text(text) for text in shape if text is not None) * item_bytes(dtype)

    # of memory -----------------------------------------------------------------------------------

    def held(self, operator: Operator, options: list[Option]) -> list[Held]:
        """Returns what a rank holds at least because of an operator's options."""
        end = self.least.times.end + 1
        found: dict[tuple[int, int], Numbers] = {}
        for hold in self._holds.get(operator.number, ()):
            own = self._held(hold, operator, options)
            when = hold.start, min(hold.stop, end)
            found[when] = found[when] + own if when in found else own
        return [(a, b, own) for (a, b), own in sorted(found.items(), key=lambda e: e[0])]

    def _held(self, hold: Hold, operator: Operator, options: list[Option]) -> Numbers:
        edges = self.network.edges
        if hold.what in ("made", "kept", "whole"):
            number = operator.outputs[hold.place]
            assert number is not None
            if hold.what == "whole":
                return np.full(len(options), self.size_of(edges[number]))
            return self._bytes_made(edges[number], hold.place, options, hold.what == "kept")
        if hold.what == "given":
            number = operator.inputs[hold.place]
            assert number is not None
            return self._bytes_given(edges[number], hold.place, options)
        if hold.what == "fused":
            number = operator.outputs[hold.place]
            assert number is not None
            each = self._inside(operator, options)
            fused = np.array([own.attention().fused for own in each], np.int64)
            made = self._bytes_made(edges[number], hold.place, options)
            return np.asarray(made * fused, np.int64)
        return self._alone(hold, operator, options)

    def _alone(self, hold: Hold, operator: Operator, options: list[Option]) -> Numbers:
        """What an operator keeps for its backward pass, or makes and is given in it."""
        edges, least = self.network.edges, self.least
        outputs = [(place, edges[n]) for place, n in enumerate(operator.outputs) if n is not None]
        inputs = [(place, edges[n]) for place, n in enumerate(operator.inputs) if n is not None]
        kinds = tuple([(e.dims, e.dtype, e.gradient) for _, e in (*inputs, *outputs)])
        come = tuple([e.number in least.reached and least.summed(e.number) for _, e in outputs])
        alike = tuple([e.number for _, e in inputs])
        same = tuple(map(alike.index, alike))
        key = hold.what, operator.node.signature, id(options), kinds, come, same

        def make() -> tuple[Any, Numbers]:
            inside = self._inside(operator, options)
            if hold.what == "extra":
                return options, np.array([each.kept() for each in inside], np.int64)
            total = np.zeros(len(options), np.int64)
            for (place, edge), counts in zip(outputs, come, strict=True):
                total = total + (self._bytes_made(edge, place, options) if counts else 0)
            new: dict[int, Numbers] = {}
            for place, edge in inputs:
                if edge.gradient == "always":
                    own = self._bytes_given(edge, place, options)
                    new[edge.number] = np.maximum(new.get(edge.number, 0), own)
            each_new = [{n: int(own[k]) for n, own in new.items()} for k in range(len(options))]
            made = [each.back(own) for each, own in zip(inside, each_new, strict=True)]
            return options, total + np.array(made, np.int64)

        return self.once(key, make)[1]

    def _inside(self, operator: Operator, options: list[Option]) -> list[Inside]:
        return [Inside(self, operator, option) for option in options]

    def lengths_of(self, edge: Edge, layout: Layout) -> tuple[int, ...] | None:
        """Returns the lengths of the longest part of a value; None where one is not known."""

        def make() -> tuple[int, ...] | None:
            local = local_dims(edge.dims, layout, self.counts, self.network.facts)
            if local is None or None in local:
                return None
            return tuple([self.value(dim) for dim in local if dim is not None])

        return self.once(("lengths of", edge.dims, layout), make)

    def _bytes_made(
        self, edge: Edge, output: int, options: list[Option], kept: bool = False
    ) -> Numbers:
        key = "bytes made", edge.dims, edge.dtype, id(options), output, kept

        def make() -> tuple[Any, Numbers]:
            made = [option.made(output) for option in options]
            if kept:
                made = [_as_cut(layout) for layout in made]
            return options, np.array([self.size_of(edge, layout) for layout in made], np.int64)

        return self.once(key, make)[1]

    def _bytes_given(self, edge: Edge, place: int, options: list[Option]) -> Numbers:
        key = "bytes given", edge.dims, edge.dtype, id(options), place

        def make() -> tuple[Any, Numbers]:
            given = [option.need(place, False)[0] for option in options]
            return options, np.array([self.size_of(edge, layout) for layout in given], np.int64)

        return self.once(key, make)[1]

    def largest(self, operator: int) -> int | None:
        """Returns the largest parameter that an operator uses."""
        given = {n for n in self.network.operators[operator].inputs if n is not None}
        found = [n for n in sorted(given) if self.network.edges[n].parameter]
        return max(found, key=lambda n: self.size_of(self.network.edges[n]), default=None)

    def given(self) -> int:
        """Returns the bytes of what the caller gives, which is there all the time."""
        inputs = [edge for edge in self.network.edges if edge.kind == "input"]
        return sum(self.size_of(edge) for edge in inputs)

    # of regions ----------------------------------------------------------------------------------

    def again(self, edge: Edge) -> tuple[int, int]:
        """Returns how often a value's conversions run forward at least: those that may stay out of
        the regions that it is used in, and the others.
        """
        users = {n for n, _ in edge.uses if not self.network.operators[n].skipped}
        if not self.extents or edge.returned or not users:
            return 1, 1
        regions = [self.around[n] for n in users]
        if any(each != regions[0] for each in regions):
            return 1, 1
        own = [] if edge.producer is None else self.around[edge.producer[0]]
        common = sum(1 for region in regions[0] if region in own)
        return 1 + common, 1 + len(regions[0])


def _as_cut(layout: Layout) -> Layout:
    """With a cut for every partial sum: of such a value at least as much is held as of a part."""
    return tuple([Shard(0) if isinstance(p, Partial) else p for p in layout])


class _Instance:
    """A problem while it is made."""

    def __init__(self, form: Formulation, options: Kept, most: int) -> None:
        self.form, self.options, self.most = form, options, most
        self.network = form.network
        self.limited = form.memory is not None
        self.unit = 1 << max(0, (form.memory or 0).bit_length() - UNITS)
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
            for start, stop, held in form.held(operator, options) if self.limited else ():
                self._hold(operator.number, start, stop, held)
        for edge in self.network.edges:
            clock.check()
            self._value(edge)
        if self.limited and self.options:
            given = np.full(len(self.options[0]), form.given())
            self._hold(0, 0, form.least.times.end + 1, given)
        limit = None if form.memory is None else form.memory // self.unit
        problem = Problem.of(self.node_costs, self.edges, self.usages, limit)
        return Instance(problem, self.options, self.relaxed, self.unit)

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
        if not given:
            self._add(producer, self._first(form.prices(edge, made, [returned]).T))
            return
        if returned:
            self._returning(edge, producer, made, given)
            given = {user: self._with(needs, returned) for user, needs in given.items()}
        if len(given) == 1:
            ((user, needs),) = given.items()
            self.edges.append((producer, user, form.prices(edge, made, needs)))
            return
        sets = self._sets(given.values(), returned, len(set(made)))
        if sets is None:
            self._relax(edge, producer, made, given)
            return
        number = len(self.node_costs)
        self.usages.append([])
        self.node_costs.append(self._nothing(len(sets)))
        self.edges.append((producer, number, form.prices(edge, made, sets)))
        for user, needs in given.items():
            self.edges.append((user, number, self._allowed(needs, sets)))

    def _returning(
        self, edge: Edge, producer: int, made: list[int], given: Mapping[int, list[Needs]]
    ) -> None:
        """What is held while the caller's largest result is brought together. That depends on two
        operators: a node of its own stands for each kind of pairs.
        """
        if not self.limited or self.form.least.brought != edge.number or len(given) != 1:
            return
        ((user, needs),) = given.items()
        table = self.form.returning(edge, made, needs)
        _, first, rows = np.unique(table, return_index=True, return_inverse=True, axis=0)
        few, columns = np.unique(table[first], return_inverse=True, axis=1)
        rows, columns = rows.reshape(-1), columns.reshape(-1)
        if not few.any() or few.size > self.most:
            return
        hub, turn = len(self.node_costs), self.form.least.times.turn
        self.node_costs.append(self._nothing(few.size))
        self.usages.append([])
        self._hold(hub, turn, turn + 1, few.reshape(-1))
        place = np.arange(few.size).reshape(few.shape)
        for node, kinds, axis in ((producer, rows, 0), (user, columns, 1)):
            own = [np.isin(place.reshape(-1), place.take(kind, axis)) for kind in kinds]
            self.edges.append((node, hub, np.where(np.array(own), 0, FORBIDDEN)))

    def _with(self, needs: list[Needs], returned: Needs) -> list[Needs]:
        key = "returned", id(needs)
        return self.form.once(key, lambda: (needs, [n | returned for n in needs]))[1]

    def _input(self, edge: Edge, given: Mapping[int, list[Needs]], returned: Needs) -> None:
        """What a caller gives, and parameters."""
        form = self.form
        if not given:
            return
        if edge.parameter and form.case.states:
            self._parameter(edge, given, returned)
            return
        if len(given) == 1:
            ((user, own),) = given.items()
            needs = own if not returned else [n | returned for n in own]
            self._add(user, self._first(form.prices(edge, [None], needs)))
            self._stored(edge, user, needs, user)
            return
        sets = self._sets(given.values(), returned, 1)
        if sets is None:
            self._relax(edge, None, [None], given)
            return
        number = len(self.node_costs)
        self.usages.append([])
        self.node_costs.append(self._first(form.prices(edge, [None], sets)))
        for user, needs in given.items():
            self.edges.append((user, number, self._allowed(needs, sets)))
        self._stored(edge, number, sets, None)

    def _parameter(self, edge: Edge, given: Mapping[int, list[Needs]], returned: Needs) -> None:
        """A parameter that may be stored in parts: with several users a node of its own says what
        each of them needs.
        """
        form, users = self.form, list(given)
        own = [list(dict.fromkeys(needs)) for needs in given.values()]
        if len(users) > 1 and prod(map(len, own)) > self.most:
            self.relaxed += 1
            return
        every = [dict(zip(users, each, strict=True)) for each in product(*own)]
        found = [form.storage(edge, each, returned) for each in every]
        if len(users) == 1:
            ((node, needs),) = given.items()
            place = {each: n for n, each in enumerate(own[0])}
            index = np.array([place[each] for each in needs])
            self._add(node, np.array([each.cost for each in found], np.int64)[index])
        else:
            node, index = len(self.node_costs), np.arange(len(every))
            self.usages.append([])
            self.node_costs.append(np.array([each.cost for each in found], np.int64))
            for user, needs in given.items():
                table = [[each == own[user] for own in every] for each in needs]
                self.edges.append((user, node, np.where(np.array(table), 0, FORBIDDEN)))
        if not self.limited:
            return
        times, end = form.least.times, form.least.times.end + 1
        all_the_time = [(2 + form.states) * each.stored + each.kept for each in found]
        self._hold(node, 0, end, np.array(all_the_time)[index])
        for number, user in enumerate(users):
            if form.largest(user) != edge.number:
                continue  # several may be in several blocks, of which one counts
            forward = np.array([each.forward[number] for each in found])[index]
            backward = np.array([each.backward[number] for each in found])[index]
            for run in times.runs[user]:
                self._hold(node, run, run + 1, forward)
            if form.least.runs_backward(self.network.operators[user]):
                back = times.back[user]
                self._hold(node, back, back + 1, backward)
        if len(users) == 1 and form.least.runs_backward(self.network.operators[users[0]]):
            summed = np.array([each.summed for each in found])[index]
            self._hold(node, times.back[users[0]] + 1, end, summed)

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
                least = self.form.at_least(edge, made, needs)
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

    def _allowed(self, needs: Sequence[Needs], sets: Sequence[Needs]) -> Numbers:
        """0 for needs that a value's node has among its own, else FORBIDDEN."""

        def make() -> Numbers:
            free = [[each <= s for s in sets] for each in needs]
            return np.where(np.array(free, bool), 0, FORBIDDEN)

        found: Numbers = self.form.once(("needs", tuple(needs), tuple(sets)), make)
        return found

    def _stored(self, edge: Edge, node: int, needs: Sequence[Needs], user: int | None) -> None:
        """What is held of an input of the graph all the time, and of its gradient where that is
        summed over ranks. user: the only one.
        """
        if not self.limited or edge.kind not in ("parameter", "buffer"):
            return
        form = self.form
        times = 2 + form.states if edge.parameter else 1
        ways, end = form.ways, form.least.times.end + 1
        stored = np.array([form.size_of(edge, ways.layouts[ways.stored(n)]) for n in needs])
        self._hold(node, 0, end, times * stored)
        trained = edge.parameter and edge.gradient == "always" and user is not None
        if trained and form.least.runs_backward(self.network.operators[user or 0]):
            shared = [len(n) == 1 and any(any(ways.needs[m][1]) for m in n) for n in needs]
            back = form.least.times.back[user or 0]
            self._hold(node, back + 1, end, np.where(np.array(shared), stored, 0))

    def _hold(self, node: int, start: int, stop: int, held: Any) -> None:
        if start < stop:
            self.usages[node].append((start, stop, np.asarray(held, np.int64) // self.unit))

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
