"""What splitting one identifier does to every tensor of an operator: the table of marks.

    mark   tensors that have x      inputs without x                   outputs without x
    none   sharded on it            replicated                         illegal: nothing joins them
    +      sharded on it            replicated, or partial if named    partial
    ^      no split is legal

A rule is about the annotation alone; whether a count divides a length is asked in
`dimsolve.partition.check`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dimsolve.ir.annotation import Mark
from dimsolve.solver.algebra.poly import Dim, product
from dimsolve.solver.layout import Layout, Pattern
from dimsolve.solver.solution import Solution

from .placement import Partial, Placement, Reduction, Replicate, Shard

if TYPE_CHECKING:
    from .transform import TransformRule


@dataclass(frozen=True, slots=True)
class Rule:
    """The placements of all tensors when ``name`` is split, one each, inputs then outputs.

    ``transform``: the transform rule they come from, None where the marks gave them.
    """

    name: str
    inputs: tuple[Placement, ...]
    outputs: tuple[Placement, ...]
    transform: TransformRule | None = None

    def _repr_svg_(self) -> str:
        from .draw_placement import rule_svg

        return rule_svg(self)


@dataclass(frozen=True, slots=True)
class NoRule:
    """Splitting ``name`` is illegal for every count above 1, and why."""

    name: str
    reason: str


def rule_of(
    solution: Solution,
    name: str,
    *,
    value_split: Collection[int] = (),
    reduction: Reduction = Reduction.SUM,
) -> Rule | NoRule:
    """Returns the rule for splitting identifier ``name``.

    value_split: the inputs (by number) that are summands, partial where a ``+`` split does not
    shard them. reduction: how the parts of a ``+`` split are joined.
    """
    layout = solution.layout
    if layout.marks[name] is Mark.FROZEN:
        return NoRule(name, f"'{name}' is marked '^': no split of it is legal")
    problem = _lost_data(layout, name) or _unjoined_output(layout, name)
    if problem:
        return NoRule(name, problem)
    return Rule(name, *default_placements(solution, name, value_split, reduction))


def default_placements(
    solution: Solution, name: str, value_split: Collection[int], reduction: Reduction
) -> tuple[tuple[Placement, ...], tuple[Placement, ...]]:
    """Returns the placements of inputs and outputs by the table, whatever the mark allows."""
    layout = solution.layout
    inputs: list[Placement] = []
    for number, patterns in enumerate(layout.inputs):
        placement: Placement | None = _shard(patterns, name, solution)
        if placement is None and layout.marks[name] is Mark.SUM and number in value_split:
            placement = Partial(reduction)
        inputs.append(placement or Replicate())
    joined = Partial(reduction)
    outputs = [
        Replicate() if patterns is None else _shard(patterns, name, solution) or joined
        for patterns in layout.outputs
    ]
    return tuple(inputs), tuple(outputs)


def whole_rule(solution: Solution, name: str) -> Rule:
    """Returns the rule of one part, which is no split: every tensor is whole."""
    layout = solution.layout
    return Rule(name, (Replicate(),) * len(layout.inputs), (Replicate(),) * len(layout.outputs))


def _shard(patterns: tuple[Pattern, ...] | None, name: str, solution: Solution) -> Shard | None:
    for dim, pattern in enumerate(patterns or ()):
        if name in pattern.names:
            before = pattern.atoms[: pattern.atoms.index(name)]
            return Shard(dim, product(_length(atom, solution) for atom in before))
    return None


def _length(atom: str | int, solution: Solution) -> Dim:
    return atom if isinstance(atom, int) else solution.values[atom]


def _lost_data(layout: Layout, name: str) -> str | None:
    """A name that stands twice in one tensor: a block of the diagonal is not the diagonal of the
    blocks.
    """
    for kind, rows in (("input", layout.inputs), ("output", layout.outputs)):
        for number, patterns in enumerate(rows):
            count = sum(pattern.names.count(name) for pattern in patterns or ())
            if count > 1:
                return (
                    f"'{name}' stands {count} times in {kind} {number}: a rank would need one "
                    "block of each, and the data off that diagonal would be lost"
                )
    return None


def _unjoined_output(layout: Layout, name: str) -> str | None:
    """An unmarked name that is missing from an output: nothing says how the parts are joined."""
    if layout.marks[name] is Mark.SUM:
        return None
    for number, patterns in enumerate(layout.outputs):
        if patterns is not None and not any(name in pattern.names for pattern in patterns):
            return (
                f"'{name}' is missing from output {number} and has no mark: every rank would "
                f"compute a different output {number} and nothing says how they are joined; "
                f"write '{name}+' if they are summed, '{name}^' if '{name}' must stay whole"
            )
    return None
