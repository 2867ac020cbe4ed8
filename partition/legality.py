"""`check` and `legal_parts`: may an identifier be split into so many parts, and into which?

The answer is a theorem about all values that satisfy the facts: *legal*; or the exact condition
under which it is: *conditional*; or *illegal*, with an evaluated counterexample where a length is
to blame; or *unknown*, with what was left to show.

    check("m k+, k+ n -> m n", ["m, k", "k, n"], "k", 8)        conditional: k % 8 == 0
        inputs S(1), S(0)    outputs P(sum)    local inputs (m, k//8), (k//8, n)

What must hold is decided one by one and joined into one answer: one *never* decides, doubt
outweighs a condition, a condition outweighs a yes.

The counts that are legal for every value are the divisors of one number, the fixed divisor of the
length: ``8*s`` may always be split by 1, 2, 4 and 8, ``n*(n + 1)`` by 1 and 2. The other counts up
to a bound are legal under a condition or never.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import lcm
from typing import Any, Literal, TypedDict

from dimsolve.ir.checks import (
    as_whole,
    to_choice,
    to_flag,
    to_whole,
    wrong_type,
)
from dimsolve.ir.display import Displayed
from dimsolve.ir.errors import ShapeError
from dimsolve.ir.expression import Comparison, Relation
from dimsolve.solver.algebra.dims import ceil_div, evaluate, surely_positive, symbols_of
from dimsolve.solver.algebra.integers import divisors
from dimsolve.solver.algebra.poly import Dim, Poly, TooLarge, product
from dimsolve.solver.calls import Asked, Question, ask
from dimsolve.solver.infer import Inputs
from dimsolve.solver.layout import Pattern
from dimsolve.solver.lengths import is_length
from dimsolve.solver.problems import UNANSWERABLE, shape_text
from dimsolve.solver.proof.divisibility import fixed_divisor
from dimsolve.solver.proof.facts import Facts, read_facts
from dimsolve.solver.proof.prove import decide, decide_divides, prove
from dimsolve.solver.proof.verdict import Always, Decision, Never, Sometimes, Undecided
from dimsolve.solver.shapes import MAX_NUMBER, dim_of_text, to_dim
from dimsolve.solver.solution import Solution
from dimsolve.solver.symbolic import to_sympy

from .mesh import dealt_units, part_of, part_symbol
from .placement import Placement, Reduction, Shard
from .rules.naming import nothing_to_split, split_name
from .rules.rule import (
    NoRule,
    Rule,
    TransformRule,
    choose_rule,
    parts_of,
    uneven_rule,
    whole_rule,
)
from .rules.table import with_rules


def ranges(counts: Sequence[int]) -> str:
    """Returns ascending counts as people write them.

    >>> ranges([3, 5, 6, 7, 9])
    '3, 5-7, 9'
    """
    runs: list[list[int]] = []
    for count in counts:
        if runs and count == runs[-1][-1] + 1:
            runs[-1].append(count)
        else:
            runs.append([count])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def together(texts: Mapping[int, str]) -> dict[str, list[int]]:
    """Returns each text with the counts that it is about.

    >>> together({3: "a", 4: "b", 6: "a"})
    {'a': [3, 6], 'b': [4]}
    """
    found: dict[str, list[int]] = {}
    for count, text in texts.items():
        found.setdefault(text, []).append(count)
    return found


def said_once(reasons: Mapping[int, str]) -> dict[int, str]:
    """Returns the reasons; those that are the same but for the count speak of "that count".

    >>> said_once({3: "8 is never a multiple of 3", 5: "8 is never a multiple of 5", 7: "other"})[5]
    '8 is never a multiple of that count'
    """
    general = {
        count: re.sub(rf"\bmultiple of {count}\b", "multiple of that count", reason)
        for count, reason in reasons.items()
    }
    shared = together(general)
    return {
        count: text if len(shared[text]) > 1 else reasons[count] for count, text in general.items()
    }


Verdict = Literal["legal", "conditional", "illegal", "unknown"]


@dataclass(frozen=True, eq=False)
class Legality(Displayed):
    """May ``split`` be cut into ``parts``? Made by `dimsolve.check`.

    ``inputs`` and ``outputs`` are placements, one per tensor, () where no placement exists.
    ``conditions`` are texts in the dimension language that hold exactly where the split is legal.
    ``counterexample`` is a value of the symbols at which it is not. Answers to one question are
    equal, wherever they were made.
    """

    solution: Solution
    split: str | None
    parts: Dim
    verdict: Verdict
    reason: str
    conditions: tuple[str, ...] = ()
    counterexample: Mapping[str, int] | None = None
    rule: Rule | None = None
    given_arguments: tuple[tuple[str, Any], ...] = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Legality):
            return NotImplemented
        return self._key == other._key and self.solution == other.solution

    def __hash__(self) -> int:
        return hash((self.solution, self.split, self.verdict, self.conditions))

    @property
    def _key(self) -> tuple[Any, ...]:
        """What differs between two answers about one solution."""
        asked = self.split, self.parts, self.given_arguments
        answer = self.verdict, self.reason, self.conditions, self.counterexample
        return *asked, *answer, self.inputs, self.outputs

    @property
    def uneven(self) -> bool:
        """Whether the parts are not all equal."""
        return any(isinstance(p, Shard) and p.of != 0 for p in (*self.inputs, *self.outputs))

    @property
    def part_length(self) -> Any:
        """How long the part of a rank is, as a SymPy expression; of unequal parts it is one of
        the rank's place among them, ``part_of_k``, counted from 1. None where nothing is legal.
        """
        if self.rule is None or self.split is None:
            return None
        return to_sympy(self.local_values[self.split])

    @property
    def waste(self) -> Any:
        """How many times an equal share the longest part has, as a SymPy expression; 1 where the
        parts are equal, None where nothing is legal.
        """
        if self.rule is None or self.split is None or not self.uneven:
            return None if self.rule is None else to_sympy(1)
        length = self.solution.values[self.split]
        return to_sympy(ceil_div(length, self.parts) * self.parts) / to_sympy(length)

    @property
    def inputs(self) -> tuple[Placement, ...]:
        """The placement of every input."""
        return self.rule.inputs if self.rule else ()

    @property
    def outputs(self) -> tuple[Placement, ...]:
        """The placement of every output."""
        return self.rule.outputs if self.rule else ()

    @cached_property
    def local_values(self) -> dict[str, Dim]:
        """The length of every identifier on one rank, as Dims."""
        values = dict(self.solution.values)
        if self.rule is not None and self.split is not None:
            length = values[self.split]
            try:
                if self.uneven:
                    values[self.split] = dealt_units(length, self.parts, self.split)
                else:
                    values[self.split] = part_of(length, self.parts, self.solution.facts)
            except TooLarge:
                raise UNANSWERABLE["too-large"](self.solution.text) from None
        return values

    @cached_property
    def local_input_dims(self) -> tuple[tuple[Dim, ...] | None, ...]:
        """The inputs' shapes on one rank as Dims; None for ``?`` and unknown shapes, () where
        nothing is legal. Where no shapes were given, the identifiers are the sizes.
        """
        solution = self.solution
        rows = [
            row if solution.explored or (shape is not None and None not in shape) else None
            for row, shape in zip(solution.layout.inputs, solution.inputs, strict=True)
        ]
        return tuple(self._local(rows, self.inputs))

    @cached_property
    def local_output_dims(self) -> tuple[tuple[Dim, ...] | None, ...]:
        """The outputs' shapes on one rank as Dims."""
        return tuple(self._local(self.solution.layout.outputs, self.outputs))

    def _local(
        self,
        rows: Sequence[tuple[Pattern, ...] | None],
        placements: Sequence[Placement],
    ) -> Iterator[tuple[Dim, ...] | None]:
        for patterns, placement in zip(rows, placements, strict=False):
            try:
                yield None if patterns is None else self._cut(patterns, placement)
            except TooLarge:
                raise UNANSWERABLE["too-large"](self.solution.text) from None

    def _cut(self, patterns: tuple[Pattern, ...], placement: Placement) -> tuple[Dim, ...]:
        whole = self.solution.values
        dims = [product([p.constant, *(whole[name] for name in p.names)]) for p in patterns]
        if isinstance(placement, Shard):
            cut, facts = patterns[placement.dim], self.solution.facts
            if self.split in cut.names:
                local = self.local_values
                dims[placement.dim] = product([cut.constant, *(local[name] for name in cut.names)])
            else:
                dims[placement.dim] = part_of(dims[placement.dim], self.parts, facts)
        return tuple(dims)

    @cached_property
    def local_inputs(self) -> tuple[tuple[Any, ...] | None, ...]:
        """The inputs' shapes on one rank as SymPy expressions."""
        return _to_sympy(self.local_input_dims)

    @cached_property
    def local_outputs(self) -> tuple[tuple[Any, ...] | None, ...]:
        """The outputs' shapes on one rank as SymPy expressions."""
        return _to_sympy(self.local_output_dims)

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """The operator's arguments on one rank: one named as the split identifier is divided."""
        local = dict(self.given_arguments)
        if self.rule is not None and self.split in local:
            dim = self.local_values[self.split]
            local[self.split] = dim if isinstance(dim, int) else to_sympy(dim)
        return local

    def explain(self) -> str:
        """Returns the verdict, its reason, and a line per tensor with its placement and local
        shape.
        """
        lines = [f"{self.solution.text}   split {self.split} into {self.parts}", f"  {self}"]
        if self.rule is not None:
            for kind, placements, shapes in (
                ("input", self.inputs, self.local_input_dims),
                ("output", self.outputs, self.local_output_dims),
            ):
                for number, (placement, dims) in enumerate(zip(placements, shapes, strict=True)):
                    shape = "?" if dims is None else shape_text(dims)
                    lines.append(f"  {kind} {number}: {placement!s:<16} {shape}")
        return "\n".join(lines)

    def __str__(self) -> str:
        conditions = f" if {' and '.join(self.conditions)}" if self.conditions else ""
        return f"{self.verdict}{conditions}: {self.reason}"

    def __repr__(self) -> str:
        return f"<Legality {self}>"


