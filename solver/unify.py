"""Solving the equations of one operator, with every step and its reason.

Each input dimension is one equation, *product of its names = given length*. They are solved from
the certain to the open:

1. a name that stands alone is its given length; known factors cancel by exact division;
2. what remains is linear in exponents: the rational row span gives every product that the equations
   force (``h*t = 1024, h*d = 512, t*d = 2048`` forces ``h**2 = 256``), numbers leave finitely many
   cases (`dimsolve.solver.choices`);
3. a division that is whole under a condition on the symbols is made, and the condition is kept;
4. what is still open stays free: a name becomes a symbol of its own and the rest follows from it.

The order of the inputs never matters. `dimsolve.solver.infer` solves the usual question without
this file; here is the general case, the reasons and the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from heapq import heappop, heappush
from itertools import chain, islice
from math import gcd
from typing import Any

from dimsolve.ir.errors import ShapeError, Span
from dimsolve.ir.expression import Comparison, Relation

from . import problems
from .algebra.dims import Call, maximum, substitute, surely_positive, symbols_of
from .algebra.evaluation import COMPARE
from .algebra.integers import MAX_TRIAL, divisors, split_factors
from .algebra.poly import UNIT, Dim, Poly, exact_root, product, terms_of
from .algebra.products import Combination, forced_powers
from .equations import Bindings, Equation, Step
from .proof.claims import Claim
from .proof.divisibility import exact_quotient
from .proof.facts import NO_FACTS, Facts, read_facts
from .proof.prove import decide, decide_divides
from .proof.verdict import Always, Never
from .shapes import dim_of_expression

MAX_WORK = 8_000
"""Steps of a search: some microseconds each."""
MAX_LISTED = 4_096

Product = tuple[Mapping[str, int], int]
"""The exponent of each unknown, and the value of the product."""


class Choices(tuple[dict[str, int], ...]):
    """The first cases, ascending. ``complete``: these are all; else they are finitely many, and
    more than these, or more than could be looked for.

    >>> Choices([{"h": 2}], complete=True)
    ({'h': 2},)
    """

    complete: bool

    def __new__(cls, cases: Any = (), *, complete: bool = True) -> Choices:
        self = super().__new__(cls, cases)
        self.complete = complete
        return self


class Search:
    """All positive integer solutions of products that equal numbers, ascending; one use.

    equations: with values that are positive. admits: which solutions count, and ``cost``: how many
    steps it takes to tell. names: the order of the unknowns. bounds: the greatest value of those
    that stand in no equation. ``complete`` is True once all were found.

    >>> list(Search([({"h": 1, "t": 1}, 6)], lambda case: case["h"] > 1))
    [{'h': 2, 't': 3}, {'h': 3, 't': 2}, {'h': 6, 't': 1}]
    """

    def __init__(
        self,
        equations: Sequence[Product],
        admits: Callable[[Mapping[str, int]], bool],
        cost: int = 1,
        names: Sequence[str] = (),
        bounds: Mapping[str, int] | None = None,
    ) -> None:
        self.complete = False
        self._admits = admits
        self._cost = cost
        self._left = MAX_WORK
        self._equations: list[Product] = list(equations)
        self._bounds = bounds or {}
        self._names = list(
            dict.fromkeys([*names, *(name for exponents, _ in equations for name in exponents)])
        )

    def __iter__(self) -> Iterator[dict[str, int]]:
        try:
            for case in self._cases(self._names, self._equations, {}):
                self._spend(self._cost)
                if self._admits(case):
                    yield case
        except _OutOfWorkError:
            return
        self.complete = True

    def first(self, limit: int) -> Choices:
        """Returns the first cases, at most ``limit``."""
        found = list(islice(self, min(limit, MAX_WORK) + 1))
        return Choices(found[:limit], complete=self.complete and len(found) <= limit)

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise _OutOfWorkError

    def _cases(
        self, names: Sequence[str], equations: list[Product], chosen: dict[str, int]
    ) -> Iterator[dict[str, int]]:
        if not names:
            if all(value == 1 for _, value in equations):
                yield chosen
            return
        name, rest = names[0], names[1:]
        for length in self._lengths(name, equations):
            self._spend(1)
            reduced = _divide_out(equations, name, length)
            if reduced is not None:
                yield from self._cases(rest, reduced, {**chosen, name: length})

    def _lengths(self, name: str, equations: list[Product]) -> Iterator[int]:
        """What a name may be, ascending: a root, a divisor, or any number up to its bound."""
        common = 0
        for exponents, value in equations:
            if name not in exponents:
                continue
            if len(exponents) == 1:
                root = exact_root(value, exponents[name])
                return iter((root,) if isinstance(root, int) else ())
            common = gcd(common, value)
        if common == 0:
            return iter(range(1, self._bounds[name] + 1))
        return self._divisors(common)

    def _divisors(self, number: int) -> Iterator[int]:
        few = _all_divisors(number)
        if few is not None:
            yield from few
            return
        known, rest = split_factors(number)
        for divisor in _ascending(known):
            if rest > 1 and divisor > MAX_TRIAL:
                raise _OutOfWorkError  # divisors with unknown factors may come before this one
            self._spend(1)
            yield divisor
        if rest > 1:
            raise _OutOfWorkError


class _OutOfWorkError(Exception):
    """The search took more than a bounded amount of work, or needs factors that are not known."""


@lru_cache(maxsize=1024)
def _all_divisors(number: int) -> tuple[int, ...] | None:
    found = divisors(number, MAX_LISTED)
    return None if found is None else tuple(found)


def _ascending(powers: Mapping[int, int]) -> Iterator[int]:
    """Yields the divisors of a product of prime powers in ascending order, without making all.

    >>> list(_ascending({2: 2, 3: 1}))
    [1, 2, 3, 4, 6, 12]
    """
    primes = sorted(powers)
    heap: list[tuple[int, int, int]] = [(1, -1, 0)]
    while heap:
        divisor, last, used = heappop(heap)
        yield divisor
        if last >= 0 and used < powers[primes[last]]:
            heappush(heap, (divisor * primes[last], last, used + 1))
        for position in range(last + 1, len(primes)):
            heappush(heap, (divisor * primes[position], position, 1))


def _divide_out(equations: list[Product], name: str, length: int) -> list[Product] | None:
    reduced: list[Product] = []
    for exponents, value in equations:
        if name not in exponents:
            reduced.append((exponents, value))
            continue
        power = length ** exponents[name]
        if value % power:
            return None
        left = {n: e for n, e in exponents.items() if n != name}
        if not left and value != power:
            return None
        reduced.append((left, value // power))
    return reduced


def agreed(search: Search) -> dict[str, int] | None:
    """Returns the names that have the same value in every case; None where there is no case.

    >>> agreed(Search([({"h": 1, "t": 1}, 2), ({"h": 1, "d": 1}, 3)], lambda case: True))
    {'h': 1, 't': 2, 'd': 3}
    """
    same: dict[str, int] | None = None
    for case in search:
        same = {n: v for n, v in (case if same is None else same).items() if case[n] == v}
        if not same:
            return {}
    if not search.complete:
        return {}
    return same


@dataclass(slots=True, kw_only=True)
class Unifier(Bindings):
    """Solves equations under facts; one use.

    ``admits`` tells which of finitely many cases count, ``admission`` what it costs to ask.
    ``open`` are the equations among free names, for listing their solutions.
    """

    admits: Callable[[Mapping[str, Dim]], bool]
    admission: int = 1
    open: list[Equation] = field(default_factory=list)

    def solve(self, equations: list[Equation]) -> None:
        """Binds every name that occurs; ShapeError where the equations contradict each other."""
        pending = self._settle(equations, conditional=False)
        pending = self._settle(self._forced(pending) + pending, conditional=False)
        self._use_cases(pending)
        pending = self._settle(pending, conditional=True)
        self.open = list(pending)
        opened = list(dict.fromkeys(name for e in pending for name in self.unknown_names(e)))
        while pending:
            equation = min(pending, key=lambda e: len(self.unknown_names(e)))
            name = next(iter(self.unknown_names(equation)))
            self.leave_free(name, equation.place(name))
            pending = self._settle(pending, conditional=True)
        self.free.extend(name for name in opened if name not in self.free)

    def _settle(self, equations: list[Equation], *, conditional: bool) -> list[Equation]:
        """Uses every equation with at most one unknown name; returns the others."""
        pending = equations
        while True:
            waiting = [equation for equation in pending if not self._use(equation, conditional)]
            if len(waiting) == len(pending):
                return waiting
            pending = waiting

    def _use(self, equation: Equation, conditional: bool) -> bool:
        unknown = self.unknown_names(equation)
        if len(unknown) > 1:
            return False
        if not unknown:
            self._compare(equation)
            return True
        ((name, degree),) = unknown.items()
        if equation.names == (name,) and equation.constant == 1:
            self.bind(name, equation.given, equation.origin, equation.place(name))
            if equation.given != 0:
                self.need_positive(name, equation.given, 1, equation)
            return True
        divisor = self.known_product(equation)
        power = self.divide(equation, conditional)
        if power is None:
            return False
        if degree == 1 and power * divisor != equation.given:
            # A multiple of a number is positive from that number on, of a length wherever it is.
            least = divisor if isinstance(divisor, int) else 1
            self.need_positive(name, equation.given, least, equation)
        elif degree == 1:
            self.need_positive(name, power, 1, equation)
        return self._bind_root(equation, name, degree, power, conditional)

    def _compare(self, equation: Equation) -> None:
        """All names are known: the product must be the given length."""
        value = product([equation.constant, *(self.bindings[n].value for n in equation.names)])
        left = equation.left
        if value == 0 and (len(equation.names) > 1 or equation.constant > 1):
            where = {"pattern": left, "origin": equation.origin}
            raise problems.CONTRADICTIONS["zero-product"](self.text, equation.span, **where)
        if value == equation.given:
            if equation.names:
                self.steps.append(Step(f"{equation.left} = {value}", f"agrees: {equation.origin}"))
            return
        decision = decide(value, Comparison.EQ, equation.given, self.facts)
        match decision:
            case Always():
                self.steps.append(Step(f"{value} = {equation.given}", decision.reason))
            case Never():
                raise self._mismatch(equation, value)
            case _:
                why = f"{equation.left} is {value} and {equation.given} ({equation.origin})"
                self.require(decision.conditions or (f"{value} == {equation.given}",), why)

    def _mismatch(self, equation: Equation, value: Dim) -> ShapeError:
        left, names = equation.left, dict.fromkeys(equation.names)
        if not names:
            said = {"number": left, "origin": equation.origin, "given": equation.given}
            return problems.CONTRADICTIONS["not-the-number"](self.text, equation.span, **said)
        known = [f"{n} = {self.bindings[n].value} ({self.bindings[n].origin})" for n in names]
        spans = (equation.span, *(self.bindings[n].span for n in names))
        if left in names:
            first, second = known[0], f"{equation}{self.assuming()}"
        else:
            first = str(equation)
            second = f"{' and '.join(known)} make it {value}{self.assuming()}"
        return problems.CONTRADICTIONS["two-lengths"](
            self.text, *spans, name=left, first=first, second=second
        )

    def _bind_root(
        self, equation: Equation, name: str, degree: int, power: Dim, conditional: bool
    ) -> bool:
        """Binds the name whose power is known; it stays free where that has no polynomial root."""
        root, why, span = exact_root(power, degree), self.why(equation), equation.place(name)
        if root is not None:
            self.bind(name, self._positive_root(equation, name, root, degree), why, span)
            return True
        if isinstance(power, int):
            words = {"name": name, "degree": degree, "value": power, "why": why}
            raise problems.CONTRADICTIONS["no-whole-length (no root)"](self.text, span, **words)
        if conditional:
            self.leave_free(name, span)
            self.require((f"{self.bindings[name].value}**{degree} == {power}",), why)
        return conditional

    def _positive_root(self, equation: Equation, name: str, root: Dim, degree: int) -> Dim:
        """Of the two roots of an even power, the one that is positive; both where that varies."""
        if degree == 1 or surely_positive(root):
            return root
        if degree % 2:
            self.need_positive(name, root, 1, equation)
            return root
        self.need(Claim(root, Comparison.NE, 0), name, equation)
        match decide(root, Comparison.GE, 0, self.facts):
            case Always():
                return root
            case Never():
                return -root
            case _:
                return maximum(root, -root)

    def _forced(self, equations: list[Equation]) -> list[Equation]:
        """Returns the equations on one name that the rational row span of the exponents forces."""
        rows = [
            (equation, left)
            for equation in equations
            if (left := self.divide(equation, conditional=False)) is not None
        ]
        forced: list[Equation] = []
        for combination in forced_powers([self.unknown_names(equation) for equation, _ in rows]):
            above = product(rows[i][1] ** p for i, p in combination.powers if p > 0)
            below = product(rows[i][1] ** -p for i, p in combination.powers if p < 0)
            used = [rows[i][0] for i, _ in combination.powers]
            self._check_combination(combination, above, below, used)
            quotient = exact_quotient(above, below, self.facts)
            if combination.name is not None and quotient is not None:
                origin = " and ".join(map(str, used))
                names = (combination.name,) * combination.degree
                forced.append(Equation(names, 1, quotient, used[0].place(names[0]), origin))
        return forced

    def _check_combination(
        self, combination: Combination, above: Dim, below: Dim, used: list[Equation]
    ) -> None:
        """name**degree * below == above must be possible in whole numbers."""
        if combination.name is None:
            impossible = isinstance(decide(above, Comparison.EQ, below, self.facts), Never)
        elif isinstance(above, int) and isinstance(below, int):
            impossible = (
                bool(above % below) or exact_root(above // below, combination.degree) is None
            )
        else:
            impossible = isinstance(decide_divides(below, above, self.facts), Never)
        if impossible:
            raise problems.no_solution(self.text, [equation.span for equation in used], used)

    def _use_cases(self, equations: list[Equation]) -> None:
        """Numbers leave finitely many cases: what they agree on is known."""
        used: list[Equation] = []
        numbers: list[tuple[dict[str, int], int]] = []
        for equation in equations:
            left = self.divide(equation, conditional=False)
            if isinstance(left, int):
                used.append(equation)
                numbers.append((self.unknown_names(equation), left))
        if not numbers:
            return
        bound = {name: binding.value for name, binding in self.bindings.items()}
        search = Search(numbers, lambda case: self.admits({**bound, **case}), self.admission)
        same = agreed(search)
        if same is None:
            raise problems.no_solution(self.text, [equation.span for equation in used], used)
        origin = " and ".join(map(str, used)) + " leave no other whole number"
        for name, value in same.items():
            place = next(equation.place(name) for equation in used if name in equation.names)
            self.bind(name, value, origin, place)


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
