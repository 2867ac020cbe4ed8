"""The splits of one call over several mesh axes: each cuts what the one before has left.

    (h m) k+, k+ n -> h m n        k over 2, then h over 3
    x: S(1), S(0)    w: S(0), R    result: P(sum), S(0)

Of each axis there is a `Legality`; that of an inner axis is about the shapes that the outer left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.operator import Declaration
from dimsolve.partition.check import judge
from dimsolve.partition.legality import Legality
from dimsolve.partition.placement import Partial, Placement, Reduction, Replicate, Shard
from dimsolve.partition.rules import NoRule, Rule
from dimsolve.partition.transform import choose_rule
from dimsolve.solver.infer import infer
from dimsolve.solver.solution import Solution


@dataclass(frozen=True)
class Cuts:
    """Legal splits of one call, outer axis first. ``lengths``: of the identifiers on a rank."""

    splits: tuple[tuple[str, int], ...]
    rules: tuple[Rule, ...]
    lengths: Mapping[str, int]

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
) -> Cuts | NoCut:
    """Returns the placements of all tensors under the splits, or why there are none.

    value_split and reduction take the place of the declaration's, to find out what would be right.
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
        )
        if legality.verdict != "legal" or legality.rule is None:
            return NoCut(legality.reason)
        rules.append(legality.rule)
        lengths = dict(legality.local_values)
        following = _local_solution(declaration, legality)
    if isinstance(following, NoCut) and not _own_call(rules[-1]):
        return following
    if _run_different_functions(rules):
        names = " and ".join(f"'{name}'" for name, _ in splits)
        return NoCut(f"the splits of {names} have transform rules that run different functions")
    return Cuts(tuple(splits), tuple(rules), lengths)


def _run_different_functions(rules: Sequence[Rule]) -> bool:
    own = {rule.transform.local for rule in rules if rule.transform is not None}
    return len(own - {None}) > 1


def _own_call(rule: Rule) -> bool:
    """Whether a rank's tensors need not match the annotation: the rule says what is called."""
    transform = rule.transform
    return transform is not None and not (transform.local is None and transform.modifier is None)


def _local_solution(declaration: Declaration, legality: Legality) -> Solution | NoCut:
    arguments = {
        name: legality.local_values.get(name, value)
        for name, value in declaration.arguments.items()
    }
    # Lengths that only running tells are not compared; any number stands for them.
    arguments.update(dict.fromkeys(declaration.fresh, 1))
    try:
        return infer(declaration.annotation, legality.local_input_dims, arguments=arguments)
    except DimsolveError as error:
        return NoCut(f"what a rank has does not match the annotation: {error.diagnostic.reason}")