def _to_sympy(rows: tuple[tuple[Dim, ...] | None, ...]) -> tuple[tuple[Any, ...] | None, ...]:
    return tuple(None if row is None else tuple(to_sympy(dim) for dim in row) for row in rows)


@dataclass(frozen=True)
class _Requirement:
    """One thing that must hold: the decision, the words for it, a Dim whose value at a
    counterexample shows the most, and the requirement as a text of the dimension language.
    """

    decision: Decision
    claim: str
    never: str
    shown_by: Dim
    left: str


@dataclass(frozen=True)
class _Requirements:
    """What must hold for a rule to be used: the inputs match, the count divides, the layout is
    contiguous if asked.
    """

    solution: Solution
    rule: Rule
    parts: Dim
    contiguous: bool
    arguments: tuple[tuple[str, Any], ...]
    unequal: Rule | NoRule | None = None
    empty: bool | tuple[str, ...] = True

    def answer(self) -> Legality:
        """The answer for equal parts; where these are not always right and others may be had, the
        one for those.
        """
        equal = self._joined()
        if self.unequal is None or equal.verdict == "legal":
            return equal
        place = part_symbol(self.rule.name)
        if any(place in symbols_of(each) for each in (*self.solution.values.values(), self.parts)):
            return equal  # the length of a part would speak of two things by one name
        dealt = self.unequal
        if isinstance(dealt, Rule):
            dealt = uneven_rule(dealt, self.solution)
        if isinstance(dealt, NoRule):
            return replace(equal, reason=f"{equal.reason}; {dealt.reason}")
        found = replace(self, rule=dealt)._joined()
        return equal if found.verdict == "illegal" and equal.verdict != "illegal" else found

    def _joined(self) -> Legality:
        """Joins the decisions."""
        conditions = list(self.solution.conditions)
        facts = _assume(self.solution.facts, conditions)
        verdict: Verdict = "conditional" if conditions else "legal"
        reasons = [f"the inputs match only if {' and '.join(conditions)}"] if conditions else []
        counterexample: Mapping[str, int] | None = None
        for requirement in self._requirements(facts):
            match requirement.decision:
                case Always():
                    reasons.append(f"{requirement.claim} for all values")
                case Never(_, found):
                    reasons.append(requirement.never + _at(requirement.shown_by, found))
                    return self._legality("illegal", "; ".join(reasons), (), found, None)
                case Sometimes(reason, found, needed):
                    verdict = "conditional" if needed and verdict != "unknown" else "unknown"
                    needs = needed or (requirement.left,)
                    conditions.extend(c for c in needs if c not in conditions)
                    counterexample = counterexample or found
                    only = f"only if {' and '.join(needed)}" if needed else f"not always ({reason})"
                    reasons.append(f"{requirement.claim} {only}{_at(requirement.shown_by, found)}")
                case Undecided(reason, left):
                    verdict = "unknown"
                    needs = left or (requirement.left,)
                    conditions.extend(c for c in needs if c not in conditions)
                    reasons.append(f"it is not decided whether {requirement.claim}: {reason}")
        if verdict == "conditional" and counterexample is None:
            # Values, which satisfy the facts, at which one of the conditions is false.
            proofs = (prove(each, facts=self.solution.facts) for each in conditions)
            values = (proof.counterexample for proof in proofs)
            counterexample = next((each for each in values if each is not None), None)
        reason = "; ".join(reasons)
        return self._legality(verdict, reason, tuple(conditions), counterexample, self.rule)

    def undecided(self) -> Legality:
        """The answer where the expressions are too large to be worked with."""
        length = self.solution.values[self.rule.name]
        left = (*self.solution.conditions, _divides_text(self.parts, length))
        reason = f"the lengths are too large to decide whether {self.rule.name} can be cut"
        return self._legality("unknown", reason, left, None, self.rule)

    def _legality(
        self,
        verdict: Verdict,
        reason: str,
        conditions: tuple[str, ...],
        counterexample: Mapping[str, int] | None,
        rule: Rule | None,
    ) -> Legality:
        return Legality(
            self.solution,
            self.rule.name,
            self.parts,
            verdict,
            reason,
            conditions,
            counterexample,
            rule,
            self.arguments,
        )

    def _requirements(self, facts: Facts) -> Iterator[_Requirement]:
        name, length = self.rule.name, self.solution.values[self.rule.name]
        text = name if str(length) == name else f"{name} = {length}"
        if not surely_positive(self.parts):
            for claim in is_length(self.parts):
                yield _Requirement(
                    decide(claim.left, claim.comparison, claim.right, facts),
                    f"the count {self.parts} is positive",
                    f"the count {self.parts} is never positive",
                    self.parts,
                    str(claim),
                )
            with suppress(ShapeError):  # then it is never positive, and that was said
                facts = _assume(facts, [f"{self.parts} >= 1"])
        shards = [p for p in (*self.rule.inputs, *self.rule.outputs) if isinstance(p, Shard)]
        if any(shard.of != 0 for shard in shards):
            yield from self._unequal(length, text, facts)
        else:
            divisor = self.parts * lcm(*[sum(shard.segments or (1,)) for shard in shards])
            yield self._divides(divisor, length, text, divisor, facts)
            yield from self._of_other_identifiers(facts)
        if self.contiguous and self.parts != 1:
            for count in sorted({shard.units for shard in shards} - {1}, key=str):
                yield _Requirement(
                    decide(count, Comparison.EQ, 1, facts),
                    f"the parts of {name} are contiguous, that is {count} == 1",
                    f"the parts of {name} are not contiguous: it is cut in each of {count} blocks",
                    count,
                    f"{count} == 1",
                )

    def _unequal(self, length: Dim, text: str, facts: Facts) -> Iterator[_Requirement]:
        """What unequal parts ask for: where a rule does not hold for nothing, that the last one
        has something.
        """
        most = ceil_div(length, self.parts)
        if parts_of(self.rule, self.empty) == "any":
            right = f"{text} may be cut into unequal parts, the longest of {most},"
            yield _Requirement(Always("no part is weighed"), right, "", length, "")
            return
        before = (self.parts - 1) * most
        yield _Requirement(
            decide(before, Comparison.LT, length, facts),
            f"{text} may be cut into unequal parts, the longest of {most}, of which none is empty",
            f"{text}, cut into unequal parts, the longest of {most}, leaves a part empty",
            length,
            f"{before} < {length}",
        )

    def _of_other_identifiers(self, facts: Facts) -> Iterator[_Requirement]:
        """A transform rule may cut other identifiers too: the count must divide them as well."""
        if self.rule.transform is None:
            return
        layout = self.solution.layout
        seen: set[str] = set()
        placements = (*self.rule.inputs, *self.rule.outputs)
        for placement, patterns in zip(placements, (*layout.inputs, *layout.outputs), strict=True):
            if not isinstance(placement, Shard) or patterns is None:
                continue
            pattern = patterns[placement.dim]
            if self.rule.name in pattern.names or str(pattern) in seen:
                continue
            seen.add(str(pattern))
            lengths = [self.solution.values[name] for name in pattern.names]
            length = product([pattern.constant, *lengths])
            parts = product([self.parts, placement.units])
            yield self._divides(parts, length, f"{pattern} = {length}", self.parts, facts)

    @staticmethod
    def _divides(parts: Dim, length: Dim, text: str, count: Dim, facts: Facts) -> _Requirement:
        return _Requirement(
            decide_divides(parts, length, facts),
            f"{text} is a multiple of {count}",
            f"{text} is never a multiple of {count}",
            length,
            _divides_text(parts, length),
        )


