"""Runs a call split on all ranks, and measures how far it is from the run on one device.

    matmul, k over 2:   rank 0  x[:, :4] @ w[:4]      their sum against  x @ w
                        rank 1  x[:, 4:] @ w[4:]      and the gradients of x and w alike

All ranks run in this process (`dimsolve.exec.distributed.simulated`). The outputs' gradients are
random. An input that a call writes to is compared as the call leaves it. Partial inputs are given
as summands that all differ: what holds for the value beside zeros may be wrong for the summands
that an operator left.

A call may be split over several mesh axes; each cuts what the one before has left.

    (h m) k+, k+ n -> h m n        k over 2, then h over 3
    x: S(1), S(0)    w: S(0), R    result: P(sum), S(0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

import torch
from torch import Tensor

from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.operator import Declaration
from dimsolve.partition.legality import Legality, judge
from dimsolve.partition.placement import Partial, Placement, Reduction, Replicate, Shard
from dimsolve.partition.rules.rule import NoRule, Rule, choose_rule
from dimsolve.solver.infer import infer, same_named
from dimsolve.solver.solution import Solution

from ..calls import function_of, invoke, local_arguments, modified
from ..distributed.collectives import MeshPart
from ..distributed.sharding import local_part, local_parts, run_of
from ..distributed.simulated import Member, RankError, SimulatedWorld
from .compare import Difference, compare, largest
from .whole import (
    Whole,
    annotated_outputs,
    by_place,
    gradient_shares,
    gradients_of,
    leaf_of,
    random_like,
    requires_gradient,
)


@dataclass(frozen=True)
class Cuts:
    """Legal splits of one call, outer axis first. ``lengths``: of the identifiers on a rank.
    dealt: of an identifier that is cut into unequal parts, the only one then, its length.
    """

    splits: tuple[tuple[str, int], ...]
    rules: tuple[Rule, ...]
    lengths: Mapping[str, int]
    dealt: tuple[tuple[str, int, int], ...] = ()

    def lengths_on(self, rank: int) -> Mapping[str, int]:
        """Returns the lengths of the identifiers on this rank."""
        found = dict(self.lengths)
        for name, of, unit in self.dealt:
            found[name] = run_of(Shard(0, of=of, unit=unit), rank, self.splits[0][1])[1] * unit
        return found

    @property
    def mesh(self) -> dict[str, int]:
        """The sizes of the mesh axes, named by their number."""
        return {str(axis): count for axis, (_, count) in enumerate(self.splits)}

    def inputs(self, number: int) -> tuple[Placement, ...]:
        """The placements of one input, one per axis."""
        return tuple(rule.inputs[number] for rule in self.rules)

    def outputs(self, number: int) -> tuple[Placement, ...]:
        """The placements of one output, one per axis."""
        return tuple(rule.outputs[number] for rule in self.rules)


def rule_for(solution: Solution, declaration: Declaration, name: str) -> Rule | NoRule:
    """Returns what splitting one identifier does, whatever the count."""
    return choose_rule(
        solution,
        name,
        transform_rules=declaration.transform_rules,
        value_split=declaration.value_split,
        reduction=Reduction(declaration.reduction),
    )


def cut_beside(solution: Solution, declaration: Declaration, name: str) -> tuple[str, ...]:
    """Returns the other identifiers that a transform rule cuts when it splits ``name``."""
    rule = rule_for(solution, declaration, name)
    if isinstance(rule, NoRule) or rule.transform is None:
        return ()
    rows = zip(
        (*rule.inputs, *rule.outputs),
        (*solution.layout.inputs, *solution.layout.outputs),
        strict=True,
    )
    cut = [row[p.dim] for p, row in rows if isinstance(p, Shard) and row is not None]
    names = [p.names[0] for p in cut if p.names and name not in p.names]
    return tuple(dict.fromkeys(names))


def partial_sums(solution: Solution, summands: Sequence[int], count: int) -> Cuts:
    """Returns the placements of a linear operator whose inputs ``summands`` are partial sums."""
    layout = solution.layout
    inputs = tuple(Partial() if n in summands else Replicate() for n in range(len(layout.inputs)))
    rule = Rule("", inputs, (Partial(),) * len(layout.outputs))
    lengths = {name: value for name, value in solution.values.items() if isinstance(value, int)}
    return Cuts((("", count),), (rule,), lengths)


@dataclass(frozen=True)
class NoCut:
    """Why the splits are not legal."""

    reason: str


def cut(
    solution: Solution,
    declaration: Declaration,
    splits: Sequence[tuple[str, int]],
    *,
    value_split: Sequence[int] | None = None,
    reduction: str | None = None,
    uneven: bool = False,
) -> Cuts | NoCut:
    """Returns the placements of all tensors under the splits, or why there are none.

    value_split and reduction take the place of the declaration's, to find out what would be right.
    uneven: into parts that need not be equal, of one split.
    """
    rules: list[Rule] = []
    lengths: dict[str, Any] = dict(solution.values)
    following: Solution | NoCut = solution
    for name, count in splits:
        if isinstance(following, NoCut):
            return following
        if name not in following.layout.marks:
            return NoCut(f"'{name}' is not an identifier here")
        legality = judge(
            following,
            name,
            count,
            arguments=declaration.arguments,
            value_split=declaration.value_split if value_split is None else value_split,
            reduction=Reduction(reduction or declaration.reduction),
            transform_rules=declaration.transform_rules,
            uneven=uneven,
            empty=declaration.empty,
        )
        if legality.verdict != "legal" or legality.rule is None:
            return NoCut(legality.reason)
        rules.append(legality.rule)
        if legality.uneven:
            whole = legality.solution.values[name]
            assert isinstance(whole, int)
            known = {n: v for n, v in solution.values.items() if isinstance(v, int)}
            return Cuts(tuple(splits), tuple(rules), known, ((name, whole, 1),))
        lengths = dict(legality.local_values)
        following = _local_solution(declaration, legality)
    transforms = [rule.transform for rule in rules if rule.transform is not None]
    # A rank's tensors need not match the annotation where the last rule says what is called.
    last = rules[-1].transform
    if isinstance(following, NoCut) and (last is None or not (last.local or last.modifier)):
        return following
    if len({transform.local for transform in transforms} - {None}) > 1:
        names = " and ".join(f"'{name}'" for name, _ in splits)
        return NoCut(f"the splits of {names} have transform rules that run different functions")
    return Cuts(tuple(splits), tuple(rules), lengths)


def _local_solution(declaration: Declaration, legality: Legality) -> Solution | NoCut:
    arguments = {
        name: legality.local_values.get(name, value)
        for name, value in declaration.arguments.items()
    }
    # Lengths that are known only at run time are not compared; any number stands for them.
    arguments.update(dict.fromkeys(declaration.fresh, 1))
    arguments = same_named(declaration.annotation, arguments)
    try:
        return infer(declaration.annotation, legality.local_input_dims, arguments=arguments)
    except DimsolveError as error:
        return NoCut(f"what a rank has does not match the annotation: {error.diagnostic.reason}")


def random_parts(
    whole: Tensor,
    placements: Sequence[Placement],
    mesh: Mapping[str, int],
    generator: torch.Generator,
) -> list[Tensor]:
    """Returns the parts of all ranks in rank order; ranks that hold replicas hold the same."""
    if not placements:
        return [whole]
    (_, count), *inner = mesh.items()
    placement, *rest = placements
    if isinstance(placement, Replicate):
        return random_parts(whole, rest, dict(inner), generator) * count
    return [
        piece
        for part in _along(whole, placement, count, generator)
        for piece in random_parts(part, rest, dict(inner), generator)
    ]


def _along(
    whole: Tensor, placement: Placement, count: int, generator: torch.Generator
) -> list[Tensor]:
    exact = not (whole.is_floating_point() or whole.is_complex())
    if exact or not isinstance(placement, Partial):
        return [local_part(whole, placement, index, count) for index in range(count)]
    noises = [random_like(whole, generator) for _ in range(count)]
    match placement.reduction:
        case Reduction.SUM | Reduction.AVG as reduction:
            mean = torch.stack(noises).mean(0)
            share = whole / count if reduction is Reduction.SUM else whole
            return [share + noise - mean for noise in noises]
        case Reduction.PROD:
            factors = [noise.sign() * (noise.abs() + 0.5) for noise in noises[1:]]
            others = torch.stack([torch.ones_like(whole), *factors]).prod(0)
            return [whole / others, *factors]
        case reduction:
            below = 1 if reduction is Reduction.MAX else -1
            winner = torch.stack(noises).argmax(0)
            return [
                torch.where(winner == index, whole, whole - below * noise.abs())
                for index, noise in enumerate(noises)
            ]


_PERHAPS_ROUNDING = 2e-2
"""Below this the precision in which the function computes may explain a difference."""


@dataclass(frozen=True)
class Outcome:
    """A split run beside the whole one. ``error``: what a rank raised, instead."""

    differences: tuple[Difference, ...] = ()
    error: str = ""
    outputs: tuple[tuple[Any, ...], ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the split run is equal to the whole one."""
        return not self.error and all(difference.ok for difference in self.differences)

    @property
    def worst(self) -> Difference | None:
        """The largest difference; an output before a gradient where they are as large."""
        return largest(self.differences)


