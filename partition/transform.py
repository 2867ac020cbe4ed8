"""Transform rules: how an operator is cut where its marks do not tell, and what a rank runs then.

A rule gives the placements of inputs and outputs for the split of an identifier. It may change the
arguments of a rank's call, or replace the call. It comes before the rule that the marks give.

    embedding   "v^ d, * -> * d"   a rank that has some of the rows v can look up those
        TransformRule(("S(0)", "R"), ("P(sum)",), local=rows_held)
        def rows_held(part, weight, ids): ...     # row 0 here is row part.index * len(weight)

    mean loss   "n+ c^, n+ -> ()"  the sum here, divided by how many targets all ranks keep
        TransformRule(split="n", local=divide_by_kept)
        def divide_by_kept(part, x, target): ...  # part.all_reduce(kept) is their number

A `Part` is what such a function knows of the other ranks. Each rank is a program of its own there,
and gradients are shares that add up: that of a replicated input is summed over the ranks, that of a
replicated output reaches each rank divided by their number, that of what ``all_reduce`` gives is
summed over the ranks too. So autograd alone gives the right gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from dimsolve.ir.errors import AnnotationError, Diagnostic, OperatorError
from dimsolve.ir.wrong_types import wrong_type
from dimsolve.solver.layout import Pattern
from dimsolve.solver.solution import Solution

from .placement import Partial, Placement, Reduction, Replicate, Shard
from .read_placement import read_placement
from .rules import NoRule, Rule, default_placements, rule_of


class Part(Protocol):
    """One rank's place among the parts of a split operator; of several splits, among all."""

    @property
    def index(self) -> int:
        """Which part this rank has, counted from 0."""

    @property
    def count(self) -> int:
        """How many parts there are."""

    def __getitem__(self, name: str) -> Part:
        """The part in the split of one identifier; index 0 of 1 where it is not split."""

    def all_reduce(self, tensor: Any, reduction: str = "sum") -> Any:
        """Returns the sum, max or min of all ranks' tensors, on every rank.

        Its gradient is summed over the ranks; ranks that tie for a max or min share it evenly.
        """


@dataclass(frozen=True, slots=True)
class TransformRule:
    """Placements in, placements out, a change of arguments, what a rank runs instead.

    inputs, outputs: one placement (or its text) per annotated tensor; None: as the marks give.
    modifier: ``(arguments, part) -> arguments`` on the call's arguments by name, defaults included.
    local: ``(part, *args, **kwargs)``, called as the function is. split: the identifiers that the
    rule splits, ``"*"`` for every dimension of ``*``; None: the one that the placements cut.

    >>> print(TransformRule(("S(0)", "R"), ("P(sum)",)))
    S(0), R -> P(sum)
    """

    inputs: tuple[Placement | str, ...] | None = None
    outputs: tuple[Placement | str, ...] | None = None
    modifier: Callable[[dict[str, Any], Part], Mapping[str, Any]] | None = None
    local: Callable[..., Any] | None = None
    split: str | tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for side in ("inputs", "outputs"):
            placements = getattr(self, side)
            if placements is not None:
                if not isinstance(placements, tuple | list):
                    raise _no_tuple(side, placements)
                read = tuple(_read(placement) for placement in placements)
                object.__setattr__(self, side, read)
        for name in ("modifier", "local"):
            function = getattr(self, name)
            if function is not None and not callable(function):
                raise wrong_type(name, function, "a function", "give a function of a module")
        if self.split is None and self.inputs is None:
            raise _no_identifier(self)

    def names(self, solution: Solution) -> tuple[str, ...]:
        """Returns the identifiers that the rule splits in this layout."""
        if self.split is None:
            name = _cut(solution, self.inputs, self.outputs)
            return () if name is None else (name,)
        given = (self.split,) if isinstance(self.split, str) else self.split
        star = solution.layout.star
        return tuple(name for each in given for name in (star if each == "*" else (each,)))

    def __str__(self) -> str:
        sides = [
            "as marked" if side is None else ", ".join(map(str, side))
            for side in (self.inputs, self.outputs)
        ]
        names = (
            ""
            if self.split is None
            else f"{self.split if isinstance(self.split, str) else ', '.join(self.split)}: "
        )
        return f"{names}{sides[0]} -> {sides[1]}"

    def _repr_svg_(self) -> str:
        from .draw_placement import transform_svg

        return transform_svg(self)


def choose_rule(
    solution: Solution,
    name: str,
    *,
    transform_rules: Sequence[TransformRule] = (),
    value_split: Collection[int] = (),
    reduction: Reduction = Reduction.SUM,
) -> Rule | NoRule:
    """Returns the first transform rule that splits ``name``, else the rule that the marks give.

    Raises OperatorError for a transform rule that does not fit the tensors.
    """
    for transform in transform_rules:
        check_fits(transform, solution)
        if name in transform.names(solution):
            return _transformed(transform, solution, name, value_split, reduction)
    return rule_of(solution, name, value_split=value_split, reduction=reduction)