def _divides_text(parts: Dim, length: Dim) -> str:
    """The requirement that the parts divide the length, as a condition reads."""
    return f"({length}) % ({parts}) == 0"


def _at(dim: Dim, values: Mapping[str, int]) -> str:
    """``; at s = 1 it is 8``, or nothing where there is no symbol."""
    if isinstance(dim, int) or not values:
        return ""
    shown = ", ".join(f"{name} = {value}" for name, value in values.items())
    try:
        return f"; at {shown} it is {evaluate(dim, values)}"
    except ZeroDivisionError:
        return f"; at {shown} it has no value"


def _assume(facts: Facts, conditions: list[str]) -> Facts:
    return read_facts([*facts.relations, *conditions]) if conditions else facts


_EXPRESSIONS = ("sympy.", "dimsolve.")
"""Where the types of expressions come from."""


def check(
    annotation: Asked,
    inputs: Inputs,
    split: str | tuple[int, int],
    parts: Any,
    *,
    arguments: Mapping[str, Any] | None = None,
    facts: Iterable[str | Relation] = (),
    contiguous: bool = False,
    value_split: Collection[int] = (),
    partial: str = "sum",
    uneven: bool = False,
) -> Legality:
    """Returns whether ``split`` may be cut into ``parts``, and what every rank holds.

    annotation: of an operator, or a function or its path, as `dimsolve.infer` takes it. split: an
    identifier's name or (index, dim). parts: an int, or a dimension expression for a count not yet
    known. contiguous: allow only layouts in which every rank's part is one run.
    value_split: numbers of the inputs that are summands. partial: what joins the parts of a ``+``
    split (sum, max, min, prod, avg). uneven: where equal parts are not always right, ask for parts
    of the lengths that torch's ``chunk`` makes. Raises AnnotationError for a question that cannot
    be read and ShapeError where the inputs can never match; *illegal* is an answer.

    >>> check("m k+, k+ n -> m n", ["m, k", "k, n"], "k", 8).conditions
    ('k % 8 == 0',)
    >>> check("m k+, k+ n -> m n", ["m, 10", "10, n"], "k", 3, uneven=True).part_length
    Min(4, Max(0, 14 - 4*part_of_k))
    """
    names = symbols_of(_to_count(parts))
    asked = ask(
        annotation, inputs, arguments=arguments, facts=facts, names=names, prepare=with_rules
    )
    manner = to_manner(asked, contiguous, value_split, partial)
    return _judged(asked, split, parts, manner, to_flag("uneven", uneven))


