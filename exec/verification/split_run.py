"""Runs a call split on all ranks, and measures how far it is from the run on one device.

    matmul, k over 2:   rank 0  x[:, :4] @ w[:4]      their sum against  x @ w
                        rank 1  x[:, 4:] @ w[4:]      and the gradients of x and w alike

All ranks run in this process (`dimsolve.exec.distributed.simulated_world`). The outputs' gradients
are random. An input that a call writes to is compared as the call leaves it. Partial inputs are
given as summands that all differ, not as the value beside zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import torch
from torch import Tensor

from dimsolve.partition.placement import Partial, Placement, Reduction, Replicate, Shard

from ..distributed.part import MeshPart
from ..distributed.sharding import local_parts
from ..distributed.simulated_world import Member, RankError, SimulatedWorld
from ..operator_call import function_of, invoke, local_arguments, modified
from .cuts import Cuts
from .differences import Difference, compare, largest
from .gradients import gradient_shares, gradients_of, requires_gradient
from .random_parts import random_parts
from .whole_run import Whole, annotated_outputs, leaf_of, placed

_PERHAPS_ROUNDING = 2e-2
"""Below this it is worth a look in which precision the function computes."""


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


def run_split(whole: Whole, cuts: Cuts, seed: int) -> Outcome:
    """Runs the same call on all ranks of the cuts' mesh and compares."""
    world: SimulatedWorld[_Rank] = SimulatedWorld(cuts.mesh)
    generator = torch.Generator("cpu").manual_seed(seed)
    parts = [
        None if tensor is None else random_parts(tensor, cuts.inputs(i), cuts.mesh, generator)
        for i, tensor in enumerate(whole.inputs)
    ]
    try:
        ranks = world.run(_Program(whole, cuts, parts, [[] for _ in range(len(world))]))
    except RankError as error:
        cause = error.__cause__ or error
        reason = ": ".join(filter(None, [type(cause).__name__, str(cause).partition("\n")[0]]))
        return Outcome(error=f"rank {error.rank} raised {reason}")
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
class _Program:
    """What every rank does. ``shown``: where the ranks show each other their outputs."""

    whole: Whole
    cuts: Cuts
    parts: list[list[Tensor] | None]
    shown: list[list[Any]]

    def __call__(self, member: Member) -> _Rank:
        call = self.whole.call
        leaves = [
            leaf_of(
                None if part is None else part[member.rank], number in self.whole.differentiable
            )
            for number, part in enumerate(self.parts)
        ]
        given = [None if leaf is None else leaf.clone() for leaf in leaves]
        outputs = annotated_outputs(call, self._run(member, given), given)
        self._check_shapes(outputs, member.rank)
        self.shown[member.rank] = [_detached(output) for output in outputs]
        member.world.all_reduce(torch.zeros((), device="cpu"))  # now all have shown theirs
        gradients: list[Tensor | None] = [None] * len(leaves)
        if not self.whole.no_gradient:
            shares = [self._share(number, member.rank) for number in range(len(outputs))]
            gradients = gradients_of(outputs, leaves, shares)
        after = [None if tensor is None else tensor.detach() for tensor in given]
        recorded = [requires_gradient(output) for output in outputs]
        return _Rank(self.shown[member.rank], recorded, after, gradients)

    def _run(self, member: Member, given: list[Tensor | None]) -> Any:
        call, star = self.whole.call, self.whole.solution.layout.star
        names, function = call.operator.parameters, function_of(call.operator)
        arguments = local_arguments(call, placed(call, given), self.cuts.lengths, star)
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
        return [(function, MeshPart(tuple(pairs))) for function, pairs in splits.items()]

    def _check_shapes(self, outputs: list[Any], rank: int) -> None:
        count = len(self.whole.outputs)
        if len(outputs) != count:
            raise ValueError(f"{len(outputs)} outputs, and {count} of the whole")
        for number, (output, wanted) in enumerate(zip(outputs, self.whole.outputs, strict=True)):
            if isinstance(wanted, Tensor):
                placements = self.cuts.outputs(number)
                parts = local_parts(wanted.detach(), placements, self.cuts.mesh)
                if not isinstance(output, Tensor) or output.shape != parts[rank].shape:
                    shape = tuple(getattr(output, "shape", ())) or type(output).__name__
                    raise ValueError(
                        f"output {number} is {shape}, and {tuple(parts[rank].shape)} is wanted"
                    )

    def _share(self, number: int, rank: int) -> Tensor | None:
        weight = self.whole.weights[number]
        if weight is None:
            return None
        parts = [outputs[number] for outputs in self.shown]
        placements = self.cuts.outputs(number)
        return gradient_shares(weight, parts, placements, self.cuts.mesh)[rank]


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
            duals = [_dual(placement) for placement in cuts.inputs(number)]
            found.append(compare("gradient", number, parts, duals, cuts.mesh, gradient))
    return found


def _dual(placement: Placement) -> Placement:
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


def _detached(output: Any) -> Any:
    return output.detach().clone() if isinstance(output, Tensor) else output
