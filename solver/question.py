"""One question to the general solver: names told apart, facts placed, equations made, the answer
put together.

Names in shapes, arguments and facts are the caller's symbols; identifiers belong to the annotation.
A fact that names no symbol of the caller but an identifier is about the identifier: ``h*t == 24``
joins the equations, ``h >= 2`` narrows the cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dimsolve.ir.annotation import Annotation
from dimsolve.ir.errors import DimsolveError, ShapeError
from dimsolve.ir.expression import Comparison, Relation
from dimsolve.ir.span import Span

from . import problems
from .algebra.dims import Call, substitute, symbols_of
from .algebra.evaluation import COMPARE
from .algebra.poly import UNIT, Dim, Poly, symbol, terms_of
from .cases import Choices, Search
from .decision import Always, Never
from .equations import Binding, Equation, Step
from .layout import Layout, identifiers_of
from .proof.facts import NO_FACTS, Facts, read_facts
from .proof.prove import decide
from .shapes import Shape, dim_of_expression, to_dim
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
    def _ours(self) -> frozenset[str]:
        """The identifiers that facts speak of: those written in the annotation, unless the caller
        has a symbol of that name.
        """
        return frozenset(self.layout.marks.keys() - self._callers - set(self.layout.star))

    def _placed(self, dim: Dim, values: Mapping[str, Dim]) -> Dim:
        """A fact's side with lengths for identifiers; the caller's own symbols stay."""
        return substitute(dim, {name: values[name] for name in self._ours & values.keys()})

    @cached_property
    def _relations(self) -> list[tuple[Relation, Dim, Dim, bool]]:
        """Every fact with its sides as Dims, and whether it speaks of identifiers."""
        rows: list[tuple[Relation, Dim, Dim, bool]] = []
        for relation in self.facts.relations:
            left = dim_of_expression(relation.left, relation.text)
            right = dim_of_expression(relation.right, relation.text)
            rows.append(
                (relation, left, right, bool((symbols_of(left) | symbols_of(right)) & self._ours))
            )
        return rows

    @cached_property
    def _about_symbols(self) -> Facts:
        if not any(about for *_, about in self._relations):
            return self.facts
        return read_facts(relation for relation, _, _, about in self._relations if not about)

    def _symbol_of(self, name: str) -> Dim:
        invented = name in self.layout.star and name in self.facts.symbols
        if name not in self._callers and not invented:
            return symbol(name)
        taken = self._callers | self.layout.marks.keys() | self.facts.symbols
        return symbol(
            next(f"{name}_{i}" for i in range(1, len(taken) + 2) if f"{name}_{i}" not in taken)
        )

    def _equations(self) -> list[Equation]:
        text = self.annotation.text
        equations: list[Equation] = []
        for number, (patterns, shape) in enumerate(
            zip(self.layout.inputs, self.shapes, strict=True)
        ):
            if patterns is None or shape is None:
                continue
            for position, (pattern, given) in enumerate(zip(patterns, shape, strict=True)):
                if given is not None:
                    origin = f"input {number}, dim {position}"
                    if given == 0 and len(pattern.atoms) > 1:
                        raise problems.zero_product(text, pattern.span, str(pattern), origin)
                    places = {name: pattern.span_of(name) for name in pattern.names}
                    equations.append(
                        Equation(
                            pattern.names, pattern.constant, given, pattern.span, origin, places
                        )
                    )
        # An empty dimension is known before anything is said of lengths, in any order of inputs.
        equations.sort(key=lambda equation: equation.given != 0)
        return equations + self._fact_equations()

    def _fact_equations(self) -> list[Equation]:
        """Facts of the form *product of identifiers == length* are equations like any other."""
        equations: list[Equation] = []
        for relation, left, right, about in self._relations:
            if not about or relation.comparison is not Comparison.EQ:
                continue
            for product, given in ((left, right), (right, left)):
                names = _names_of_product(product, self._ours)
                if names is not None and not symbols_of(given) & self._ours:
                    (constant,) = product.terms.values() if isinstance(product, Poly) else (1,)
                    origin = f"fact {relation.text}"
                    equations.append(
                        Equation(names, constant, given, self._spans[names[0]], origin)
                    )
                    break
        return equations

    def _admits(self, case: Mapping[str, Dim]) -> bool:
        """Whether the facts about identifiers allow these lengths; a fact about other names allows
        everything.
        """
        for relation, left, right, about in self._relations:
            if not about:
                continue
            try:
                sides = self._placed(left, case), self._placed(right, case)
            except ZeroDivisionError:
                return False
            if not _may_hold(*sides, relation.comparison):
                return False
        return True

    @property
    def _admission(self) -> int:
        """What `_admits` costs: a fact of which something stays open may need a proof."""
        sides = [symbols_of(a) | symbols_of(b) for _, a, b, about in self._relations if about]
        return 1 + sum(4 if side <= self._ours else 100 for side in sides)

    def _bounds(self) -> dict[str, int]:
        """The greatest values of identifiers that facts allow: ``h*t <= 24`` bounds h and t."""
        bounds: dict[str, int] = {}
        for relation, left, right, about in self._relations:
            if not about or relation.comparison is Comparison.NE:
                continue
            for greater, less in ((right, left), (left, right)):
                if relation.comparison in _RISES[greater is right]:
                    for name, most in _at_most(less - greater):
                        if name not in self._ours:
                            continue
                        bounds[name] = min(most, bounds.get(name, most))
        return bounds

    def _solved(self) -> Unifier:
        unifier = Unifier(
            self.annotation.text,
            self._about_symbols,
            self._symbol_of,
            self._admits,
            self._admission,
        )
        for relation, left, right, about in self._relations:
            both = (symbols_of(left) | symbols_of(right)) & self._callers & self.layout.marks.keys()
            if both and not about:
                named = ", ".join(sorted(both))
                unifier.steps.append(
                    Step(
                        f"fact {relation.text}",
                        f"speaks of the caller's {named}, not of the identifier",
                    )
                )
        for name, value in self._lengths.items():
            unifier.bindings[name] = Binding(value, f"argument {name}", self._spans[name])
            unifier.need_argument(name, value)
            unifier.steps.append(Step(f"{name} = {value}", f"argument {name}"))
        equations = self._equations()
        for equation in equations:
            if isinstance(equation.given, Poly):
                unifier.need_value(equation)
        unifier.solve(equations)
        for name, span in self._spans.items():
            if name in unifier.bindings:
                continue
            if (
                name not in self.layout.input_names
                and not self.explore
                and not self._in_unknown_input(name)
            ):
                raise problems.unbound_output(self.annotation.text, span, name)
            unifier.leave_free(name, span)
        return unifier

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
        values = {
            name: unifier.bindings[name].value
            for name in self.layout.marks
            if name in unifier.bindings
        }
        self._check_facts(values)
        if not self.sized:
            self._require_lengths(unifier, values)
        free = tuple(name for name in values if name in unifier.free)
        known = {name: value for name, value in values.items() if name not in free}

        def choices(limit: int) -> Choices | None:
            rows = [equation.exponents_of(free, known) for equation in unifier.open]
            numbers = [(exponents, left) for exponents, left in rows if isinstance(left, int)]
            bounds = self._bounds()
            if set(free) - {name for exponents, _ in numbers for name in exponents} - bounds.keys():
                return None

            def admits(case: Mapping[str, Dim]) -> bool:
                return self._admits({**known, **case})

            return Search(numbers, admits, self._admission, free, bounds).first(limit)

        return Solution(
            text=self.annotation.text,
            layout=self.layout,
            inputs=tuple(self.shapes),
            values=values,
            conditions=tuple(unifier.conditions),
            free=free,
            facts=self._facts_of(values),
            trace=lambda: tuple(unifier.steps),
            choices=choices if free else lambda limit: Choices([{}]),
        )

    def _require_lengths(self, unifier: Unifier, values: Mapping[str, Dim]) -> None:
        """Identifiers are positive: keeps the conditions under which all lengths are; ShapeError
        where one never is.
        """
        if not unifier.needs:
            return
        text = self.annotation.text
        try:
            known = read_facts([*self._facts_of(values).relations, *unifier.conditions])
        except ShapeError as error:
            raise problems.conditions_exclude(text, unifier.conditions) from error
        for need in unifier.needs:
            claim = need.claim
            decision = decide(claim.left, claim.comparison, claim.right, known)
            match decision:
                case Always():
                    continue
                case Never():
                    where = [str(relation) for relation in known.relations]
                    raise problems.no_positive_length(
                        text, need.span, need.name, need.why, str(claim), where
                    )
            needed = decision.conditions or (str(claim),)
            unifier.require(needed, f"{need.name} is a positive integer: {need.why}")
            try:
                known = read_facts([*known.relations, *needed])
            except ShapeError as error:
                raise problems.conditions_exclude(text, unifier.conditions) from error

    def _check_facts(self, values: Mapping[str, Dim]) -> None:
        """Raises ShapeError for a fact about identifiers that cannot be true of what was found."""
        for relation, left, right, about in self._relations:
            if not about:
                continue
            sides = self._placed(left, values), self._placed(right, values)
            decision = decide(sides[0], relation.comparison, sides[1], self._about_symbols)
            if isinstance(decision, Never):
                found = ", ".join(
                    f"{n} = {values[n]}"
                    for n in sorted(symbols_of(left) | symbols_of(right))
                    if n in self._ours & values.keys()
                )
                raise problems.fact_contradicts(self.annotation.text, relation.text, found)

    def _facts_of(self, values: Mapping[str, Dim]) -> Facts:
        """The facts in the caller's symbols: those about identifiers speak of what the identifiers
        are.
        """
        if self._about_symbols is self.facts:
            return self.facts
        texts: list[str | Relation] = []
        for relation, left, right, about in self._relations:
            if about:
                sides = self._placed(left, values), self._placed(right, values)
                texts.append(f"{sides[0]} {relation.comparison.value} {sides[1]}")
            else:
                texts.append(relation)
        return read_facts(texts)


def _may_hold(left: Dim, right: Dim, comparison: Comparison) -> bool:
    if isinstance(left, int) and isinstance(right, int):
        return COMPARE[comparison](left, right)
    return not isinstance(decide(left, comparison, right, NO_FACTS), Never)


_RISES = {
    True: (Comparison.LE, Comparison.LT, Comparison.EQ),
    False: (Comparison.GE, Comparison.GT, Comparison.EQ),
}
"""Whether the right side is the greater one -> the comparisons that say so."""


def _at_most(dim: Dim) -> Iterator[tuple[str, int]]:
    """Yields what ``dim <= 0`` says of single names, where it is positive terms less a number."""
    terms = dict(terms_of(dim))
    number = -terms.pop(UNIT, 0)
    if all(c > 0 and not any(isinstance(a, Call) for a, _ in m) for m, c in terms.items()):
        for monomial, coefficient in terms.items():
            for name, _ in monomial:
                yield name, max(number // coefficient, 0)


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


def _names_of_product(dim: Dim, names: Any) -> tuple[str, ...] | None:
    """Returns the names of a single term that is a product of identifiers only, with repetition."""
    if isinstance(dim, int) or len(dim.terms) != 1:
        return None
    ((monomial, coefficient),) = dim.terms.items()
    if coefficient < 1 or any(atom not in names for atom, _ in monomial):
        return None
    return tuple(atom for atom, exponent in monomial for _ in range(exponent))