def _judged(
    asked: Question, split: Any, parts: Any, manner: Manner, uneven: bool = False
) -> Legality:
    """The answer to a question about an annotation or a function; a function says itself why no
    part of it can be split.
    """
    declaration = asked.declaration
    found = judge(
        asked.solution,
        split,
        parts,
        arguments=asked.arguments,
        transform_rules=() if declaration is None else declaration.transform_rules,
        uneven=uneven,
        empty=declaration is None or declaration.empty,
        **manner,
    )
    if declaration is None or not declaration.frozen or found.verdict != "illegal":
        return found
    return replace(found, reason=f"{found.reason}; {declaration.frozen}")


class Manner(TypedDict):
    """How a split is meant, beside what is split and into how many."""

    contiguous: bool
    value_split: tuple[int, ...]
    reduction: Reduction


def to_manner(asked: Question, contiguous: Any, value_split: Any, partial: Any) -> Manner:
    """Returns the parameters that `check` and `legal_parts` share; a function says itself which
    inputs are summands and what joins the parts. AnnotationError for what they cannot be.
    """
    word = to_choice("partial", partial, [reduction.value for reduction in Reduction])
    summands = _to_summands(value_split, len(asked.solution.layout.inputs))
    if asked.declaration is not None:
        word, summands = asked.declaration.reduction, asked.declaration.value_split
    return Manner(
        contiguous=to_flag("contiguous", contiguous),
        value_split=summands,
        reduction=Reduction(word),
    )


