"""What every operator may do along all axes at once, for a search.

The choices along an axis are those of the operator's rules, and the blocks that its neighbours ask
for: a fused weight of three projections is cut in 3 blocks because what is behind it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from dimsolve.solver.algebra.poly import Dim

from ..layout import Layout
from ..mesh import Mesh
from ..placement import Partial, Reduction, Replicate, Shard
from ..search.clock import Clock
from .choices import Choice, OperatorClass
from .completion import loses_digits
from .network import Network, Operator
from .requirements import Requirements, Uneven, units_of
from .ways import Need

Kind: TypeAlias = tuple[OperatorClass, bool]
"""A class of operators, and whether they are whole on every rank."""

Context: TypeAlias = tuple[tuple[Choice, ...], OperatorClass]
"""What outer axes have chosen, and what that leaves a rank with."""


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
    for. kinds: operators of one class, all pinned or none. uneven: what may be cut into unequal
    parts.
    """

    def __init__(
        self, network: Network, mesh: Mesh, value: Callable[[Dim], int], uneven: Uneven
    ) -> None:
        self.network = network
        self.mesh = mesh
        self.value = value
        self.requirements = [
            Requirements(count, network.facts, uneven=uneven) for _, count in mesh.axes
        ]
        self.links = self._links()
        self.clock = Clock()
        self._of: dict[Any, tuple[list[Option], list[Option]]] = {}

    @cached_property
    def known(self) -> dict[Kind, list[Option]]:
        """All options of every kind, whatever they lose. Raises TimeUp."""
        found: dict[Kind, list[Context]] = {
            _kind(op): [((), op.op_class)] for op in self.network.operators
        }
        for axis, (name, count) in enumerate(self.mesh.axes):
            choices = self._choices(axis, found)
            found = {
                kind: [
                    ((*before, choice), op_class.local(choice, count, name))
                    for number, (before, op_class) in enumerate(each)
                    for choice in choices[kind, number]
                ]
                for kind, each in found.items()
            }
        return {kind: [Option(*each) for each in found[kind]] for kind in found}

    @property
    def deals(self) -> bool:
        """Whether an option of an operator cuts it into unequal parts."""
        every = (option for options in self.known.values() for option in options)
        return any(choice.units for option in every for choice in option.choices)

    def of(self, operator: Operator) -> list[Option]:
        """Returns the options of an operator, for alike ones the same list; what would lose digits
        is none. Raises TimeUp.
        """
        return self._without_loss(operator, self.known[_kind(operator)])

    def along(self, axis: int, taken: Sequence[Option]) -> list[list[Option]]:
        """Returns for every operator the options that do along outer axes what was taken, and
        along inner ones nothing.
        """
        number: dict[tuple[Kind, tuple[Choice, ...]], int] = {}
        contexts: dict[Kind, list[Context]] = {}
        places: list[tuple[Kind, int]] = []
        for operator, option in zip(self.network.operators, taken, strict=True):
            kind, before = _kind(operator), option.choices[:axis]
            own = contexts.setdefault(kind, [])
            if (kind, before) not in number:
                number[kind, before] = len(own)
                op_class = operator.op_class
                for choice, (name, count) in zip(before, self.mesh.axes, strict=False):
                    op_class = op_class.local(choice, count, name)
                own.append((before, op_class))
            places.append((kind, number[kind, before]))
        name, count = self.mesh.axes[axis]
        inner = len(self.mesh.axes) - axis - 1
        made: dict[tuple[Kind, int], list[Option]] = {}
        for (kind, place), choices in self._choices(axis, contexts).items():
            before, op_class = contexts[kind][place]
            local = [op_class.local(choice, count, name) for choice in choices]
            made[kind, place] = [
                Option((*before, choice, *(left.whole,) * inner), left)
                for choice, left in zip(choices, local, strict=True)
            ]
        return [
            self._without_loss(operator, made[place])
            for operator, place in zip(self.network.operators, places, strict=True)
        ]

    def _without_loss(self, operator: Operator, options: list[Option]) -> list[Option]:
        """The options that lose no digits, for alike operators the same list."""
        edges = self.network.edges
        tensors = [None if n is None else edges[n] for n in (*operator.inputs, *operator.outputs)]
        kinds = tuple([None if e is None else (e.dtype, e.gradient) for e in tensors])
        key = id(options), kinds
        if key not in self._of:
            lost = {
                id(choice)
                for option in options
                for choice in option.choices
                if choice.partial and loses_digits(self.network, operator.number, choice)
            }
            kept = [o for o in options if not any(id(c) in lost for c in o.choices)]
            self._of[key] = options, kept
        return self._of[key][1]

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
        weighed = self.requirements[axis].uneven == "allow"  # means of a batch ask for it

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
                        for own in (self._dealt(axis, op_class, choice), choice):
                            if own is not None:
                                add(kind, number, own)
        while queue:
            self.clock.check()
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
                            answer = theirs.spread(place, placement, weighed=weighed)
                            if isinstance(answer, Choice):
                                add(other, near, answer)
                        elif tensor >= op_class.inputs and isinstance(placement, Partial):
                            for passing in _passing(theirs, place, placement.reduction):
                                add(other, near, passing)
        return {key: list(each) for key, each in found.items()}

    def _dealt(self, axis: int, op_class: OperatorClass, choice: Choice) -> Choice | None:
        """The choice that deals out what the count need not divide one by one, where that is
        allowed. What neighbours ask for may be dealt out in larger units.
        """
        requirements = self.requirements[axis]
        if requirements.conditions_of(choice) == ():
            return None
        units = units_of(choice.requirements, requirements.uneven, self.network.facts)
        weighed = requirements.uneven == "allow"
        dealt = None if units == 1 else op_class.uneven(choice, units, weighed=weighed)
        return dealt if isinstance(dealt, Choice) else None

    def _legal(self, axis: int, choice: Choice) -> bool:
        """Whether a choice is legal, and its conditions hold at these sizes."""
        if self.requirements[axis].conditions_of(choice) is None:
            return False
        if choice.units:
            return True
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
