"""Whether the placements of a transform rule are about one split: what can be told before a call.

    m k, k n -> m n     S(0), S(0) -> S(0)      cuts m and k: input 0 has k too
    a b -> a b          S(0) -> S(0), split b   cuts a
    v d, * -> * d       S(0), R -> P(sum)       one split, of v

A rule with a function of its own may place tensors as that function wants them. A rule without runs
the operator itself, on parts that must match the annotation.

What splitting one identifier does to every tensor of an operator: the table of marks.

    mark   tensors that have x      inputs without x                   outputs without x
    none   sharded on it            replicated                         illegal: nothing joins them
    +      sharded on it            replicated, or partial if named    partial
    ^      no split is legal

A rule is about the annotation alone; whether a count divides a length is asked in
`dimsolve.partition.legality`.

What is split: a name, or (index, dim) as ``graph.partition(idx=, dim=)`` says it.

Transform rules: how an operator is cut where its marks do not tell, and what a rank runs then.

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

from dimsolve.ir.annotation import Mark, Opaque
from dimsolve.ir.characters import shown
from dimsolve.ir.checks import (
    as_whole,
    nearest,
    written,
    wrong_type,
)
from dimsolve.ir.display import Displayed
from dimsolve.ir.errors import AnnotationError, Diagnostic, OperatorError
from dimsolve.solver.algebra.poly import Dim, product
from dimsolve.solver.layout import Layout, Pattern
from dimsolve.solver.solution import Solution

from ..placement import Partial, Placement, Reduction, Replicate, Shard, read_placement


@dataclass(frozen=True, slots=True)
class Rule(Displayed):
    """The placements of all tensors when ``name`` is split, one each, inputs then outputs.

    ``transform``: the transform rule they come from, None where the marks gave them.
    """

    name: str
    inputs: tuple[Placement, ...]
    outputs: tuple[Placement, ...]
    transform: TransformRule | None = None


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


_SPLIT = "an identifier or (index, dim)"
_HINT = 'name an identifier, such as "k", or give (index, dim)'


def split_name(solution: Solution, split: str | tuple[int, int]) -> str | None:
    """Returns the identifier that a split names; None where that dimension has none to split.

    (index, dim): inputs count from 0, outputs go on after them; a negative dim counts from the end;
    the first identifier of that dimension whose length is not 1. Raises AnnotationError for a name
    or an index that does not exist.
    """
    if isinstance(split, str):
        if split not in solution.layout.marks:
            raise _unknown_name(solution, split)
        return split
    index, dim = _pair(solution, split)
    patterns = (*solution.layout.inputs, *solution.layout.outputs)[index]
    if patterns is None or not -len(patterns) <= dim < len(patterns):
        return None
    names = (atom for atom in patterns[dim].atoms if isinstance(atom, str))
    return next((name for name in names if solution.values[name] != 1), None)


def nothing_to_split(solution: Solution, split: tuple[int, int]) -> str:
    """Returns why (index, dim) names no identifier, in words."""
    index, dim = _pair(solution, split)
    count = len(solution.layout.inputs)
    tensor = f"input {index}" if index < count else f"output {index - count}"
    operand = (*solution.annotation.inputs, *solution.annotation.outputs)[index]
    if isinstance(operand, Opaque):
        return f"{tensor} is '?': it is only ever replicated"
    patterns = (*solution.layout.inputs, *solution.layout.outputs)[index]
    if patterns is None:
        return f"the rank of {tensor} is not known"
    if not -len(patterns) <= dim < len(patterns):
        return (
            f"{tensor} has no dimension {written(dim)}: '{operand}' has {_counted(len(patterns))}"
        )
    if any(isinstance(atom, str) for atom in patterns[dim].atoms):
        return f"dimension {dim} of {tensor} has length 1: there is nothing to split"
    number = patterns[dim]
    return f"dimension {dim} of {tensor} is the number {number}: a written length is never split"


def _counted(rank: int) -> str:
    """Returns how many dimensions there are and how they are numbered."""
    match rank:
        case 0:
            return "none"
        case 1:
            return "only dimension 0 (or -1)"
        case _:
            return f"dimensions 0 to {rank - 1} (or -{rank} to -1)"


def _pair(solution: Solution, split: object) -> tuple[int, int]:
    if not isinstance(split, tuple | list) or len(split) != 2:
        raise wrong_type("split", split, _SPLIT, _HINT)
    index, dim = map(as_whole, split)
    if index is None or dim is None:
        raise wrong_type("split", split, _SPLIT, _HINT)
    inputs, outputs = len(solution.layout.inputs), len(solution.layout.outputs)
    if 0 <= index < inputs + outputs:
        return index, dim
    there = [
        _numbered(first, count, kind)
        for first, count, kind in ((0, inputs, "input"), (inputs, outputs, "output"))
        if count
    ]
    reason = f"index {written(index)} names no tensor: {' and '.join(there) or 'there is none'}"
    raise AnnotationError(
        Diagnostic("unknown-split", "there is no such split", solution.text, (), reason, _HINT)
    )


def _numbered(first: int, count: int, kind: str) -> str:
    if count == 1:
        return f"{first} is the {kind}"
    return f"{first} to {first + count - 1} are the {kind}s"


def _unknown_name(solution: Solution, name: str) -> AnnotationError:
    names = list(solution.layout.marks)
    close = nearest(name, names)
    known = ", ".join(names) or "none"
    return AnnotationError(
        Diagnostic(
            code="unknown-split",
            title="there is no such identifier",
            text=solution.text,
            reason=f"'{shown(name)}' is no identifier of the annotation; "
            f"its identifiers are {known}",
            hint=f"did you mean '{close}'?" if close else "",
        )
    )


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
class TransformRule(Displayed):
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


def check_cuts(rule: TransformRule, solution: Solution) -> None:
    """Raises OperatorError for a rule whose placements cannot be those of its split.

    >>> from dimsolve.solver.infer import infer
    >>> check_cuts(TransformRule(("S(0)", "R"), ("S(0)",)), infer("m k, k n -> m n"))
    """
    inputs = _cuts(rule.inputs, solution.layout.inputs, solution)
    outputs = _cuts(rule.outputs, solution.layout.outputs, solution)
    names = rule.names(solution)
    found = [name for name in inputs.values() if name is not None]
    if rule.split is not None and found and not set(found) & set(names):
        said = " and ".join(f"'{name}'" for name in names)
        raise _wrong(rule, solution, f"it is said to split {said}, and its inputs cut '{found[0]}'")
    if rule.local is not None or rule.modifier is not None:
        return
    for kind, cuts, given, rows in (
        ("input", inputs, rule.inputs, solution.layout.inputs),
        ("output", outputs, rule.outputs, solution.layout.outputs),
    ):
        for number, row in enumerate(rows if given is not None else ()):
            for name in dict.fromkeys(found):
                if cuts.get(number) != name and _has(row, name):
                    reason = f"it cuts '{name}', which {kind} {number} has too"
                    raise _wrong(rule, solution, f"{reason}, and places that as {given[number]}")  # type: ignore[index]


def _has(row: Sequence[Pattern] | None, name: str) -> bool:
    return any(name in pattern.names for pattern in row or ())


def _cuts(
    given: Sequence[Placement | str] | None,
    rows: Sequence[Sequence[Pattern] | None],
    solution: Solution,
) -> dict[int, str | None]:
    """The identifier that each placement cuts, by the number of the tensor."""
    found: dict[int, str | None] = {}
    for number, (placement, row) in enumerate(zip(given or (), rows, strict=False)):
        read = read_placement(placement) if isinstance(placement, str) else placement
        if isinstance(read, Shard) and row is not None:
            found[number] = identifier_cut(solution, read, row)
    return found


def _wrong(rule: TransformRule, solution: Solution, reason: str) -> OperatorError:
    return OperatorError(
        Diagnostic(
            code="transform-rule",
            title="the placements of a transform rule are not those of one split",
            text=solution.text,
            reason=f"the rule is {rule}; {reason}",
            hint="cut the identifier in every tensor that has it, or give a local function "
            "that computes with these parts",
        )
    )