def _to_summands(value_split: Any, inputs: int) -> tuple[int, ...]:
    what = "a list of input numbers"
    hint = f"inputs are counted from 0; there {'is' if inputs == 1 else 'are'} {inputs}"
    if not isinstance(value_split, Collection) or isinstance(
        value_split, str | bytes | bytearray | Mapping
    ):
        raise wrong_type("value_split", value_split, what, hint)
    try:
        found = [(entry, as_whole(entry)) for entry in value_split]
    except TypeError:  # such as a tensor without dimensions
        raise wrong_type("value_split", value_split, what, hint) from None
    for entry, number in found:
        if number is None or not 0 <= number < inputs:
            raise wrong_type("an entry of value_split", entry, "the number of an input", hint)
    return tuple([number for _, number in found if number is not None])


def judge(
    solution: Solution,
    split: str | tuple[int, int],
    parts: Any,
    *,
    arguments: Mapping[str, Any],
    contiguous: bool = False,
    value_split: Collection[int] = (),
    reduction: Reduction = Reduction.SUM,
    transform_rules: Sequence[TransformRule] = (),
    uneven: bool = False,
    empty: bool | tuple[str, ...] = True,
) -> Legality:
    """Returns the Legality of a split of shapes that are inferred already. empty: whether a part
    may be empty, as far as what is called goes.
    """
    count = _to_count(parts)
    name = split_name(solution, split)
    if name is None:
        assert not isinstance(split, str)
        return Legality(solution, None, count, "illegal", nothing_to_split(solution, split))
    if isinstance(count, int) and count < 1:
        return Legality(
            solution, name, count, "illegal", f"{count} parts: a count is a positive integer"
        )
    choose = partial(
        choose_rule,
        solution,
        name,
        transform_rules=transform_rules,
        value_split=value_split,
        reduction=reduction,
    )
    try:
        rule = choose()
    except TooLarge:
        raise UNANSWERABLE["too-large"](solution.text) from None
    if isinstance(rule, Rule) and solution.values[name] == 0 and not _runs_of_nothing(rule):
        rule = NoRule(name, f"{name} = 0 leaves every part empty")
    if isinstance(rule, NoRule) and count == 1:
        rule = whole_rule(solution, name)
    if isinstance(rule, NoRule):
        return Legality(solution, name, count, "illegal", rule.reason)
    dealt = choose(unequal=True) if uneven else None
    given = tuple(arguments.items())
    requirements = _Requirements(solution, rule, count, contiguous, given, dealt, empty)
    try:
        return requirements.answer()
    except TooLarge:
        return requirements.undecided()


