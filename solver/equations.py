"""Equations, the lengths found from them, and every step between with its reason.

    h*t = 8*s, h = 4        bind h = 4; divide: t = 2*s
    h*t = 8*s, h = 3        divide: t = 8*s//3 if s % 3 == 0, a condition that is kept
    h*t = n - 5, h = 1      need: t is positive where n - 5 >= 1

`Bindings` keeps what is known while equations are solved: lengths, the conditions under which they
are right, and what must be positive. `dimsolve.solver.unify` decides what is used when.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from dimsolve.ir.errors import ShapeError, Span

from . import problems
from .algebra.dims import floor_div, surely_positive
from .algebra.poly import Dim, divide_exactly, product
from .lengths import at_least, has_value, is_length
from .proof.claims import Claim
from .proof.divisibility import exact_quotient
from .proof.facts import Facts, read_facts
from .proof.prove import decide_divides
from .proof.verdict import Always, Decision, Never, Undecided


@dataclass(frozen=True, slots=True)
class Equation:
    """constant * product of names = given, and where that was said: in the annotation and in words.

    ``places``: the span of each name, where they are known one by one.
    """

    names: tuple[str, ...]
    constant: int
    given: Dim
    span: Span
    origin: str
    places: Mapping[str, Span] = field(default_factory=dict, compare=False)

    @property
    def left(self) -> str:
        """The product as text: ``2*h*t``."""
        numbers = [str(self.constant)] if self.constant != 1 or not self.names else []
        return "*".join([*numbers, *self.names])

    def place(self, name: str) -> Span:
        """Returns where the name stands, or the whole dimension."""
        return self.places.get(name, self.span)

    def exponents_of(
        self, unknown: Collection[str], known: Mapping[str, Dim]
    ) -> tuple[dict[str, int], Dim | None]:
        """Returns the exponents of the unknown names, and their product if that is a polynomial."""
        exponents = {name: self.names.count(name) for name in self.names if name in unknown}
        factors = [known[name] for name in self.names if name not in unknown]
        return exponents, divide_exactly(self.given, product([self.constant, *factors]))

    def __str__(self) -> str:
        return f"{self.left} = {self.given} ({self.origin})"


@dataclass(frozen=True, slots=True)
class Binding:
    """A name's length and why: ``origin`` is where it was read, or what it was computed from."""

    value: Dim
    origin: str
    span: Span


@dataclass(frozen=True, slots=True)
class Step:
    """One line of an explanation: what was concluded and from what."""

    conclusion: str
    reason: str

    def __str__(self) -> str:
        return f"{self.conclusion:<24} {self.reason}"


MAX_USED = 6
"""How many conditions what follows may rely on; further ones are kept, and not reasoned with."""


@dataclass(frozen=True, slots=True)
class Need:
    """A claim that makes the length of a name positive, or have a value, and what asks for it."""

    claim: Claim
    name: str
    why: str
    span: Span


