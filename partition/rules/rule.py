"""How one operator may be cut: by its marks, and by transform rules where marks do not tell.

    mark   tensors that have x      inputs without x                   outputs without x
    none   sharded on it            replicated                         illegal: nothing joins them
    +      sharded on it            replicated, or partial if named    partial
    ^      no split is legal

A transform rule gives the placements of inputs and outputs for the split of an identifier. It may
change the arguments of a rank's call, or replace the call. It comes before the rule of the marks.

    embedding   "v^ d, * -> * d"   a rank that has some of the rows v can look up those
        TransformRule(("S(0)", "R"), ("P(sum)",), local=rows_here)
        def rows_here(part, weight, ids): ...     # row 0 here is row part.index * len(weight)

    mean loss   "n+ c^, n+ -> ()"  the sum here, divided by how many targets all ranks keep
        TransformRule(split="n", local=divide_by_kept)
        def divide_by_kept(part, x, target): ...  # part.all_reduce(kept) is their number

A `Part` is what such a function knows of the other ranks. Each rank is a program of its own there,
and gradients are shares that add up: that of a replicated input is summed over the ranks, that of a
replicated output reaches each rank divided by their number, that of what ``all_reduce`` gives is
summed over the ranks too. So autograd alone gives the right gradients.

A rule is about the annotation alone; whether a count divides a length is asked in
`dimsolve.partition.legality`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias

from dimsolve.ir.annotation import Dim as Dimension
from dimsolve.ir.annotation import Identifier, Tensor
from dimsolve.ir.checks import wrong_type
from dimsolve.ir.display import Displayed
from dimsolve.ir.errors import OperatorError, Problem
from dimsolve.ir.operator import Declaration
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.solver.algebra.poly import product
from dimsolve.solver.layout import Layout, Pattern
from dimsolve.solver.solution import Solution

from ..placement import (
    NOT_A_PLACEMENT,
    Partial,
    Placement,
    Reduction,
    Replicate,
    Shard,
    read_placement,
)

SPLITS_NOTHING = Problem(
    OperatorError,
    "transform-rule",
    "a transform rule splits nothing",
    "it names no identifier and gives no placements of inputs",
    'give split="n", or all placements: TransformRule(("S(0)", "R"), ("P(sum)",))',
)
FITS_NO_TENSOR = Problem(
    OperatorError,
    "transform-rule",
    "a transform rule fits no tensor",
    "the rule is {rule}; {reason}",
    "give one placement per annotated tensor; the dim of S(dim) is one that it has",
)
NOT_ONE_SPLIT = Problem(
    OperatorError,
    "transform-rule",
    "the placements of a transform rule are not those of one split",
    "the rule is {rule}; {reason}",
    "cut the identifier in every tensor that has it, or give a local function "
    "that computes with these parts",
)


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
    if not layout.marks[name].splits:
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
        if placement is None and layout.marks[name].joins and number in value_split:
            placement = Partial(reduction)
        inputs.append(placement or Replicate())
    joined = Partial(reduction)
    outputs = [
        Replicate() if patterns is None else _shard(patterns, name, solution) or joined
        for patterns in layout.outputs
    ]
    return tuple(inputs), tuple(outputs)


def parts_of(rule: Rule, empty: bool | Collection[str] = True) -> Parts:
    """Returns into which parts the rule of a split holds. empty: whether what is called runs where
    a length is 0, or of which identifiers it does. A split by the marks treats indices one
    by one, so they may be dealt out anyhow, but an average weighs its parts alike, and a maximum of
    nothing there is not.

    >>> [parts_of(Rule("k", (Shard(0),), (Partial(each),))) for each in Reduction]
    ['any', 'unequal', 'unequal', 'any', 'equal']
    """
    joined = {p.reduction for p in (*rule.inputs, *rule.outputs) if isinstance(p, Partial)}
    if Reduction.AVG in joined:
        return "equal"
    if rule.transform is not None and (rule.transform.parts != "any" or rule.transform.local):
        return rule.transform.parts
    runs = empty if isinstance(empty, bool) else rule.name in empty
    compared = rule.transform is None and joined & {Reduction.MAX, Reduction.MIN}
    return "any" if runs and not compared else "unequal"


def uneven_rule(rule: Rule, solution: Solution) -> Rule | NoRule:
    """Returns the rule of the same split that deals the indices of the identifier out as torch's
    ``chunk`` does, into parts that need not be equal.

    >>> from dimsolve.solver.infer import infer
    >>> matmul = infer("m k+, k+ n -> m n", ["5, 7", "7, 3"])
    >>> print(*uneven_rule(rule_of(matmul, "k"), matmul).inputs)
    S(1, of=7) S(0, of=7)
    """
    if parts_of(rule) == "equal":
        name = rule.name
        return NoRule(name, f"the parts of {name} must be equal: what they give is weighed alike")
    return dealt_rule(rule, solution)


def dealt_rule(rule: Rule, solution: Solution) -> Rule | NoRule:
    """Returns the same placements in parts of any length, whether it holds for them or not."""
    name, layout = rule.name, solution.layout
    found: list[Placement] = []
    placements = (*rule.inputs, *rule.outputs)
    for placement, patterns in zip(placements, (*layout.inputs, *layout.outputs), strict=True):
        if isinstance(placement, Shard) and patterns is not None:
            pattern = patterns[placement.dim]
            if name not in pattern.names or placement.segments:
                return NoRule(name, f"beside {name}, {pattern} is cut, which must have equal parts")
            after = pattern.atoms[pattern.atoms.index(name) + 1 :]
            unit = product([a if isinstance(a, int) else solution.values[a] for a in after])
            length = product([placement.blocks, solution.values[name], unit])
            placement = replace(placement, of=length, unit=unit)
        found.append(placement)
    count = len(rule.inputs)
    return replace(rule, inputs=tuple(found[:count]), outputs=tuple(found[count:]))


def whole_rule(solution: Solution, name: str) -> Rule:
    """Returns the rule of one part, which is no split: every tensor is whole."""
    layout = solution.layout
    return Rule(name, (Replicate(),) * len(layout.inputs), (Replicate(),) * len(layout.outputs))


def _shard(patterns: tuple[Pattern, ...] | None, name: str, solution: Solution) -> Shard | None:
    for dim, pattern in enumerate(patterns or ()):
        if name in pattern.names:
            before = pattern.atoms[: pattern.atoms.index(name)]
            lengths = (atom if isinstance(atom, int) else solution.values[atom] for atom in before)
            return Shard(dim, product(lengths))
    return None


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
    if layout.marks[name].joins:
        return None
    for number, patterns in enumerate(layout.outputs):
        if patterns is not None and not any(name in pattern.names for pattern in patterns):
            return (
                f"'{name}' is missing from output {number} and has no mark: every rank would "
                f"compute a different output {number} and nothing says how they are joined; "
                f"write '{name}+' if they are summed, '{name}^' if '{name}' must stay whole"
            )
    return None


def frozen_dims(declaration: Declaration) -> list[tuple[int, str]]:
    """Returns the dimensions of the first input that are one identifier marked ``^``."""
    row = read_annotation(declaration.annotation).inputs[0]
    return [
        (place, dim.atoms[0].name)
        for place, dim in enumerate(row.dims if isinstance(row, Tensor) else ())
        if isinstance(dim, Dimension)
        and isinstance(dim.atoms[0], Identifier)
        and not dim.atoms[0].mark.splits
    ]


Parts: TypeAlias = Literal["equal", "unequal", "any"]
"""Into which parts a rule holds: of one length only, of any but 0, of any."""


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

    def start(self, length: int) -> int:
        """Where the part begins in the whole, of which this rank has so much: of equal parts
        ``index * length``.
        """

    def whole(self, length: int) -> int:
        """How long the whole is, of which this rank has so much: of equal parts
        ``count * length``.
        """

    def all_reduce(self, tensor: Any, reduction: str = "sum") -> Any:
        """Returns the sum, max or min of all ranks' tensors, on every rank.

        Its gradient is summed over the ranks; ranks that tie for a max or min share it evenly.
        """

    def routes(self, to: Any) -> Routes:
        """Returns the ways of rows to the parts, by the part's index for each row, (rows,) of
        whole numbers. Called on all ranks together.
        """


class Routes(Protocol):
    """The ways of rows to other ranks, and back. Gradients take the other way."""

    def there(self, rows: Any) -> Any:
        """Returns the rows that come here; in the same order, whatever of the rows is sent."""

    def back(self, rows: Any) -> Any:
        """Returns for each row that was sent what its rank has made of it, in the order of the rows
        that were sent.
        """


@dataclass(frozen=True, slots=True)
class Message:
    """One ``part.all_reduce`` of a rule's function, or one way of its ``part.routes``, made along
    every axis that the rule splits.

    row: its shape in identifiers of the annotation, each as long as on a rank; ``"()"`` is one
    number. like: what its dtype is that of: ``"input"`` or ``"output"``, the first of the call;
    ``"wide ..."``, the one that torch adds these up in; ``"count"``, int64. forward, backward:
    whether it is sent there. of: the inputs, by number, that must have a gradient for what is sent
    backward. collective: "all-to-all" for what goes along ``part.routes``; how much stays on its
    rank is known only when it runs, and taken to be even.

    cross_entropy, c cut: Message("n"), forward a maximum; Message("n", backward=True), a sum
    """

    row: str
    like: Literal["input", "output", "wide input", "wide output", "count"] = "input"
    forward: bool = True
    backward: bool = False
    of: tuple[int, ...] = (0,)
    collective: Literal["all-reduce", "all-to-all"] = "all-reduce"


@dataclass(frozen=True, slots=True)
class TransformRule(Displayed):
    """Placements in, placements out, a change of arguments, what a rank runs instead.

    inputs, outputs: one placement (or its text) per annotated tensor; None: as the marks give.
    modifier: ``(arguments, part) -> arguments`` on the call's arguments by name, defaults included.
    local: ``(part, *args, **kwargs)``, called as the function is. split: the identifiers that the
    rule splits, ``"*"`` for every dimension of ``*``; None: the one that the placements cut.
    sends: what ``local`` and ``modifier`` communicate, for the plan's figures; None: not said, and
    a plan notes that it does not count it. parts: whether the rule holds for unequal parts too:
    where it does, ``local`` asks ``part.start`` and ``part.whole`` for what equal parts would be
    counted for. placed: whether it asks them. groups: which input says where groups of rows end,
    where ``local`` reads of the first input the rows of this rank's groups only, and makes zeros
    for the others. beside: whether a plan may take either this rule or the one of the same split
    that stands before it; else the first is taken. only_unequal: whether it is for unequal parts,
    where the split that is right for equal ones weighs its parts alike.

    >>> print(TransformRule(("S(0)", "R"), ("P(sum)",)))
    S(0), R -> P(sum)
    """

    inputs: tuple[Placement | str, ...] | None = None
    outputs: tuple[Placement | str, ...] | None = None
    modifier: Callable[[dict[str, Any], Part], Mapping[str, Any]] | None = None
    local: Callable[..., Any] | None = None
    split: str | tuple[str, ...] | None = None
    sends: tuple[Message, ...] | None = None
    parts: Parts = "equal"
    placed: bool = True
    groups: int | None = None
    beside: bool = False
    only_unequal: bool = False

    def __post_init__(self) -> None:
        for side in ("inputs", "outputs"):
            placements = getattr(self, side)
            if placements is not None:
                if not isinstance(placements, tuple | list):
                    hint = (
                        "give one placement per tensor in a tuple: "
                        'TransformRule(("S(0)", "R"), ("P(sum)",))'
                    )
                    raise wrong_type(side, placements, "a tuple of placements", hint)
                object.__setattr__(self, side, tuple(map(_read, placements)))
        for name in ("modifier", "local"):
            function = getattr(self, name)
            if function is not None and not callable(function):
                raise wrong_type(name, function, "a function", "give a function of a module")
        if self.split is None and self.inputs is None:
            raise SPLITS_NOTHING()

    @property
    def routes(self) -> bool:
        """Whether it sends rows to the ranks that they are meant for."""
        return any(each.collective == "all-to-all" for each in self.sends or ())

    def names(self, solution: Solution) -> tuple[str, ...]:
        """Returns the identifiers that the rule splits in this layout."""
        if self.split is None:
            cuts = (*_cuts(self, solution, 0).values(), *_cuts(self, solution, 1).values())
            return tuple([name for name in cuts if name is not None][:1])
        given = (self.split,) if isinstance(self.split, str) else self.split
        star = solution.layout.star
        return tuple(name for each in given for name in (star if each == "*" else (each,)))

    def __str__(self) -> str:
        sides = [
            "as marked" if side is None else ", ".join(map(str, side))
            for side in (self.inputs, self.outputs)
        ]
        split = (self.split,) if isinstance(self.split, str) else self.split or ()
        names = f"{', '.join(split)}: " if self.split is not None else ""
        return f"{names}{sides[0]} -> {sides[1]}"


def _read(placement: object) -> Placement:
    if isinstance(placement, str):
        placement = read_placement(placement)
    if isinstance(placement, Shard) and placement.of:
        raise NOT_A_PLACEMENT(given=str(placement))  # how parameters are stored, and not used
    if isinstance(placement, Shard | Replicate | Partial):
        return placement
    hint = "write S(0), S(0, blocks=3), R, or P(sum)"
    raise wrong_type("an entry of a transform rule", placement, "a placement", hint)


def _sides(
    rule: TransformRule, solution: Solution
) -> tuple[tuple[str, tuple[Placement, ...] | None, Sequence[tuple[Pattern, ...] | None]], ...]:
    """(word, placements as they were read, dimensions of the tensors) of inputs and of outputs."""
    layout = solution.layout
    given: Any = (rule.inputs, rule.outputs)
    return ("input", given[0], layout.inputs), ("output", given[1], layout.outputs)


def choose_rule(
    solution: Solution,
    name: str,
    *,
    transform_rules: Sequence[TransformRule] = (),
    value_split: Collection[int] = (),
    reduction: Reduction = Reduction.SUM,
    unequal: bool = False,
) -> Rule | NoRule:
    """Returns the first transform rule that splits ``name``, else the rule that the marks give.
    unequal: into parts that need not be equal, for which there may be a rule of their own.

    Raises OperatorError for a transform rule that does not fit the tensors.
    """
    for transform in sorted(transform_rules, key=lambda rule: not rule.only_unequal):
        check_fits(transform, solution)
        if name in transform.names(solution) and transform.only_unequal <= unequal:
            return _transformed(transform, solution, name, value_split, reduction)
    return rule_of(solution, name, value_split=value_split, reduction=reduction)


def _transformed(
    transform: TransformRule,
    solution: Solution,
    name: str,
    value_split: Collection[int],
    reduction: Reduction,
) -> Rule | NoRule:
    (_, inputs, _), (_, outputs, _) = _sides(transform, solution)
    if inputs is None and outputs is None:
        rule = rule_of(solution, name, value_split=value_split, reduction=reduction)
        return rule if isinstance(rule, NoRule) else replace(rule, transform=transform)
    marked = default_placements(solution, name, value_split, reduction)
    return Rule(
        name,
        marked[0] if inputs is None else inputs,
        marked[1] if outputs is None else outputs,
        transform,
    )


def check_fits(transform: TransformRule, solution: Solution) -> None:
    """Raises OperatorError where the rule and the annotation have not the same tensors."""
    reason = _misfit(transform, solution)
    if reason:
        raise FITS_NO_TENSOR(solution.text, rule=transform, reason=reason)


def _misfit(transform: TransformRule, solution: Solution) -> str:
    for word, given, rows in _sides(transform, solution):
        if given is None:
            continue
        if len(given) != len(rows):
            count = f"{len(given)} {word}{'s' * (len(given) != 1)}"
            return f"it places {count} and the annotation has {len(rows)}"
        for number, (placement, row) in enumerate(zip(given, rows, strict=True)):
            if not isinstance(placement, Shard) or (row and 0 <= placement.dim < len(row)):
                continue
            has = "its rank is not known: it is '?'"
            if row is not None:
                has = f"it has {len(row)} dimension{'s' * (len(row) != 1)}"
            return f"it places {word} {number} as {placement}, but {has}"
    names = transform.names(solution)
    unknown = [name for name in names if name not in solution.layout.marks]
    if unknown:
        return f"'{unknown[0]}' is not an identifier of the annotation"
    if transform.split is None and not names:
        return "no placement of it cuts a dimension at an identifier"
    return ""


def check_cuts(rule: TransformRule, solution: Solution) -> None:
    """Raises OperatorError for a rule whose placements cannot be those of its split.

    A rule with a function of its own may place tensors as that function wants them. A rule without
    runs the operator itself, on parts that must match the annotation.

    >>> from dimsolve.solver.infer import infer
    >>> check_cuts(TransformRule(("S(0)", "R"), ("S(0)",)), infer("m k, k n -> m n"))
    """
    reason = _mismatch(rule, solution)
    if reason:
        raise NOT_ONE_SPLIT(solution.text, rule=rule, reason=reason)


def _mismatch(rule: TransformRule, solution: Solution) -> str:
    names = rule.names(solution)
    found = [name for name in _cuts(rule, solution, 0).values() if name is not None]
    if rule.split is not None and found and not set(found) & set(names):
        listed = " and ".join(f"'{name}'" for name in names)
        return f"it is said to split {listed}, and its inputs cut '{found[0]}'"
    if rule.local is not None or rule.modifier is not None:
        return ""
    for side, (word, given, rows) in enumerate(_sides(rule, solution)):
        cuts = _cuts(rule, solution, side)
        for number, row in enumerate(rows if given is not None else ()):
            for name in dict.fromkeys(found):
                has = any(name in pattern.names for pattern in row or ())
                if has and given is not None and cuts.get(number) != name:
                    reason = f"it cuts '{name}', which {word} {number} has too"
                    return f"{reason}, and places that as {given[number]}"
    return ""


def _cuts(rule: TransformRule, solution: Solution, side: int) -> dict[int, str | None]:
    """The identifier whose part is exactly what each placement cuts, None where none is, by the
    number of the tensor. side: 0 for inputs, 1 for outputs.
    """
    found: dict[int, str | None] = {}
    _, given, rows = _sides(rule, solution)[side]
    for number, (placement, row) in enumerate(zip(given or (), rows, strict=False)):
        if not isinstance(placement, Shard) or not row or placement.dim >= len(row):
            continue
        found[number], before = None, product(())
        for atom in row[placement.dim].atoms:
            if isinstance(atom, str) and before == placement.blocks:
                found[number] = atom
                break
            before = before * (atom if isinstance(atom, int) else solution.values[atom])
    return found