def _runs_of_nothing(rule: Rule) -> bool:
    """Whether a rank has a result of nothing: what the function itself gives of it, or a rule's own
    that says so.
    """
    return rule.transform is None or not rule.transform.local or rule.transform.parts == "any"


def _to_count(parts: Any) -> Dim:
    """The count as a Dim; that it must be positive is a requirement, not a matter of type."""
    count: Dim | None = None
    if isinstance(parts, str):
        count = dim_of_text(parts) if parts.strip() else None
    elif isinstance(parts, Poly) or str(type(parts).__module__).startswith(_EXPRESSIONS):
        count = to_dim(parts, "parts")
    else:
        count = as_whole(parts)
    if count is None or (isinstance(count, int) and abs(count) >= MAX_NUMBER):
        hint = 'give a positive integer, or a dimension expression such as "n"'
        raise wrong_type("parts", parts, "a count", hint)
    return count


DEFAULT_BOUND = 64
MAX_BOUND = 10_000
MAX_DIVISORS = 4_096


@dataclass(frozen=True)
class MeshLegality:
    """Several splits of one operator, each along an axis of one mesh. ``axes``: each by itself."""

    axes: tuple[Legality, ...]
    verdict: Verdict
    reason: str
    conditions: tuple[str, ...]
    counterexample: Mapping[str, int] | None = None

    def explain(self) -> str:
        """Returns each split as `Legality.explain` has it, and the verdict on all of them."""
        texts = [axis.explain() for axis in self.axes]
        if len(self.axes) > 1:
            where = f", exactly if {' and '.join(self.conditions)}" if self.conditions else ""
            texts.append(f"{self.verdict}: {self.reason}{where}")
        return "\n\n".join(texts)