def _transformed(
    transform: TransformRule,
    solution: Solution,
    name: str,
    value_split: Collection[int],
    reduction: Reduction,
) -> Rule | NoRule:
    if transform.inputs is None and transform.outputs is None:
        rule = rule_of(solution, name, value_split=value_split, reduction=reduction)
        return rule if isinstance(rule, NoRule) else replace(rule, transform=transform)
    inputs, outputs = default_placements(solution, name, value_split, reduction)
    return Rule(
        name,
        inputs if transform.inputs is None else _placements(transform.inputs),
        outputs if transform.outputs is None else _placements(transform.outputs),
        transform,
    )


def check_fits(transform: TransformRule, solution: Solution) -> None:
    """Raises OperatorError where the rule and the annotation have not the same tensors."""
    layout = solution.layout
    for kind, given, rows in (
        ("input", transform.inputs, layout.inputs),
        ("output", transform.outputs, layout.outputs),
    ):
        if given is None:
            continue
        if len(given) != len(rows):
            count = f"{len(given)} {kind}{'s' * (len(given) != 1)}"
            reason = f"it places {count} and the annotation has {len(rows)}"
            raise _no_fit(transform, solution, reason)
        for number, (placement, patterns) in enumerate(zip(_placements(given), rows, strict=True)):
            problem = _misplaced(placement, patterns)
            if problem:
                raise _no_fit(
                    transform, solution, f"it places {kind} {number} as {placement}, but {problem}"
                )
    unknown = [n for n in transform.names(solution) if n not in layout.marks]
    if unknown:
        raise _no_fit(transform, solution, f"'{unknown[0]}' is not an identifier of the annotation")
    if transform.split is None and not transform.names(solution):
        raise _no_fit(transform, solution, "no placement of it cuts a dimension at an identifier")


def _read(placement: object) -> Placement:
    if isinstance(placement, Shard | Replicate | Partial):
        return placement
    if isinstance(placement, str):
        return read_placement(placement)
    hint = "write S(0), S(0, blocks=3), R, or P(sum)"
    raise wrong_type("an entry of a transform rule", placement, "a placement", hint)


def _placements(given: tuple[Placement | str, ...]) -> tuple[Placement, ...]:
    return tuple(read_placement(p) if isinstance(p, str) else p for p in given)


def _misplaced(placement: Placement, patterns: tuple[Pattern, ...] | None) -> str | None:
    if not isinstance(placement, Shard):
        return None
    if patterns is None:
        return "its rank is not known: it is '?'"
    if not 0 <= placement.dim < len(patterns):
        count = len(patterns)
        return f"it has {count} dimension{'s' * (count != 1)}"
    return None


def _cut(solution: Solution, *sides: tuple[Placement | str, ...] | None) -> str | None:
    """The first identifier whose part is exactly what a placement cuts."""
    layout = solution.layout
    for side, rows in zip(sides, (layout.inputs, layout.outputs), strict=True):
        for placement, patterns in zip(_placements(side or ()), rows, strict=False):
            if not isinstance(placement, Shard) or not patterns or placement.dim >= len(patterns):
                continue
            name = identifier_cut(solution, placement, patterns)
            if name is not None:
                return name
    return None


def identifier_cut(solution: Solution, placement: Shard, row: Sequence[Pattern]) -> str | None:
    """Returns the identifier whose part is exactly what a placement cuts, None where none is."""
    before: Any = 1
    for atom in row[placement.dim].atoms:
        if isinstance(atom, str) and before == placement.blocks:
            return atom
        before = before * (atom if isinstance(atom, int) else solution.values[atom])
    return None


def _no_tuple(side: str, given: object) -> AnnotationError:
    hint = 'give one placement per tensor in a tuple: TransformRule(("S(0)", "R"), ("P(sum)",))'
    return wrong_type(side, given, "a tuple of placements", hint)


def _no_identifier(transform: TransformRule) -> OperatorError:
    return OperatorError(
        Diagnostic(
            code="transform-rule",
            title="a transform rule splits nothing",
            reason="it names no identifier and gives no placements of inputs",
            hint='give split="n", or all placements: TransformRule(("S(0)", "R"), ("P(sum)",))',
        )
    )


def _no_fit(transform: TransformRule, solution: Solution, reason: str) -> OperatorError:
    return OperatorError(
        Diagnostic(
            code="transform-rule",
            title="a transform rule fits no tensor",
            text=solution.text,
            reason=f"the rule is {transform}; {reason}",
            hint="give one placement per annotated tensor; the dim of S(dim) is one that it has",
        )
    )