def first_line(error: BaseException) -> str:
    """Returns an error's class and the first line of what it says."""
    return ": ".join(filter(None, [type(error).__name__, str(error).partition("\n")[0]]))


def run_split(whole: Whole, cuts: Cuts, seed: int) -> Outcome:
    """Runs the same call on all ranks of the cuts' mesh and compares."""
    world: SimulatedWorld[_Rank] = SimulatedWorld(cuts.mesh)
    generator = torch.Generator("cpu").manual_seed(seed)
    parts = [
        None if tensor is None else random_parts(tensor, cuts.inputs(i), cuts.mesh, generator)
        for i, tensor in enumerate(whole.inputs)
    ]
    try:
        ranks = _ran(_Program(whole, cuts, parts, [[] for _ in range(len(world))]), world)
    except RankError as error:
        cause = error.__cause__ or error
        return Outcome(error=f"rank {error.rank} raised {first_line(cause)}")
    found = _differences(whole, cuts, ranks)
    if any(not d.ok and d.amount < _PERHAPS_ROUNDING for d in found):
        found = [replace(d, allowed=max(d.allowed, whole.rounding)) for d in found]
    return Outcome(tuple(found), outputs=tuple(tuple(rank.outputs) for rank in ranks))


@dataclass(frozen=True)
class _Rank:
    outputs: list[Any]
    recorded: list[bool]
    after: list[Tensor | None]
    gradients: list[Tensor | None]


