"""What one mesh axis can do to one operator.

    linear "* k+, n k+, n -> * n"
        Choice("n")            R, S(0), S(0) -> S(2)
        Choice("n", blocks=3)  R, S(0, blocks=3), S(0, blocks=3) -> S(2, blocks=3)
        Choice("k")            S(2), S(1), P(sum) -> P(sum)
        passing                P(sum), R, P(sum) -> P(sum)       linear in input and bias together
        WHOLE                  R, R, R -> R

A split into any number of parts treats the indices of its identifier one by one, so they may also
be dealt out in blocks: ``n`` cut in each of 3 blocks is the fused weight of three projections, and
in segments of 4:1:1 that of grouped heads, 4 query heads to a key and a value head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from dimsolve.ir.operator import Declaration
from dimsolve.solver.algebra.poly import Dim

from ..placement import Partial, Placement, Reduction, Replicate

R = Replicate()
SUM = Partial(Reduction.SUM)

Need: TypeAlias = tuple[Placement, bool]
"""A placement that a use wants, and whether the use is work of which each rank does a share."""


@dataclass(frozen=True, slots=True)
class Duty:
    """What must hold for a choice: the count, times ``divisor``, divides ``length``.

    name: the identifier. length: its whole length. divisor: the units of its blocks and segments,
    times the parts that outer axes make of it.
    """

    name: str
    length: Dim
    divisor: Dim


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The placements of an operator's tensors along one axis. Made once by a `Kind`, compared by
    identity.

    name: the identifier that is cut, None where nothing is. blocks, segments: how it is, as in
    `dimsolve.partition.placement.Shard`. rule: the number of the transform rule used. duties: what
    must hold, for every identifier whose length is divided. needs: what is wanted of every input.
    """

    inputs: tuple[Placement, ...]
    outputs: tuple[Placement, ...]
    name: str | None = None
    blocks: Dim = 1
    segments: tuple[int, ...] = ()
    rule: int | None = None
    duties: tuple[Duty, ...] = ()
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
            return f"{self.name}{blocks}{segments}"
        return "partial" if self.partial else "whole"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an operator cannot do what was asked. ``name``: the identifier that is to blame."""

    reason: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Contract:
    """What of a declaration decides how it may be cut, besides its annotation. ``kept``: inputs, by
    number, that the model keeps as they are left: no summand stands for them.
    """

    value_split: tuple[int, ...]
    reduction: Reduction
    linear: tuple[tuple[int, ...], ...]
    frozen: str
    transform_rules: tuple[object, ...]
    kept: tuple[int, ...] = ()

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
        )

    def loses(self, inputs: Sequence[Placement]) -> bool:
        """Whether what is kept would be a summand."""
        return any(isinstance(inputs[place], Partial) for place in self.kept)
