"""Facts about identifiers: what they ask of lengths that are tried, and of those that are found.

A fact that names an identifier, and the caller has no symbol of that name, is about the identifier:

    h*t == 24      an equation among the others
    h*t <= 24      bounds h and t, so there are finitely many cases
    h >= 2         narrows the cases
    h == 3         of a solution with h = 4, a contradiction

Once the identifiers are solved, such a fact says something about the caller's symbols: with
``h = 8*s``, ``h >= 16`` is ``8*s >= 16``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from dimsolve.ir.errors import Span
from dimsolve.ir.expression import Comparison, Relation

from . import problems
from .algebra.dims import Call, substitute, symbols_of
from .algebra.evaluation import COMPARE
from .algebra.poly import UNIT, Dim, Poly, terms_of
from .equations import Equation
from .proof.facts import NO_FACTS, Facts, read_facts
from .proof.prove import decide
from .proof.verdict import Never
from .shapes import dim_of_expression


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact with its sides as Dims. ``about``: whether it speaks of identifiers."""

    relation: Relation
    left: Dim
    right: Dim
    about: bool

    @property
    def names(self) -> set[str]:
        """The names on both sides."""
        return symbols_of(self.left) | symbols_of(self.right)


@dataclass(frozen=True)
class IdentifierFacts:
    """Facts beside the identifiers that they may speak of, whose names are not the caller's."""

    facts: Facts
    identifiers: frozenset[str]

    @cached_property
    def listed(self) -> list[Fact]:
        """Every fact, in order."""
        rows: list[Fact] = []
        for relation in self.facts.relations:
            left = dim_of_expression(relation.left, relation.text)
            right = dim_of_expression(relation.right, relation.text)
            about = bool((symbols_of(left) | symbols_of(right)) & self.identifiers)
            rows.append(Fact(relation, left, right, about))
        return rows

    @cached_property
    def _about(self) -> list[Fact]:
        return [fact for fact in self.listed if fact.about]

    @cached_property
    def about_symbols(self) -> Facts:
        """The facts that speak of the caller's symbols only."""
        if not self._about:
            return self.facts
        return read_facts(fact.relation for fact in self.listed if not fact.about)

    def equations(self, spans: Mapping[str, Span]) -> list[Equation]:
        """Returns the facts that are equations, *product of identifiers == length*."""
        equations: list[Equation] = []
        for fact in self._about:
            if fact.relation.comparison is not Comparison.EQ:
                continue
            for side, given in ((fact.left, fact.right), (fact.right, fact.left)):
                names = _names_of_product(side, self.identifiers)
                if names is not None and not symbols_of(given) & self.identifiers:
                    (constant,) = side.terms.values() if isinstance(side, Poly) else (1,)
                    origin = f"fact {fact.relation.text}"
                    equations.append(Equation(names, constant, given, spans[names[0]], origin))
                    break
        return equations

    def admits(self, case: Mapping[str, Dim]) -> bool:
        """Returns whether the facts about identifiers allow these lengths."""
        for fact in self._about:
            try:
                left, right = self._placed(fact, case)
            except ZeroDivisionError:
                return False
            if not _may_hold(left, right, fact.relation.comparison):
                return False
        return True

    @cached_property
    def admission(self) -> int:
        """What `admits` costs: a fact of which something stays open may need a proof."""
        return 1 + sum(4 if fact.names <= self.identifiers else 100 for fact in self._about)

    def bounds(self) -> dict[str, int]:
        """Returns the greatest values of identifiers that the facts allow."""
        bounds: dict[str, int] = {}
        differences = [each for fact in self._about for each in _not_positive(fact)]
        for name, most in chain.from_iterable(map(_at_most, differences)):
            if name in self.identifiers:
                bounds[name] = min(most, bounds.get(name, most))
        return bounds

    def check(self, values: Mapping[str, Dim], text: str) -> None:
        """Raises ShapeError for a fact that cannot be true of what was found.

        text: the annotation, for the error.
        """
        for fact in self._about:
            left, right = self._placed(fact, values)
            decision = decide(left, fact.relation.comparison, right, self.about_symbols)
            if isinstance(decision, Never):
                known = sorted(fact.names & self.identifiers & values.keys())
                found = ", ".join(f"{name} = {values[name]}" for name in known)
                raise problems.CONTRADICTIONS["fact-contradicts"](
                    text, fact=fact.relation.text, found=found
                )

    def of(self, values: Mapping[str, Dim]) -> Facts:
        """Returns the facts in the caller's symbols: identifiers become what they are."""
        if self.about_symbols is self.facts:
            return self.facts
        texts: list[str | Relation] = []
        for fact in self.listed:
            if fact.about:
                left, right = self._placed(fact, values)
                texts.append(f"{left} {fact.relation.comparison.value} {right}")
            else:
                texts.append(fact.relation)
        return read_facts(texts)

    def _placed(self, fact: Fact, values: Mapping[str, Dim]) -> tuple[Dim, Dim]:
        """A fact's sides with lengths for identifiers; the caller's own symbols stay."""
        lengths = {name: values[name] for name in self.identifiers & values.keys()}
        return substitute(fact.left, lengths), substitute(fact.right, lengths)


def _may_hold(left: Dim, right: Dim, comparison: Comparison) -> bool:
    if isinstance(left, int) and isinstance(right, int):
        return COMPARE[comparison](left, right)
    return not isinstance(decide(left, comparison, right, NO_FACTS), Never)


def _not_positive(fact: Fact) -> tuple[Dim, ...]:
    """What the fact says is at most 0."""
    match fact.relation.comparison:
        case Comparison.LE | Comparison.LT:
            return (fact.left - fact.right,)
        case Comparison.GE | Comparison.GT:
            return (fact.right - fact.left,)
        case Comparison.EQ:
            return (fact.left - fact.right, fact.right - fact.left)
        case Comparison.NE:
            return ()


def _at_most(dim: Dim) -> Iterator[tuple[str, int]]:
    """Yields what ``dim <= 0`` says of single names, where it is positive terms less a number."""
    terms = dict(terms_of(dim))
    number = -terms.pop(UNIT, 0)
    if all(c > 0 and not any(isinstance(a, Call) for a, _ in m) for m, c in terms.items()):
        for monomial, coefficient in terms.items():
            for name, _ in monomial:
                yield name, max(number // coefficient, 0)


def _names_of_product(dim: Dim, names: Collection[str]) -> tuple[str, ...] | None:
    """Returns the names of a single term that is a product of identifiers only, with repetition."""
    if isinstance(dim, int) or len(dim.terms) != 1:
        return None
    ((monomial, coefficient),) = dim.terms.items()
    if coefficient < 1 or any(atom not in names for atom, _ in monomial):
        return None
    return tuple(atom for atom, exponent in monomial for _ in range(exponent))