@dataclass(frozen=True)
class _Forward:
    """What a rank has between forward and backward."""

    outputs: list[Any]
    leaves: list[Tensor | None]
    given: list[Tensor | None]


def _ran(program: _Program, world: SimulatedWorld[_Rank]) -> list[_Rank]:
    """What the ranks have; one after the other where none of them asks another for anything, as
    threads where a rule's function may. Raises RankError.
    """
    rules = [rule.transform for rule in program.cuts.rules if rule.transform is not None]
    if any(rule.local or rule.modifier for rule in rules):
        return world.run(program)
    forwards = world.each(program.forward)
    return world.each(lambda member: program.backward(member, forwards[member.rank]))


@dataclass(frozen=True)
class _Program:
    """What every rank does. ``shown``: where the ranks show each other their outputs."""

    whole: Whole
    cuts: Cuts
    parts: list[list[Tensor] | None]
    shown: list[list[Any]]

    def __call__(self, member: Member) -> _Rank:
        """Forward, and backward when all have shown their outputs."""
        forward = self.forward(member)
        member.world.all_reduce(torch.zeros((), device="cpu"))
        return self.backward(member, forward)

    def forward(self, member: Member) -> _Forward:
        """Runs the call on the rank's parts, and shows what it gives."""
        leaves = [
            leaf_of(
                None if part is None else part[member.rank], number in self.whole.differentiable
            )
            for number, part in enumerate(self.parts)
        ]
        given = [None if leaf is None else leaf.clone() for leaf in leaves]
        outputs = annotated_outputs(self.whole.call, self._run(member, given), given)
        self._check_shapes(outputs, member.rank)
        self.shown[member.rank] = [
            output.detach().clone() if isinstance(output, Tensor) else output for output in outputs
        ]
        return _Forward(outputs, leaves, given)

    def backward(self, member: Member, forward: _Forward) -> _Rank:
        """Computes the gradients of the rank's parts."""
        outputs, leaves = forward.outputs, forward.leaves
        gradients: list[Tensor | None] = [None] * len(leaves)
        if not self.whole.no_gradient:
            shares = [each if each is None else each[member.rank] for each in self.shares]
            gradients = gradients_of(outputs, leaves, shares)
        after = [None if tensor is None else tensor.detach() for tensor in forward.given]
        recorded = [requires_gradient(output) for output in outputs]
        return _Rank(self.shown[member.rank], recorded, after, gradients)

    def _run(self, member: Member, given: list[Tensor | None]) -> Any:
        call, star = self.whole.call, self.whole.solution.layout.star
        names, function = call.operator.parameters, function_of(call.operator)
        lengths = self.cuts.lengths_on(member.rank) if self.cuts.dealt else self.cuts.lengths
        arguments = local_arguments(call, by_place(call, given), lengths, star)
        for modifier, part in self._parts(member, "modifier"):
            arguments = modified(arguments, names, call.operator.defaults, modifier, part)
        for local, part in self._parts(member, "local"):
            return local(part, *arguments.args, **arguments.kwargs)
        return invoke(function, arguments, names)

    def _parts(self, member: Member, kind: str) -> list[tuple[Any, MeshPart]]:
        """The functions of the splits' rules with the part of all splits that have them; one that
        several splits have is called once.
        """
        splits: dict[Any, list[tuple[str, Any]]] = {}
        for axis, rule in enumerate(self.cuts.rules):
            function = getattr(rule.transform, kind, None)
            if function is not None:
                splits.setdefault(function, []).append((rule.name, member[str(axis)]))
        return [
            (function, MeshPart(tuple(pairs), self.cuts.dealt))
            for function, pairs in splits.items()
        ]

    def _check_shapes(self, outputs: list[Any], rank: int) -> None:
        count = len(self.whole.outputs)
        if len(outputs) != count:
            raise ValueError(f"{len(outputs)} outputs, and {count} of the whole")
        for number, (output, shapes) in enumerate(zip(outputs, self.shapes, strict=True)):
            if shapes is None:
                continue
            if not isinstance(output, Tensor) or output.shape != shapes[rank]:
                shape = tuple(getattr(output, "shape", ())) or type(output).__name__
                raise ValueError(f"output {number} is {shape}, and {tuple(shapes[rank])} is wanted")

    @cached_property
    def shapes(self) -> list[list[torch.Size] | None]:
        """The shapes that the ranks' outputs must have, of every output that is a tensor."""
        found: list[list[torch.Size] | None] = []
        for number, wanted in enumerate(self.whole.outputs):
            if not isinstance(wanted, Tensor):
                found.append(None)
                continue
            parts = local_parts(wanted.detach(), self.cuts.outputs(number), self.cuts.mesh)
            found.append([part.shape for part in parts])
        return found

    @cached_property
    def shares(self) -> list[list[Tensor] | None]:
        """All ranks' gradients of every output; of what all ranks have shown."""
        return [
            None
            if weight is None
            else gradient_shares(
                weight,
                [outputs[number] for outputs in self.shown],
                self.cuts.outputs(number),
                self.cuts.mesh,
            )
            for number, weight in enumerate(self.whole.weights)
        ]


