"""One question to the general solver: equations made, solved, and put together as an answer.

Names in shapes, arguments and facts are the caller's symbols; identifiers belong to the annotation:

    h t -> (h t)   beside   8*s, k      h = 8*s, t = k; the output is 8*k*s
    h t -> (h t)   beside   t, h        h = t, t = h: the caller's t is not the identifier's
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from dimsolve.ir.annotation import Annotation
from dimsolve.ir.errors import DimsolveError, ShapeError, Span

from . import problems
from .algebra.dims import symbols_of
from .algebra.poly import Dim, Poly, symbol
from .choices import Choices, Search
from .equations import Equation, Step
from .identifier_facts import IdentifierFacts
from .layout import Layout, Pattern, identifiers_of
from .proof.facts import Facts, read_facts
from .proof.prove import decide
from .proof.verdict import Always, Never
from .shapes import (
    Shape,
    to_dim,
)
from .solution import Solution
from .unify import Unifier


@dataclass(frozen=True)
class Question:
    """An annotation laid beside shapes. ``explore``: no shapes at all, the identifiers are the
    symbols. ``sized``: the shapes are those of tensors that exist; lengths may be 0.
    """

    annotation: Annotation
    layout: Layout
    shapes: Sequence[Shape | None]
    arguments: Mapping[str, Any]
    facts: Facts
    explore: bool = False
    sized: bool = False

    @cached_property
    def _spans(self) -> dict[str, Span]:
        spans = {
            name: identifier.span for name, identifier in identifiers_of(self.annotation).items()
        }
        for operand in self.layout.inputs:
            spans.update(
                {p.names[0]: p.span for p in operand or () if p.names and p.names[0] not in spans}
            )
        return spans

    @cached_property
    def _lengths(self) -> dict[str, Dim]:
        """The same-named arguments as Dims; ShapeError for one that is no positive integer."""
        lengths: dict[str, Dim] = {}
        for name, value in self.arguments.items():
            if name not in self.layout.marks:
                continue
            dim = _positive_dim(value)
            if dim is None:
                raise problems.bad_argument(
                    self.annotation.text, self._spans[name], name, value, self._given(name)
                )
            lengths[name] = dim
        return lengths

    def _given(self, name: str) -> str:
        """Says what the inputs give for a name that stands alone in one of them."""
        for operand, dim, single in self.layout.singles:
            shape = self.shapes[operand]
            if single == name and shape is not None and shape[dim] is not None:
                return f", {shape[dim]} at input {operand}, dim {dim}"
        return ""

    @cached_property
    def _callers(self) -> frozenset[str]:
        """The caller's symbols: those of the shapes and arguments."""
        dims = [dim for shape in self.shapes for dim in shape or () if isinstance(dim, Poly)]
        return frozenset().union(*map(symbols_of, [*dims, *self._lengths.values()]))

    @cached_property
    def _identifier_facts(self) -> IdentifierFacts:
        """The facts, beside the identifiers that are written in the annotation; where the caller
        has a symbol of that name, they speak of the symbol.
        """
        ours = self.layout.marks.keys() - self._callers - set(self.layout.star)
        return IdentifierFacts(self.facts, frozenset(ours))

    def _symbol_of(self, name: str) -> Dim:
        invented = name in self.layout.star and name in self.facts.symbols
        if name not in self._callers and not invented:
            return symbol(name)
        taken = self._callers | self.layout.marks.keys() | self.facts.symbols
        return symbol(
            next(f"{name}_{i}" for i in range(1, len(taken) + 2) if f"{name}_{i}" not in taken)
        )

    def _equations(self) -> list[Equation]:
        equations = [
            self._equation(pattern, given, f"input {number}, dim {position}")
            for number, (patterns, shape) in enumerate(
                zip(self.layout.inputs, self.shapes, strict=True)
            )
            if patterns is not None and shape is not None
            for position, (pattern, given) in enumerate(zip(patterns, shape, strict=True))
            if given is not None
        ]
        # An empty dimension is known before anything is said of lengths, in any order of inputs.
        equations.sort(key=lambda equation: equation.given != 0)
        return equations + self._identifier_facts.equations(self._spans)

    def _equation(self, pattern: Pattern, given: Dim, origin: str) -> Equation:
        if given == 0 and len(pattern.atoms) > 1:
            text = self.annotation.text
            raise problems.CONTRADICTIONS["zero-product"](
                text, pattern.span, pattern=pattern, origin=origin
            )
        places = {name: pattern.span_of(name) for name in pattern.names}
        return Equation(pattern.names, pattern.constant, given, pattern.span, origin, places)

    def _solved(self) -> Unifier:
        facts = self._identifier_facts
        unifier = Unifier(
            self.annotation.text,
            facts.about_symbols,
            self._symbol_of,
            admits=facts.admits,
            admission=facts.admission,
        )
        unifier.steps.extend(self._steps_of_namesakes())
        for name, value in self._lengths.items():
            unifier.bind(name, value, f"argument {name}", self._spans[name])
            unifier.need_argument(name, value)
        equations = self._equations()
        for equation in equations:
            if isinstance(equation.given, Poly):
                unifier.need_value(equation)
        unifier.solve(equations)
        self._leave_others_free(unifier)
        return unifier

    def _steps_of_namesakes(self) -> Iterator[Step]:
        """Says of which facts that name a symbol and an identifier it is the symbol."""
        for fact in self._identifier_facts.listed:
            both = fact.names & self._callers & self.layout.marks.keys()
            if both and not fact.about:
                named = ", ".join(sorted(both))
                yield Step(
                    f"fact {fact.relation.text}",
                    f"speaks of the caller's {named}, not of the identifier",
                )

    def _leave_others_free(self, unifier: Unifier) -> None:
        """Leaves free what no equation names; ShapeError for an output's that nothing gives."""
        for name, span in self._spans.items():
            if name in unifier.bindings:
                continue
            is_known = name in self.layout.input_names or self._in_unknown_input(name)
            if not is_known and not self.explore:
                raise problems.UNANSWERABLE["unbound-output"](self.annotation.text, span, name=name)
            unifier.leave_free(name, span)

    def _in_unknown_input(self, name: str) -> bool:
        return any(
            patterns is not None and any(name in pattern.names for pattern in patterns)
            for patterns in self.layout.inputs
        )

    def steps(self) -> tuple[Step, ...]:
        """Returns the reasons, one per step."""
        return tuple(self._solved().steps)

    def solution(self) -> Solution:
        """Solves; raises ShapeError where the inputs, arguments and facts contradict each other."""
        unifier = self._solved()
        facts = self._identifier_facts
        values = {
            name: unifier.bindings[name].value
            for name in self.layout.marks
            if name in unifier.bindings
        }
        facts.check(values, self.annotation.text)
        if not self.sized:
            self._require_lengths(unifier, values)
        free = tuple(name for name in values if name in unifier.free)
        return Solution(
            text=self.annotation.text,
            layout=self.layout,
            inputs=tuple(self.shapes),
            values=values,
            conditions=tuple(unifier.conditions),
            free=free,
            facts=facts.of(values),
            trace=lambda: tuple(unifier.steps),
            choices=partial(_choices, unifier.open, values, free, facts),
        )

    def _require_lengths(self, unifier: Unifier, values: Mapping[str, Dim]) -> None:
        """Keeps the conditions under which all lengths are positive; ShapeError: never."""
        if not unifier.needs:
            return
        text = self.annotation.text
        try:
            known = read_facts([*self._identifier_facts.of(values).relations, *unifier.conditions])
        except ShapeError as error:
            raise problems.conditions_exclude(text, unifier.conditions) from error
        for need in unifier.needs:
            claim = need.claim
            decision = decide(claim.left, claim.comparison, claim.right, known)
            match decision:
                case Always():
                    continue
                case Never():
                    facts = " and ".join(str(relation) for relation in known.relations)
                    where = f" where {facts}" if facts else ""
                    words = {"name": need.name, "why": need.why, "claim": claim, "where": where}
                    raise problems.CONTRADICTIONS["no-positive-length"](text, need.span, **words)
            needed = decision.conditions or (str(claim),)
            unifier.require(needed, f"{need.name} is a positive integer: {need.why}")
            try:
                known = read_facts([*known.relations, *needed])
            except ShapeError as error:
                raise problems.conditions_exclude(text, unifier.conditions) from error


def _choices(
    equations: Sequence[Equation],
    values: Mapping[str, Dim],
    free: Sequence[str],
    facts: IdentifierFacts,
    limit: int,
) -> Choices | None:
    """The first values of the free names; None where they are not finitely many for sure."""
    if not free:
        return Choices([{}])
    known = {name: value for name, value in values.items() if name not in free}
    rows = [equation.exponents_of(free, known) for equation in equations]
    numbers = [(exponents, left) for exponents, left in rows if isinstance(left, int)]
    bounds = facts.bounds()
    if set(free) - {name for exponents, _ in numbers for name in exponents} - bounds.keys():
        return None

    def admits(case: Mapping[str, Dim]) -> bool:
        return facts.admits({**known, **case})

    return Search(numbers, admits, facts.admission, free, bounds).first(limit)


def _positive_dim(value: Any) -> Dim | None:
    if isinstance(value, bool):
        return None
    try:
        dim = to_dim(value)
    except DimsolveError:
        if isinstance(value, str):
            raise
        return None
    return None if isinstance(dim, int) and dim < 1 else dim
