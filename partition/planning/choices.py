"""What one mesh axis can do to one operator.

    linear "* k+, n k+, n -> * n"
        Choice("n")            R, S(0), S(0) -> S(2)
        Choice("n", blocks=3)  R, S(0, blocks=3), S(0, blocks=3) -> S(2, blocks=3)
        Choice("k")            S(2), S(1), P(sum) -> P(sum)
        passing                P(sum), R, P(sum) -> P(sum)       linear in input and bias together
    *, rows in groups      G(0), R, R -> G(0)                other rows than a rank's are not read
        whole                  R, R, R -> R

A split into any number of parts treats the indices of its identifier one by one, so they may also
be dealt out in blocks: ``n`` cut in each of 3 blocks is the fused weight of three projections, and
in segments of 4:1:1 that of grouped heads, 4 query heads to a key and a value head.

A model has thousands of nodes but a few dozen classes of them: one annotation, one set of lengths,
one contract. What can be asked of an `OperatorClass` is answered once:

    split("n")          the choice that cuts n, or a Refusal
    spread(0, S(2))     the choice that has S(2) at tensor 0
    grouped(0, G(0))    the choices that have G(0) at tensor 0
    passing({0})        the choice in which tensor 0 is partial
    local(choice, 2)    the class of what a rank is left with: lengths divided by 2
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import lcm
from typing import Any, TypeAlias, cast

from dimsolve.ir.operator import Declaration
from dimsolve.solver.algebra.dims import symbols_of
from dimsolve.solver.algebra.poly import Dim, divide_exactly, product
from dimsolve.solver.layout import Pattern
from dimsolve.solver.proof.divisibility import exact_quotient
from dimsolve.solver.proof.facts import Facts
from dimsolve.solver.solution import Solution

from ..mesh import dealt_units, is_dealt, part_of
from ..placement import (
    MOST_WRITTEN,
    Grouped,
    Partial,
    Placement,
    Reduction,
    Replicate,
    Shard,
    fractions_of,
    shard_of,
)
from ..rules.rule import NoRule, Parts, Rule, TransformRule, choose_rule, parts_of
from .windows import Windows

R = Replicate()


Need: TypeAlias = tuple[Placement, bool]
"""A placement that a use wants, and whether the use is work of which each rank does a share."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """What must hold for a choice: the count, times ``divisor``, divides ``length``.

    name: the identifier. length: its whole length. divisor: the units of its blocks and segments,
    times the parts that outer axes make of it.
    """

    name: str
    length: Dim
    divisor: Dim


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The placements of an operator's tensors along one axis. Made once by an `OperatorClass`,
    compared by identity.

    name: the identifier that is cut, None where nothing is. blocks, segments: how it is, as in
    `dimsolve.partition.placement.Shard`. rule: the number of the transform rule used. requirements:
    what must hold, for every identifier whose length is divided. units: into how many equal units
    it is cut that are dealt out as they come, where the parts are not equal; 0 where they are.
    parts: into which parts its rule holds. needs: what is wanted of every input.
    """

    inputs: tuple[Placement, ...]
    outputs: tuple[Placement, ...]
    name: str | None = None
    blocks: Dim = 1
    segments: tuple[int, ...] = ()
    rule: int | None = None
    requirements: tuple[Requirement, ...] = ()
    units: Dim = 0
    parts: Parts = "any"
    needs: tuple[Need, ...] = field(init=False)

    def __post_init__(self) -> None:
        shares = not self.whole
        needs = tuple([(p, shares and isinstance(p, Replicate)) for p in self.inputs])
        object.__setattr__(self, "needs", needs)

    @property
    def whole(self) -> bool:
        """Whether every rank does the same."""
        return self.name is None and not self.partial

    @property
    def partial(self) -> bool:
        """Whether a partial value passes through."""
        return self.name is None and any(isinstance(p, Partial) for p in self.inputs)

    def at(self, tensor: int) -> Placement:
        """Returns the placement of a tensor; outputs count on after the inputs."""
        count = len(self.inputs)
        return self.inputs[tensor] if tensor < count else self.outputs[tensor - count]

    def __str__(self) -> str:
        if self.name is not None:
            blocks = f" in {self.blocks} blocks" if self.blocks != 1 else ""
            segments = f" in segments {':'.join(map(str, self.segments))}" if self.segments else ""
            units = f" in unequal parts of {self.units}" if self.units else ""
            return f"{self.name}{blocks}{segments}{units}"
        return "partial" if self.partial else "whole"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an operator cannot do what was asked. ``name``: the identifier that is to blame."""

    reason: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Contract:
    """What of a declaration decides how it may be cut, besides its annotation. ``kept``: inputs, by
    number, that the model keeps as they are left: no summand stands for them. empty: whether it
    runs where a length is 0.
    """

    value_split: tuple[int, ...]
    reduction: Reduction
    linear: tuple[tuple[int, ...], ...]
    frozen: str
    transform_rules: tuple[object, ...]
    kept: tuple[int, ...] = ()
    empty: bool | tuple[str, ...] = False

    @classmethod
    def of(cls, declaration: Declaration, kept: tuple[int, ...] = ()) -> Contract:
        """Returns the contract of a declaration."""
        return cls(
            tuple(declaration.value_split),
            Reduction(declaration.reduction),
            tuple(tuple(each) for each in declaration.linear),
            declaration.frozen,
            tuple(declaration.transform_rules),
            kept,
            declaration.empty,
        )

    def loses(self, inputs: Sequence[Placement]) -> bool:
        """Whether what is kept would be a summand."""
        return any(isinstance(inputs[place], Partial) for place in self.kept)


class OperatorClass:
    """Operators that are alike. ``windows``: dimensions that are windows of one another; ``parts``:
    into how many parts outer axes cut each identifier; ``dealt``: how many of these a rank has,
    where it is not one; ``replaced``: the function that a transform rule of an outer axis put in
    the operator's place.
    """

    def __init__(
        self,
        solution: Solution,
        contract: Contract,
        facts: Facts,
        known: frozenset[str],
        windows: tuple[Windows, ...] = (),
        parts: Mapping[str, Dim] | None = None,
        replaced: object = None,
        dealt: Mapping[str, Dim] | None = None,
    ) -> None:
        self.solution = solution
        self.contract = contract
        self.facts = facts
        self.known = known
        self.windows = windows
        self.parts = dict(parts or {})
        self.replaced = replaced
        self.dealt = dict(dealt or {})
        self.tensors = (*solution.layout.inputs, *solution.layout.outputs)
        self.inputs = len(solution.layout.inputs)
        self.lengths = {n: self._local(n, dim) for n, dim in solution.values.items()}
        outputs = len(solution.layout.outputs)
        self.whole = Choice((R,) * self.inputs, (R,) * outputs)
        self._splits: dict[tuple[Any, ...], Choice | Refusal] = {}
        self._spreads: dict[tuple[int, Placement, bool], Choice | Refusal] = {}
        self._grouped: dict[tuple[int, Grouped], tuple[Choice, ...]] = {}
        self._passes: dict[tuple[frozenset[int], Reduction], Choice | None] = {}
        self._unevens: dict[tuple[int, Dim, bool], Choice | Refusal] = {}
        self._locals: dict[tuple[int, Dim, str], OperatorClass] = {}

    def _local(self, name: str, length: Dim) -> Dim:
        if name in self.parts:
            length = part_of(length, self.parts[name], self.facts)
        return length * self.dealt.get(name, 1)

    @property
    def rules(self) -> tuple[TransformRule, ...]:
        """The transform rules of the declaration."""
        return cast("tuple[TransformRule, ...]", self.contract.transform_rules)

    def dims(self, tensor: int) -> tuple[Dim, ...] | None:
        """Returns the shape of a tensor on one rank; None for ``?``."""
        patterns = self.tensors[tensor]
        if patterns is None:
            return None
        return tuple(
            [product([p.constant, *(self.lengths[name] for name in p.names)]) for p in patterns]
        )

    def choices(self) -> Iterator[Choice]:
        """Yields the splits of every identifier that may be split, contiguous, in reading order."""
        for name in self.solution.layout.marks:
            for choice in self.ways(name):
                if isinstance(choice, Choice):
                    yield choice

    def ways(self, name: str) -> Iterator[Choice | Refusal]:
        """Yields the choices that cut ``name`` in contiguous parts: by the rule for it, and by
        transform rules that stand beside that.
        """
        yield self.split(name)
        for number, rule in enumerate(self.rules):
            if rule.beside and name in rule.names(self.solution):
                key = (name, number)
                if key not in self._splits:
                    self._splits[key] = self._split(name, 1, (), (rule,))
                yield self._splits[key]

    def split(
        self,
        name: str,
        blocks: Dim = 1,
        segments: tuple[int, ...] = (),
        *,
        unequal: bool = False,
    ) -> Choice | Refusal:
        """Returns the choice that cuts ``name`` in each of so many blocks, and in each of their
        segments, whatever the count. unequal: by the rule for unequal parts, where there is one.
        """
        key = (name, blocks, segments, unequal)
        if key not in self._splits:
            self._splits[key] = self._split(name, blocks, segments, unequal=unequal)
        return self._splits[key]

    def _split(
        self,
        name: str,
        blocks: Dim,
        segments: tuple[int, ...],
        rules: tuple[TransformRule, ...] | None = None,
        *,
        unequal: bool = False,
    ) -> Choice | Refusal:
        length = self.lengths[name]
        if length == 1:
            return Refusal(f"{name} = 1: there is nothing to split", name)
        if name in self.dealt:
            return Refusal(f"an outer axis cuts {name} into unequal parts", name)
        if not symbols_of(length) <= self.known:
            return Refusal(f"the length of {name} is known only when it runs", name)
        rule = choose_rule(
            self.solution,
            name,
            transform_rules=self.rules if rules is None else rules,
            value_split=self.contract.value_split,
            reduction=self.contract.reduction,
            unequal=unequal,
        )
        if isinstance(rule, NoRule):
            return Refusal(self.contract.frozen or rule.reason, name)
        if self.contract.frozen and rule.transform is None:
            return Refusal(self.contract.frozen, name)
        if rule.transform is not None and (blocks != 1 or segments):
            return Refusal(f"the transform rule for {name} cuts contiguous parts only", name)
        local = None if rule.transform is None else rule.transform.local
        if local is not None and self.replaced not in (None, local):
            return Refusal(f"{name} needs another function than an outer axis put here", name)
        return self._choice(rule, blocks, segments)

    def _choice(self, rule: Rule, blocks: Dim, segments: tuple[int, ...]) -> Choice | Refusal:
        """The choice of a rule: prefixes are those of this rank, and blocks come on top."""
        placements = [
            self._placed(placement, patterns, rule.name, blocks, segments)
            for placement, patterns in zip((*rule.inputs, *rule.outputs), self.tensors, strict=True)
        ]
        for placement, patterns in zip(placements, self.tensors, strict=True):
            if not isinstance(placement, Shard) or patterns is None:
                continue
            if not self.dealt.keys().isdisjoint(patterns[placement.dim].names):
                reason = f"{rule.name} is cut within what an outer axis cuts into unequal parts"
                return Refusal(reason, rule.name)
        cut = {rule.name: blocks * sum(segments or (1,))}
        for placement, patterns in zip(placements, self.tensors, strict=True):
            if isinstance(placement, Shard) and patterns is not None:
                pattern = patterns[placement.dim]
                if rule.name not in pattern.names:
                    found = next(self._factors(pattern, placement), None)
                    if found is None:
                        reason = f"{placement} cuts no identifier of {pattern} on a rank"
                        return Refusal(reason, rule.name)
                    cut[found[0]] = found[1]
        number = None if rule.transform is None else self.rules.index(rule.transform)
        requirements = tuple([self._duty(name, within) for name, within in cut.items()])
        inputs, outputs = tuple(placements[: self.inputs]), tuple(placements[self.inputs :])
        if self.contract.loses(inputs):
            return Refusal("what it writes to is kept, and a rank would have a summand", rule.name)
        parts = parts_of(rule, self.contract.empty)
        return Choice(
            inputs, outputs, rule.name, blocks, segments, number, requirements, parts=parts
        )

    def uneven(self, choice: Choice, units: Dim, *, weighed: bool = False) -> Choice | Refusal:
        """Returns the choice that deals out so many units as they come, as torch's ``chunk`` does,
        in place of one that cuts equal parts: what is right for a part of every unit is right for
        runs of them, where the rule holds for unequal parts. weighed: also by a rule that is for
        such parts only, as a mean has. (A batch needs it. Widths are averaged by norms, which a
        policy that cuts parameters leaves whole.)
        """
        key = (id(choice), units, weighed)
        if key not in self._unevens:
            self._unevens[key] = self._uneven(choice, units, weighed)
        return self._unevens[key]

    def _uneven(self, choice: Choice, units: Dim, weighed: bool) -> Choice | Refusal:
        name = choice.name
        if name is None:
            return Refusal("a partial value is not cut")
        if weighed and choice.parts != "any":
            dealt = self.split(name, choice.blocks, choice.segments, unequal=True)
            choice = dealt if isinstance(dealt, Choice) and dealt.parts == "any" else choice
        if choice.parts == "equal":
            return Refusal(f"the parts of {name} must be equal: what they give is weighed alike")
        rule = None if choice.rule is None else self.rules[choice.rule]
        if rule is not None and (rule.local or rule.modifier) and rule.placed:
            if not isinstance(self.lengths[name], int):
                return Refusal(f"where a part of {name} begins is not known before it runs", name)
            if name in self.parts:
                return Refusal(f"{name} is cut along another axis too", name)
        for need in choice.requirements:
            if exact_quotient(need.length, units * need.divisor, self.facts) is None:
                return Refusal(f"{need.name} = {need.length} is not {units} equal units", name)
        placements: list[Placement] = []
        for number, placement in enumerate((*choice.inputs, *choice.outputs)):
            dims = self.dims(number) if isinstance(placement, Shard) else None
            if isinstance(placement, Shard) and dims is not None:
                length = dims[placement.dim]
                unit = exact_quotient(length, placement.units * units, self.facts)
                if unit is None or is_dealt(length):
                    return Refusal(f"{placement} does not cut {units} equal units", name)
                placement = replace(placement, of=length, unit=unit)
            placements.append(placement)
        inputs, outputs = tuple(placements[: self.inputs]), tuple(placements[self.inputs :])
        return replace(choice, inputs=inputs, outputs=outputs, units=units)

    def _placed(
        self,
        placement: Placement,
        patterns: tuple[Pattern, ...] | None,
        name: str,
        blocks: Dim,
        segments: tuple[int, ...],
    ) -> Placement:
        if not isinstance(placement, Shard) or patterns is None:
            return placement
        pattern = patterns[placement.dim]
        if name not in pattern.names:
            return placement
        return Shard(placement.dim, self._before(pattern, name) * blocks, segments)

    def _before(self, pattern: Pattern, name: str) -> Dim:
        atoms = pattern.atoms[: pattern.atoms.index(name)]
        return product([a if isinstance(a, int) else self.lengths[a] for a in atoms])

    def _duty(self, name: str, units: Dim) -> Requirement:
        return Requirement(name, self.solution.values[name], units * self.parts.get(name, 1))

    def _factors(self, pattern: Pattern, shard: Shard) -> Iterator[tuple[str, Dim]]:
        """The identifiers of a dimension whose parts lie as the placement says, with their own
        blocks.
        """
        before: Dim = 1
        segments = sum(shard.segments or (1,))
        for atom in pattern.atoms:
            length = atom if isinstance(atom, int) else self.lengths[atom]
            if isinstance(atom, str) and length != 1:
                own = None if before == 0 else divide_exactly(shard.blocks, before)
                units = None if own is None or own == 0 else own * segments
                rest = None if units is None else divide_exactly(length, units)
                if own is not None and rest is not None and rest != 1:
                    yield atom, own
            before = before * length

    def spread(self, tensor: int, shard: Shard, *, weighed: bool = False) -> Choice | Refusal:
        """Returns the choice that has this placement at a tensor, or why there is none. weighed: as
        for `uneven`.
        """
        key = (tensor, shard, weighed)
        if key not in self._spreads:
            self._spreads[key] = self._spread(tensor, shard, weighed)
        return self._spreads[key]

    def _spread(self, tensor: int, shard: Shard, weighed: bool) -> Choice | Refusal:
        patterns = self.tensors[tensor]
        if patterns is None:
            return Refusal(self.contract.frozen or "it is '?': only ever replicated")
        if shard.of:
            units = exact_quotient(shard.of, shard.units * shard.unit, self.facts)
            equal = self.spread(tensor, shard.even)
            if units is None or isinstance(equal, Refusal):
                return Refusal(f"{shard} has no units") if units is None else equal
            found = self.uneven(equal, units, weighed=weighed)
            if isinstance(found, Choice) and found.at(tensor) != shard:
                return Refusal(f"{shard} is not what it would make of {units} units")
            return found
        answer = windowed(self, tensor, shard)
        if answer is not None:
            return answer
        refusal: Refusal | None = None
        for name, blocks in self._candidates(patterns[shard.dim], shard):
            choice = self.split(name, blocks, shard.segments)
            if isinstance(choice, Refusal):
                refusal = refusal or choice
            elif choice.at(tensor) == shard:
                return choice
        return refusal or Refusal(self._no_factor(patterns[shard.dim], shard))

    def _candidates(self, pattern: Pattern, shard: Shard) -> Iterator[tuple[str, Dim]]:
        yield from self._factors(pattern, shard)
        for rule in self.rules:
            for name in rule.names(self.solution):
                yield name, 1

    def _no_factor(self, pattern: Pattern, shard: Shard) -> str:
        if not pattern.names:
            return f"dimension {shard.dim} is the number {pattern}: a written length is never split"
        where = f"{shard.blocks} blocks" if shard.blocks != 1 else "one piece"
        if shard.segments:
            where = f"{shard.blocks} times the segments {':'.join(map(str, shard.segments))}"
        lengths = ", ".join(f"{name} = {self.lengths[name]}" for name in pattern.names)
        return (
            f"no identifier of ({' '.join(map(str, pattern.atoms))}) is cut in {where}: {lengths}"
        )

    @property
    def group_ends(self) -> int | None:
        """The input that says where groups of rows end, if the operator has a matrix for each."""
        return next((rule.groups for rule in self.rules if rule.groups is not None), None)

    @property
    def routed(self) -> str | None:
        """The identifier whose split sends rows to the ranks that they are meant for, if any."""
        for rule in self.rules:
            if rule.routes:
                return rule.names(self.solution)[0]
        return None

    def grouped(self, tensor: int, placement: Grouped) -> tuple[Choice, ...]:
        """Returns the choices that have rows in groups at a tensor: of an operator that has a
        matrix for each group, those that take rows in groups; of another, the one that works on
        rows one by one. They ask nothing of the count but what the split of the groups does.
        """
        key = (tensor, placement)
        if key not in self._grouped:
            self._grouped[key] = tuple(self._groupings(tensor, placement))
        return self._grouped[key]

    def _groupings(self, tensor: int, placement: Grouped) -> Iterator[Choice]:
        patterns = self.tensors[tensor]
        if patterns is None or placement.dim >= len(patterns):
            return
        for rule in self.rules:
            if rule.groups is not None and placement == Grouped(0) and tensor in (0, self.inputs):
                plain = self.split(rule.names(self.solution)[0])
                if isinstance(plain, Choice):
                    taken = replace(plain, inputs=(placement, *plain.inputs[1:]))
                    yield replace(taken, outputs=(placement,))
                    if tensor == 0:
                        yield taken
                return
        names = patterns[placement.dim].names
        rows = self.split(names[0]) if len(names) == 1 else None
        if not isinstance(rows, Choice) or rows.rule is not None:
            return
        placed = [self._in_groups(n, each) for n, each in enumerate((*rows.inputs, *rows.outputs))]
        if None not in placed:
            found = [each for each in placed if each is not None]
            inputs, outputs = tuple(found[: self.inputs]), tuple(found[self.inputs :])
            yield replace(rows, inputs=inputs, outputs=outputs, requirements=())

    def _in_groups(self, tensor: int, placement: Placement) -> Placement | None:
        """A placement of a split of rows, where the rows are in groups; None for a sum of rows, and
        for rows that are taken apart.
        """
        if isinstance(placement, Shard):
            patterns = self.tensors[tensor]
            alone = patterns is not None and len(patterns[placement.dim].atoms) == 1
            return Grouped(placement.dim) if alone and placement == Shard(placement.dim) else None
        return placement if isinstance(placement, Replicate) else None

    def passing(
        self, partial: frozenset[int], reduction: Reduction = Reduction.SUM
    ) -> Choice | None:
        """Returns the choice in which partial values pass through: the largest set of inputs, among
        those given, in which the operator is linear. None where there is no such set.
        """
        key = (partial, reduction)
        if key not in self._passes:
            self._passes[key] = self._passing(partial, reduction)
        return self._passes[key]

    def _passing(self, partial: frozenset[int], reduction: Reduction) -> Choice | None:
        sets = [each for each in self.contract.linear if each and partial.issuperset(each)]
        if not sets or reduction not in (Reduction.SUM, Reduction.AVG):
            return None
        chosen = max(sets, key=len)
        joined = Partial(reduction)
        inputs = tuple([joined if number in chosen else R for number in range(self.inputs)])
        if self.contract.loses(inputs):
            return None
        outputs = self.solution.layout.outputs
        return Choice(inputs, tuple([R if row is None else joined for row in outputs]))

    def local(self, choice: Choice, count: Dim, axis: str = "") -> OperatorClass:
        """Returns the class of what one rank is left with. axis: its name, where the parts are not
        equal: lengths are expressions of the rank's place on it.
        """
        if not choice.requirements:
            return self
        key = (id(choice), count, axis if choice.units else "")
        if key not in self._locals:
            parts, dealt = dict(self.parts), dict(self.dealt)
            for requirement in choice.requirements:
                name = requirement.name
                parts[name] = parts.get(name, 1) * (choice.units or count)
                if choice.units:
                    run = dealt_units(choice.units, count, axis)
                    dealt[name] = dealt.get(name, 1) * run
            local = None if choice.rule is None else self.rules[choice.rule].local
            self._locals[key] = OperatorClass(
                self.solution,
                self.contract,
                self.facts,
                self.known,
                self.windows,
                parts,
                local or self.replaced,
                dealt,
            )
        return self._locals[key]


def windowed(op_class: OperatorClass, tensor: int, shard: Shard) -> Choice | Refusal | None:
    """Returns the choice that has this placement at a window, or at what windows are taken of, or
    why there is none; None for dimensions that are neither.
    """
    lengths = fractions_of(shard) if op_class.windows else None
    if lengths is None:
        return None
    for windows in op_class.windows:
        if (tensor, shard.dim) == (windows.tensor, windows.dim):
            return _cut(op_class, windows, lengths)
        part = windows.part(tensor, shard.dim)
        if part is not None:
            return _cut(op_class, windows, windows.around(part, lengths))
    return None


def _cut(
    op_class: OperatorClass, windows: Windows, lengths: Sequence[Fraction]
) -> Choice | Refusal:
    """The choice that cuts the whole in these segments. The unit is cut as finely as they need."""
    inside = windows.inside(lengths)
    if inside is None:
        whole = shard_of(windows.dim, lengths)
        return Refusal(f"{whole} has a part that lies in two windows", windows.name)
    plain = op_class.split(windows.name, lcm(*((n * windows.units).denominator for n in lengths)))
    if isinstance(plain, Refusal):
        return plain
    placements = [*plain.inputs, *plain.outputs]
    placements[windows.tensor] = shard_of(windows.dim, lengths)
    for part, own in zip(windows.parts, inside, strict=True):
        placements[part.tensor] = shard_of(part.dim, own)
    if any(isinstance(p, Shard) and len(p.segments) > MOST_WRITTEN for p in placements):
        reason = f"it would be cut in more than {MOST_WRITTEN} segments of their own lengths"
        return Refusal(reason, windows.name)
    count = op_class.inputs
    return replace(plain, inputs=tuple(placements[:count]), outputs=tuple(placements[count:]))