@dataclass(slots=True)
class Bindings:
    """Lengths of names, with their reasons. Read ``bindings``, ``conditions``, ``free``, ``steps``.

    ``facts`` grow by the conditions that are met on the way. ``free_symbol`` names the symbol of a
    free identifier, away from the caller's symbols. ``needs`` are what makes the given lengths have
    a value, and every name positive, given the conditions and that the others are.
    """

    text: str
    facts: Facts
    free_symbol: Callable[[str], Dim]
    bindings: dict[str, Binding] = field(default_factory=dict)
    conditions: list[str] = field(default_factory=list)
    free: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    needs: list[Need] = field(default_factory=list)

    def leave_free(self, name: str, span: Span) -> None:
        """Makes the name a symbol of its own: nothing given tells its length."""
        self.free.append(name)
        self.bind(name, self.free_symbol(name), "left open by the inputs", span)

    def bind(self, name: str, value: Dim, origin: str, span: Span) -> None:
        """Gives the name its length, and says why."""
        self.bindings[name] = Binding(value, origin, span)
        self.steps.append(Step(f"{name} = {value}", origin))

    def need_argument(self, name: str, value: Dim) -> None:
        """Keeps that an argument must be a positive integer."""
        bound = self.bindings[name]
        for claim in is_length(value):
            self.needs.append(Need(claim, name, f"{name} = {value} ({bound.origin})", bound.span))

    def need_value(self, equation: Equation) -> None:
        """Keeps that a given length must have a value: no divisor in it may be 0."""
        for claim in has_value(equation.given):
            self.need(claim, equation.left, equation)

    def need_positive(self, name: str, length: Dim, least: int, equation: Equation) -> None:
        """Keeps that a length must be at least so much for its name to be positive."""
        if least != 1 or not surely_positive(length):
            for claim in at_least(length, least):
                self.need(claim, name, equation)

    def need(self, claim: Claim, name: str, equation: Equation) -> None:
        """Keeps what an equation asks of a name's length."""
        self.needs.append(Need(claim, name, str(equation), equation.place(name)))

    def require(self, conditions: tuple[str, ...], reason: str) -> None:
        """Keeps conditions that the inputs need; what follows may rely on them."""
        for condition in conditions:
            if condition not in self.conditions:
                self.conditions.append(condition)
                self.steps.append(Step(f"if {condition}", reason))
        if len(self.conditions) > MAX_USED:
            return
        try:
            self.facts = read_facts([*self.facts.relations, *conditions])
        except ShapeError as error:
            raise problems.conditions_exclude(self.text, self.conditions) from error

    def unknown_names(self, equation: Equation) -> dict[str, int]:
        """Returns the names without a length yet, with their exponents."""
        unknown: dict[str, int] = {}
        for name in equation.names:
            if name not in self.bindings:
                unknown[name] = unknown.get(name, 0) + 1
        return unknown

    def known_product(self, equation: Equation) -> Dim:
        """Returns the product of the constant and of the names that have a length.

        Raises ShapeError where it, or what it shall make, is 0.
        """
        names = [name for name in equation.names if name in self.bindings]
        known = product([equation.constant, *(self.bindings[name].value for name in names)])
        if known == 0 or equation.given == 0:
            where = {"pattern": equation.left, "origin": equation.origin}
            raise problems.CONTRADICTIONS["zero-product"](self.text, equation.span, **where)
        return known

    def why(self, equation: Equation) -> str:
        """Returns the equation, and what is known of its names with where that was said."""
        known = dict.fromkeys(name for name in equation.names if name in self.bindings)
        rows = [f"{n} = {self.bindings[n].value} ({self.bindings[n].origin})" for n in known]
        return " and ".join([str(equation), *rows])

    def divide(self, equation: Equation, conditional: bool) -> Dim | None:
        """Returns the given length divided by what is known; None where that is not whole for sure.

        A condition makes it whole if ``conditional``; ShapeError where it never is.
        """
        divisor = self.known_product(equation)
        quotient = exact_quotient(equation.given, divisor, self.facts)
        if quotient is not None:
            return quotient
        decision: Decision = Undecided("", ())
        if len(self.conditions) < MAX_USED or isinstance(divisor, int):
            decision = decide_divides(divisor, equation.given, self.facts)
        match decision:
            case Never():
                raise self._no_whole_length(equation, divisor)
            case Always():
                pass
            case _:
                if not conditional:
                    return None
                fallback = (f"({equation.given}) % ({divisor}) == 0",)
                self.require(decision.conditions or fallback, self.why(equation))
        return floor_div(equation.given, divisor)

    def assuming(self) -> str:
        """Returns the conditions met before, on which a contradiction may rest, as words."""
        needed = " and ".join(self.conditions)
        return f", where {needed}, which the other dimensions need" if needed else ""

    def _no_whole_length(self, equation: Equation, divisor: Dim) -> ShapeError:
        unknown = "*".join(name for name in equation.names if name not in self.bindings)
        names = dict.fromkeys(name for name in equation.names if name in self.bindings)
        known = [(n, self.bindings[n].value, self.bindings[n].origin) for n in names]
        return problems.no_whole_length(
            self.text,
            equation.place(unknown),
            unknown,
            equation.left,
            equation.origin,
            equation.given,
            known,
            divisor,
            self.assuming(),
        )