def _differences(whole: Whole, cuts: Cuts, ranks: Sequence[_Rank]) -> list[Difference]:
    found: list[Difference] = []
    for number, wanted in enumerate(whole.outputs):
        parts = [rank.outputs[number] for rank in ranks]
        found.append(compare("output", number, parts, cuts.outputs(number), cuts.mesh, wanted))
        if not requires_gradient(wanted) and any(rank.recorded[number] for rank in ranks):
            found.append(Difference("history", number, inf, 0.0))
    for number, after in enumerate(whole.after):
        if after is not None and _changed(whole.inputs[number], after):
            parts = [rank.after[number] for rank in ranks]
            # What is written and returned is from then on placed as the output is.
            output = whole.returned.get(number)
            placements = cuts.inputs(number) if output is None else cuts.outputs(output)
            found.append(compare("input", number, parts, placements, cuts.mesh, after))
    for number, gradient in enumerate(whole.gradients):
        if gradient is not None:
            parts = [rank.gradients[number] for rank in ranks]
            duals = [_gradient_placement(placement) for placement in cuts.inputs(number)]
            found.append(compare("gradient", number, parts, duals, cuts.mesh, gradient))
    return found


def _gradient_placement(placement: Placement) -> Placement:
    """How the gradients of an input's parts make the gradient of the input."""
    match placement:
        case Shard():
            return placement
        case Partial(Reduction.SUM):
            return Replicate()
        case _:
            return Partial(Reduction.SUM)


def _changed(before: Tensor | None, after: Tensor) -> bool:
    return before is not None and not torch.equal(before.nan_to_num(), after.nan_to_num())