_WORST: tuple[Verdict, ...] = ("illegal", "unknown", "conditional", "legal")


def check_mesh(
    annotation: Asked,
    inputs: Inputs,
    splits: Mapping[str, Any] | Iterable[tuple[str | tuple[int, int], Any]],
    *,
    facts: Iterable[str | Relation] = (),
    **known: Any,
) -> MeshLegality:
    """Returns whether several splits are legal at once: each has to be, and some sizes have to
    satisfy what all of them ask for. splits: ``{split: parts}``, or pairs; the rest is as for
    `check`, and so are the errors.

    >>> check_mesh("a b -> b a", ["x, 6"], {"a": 4, "b": 2}).conditions
    ('x % 4 == 0',)
    >>> check_mesh("a b -> b a", ["x, x + 1"], {"a": 2, "b": 2}).verdict
    'illegal'
    """
    given, pairs = list(facts), splits.items() if isinstance(splits, Mapping) else splits
    axes = tuple(check(annotation, inputs, s, p, facts=given, **known) for s, p in pairs)
    if len(axes) == 1:
        one = axes[0]
        return MeshLegality(axes, one.verdict, one.reason, one.conditions, one.counterexample)
    verdict = next(word for word in _WORST if word in {axis.verdict for axis in axes})
    conditions = tuple(dict.fromkeys(c for axis in axes for c in axis.conditions))
    why = [f"{axis.split}: {axis.reason}" for axis in axes if axis.verdict == verdict]
    if verdict == "conditional":
        try:
            ask(annotation, inputs, arguments=known.get("arguments"), facts=[*given, *conditions])
        except ShapeError:
            never = "each split has a condition, and no sizes satisfy all of them"
            return MeshLegality(axes, "illegal", never, ())
    asked = conditions if verdict in ("conditional", "legal") else ()
    return MeshLegality(axes, verdict, "all of them together; " + "; ".join(why), asked)


