"""The policy ``"auto"``: the plan of least time, found by an exact search over all axes at once.

The decisions become a `Problem` of whole numbers, picoseconds and bytes:

    an operator    its options: a choice on every axis, legal for all sizes that the plan serves
    a value        its sets of needs: the placements that it is brought to; what that costs depends
                   on how it is made. With one user it stands at the edge between the two
    memory         parameters with gradients and optimiser states all the time; what is made from
                   the operator that makes it to its last use, or to the end where the backward
                   pass needs it; what it is converted to likewise, from the value on

What the search adds up is what `dimsolve.partition.cost` says of the plan, to the picosecond: the
plan's own conversions are priced, not an estimate of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np

from dimsolve.solver.algebra.dims import evaluate
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.shapes import dim_of_text

from ..aliasing import VIEWS
from ..communication import shared_bytes
from ..cost import Costs
from ..layout import Layout, Step, local_dims
from ..machine import Machine
from ..mesh import Mesh
from ..placement import Partial, Reduction, Replicate, Shard
from ..plan_data import PlanData, PlanError, SearchRecord, Split, problem
from ..reshard import conversion, item_bytes, sends
from ..search.check import NotProved, check_bound, check_choice
from ..search.problem import FORBIDDEN, Held, Numbers, Problem
from ..search.search import Answer, solve
from .assemble import sends_of, split_of
from .axis_state import AxisState, stored
from .choices import Choice, OperatorClass, R
from .completion import loses_digits
from .conversions import Flags, SharedConversions, Use
from .network import Edge, Network, Operator
from .requirements import Requirements

Need: TypeAlias = tuple[Layout, Flags]
Needs: TypeAlias = frozenset[int]
"""Numbers of needs: numbers are compared and looked up faster."""

NO_SIZES = problem(
    "no-size",
    "a size is missing",
    "the policy 'auto' needs a size for {missing}: they say which plan is fastest",
    "write dimsolve.plan(graph, mesh, 'auto', sizes={{{known}}})",
)
SYMBOLIC_MESH = problem(
    "symbolic-mesh",
    "the policy 'auto' needs a mesh of numbers",
    "the size of '{axis}' is {count}",
)
NOTHING_FITS = problem(
    "nothing-fits",
    "no plan fits in the memory of a rank",
    "the limit is {limit}, and it is proved that every plan needs more than {least}; one with "
    "{found} is known",
    "take more ranks, smaller sizes, or regions that are run again in the backward pass",
)
NOT_FOUND = problem(
    "not-found",
    "no plan was found that fits in the memory of a rank",
    "the limit is {limit}; whether there is one was not proved",
    "give the search more seconds",
)

Kind: TypeAlias = tuple[OperatorClass, bool]
"""A class of operators, and whether they are whole on every rank."""

Context: TypeAlias = tuple[tuple[Choice, ...], OperatorClass]
"""What outer axes have chosen, and what that leaves a rank with."""

MOST_SETS = 256
"""A value with more sets of placements than that is brought to one, and whole beside it."""

CACHED_PARAMETER = 2
"""A parameter and its gradient; optimiser states come on top."""


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """Choices on all axes, and the class of what a rank is left with. Compared by identity."""

    choices: tuple[Choice, ...]
    local: OperatorClass

    def made(self, output: int) -> Layout:
        """Returns how an output is made."""
        return tuple([choice.outputs[output] for choice in self.choices])

    def need(self, place: int, gradient: bool) -> Need:
        """Returns what is needed of an input."""
        needs = [choice.needs[place] for choice in self.choices]
        return tuple([p for p, _ in needs]), tuple([gradient and s for _, s in needs])


class Vocabulary:
    """The options of every kind of operator: those of its rules, and the blocks that neighbours ask
    for. kinds: operators of one class, all pinned or none.
    """

    def __init__(self, network: Network, mesh: Mesh, value: Callable[[Dim], int]) -> None:
        self.network = network
        self.mesh = mesh
        self.value = value
        self.requirements = [Requirements(count, network.facts) for _, count in mesh.axes]
        self.links = self._links()
        self.known: dict[Kind, list[Option]] = {}
        found: dict[Kind, list[Context]] = {
            _kind(op): [((), op.op_class)] for op in network.operators
        }
        for axis, (_, count) in enumerate(mesh.axes):
            choices = self._choices(axis, found)
            found = {
                kind: [
                    ((*before, choice), op_class.local(choice, count))
                    for number, (before, op_class) in enumerate(each)
                    for choice in choices[kind, number]
                ]
                for kind, each in found.items()
            }
        self.known = {kind: [Option(*each) for each in found[kind]] for kind in found}

    def of(self, operator: Operator) -> list[Option]:
        """Returns the options of an operator; what would lose digits is none."""
        options = self.known[_kind(operator)]
        state = AxisState.__new__(AxisState)
        state.network = self.network
        lost = {
            id(choice)
            for option in options
            for choice in option.choices
            if choice.partial and loses_digits(state, operator.number, choice)
        }
        return [o for o in options if not any(id(c) in lost for c in o.choices)]

    def _links(self) -> dict[Any, dict[tuple[Any, int], None]]:
        """(kind, tensor) -> the (kind, tensor) that are the same value somewhere in the graph."""
        links: dict[Any, dict[tuple[Any, int], None]] = {}
        for edge in self.network.edges:
            ends = [(_kind(self.network.operators[n]), place) for n, place in edge.uses]
            if edge.producer is not None:
                operator = self.network.operators[edge.producer[0]]
                ends.append((_kind(operator), operator.op_class.inputs + edge.producer[1]))
            ends = list(dict.fromkeys(ends))
            for end in ends:
                links.setdefault(end, {}).update(dict.fromkeys(e for e in ends if e != end))
        return links

    def _choices(
        self, axis: int, contexts: Mapping[Kind, list[Context]]
    ) -> dict[tuple[Kind, int], list[Choice]]:
        """The choices along one axis, for every context: what outer axes have chosen. What one end
        of a value offers is asked of the other where outer axes leave the value alike.
        """
        found: dict[tuple[Kind, int], dict[Choice, None]] = {}
        queue: list[tuple[Kind, int, Choice]] = []
        alike: dict[tuple[Kind, int, Layout], list[int]] = {}

        def add(kind: Kind, number: int, choice: Choice) -> None:
            own = found[kind, number]
            if choice not in own and self._legal(axis, choice):
                own[choice] = None
                queue.append((kind, number, choice))

        for kind, each in contexts.items():
            for number, (before, op_class) in enumerate(each):
                found[kind, number] = {op_class.whole: None}
                if not kind[1]:
                    for tensor in range(len(op_class.tensors)):
                        layout = tuple([choice.at(tensor) for choice in before])
                        alike.setdefault((kind, tensor, layout), []).append(number)
                    for choice in op_class.choices():
                        add(kind, number, choice)
        while queue:
            kind, number, choice = queue.pop()
            before, op_class = contexts[kind][number]
            for tensor in range(len(op_class.tensors)):
                placement, layout = choice.at(tensor), tuple([c.at(tensor) for c in before])
                if isinstance(placement, Replicate):
                    continue
                for other, place in self.links.get((kind, tensor), ()):
                    for near in alike.get((other, place, layout), ()):
                        theirs = contexts[other][near][1]
                        if isinstance(placement, Shard):
                            answer = theirs.spread(place, placement)
                            if isinstance(answer, Choice):
                                add(other, near, answer)
                        elif tensor >= op_class.inputs and isinstance(placement, Partial):
                            for passing in _passing(theirs, place, placement.reduction):
                                add(other, near, passing)
        return {key: list(each) for key, each in found.items()}

    def _legal(self, axis: int, choice: Choice) -> bool:
        """Whether a choice is legal, and its conditions hold at these sizes."""
        if self.requirements[axis].conditions_of(choice) is None:
            return False
        count = self.mesh.axes[axis][1]
        return all(
            self.value(each.length) % self.value(each.divisor * count) == 0
            for each in choice.requirements
        )


def _kind(operator: Operator) -> Kind:
    return operator.op_class, bool(operator.pinned or operator.skipped)


def _passing(op_class: OperatorClass, place: int, reduction: Reduction) -> Iterator[Choice]:
    """The choices in which a partial value passes that is made before this input."""
    for places in op_class.contract.linear:
        if place in places:
            choice = op_class.passing(frozenset(places), reduction)
            if choice is not None:
                yield choice


def _splits(option: Option, mesh: Mesh) -> dict[str, Split]:
    return {
        name: split_of(choice)
        for name, choice in zip(mesh.names, option.choices, strict=True)
        if not choice.whole
    }


class Builder:
    """Makes the problem of a graph and a mesh. ``options``: of every operator, which are the first
    nodes of the problem. ``hubs``: the other nodes, by value. ``restricted``: values that are
    brought to one placement, and whole beside it.
    """

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
        self.counts = tuple(int(count) for _, count in mesh.axes)  # type: ignore[arg-type]
        self.numbers: dict[Dim, int] = {}
        self.vocabulary = Vocabulary(network, mesh, self.value)
        self.conversions = SharedConversions(network, mesh.axes)
        self.needs: list[Need] = []
        self.layouts: list[Layout] = []
        self.numbers_of: tuple[dict[Need, int], dict[Layout, int]] = {}, {}
        self.whole = self.need(((R,) * len(self.counts), (False,) * len(self.counts)))
        self.options = [self.vocabulary.of(operator) for operator in network.operators]
        self.node_costs: list[Numbers] = []
        self.usages: list[list[Held]] = []
        self.edges: list[tuple[int, int, Numbers]] = []
        self.hubs: dict[int, tuple[int, list[tuple[int | None, Needs]]]] = {}
        self.restricted: list[str] = []
        self.ways: dict[tuple[int, Needs, bool], list[int]] = {}
        self.steps: list[Any] = [None, None]
        self.numbered: dict[Step, int] = {}
        self.prices: dict[Any, dict[int, int]] = {}
        self._known: dict[Any, Any] = {}
        self.last = self._last_uses()
        self.end = len(network.operators) + 1

    def value(self, dim: Dim) -> int:
        """Returns a length at the sizes."""
        if isinstance(dim, int):
            return dim
        if dim not in self.numbers:
            self.numbers[dim] = evaluate(dim, self.sizes)
        return self.numbers[dim]

    def need(self, need: Need) -> int:
        """Returns the number of a need."""
        known = self.numbers_of[0]
        if need not in known:
            known[need] = len(self.needs)
            self.needs.append(need)
        return known[need]

    def layout(self, layout: Layout) -> int:
        """Returns the number of a layout."""
        known = self.numbers_of[1]
        if layout not in known:
            known[layout] = len(self.layouts)
            self.layouts.append(layout)
        return known[layout]

    def cached(self, key: Any, make: Callable[[], Any]) -> Any:
        """Returns what was made for a key, once."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def problem(self) -> Problem:
        """Returns the problem."""
        for operator, options in zip(self.network.operators, self.options, strict=True):
            self.node_costs.append(self._operator_costs(operator, options))
            self.usages.append([])
        for edge in self.network.edges:
            self._value(edge)
        limit = self.memory
        return Problem.of(self.node_costs, self.edges, self.usages, limit)

    def chosen_in(self, plan: PlanData) -> list[int]:
        """Returns the options that a plan has taken; raises NotProved for what is none."""
        chosen = []
        for entry, operator, options in zip(
            plan.operators, self.network.operators, self.options, strict=True
        ):
            places = operator.declaration.places
            found = [
                number
                for number, option in enumerate(options)
                if _splits(option, self.mesh) == entry.splits
                and all(
                    [str(c.inputs[n]) for c in option.choices] == entry.operands[place].placements
                    for n, (edge, place) in enumerate(zip(operator.inputs, places, strict=False))
                    if edge is not None and place is not None and not operator.skipped
                )
            ]
            if not found:
                raise NotProved(f"the search knows no such option of {entry.node}")
            chosen.append(found[0])
        for number, (_, pairs) in self.hubs.items():
            edge = self.network.edges[number]
            needs: Needs = frozenset([self.whole]) if edge.returned else frozenset()
            for user in dict.fromkeys(n for n, _ in edge.uses):
                own = [p for n, p in edge.uses if n == user]
                needs |= self._needs(edge, user, own)[chosen[user]]
            made = None
            if edge.producer is not None and self.memory is not None:
                user, output = edge.producer
                made = self.layout(self.options[user][chosen[user]].made(output))
            if (made, needs) not in pairs:
                raise NotProved(
                    f"the search does not bring {edge.value.name} to so many placements"
                )
            chosen.append(pairs.index((made, needs)))
        return chosen

    # operators -----------------------------------------------------------------------------------

    def _operator_costs(self, operator: Operator, options: list[Option]) -> Numbers:
        edges = self.network.edges
        tensors = [None if n is None else edges[n] for n in (*operator.inputs, *operator.outputs)]
        kinds = tuple([None if e is None else (e.dims, e.dtype, e.gradient) for e in tensors])
        key = (operator.node.name, operator.skipped, kinds, tuple(map(id, options)))

        def make() -> Numbers:
            return np.array([self._operator_cost(operator, o, tensors) for o in options], np.int64)

        found: Numbers = self.cached(("operator", key), make)
        return found

    def _operator_cost(
        self, operator: Operator, option: Option, tensors: Sequence[Edge | None]
    ) -> int:
        if operator.skipped:
            return 0
        moved, count = 0, len(operator.inputs)
        for n, edge in enumerate(tensors):
            if edge is not None:
                layout = tuple([choice.at(n) for choice in option.choices])
                moved += self.local_bytes(edge, layout)
        made = [edge for edge in tensors[count:] if edge is not None]
        flags = [edge.gradient for edge in made]
        gradient = "always" if "always" in flags else "never"
        points = prod(self.value(length) for length in option.local.lengths.values())
        outputs = operator.node.outputs
        dtype = outputs[0].dtype if outputs else None
        total = self.costs.operator(operator.node.name, points, moved, dtype, gradient)  # type: ignore[arg-type]
        for sent in sends_of(self.network, self.mesh, operator, option.local, option.choices, {}):
            if sent.runs == "always":
                size = self.value(dim_of_text(sent.bytes))
                total += self.costs.collective(sent.collective, sent.axis, size)
        return total

    def local_bytes(self, edge: Edge, layout: Layout) -> int:
        """Returns the bytes of what a rank has of a value."""

        def make() -> int:
            dims = local_dims(edge.dims, layout, self.counts, self.network.facts)
            if dims is None or None in dims:
                return 0
            return prod(self.value(d) for d in dims if d is not None) * item_bytes(edge.dtype)

        found: int = self.cached(("bytes", edge.dims, edge.dtype, layout), make)
        return found

    # values --------------------------------------------------------------------------------------

    def _value(self, edge: Edge) -> None:
        """Adds the cost and the bytes of one value, between those who make and use it."""
        users: dict[int, list[int]] = {}
        for number, place in edge.uses:
            users.setdefault(number, []).append(place)
        producer = None if edge.producer is None else edge.producer[0]
        given = {number: self._needs(edge, number, places) for number, places in users.items()}
        returned: Needs = frozenset([self.whole]) if edge.returned else frozenset()
        if producer is not None:
            output = edge.producer[1]  # type: ignore[index]
            made = [self.layout(option.made(output)) for option in self.options[producer]]
            self._held_by_maker(edge, producer, made)
        if not users:
            if producer is not None:
                own = self._prices(edge, made, [returned])[:, 0]
                self.node_costs[producer] = self.node_costs[producer] + own
                if self.memory is not None:
                    held = np.array([self._copies(edge, m, returned) for m in made], np.int64)
                    self.usages[producer].append((producer, self._until(edge), held))
            return
        if len(users) == 1 and (self.memory is None or producer is None):
            (user,) = users
            needs = [n | returned for n in given[user]]
            if producer is None:
                self._stored_by(edge, user, needs)
            elif producer == user:
                raise AssertionError("an operator uses what it makes")
            else:
                self.edges.append((producer, user, self._prices(edge, made, needs)))
            return
        self._hub(edge, producer, made if producer is not None else None, given, returned)

    def _needs(self, edge: Edge, number: int, places: Sequence[int]) -> list[Needs]:
        gradient = edge.gradient != "never"
        if self.network.operators[number].skipped:
            return [frozenset()] * len(self.options[number])
        options = self.options[number]
        return [frozenset(self.need(o.need(p, gradient)) for p in places) for o in options]

    def _stored(self, needs: Needs) -> int:
        """The layout in which an input of the graph is stored that is needed so."""
        given = [self.needs[n] for n in needs]
        axes = range(len(self.counts))
        return self.layout(
            tuple([stored((lay[a], flags[a]) for lay, flags in given) for a in axes])
        )

    def _prices(self, edge: Edge, made: Sequence[int | None], needs: Sequence[Needs]) -> Numbers:
        """Returns for ways to make a value (rows) and sets of needs (columns) the time to bring it
        there; FORBIDDEN where there is no way. made: None for an input of the graph, which is
        stored as it is used. The steps are the same for all values that are made and needed so;
        only what they cost is not.
        """
        gradient = edge.gradient != "never"
        rows, columns = list(dict.fromkeys(made)), list(dict.fromkeys(needs))
        key = ("steps", gradient, tuple(rows), tuple(columns))
        steps = self.cached(key, lambda: self._steps_between(edge, rows, columns))
        kind = self.prices.setdefault((edge.dims, edge.dtype, edge.gradient), {0: 0, 1: FORBIDDEN})
        used, index = np.unique(steps, return_inverse=True)
        for number in used.tolist():
            if number not in kind:
                kind[number] = self._step(edge, self.steps[number])
        table = np.array([kind[n] for n in used.tolist()], np.int64)[index.reshape(steps.shape)]
        total = np.minimum(table.sum(2), FORBIDDEN)
        at = {r: n for n, r in enumerate(rows)}, {c: n for n, c in enumerate(columns)}
        found: Numbers = total[np.ix_([at[0][r] for r in made], [at[1][c] for c in needs])]
        return found

    def _steps_between(
        self, edge: Edge, rows: Sequence[int | None], columns: Sequence[Needs]
    ) -> Numbers:
        """The numbers of the steps from each row to each column; 0: none, 1: there is no way."""
        found = [[self._numbered(edge, made, needs) for needs in columns] for made in rows]
        longest = max((len(each) for row in found for each in row), default=0) or 1
        return np.array([[e + [0] * (longest - len(e)) for e in row] for row in found], np.int64)

    def _numbered(self, edge: Edge, made: int | None, needs: Needs) -> list[int]:
        """The numbers of the conversions from how a value is made to all that is needed."""
        start = self._stored(needs) if made is None else made
        key = start, needs, edge.gradient != "never"
        if key not in self.ways:
            uses = [Use(*self.needs[n], str(n)) for n in sorted(needs)]
            try:
                steps = self.conversions.steps(edge, self.layouts[start], uses)
            except AssertionError:
                self.ways[key] = [1]
                return self.ways[key]
            found = self.ways[key] = []
            for step in steps:
                if step not in self.numbered:
                    self.numbered[step] = len(self.steps)
                    self.steps.append(step)
                found.append(self.numbered[step])
        return self.ways[key]

    def _step(self, edge: Edge, step: Step) -> int:
        found = conversion(step.before[step.axis], step.after[step.axis], step.shared)
        axis, count = self.mesh.axes[step.axis]
        size = self.value(self.conversions.bytes_at(edge, step))
        ways = (found.forward, *([found.backward] if edge.gradient == "always" else []))
        total = 0
        for collectives in ways:
            sent = self.value(sends(collectives, size, count))
            for kind, own in shared_bytes(collectives, sent, count):  # type: ignore[arg-type]
                total += self.costs.collective(kind, axis, own)
        return total

    def _allowed(
        self,
        rows: Sequence[Any],
        columns: Sequence[Any],
        allowed: Callable[[Any, Any], bool],
        kind: str,
    ) -> Numbers:
        """0 for pairs that are allowed, else FORBIDDEN."""

        def make() -> Numbers:
            own, other = list(dict.fromkeys(rows)), list(dict.fromkeys(columns))
            small = np.array([[0 if allowed(r, c) else FORBIDDEN for c in other] for r in own])
            at = {r: n for n, r in enumerate(own)}, {c: n for n, c in enumerate(other)}
            return small[np.ix_([at[0][r] for r in rows], [at[1][c] for c in columns])]

        found: Numbers = self.cached((kind, tuple(rows), tuple(columns)), make)
        return found

    def _sets(self, edge: Edge, given: Iterable[list[Needs]], returned: Needs) -> list[Needs]:
        """The sets of needs that the users of a value may have together."""
        found: dict[Needs, None] = {returned: None}
        for needs in given:
            own = dict.fromkeys(needs)
            found = dict.fromkeys(a | b for a in found for b in own)
            if len(found) > MOST_SETS:
                self.restricted.append(edge.value.name)
                found = dict.fromkeys(s for s in found if self._plain(s))
        return sorted(found, key=lambda s: (len(s), sorted(s)))

    def _plain(self, needs: Needs) -> bool:
        return len({self.needs[n][0] for n in needs} - {self.needs[self.whole][0]}) <= 1

    def _hub(
        self,
        edge: Edge,
        producer: int | None,
        made: list[int] | None,
        given: Mapping[int, list[Needs]],
        returned: Needs,
    ) -> None:
        sets: list[Needs] = self.cached(
            ("sets", tuple(tuple(each) for each in given.values()), returned),
            lambda: self._sets(edge, given.values(), returned),
        )
        pairs: list[tuple[int | None, Needs]] = [(None, s) for s in sets]
        if made is not None and self.memory is not None:
            pairs = [(m, s) for m in dict.fromkeys(made) for s in sets]
        number = len(self.node_costs)
        self.hubs[edge.number] = number, pairs
        self.usages.append([])
        if made is None:
            self.node_costs.append(self._prices(edge, [None], sets)[0])
        elif self.memory is None:
            self.node_costs.append(np.zeros(len(pairs), np.int64))
            self.edges.append((producer, number, self._prices(edge, made, sets)))  # type: ignore[arg-type]
        else:
            own = self._prices(edge, list(dict.fromkeys(made)), sets)
            self.node_costs.append(own.reshape(-1))
            table = self._allowed(made, pairs, lambda m, pair: m == pair[0], "made")
            self.edges.append((producer, number, table))  # type: ignore[arg-type]
        for user, needs in given.items():
            table = self._allowed(needs, pairs, lambda n, pair: n <= pair[1], "needs")
            self.edges.append((user, number, table))
        if made is None:
            self._stored_by(edge, number, sets, priced=False)
        elif self.memory is not None:
            start = edge.producer[0] if edge.producer is not None else 0
            held = [self._copies(edge, m, s) for m, s in pairs]
            self.usages[number].append((start, self._until(edge), np.array(held, np.int64)))

    # memory --------------------------------------------------------------------------------------

    def _stored_by(
        self, edge: Edge, node: int, needs: Sequence[Needs], *, priced: bool = True
    ) -> None:
        """An input of the graph: what it costs to use it as it is stored, and what is stored."""
        if priced:
            self.node_costs[node] = self.node_costs[node] + self._prices(edge, [None], needs)[0]
        if self.memory is None:
            return
        times = {"parameter": CACHED_PARAMETER + self.states, "buffer": 1}.get(edge.kind, 0)
        layouts = [self._stored(n) for n in needs]
        held = [
            times * self.local_bytes(edge, self.layouts[layout]) + self._copies(edge, layout, n)
            for layout, n in zip(layouts, needs, strict=True)
        ]
        self.usages[node].append((0, self.end, np.array(held, np.int64)))

    def _held_by_maker(self, edge: Edge, producer: int, made: Sequence[int]) -> None:
        operator = self.network.operators[producer]
        if self.memory is None or operator.skipped or operator.node.name in VIEWS:
            return
        held = [self.local_bytes(edge, self.layouts[layout]) for layout in made]
        self.usages[producer].append((producer, self._until(edge), np.array(held, np.int64)))

    def _until(self, edge: Edge) -> int:
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

    def _copies(self, edge: Edge, made: int | None, needs: Needs) -> int:
        """The bytes of what a value is converted to."""
        if made is None:
            return 0
        steps = [self.steps[n] for n in self._numbered(edge, made, needs) if n > 1]
        return sum(
            self.local_bytes(edge, step.after)
            for step in steps
            if conversion(step.before[step.axis], step.after[step.axis], step.shared).forward
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """What a search is asked beside graph and mesh: the machine, the sizes, bytes of memory of a
    rank (None: as much as it takes), optimiser states per parameter, and seconds to search.
    """

    machine: Machine
    sizes: Mapping[str, int]
    memory: int | None = None
    states: int = 2
    seconds: float = float("inf")


@dataclass(frozen=True, slots=True)
class Found:
    """The axes as decided, with the classes of what ranks are left with, and what is proved."""

    decided: list[tuple[AxisState, Requirements]]
    classes: list[OperatorClass]
    record: SearchRecord


def builder_of(network: Network, mesh: Mesh, asked: Asked) -> Builder:
    """Returns what makes the problem. Raises PlanError for sizes that are missing or none, and for
    a mesh of symbols.
    """
    for axis, count in mesh.axes:
        if not isinstance(count, int):
            raise SYMBOLIC_MESH(axis=axis, count=count)
    missing = sorted(network.classes.known - asked.sizes.keys())
    if missing:
        known = ", ".join(f'"{name}": 8' for name in sorted(network.classes.known))
        raise NO_SIZES(missing=", ".join(missing), known=known)
    costs = Costs(asked.machine, {axis: int(count) for axis, count in mesh.axes})  # type: ignore[arg-type]
    return Builder(network, mesh, costs, asked.sizes, asked.memory, asked.states)


def search(network: Network, mesh: Mesh, asked: Asked) -> Found:
    """Returns the decisions of least time. Raises PlanError where nothing fits in memory."""
    builder = builder_of(network, mesh, asked)
    problem = builder.problem()
    answer = solve(problem, seconds=asked.seconds)
    if answer.chosen is None:
        raise infeasible(problem, answer)
    taken = [options[k] for options, k in zip(builder.options, answer.chosen, strict=False)]
    decided: list[tuple[AxisState, Requirements]] = []
    conditions: dict[str, str] = {}
    classes = [operator.op_class for operator in network.operators]
    for number, (axis, count) in enumerate(mesh.axes):
        state = AxisState(network, axis, count, classes)
        requirements = Requirements(count, network.facts, conditions)
        choices = {n: option.choices[number] for n, option in enumerate(taken)}
        for n, choice in choices.items():
            requirements.rely(choice, network.operators[n].node.id)
        state.accept(state.change(choices))
        classes = state.local_classes()
        decided.append((state, requirements))
    record = SearchRecord(
        machine=asked.machine,
        sizes=dict(asked.sizes),
        memory=asked.memory,
        optimizer_states=asked.states,
        cost=answer.cost,
        bound=answer.bound,
        restricted=sorted(set(builder.restricted)),
        proof=answer.steps,
    )
    return Found(decided, classes, record)


def infeasible(problem: Problem, answer: Answer) -> PlanError:
    """Returns the error for a graph that no plan brings into memory, or none that was found."""
    limit = problem.limit or 0
    if answer.bound < FORBIDDEN:
        return NOT_FOUND(limit=gibibytes(limit))
    free = Problem(problem.costs, problem.edges, problem.usages, None)
    low, high = limit, free.most_held(solve(free).chosen or [])
    while high - low > max(low // 1000, 1):
        middle = (low + high) // 2
        zero = Problem(
            tuple(np.where(c >= FORBIDDEN, c, 0) for c in problem.costs),
            {e: np.where(t >= FORBIDDEN, t, 0) for e, t in problem.edges.items()},
            problem.usages,
            middle,
        )
        found = solve(zero)
        if found.chosen is not None:
            high = problem.most_held(found.chosen)
        elif found.bound >= FORBIDDEN:
            low = middle
        else:
            break
    return NOTHING_FITS(limit=gibibytes(limit), least=gibibytes(low), found=gibibytes(high))


def gibibytes(count: int) -> str:
    """Returns bytes as people read them.

    >>> gibibytes(3 << 29), gibibytes(5000)
    ('1.5 GiB', '4.883 KiB')
    """
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} bytes"


def verified(plan: PlanData, network: Network, mesh: Mesh) -> None:
    """Raises NotProved unless the plan costs what it says at the sizes of its search, fits, and its
    proof shows that no plan costs less than its bound.
    """
    record = plan.search
    assert record is not None
    asked = Asked(record.machine, record.sizes, record.memory, record.optimizer_states)
    builder = builder_of(network, mesh, asked)
    problem = builder.problem()
    check_choice(problem, builder.chosen_in(plan), record.cost)
    check_bound(problem, record.bound, record.proof)