@dataclass(frozen=True)
class LegalParts(Displayed):
    """The counts an identifier may be split into.

    ``fixed_divisor``: the greatest count that is legal for every value; its divisors are ``always``
    (0: the length is 0 and every count up to the bound is; where it is too large to be taken apart,
    those up to the bound are listed; where even one part asks for a condition, it is 1 and
    ``always`` is empty). ``conditional``: {count: condition} and ``forbidden``:
    {count: reason}, for the other counts up to ``up_to``; ``unknown``: {count: what was left to
    show}. ``uneven``: {count: how much longer the longest part is than an equal share}, for counts
    that cut unequal parts; they are asked for. ``left_whole``: {count: which parameters of a model
    stay whole at this count, where another would cut them, and why}.
    """

    split: str | None
    fixed_divisor: int
    always: tuple[int, ...]
    conditional: Mapping[int, str]
    forbidden: Mapping[int, str]
    unknown: Mapping[int, str]
    up_to: int
    left_whole: Mapping[int, str] = field(default_factory=dict)
    uneven: Mapping[int, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"always: {', '.join(map(str, self.always))}"]
        for word, texts in (
            (", where", self.left_whole),
            (" in unequal parts:", self.uneven),
            (" if", self.conditional),
            (" never:", said_once(self.forbidden)),
            (" unknown:", self.unknown),
        ):
            groups = together(texts).items()
            lines += [f"{ranges(counts)}{word} {text}" for text, counts in groups]
        return "\n".join(lines)


def legal_parts(
    annotation: Asked,
    inputs: Inputs,
    split: str | tuple[int, int],
    *,
    arguments: Mapping[str, Any] | None = None,
    facts: Iterable[str | Relation] = (),
    up_to: int | None = None,
    contiguous: bool = False,
    value_split: Collection[int] = (),
    partial: str = "sum",
    uneven: bool = False,
) -> LegalParts:
    """Returns which counts ``split`` may be cut into: always, under a condition, never. ``up_to``
    bounds the last two (64; at most 10,000). uneven: list counts that may cut unequal parts by
    themselves, with what that wastes.

    Raises AnnotationError for a question that cannot be read and ShapeError where the inputs can
    never match.

    >>> legal_parts("a b -> a b", ["8*s, 6"], "a", up_to=3).conditional
    {3: 's % 3 == 0'}
    >>> print(legal_parts("a b -> a b", ["10, 6"], "a", up_to=3, uneven=True))
    always: 1, 2, 5, 10
    3 in unequal parts: the longest has 6/5 of an equal share
    """
    bound = DEFAULT_BOUND if up_to is None else to_whole("up_to", up_to, 1, MAX_BOUND)
    asked = ask(annotation, inputs, arguments=arguments, facts=facts, prepare=with_rules)
    solution = asked.solution
    manner = to_manner(asked, contiguous, value_split, partial)
    unequal = to_flag("uneven", uneven)
    dealt: dict[int, str] = {}
    always: list[int] = []
    conditional: dict[int, str] = {}
    forbidden: dict[int, str] = {}
    unknown: dict[int, str] = {}
    name: str | None = None

    def judged(count: int) -> Legality:
        return _judged(asked, split, count, manner)

    for count in range(1, bound + 1):
        legality = judged(count)
        name = legality.split
        if unequal and legality.verdict != "legal":
            other = _judged(asked, split, count, manner, True)
            if other.uneven and other.verdict in ("legal", "conditional"):
                only = f", if {' and '.join(other.conditions)}" if other.conditions else ""
                dealt[count] = f"the longest has {other.waste} of an equal share{only}"
                continue
        match legality.verdict:
            case "legal":
                always.append(count)
            case "illegal":
                forbidden[count] = legality.reason
            case verdict:
                texts = conditional if verdict == "conditional" else unknown
                texts[count] = " and ".join(legality.conditions)
    greatest = 1
    if name is not None and always:
        found = [1, lcm(*always)]
        with suppress(TooLarge):
            found.append(fixed_divisor(solution.values[name], solution.facts))
        if 0 in found and len(always) == bound:
            greatest = 0
        else:
            greatest = max(n for n in found if n == 1 or judged(n).verdict == "legal")
    every = set(divisors(greatest, MAX_DIVISORS) or ()) if greatest > 0 and always else set()
    return LegalParts(
        name,
        greatest,
        tuple(sorted(every | set(always))),
        conditional,
        forbidden,
        unknown,
        bound,
        uneven=dealt,
    )
