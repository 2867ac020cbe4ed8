"""Solving the equations of one operator, with every step and its reason.

Each input dimension is one equation, *product of its names = given length*. They are solved from
the certain to the open:

1. a name that stands alone is its given length; known factors cancel by exact division; 2. what
remains is linear in exponents: the rational row span gives every product that the equations force
   (``h*t = 1024, h*d = 512, t*d = 2048`` forces ``h**2 = 256``), numbers leave finitely many cases;
3. a division that is whole under a condition on the symbols is made, and the condition is kept;
4. what is still open stays free: a name becomes a symbol of its own and the rest follows from it.

The order of the inputs never matters. `dimsolve.solver.infer` solves the usual question without
this file; here is the general case, the reasons and the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from dimsolve.ir.errors import ShapeError
from dimsolve.ir.expression import Comparison
from dimsolve.ir.span import Span

from . import problems
from .cases import agreed, whole_solutions
from .decision import Always, Never
from .dims import floor_div
from .divisibility import exact_quotient
from .exponents import forced_powers
from .facts import Facts
from .poly import Dim, divide_exactly, product
from .prove import decide, decide_divides
from .roots import exact_root


@dataclass(frozen=True, slots=True)
class Equation:
    """constant * product of names = given, and where that was said: the span in the annotation and
    the words.

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

    def exponents_of(
        self, unknown: Collection[str], known: Mapping[str, Dim]
    ) -> tuple[dict[str, int], Dim | None]:
        """Returns the exponents of the unknown names, and what their product must be; None if that
        is no polynomial.
        """
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


@dataclass(slots=True)
class Unifier:
    """Solves equations under facts; one use. Read ``bindings``, ``conditions``, ``free``, ``steps``
    and ``open``.

    ``free_symbol`` names the symbol of a free identifier, away from the caller's symbols. ``open``
    are the equations among free names, for listing their solutions.
    """

    text: str
    facts: Facts
    free_symbol: Callable[[str], Dim]
    admits: Callable[[Mapping[str, Dim]], bool]
    bindings: dict[str, Binding] = field(default_factory=dict)
    conditions: list[str] = field(default_factory=list)
    free: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    open: list[Equation] = field(default_factory=list)

    def solve(self, equations: list[Equation]) -> None:
        """Binds every name that occurs; raises ShapeError where the equations contradict each
        other.
        """
        pending = self._settle(equations, conditional=False)
        pending = self._settle(self._force_powers(pending), conditional=False)
        pending = self._settle(self._list_cases(pending), conditional=False)
        pending = self._settle(pending, conditional=True)
        self.open = list(pending)
        opened = list(dict.fromkeys(n for e in pending for n in e.names if n not in self.bindings))
        while pending:
            equation = min(pending, key=lambda e: len(self._unknown(e)))
            name = next(n for n in equation.names if n not in self.bindings)
            self.leave_free(name, equation.span)
            pending = self._settle(pending, conditional=True)
        self.free.extend(name for name in opened if name not in self.free)

    def leave_free(self, name: str, span: Span) -> None:
        """Makes the name a symbol of its own: nothing given tells its length."""
        symbol = self.free_symbol(name)
        self.free.append(name)
        self.bindings[name] = Binding(symbol, "left open by the inputs", span)
        self.steps.append(Step(f"{name} = {symbol}", "left open by the inputs"))

    def _unknown(self, equation: Equation) -> dict[str, int]:
        unknown: dict[str, int] = {}
        for name in equation.names:
            if name not in self.bindings:
                unknown[name] = unknown.get(name, 0) + 1
        return unknown

    def _settle(self, equations: list[Equation], *, conditional: bool) -> list[Equation]:
        """Uses every equation that has at most one unknown name, until none is left; returns the
        others.
        """
        pending = equations
        while True:
            waiting = [equation for equation in pending if not self._use(equation, conditional)]
            if len(waiting) == len(pending):
                return waiting
            pending = waiting

    def _use(self, equation: Equation, conditional: bool) -> bool:
        unknown = self._unknown(equation)
        if len(unknown) > 1:
            return False
        if not unknown:
            self._compare(equation)
            return True
        ((name, degree),) = unknown.items()
        if equation.names == (name,) and equation.constant == 1:
            self._bind(name, equation.given, equation.origin, equation.span)
            return True
        return self._divide(equation, name, degree, conditional)

    def _bind(self, name: str, value: Dim, origin: str, span: Span) -> None:
        self.bindings[name] = Binding(value, origin, span)
        self.steps.append(Step(f"{name} = {value}", origin))

    def _require(self, condition: str, reason: str) -> None:
        if condition not in self.conditions:
            self.conditions.append(condition)
            self.steps.append(Step(f"if {condition}", reason))

    def _compare(self, equation: Equation) -> None:
        """All names are known: the product must be the given length."""
        value = product([equation.constant, *(self.bindings[n].value for n in equation.names)])
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
                for condition in decision.conditions or (f"{value} == {equation.given}",):
                    self._require(
                        condition,
                        f"{equation.left} is {value} and {equation.given} ({equation.origin})",
                    )

    def _mismatch(self, equation: Equation, value: Dim) -> ShapeError:
        if not equation.names:
            given = f"{equation.origin} is {equation.given}, the annotation says {equation.left}"
            return problems.not_the_number(self.text, equation.span, equation.left, given)
        known = [
            f"{n} = {b.value} ({b.origin})"
            for n in dict.fromkeys(equation.names)
            for b in [self.bindings[n]]
        ]
        spans = (equation.span, *(self.bindings[n].span for n in dict.fromkeys(equation.names)))
        product_text = f"{equation.left} = {equation.given} ({equation.origin})"
        if len(equation.names) == 1 and equation.constant == 1:
            return problems.two_lengths(self.text, spans, equation.left, known[0], product_text)
        makes = f"{' and '.join(known)} make it {value}"
        return problems.two_lengths(self.text, spans, equation.left, product_text, makes)

    def _divide(self, equation: Equation, name: str, degree: int, conditional: bool) -> bool:
        """One name is unknown: it is a root of given / (constant * known names)."""
        if equation.given == 0:
            raise problems.zero_product(self.text, equation.span, equation.left, equation.origin)
        factors = [(n, self.bindings[n]) for n in dict.fromkeys(equation.names) if n != name]
        divisor = product(
            [equation.constant, *(self.bindings[n].value for n in equation.names if n != name)]
        )
        if divisor == 0:
            raise problems.zero_product(self.text, equation.span, equation.left, equation.origin)
        quotient = exact_quotient(equation.given, divisor, self.facts)
        why = " and ".join([str(equation), *(f"{n} = {b.value} ({b.origin})" for n, b in factors)])
        if quotient is None:
            decision = decide_divides(divisor, equation.given, self.facts)
            if isinstance(decision, Never):
                known = [(n, b.value, b.origin) for n, b in factors]
                raise problems.no_whole_length(
                    self.text,
                    equation.places.get(name, equation.span),
                    name,
                    equation.left,
                    equation.origin,
                    equation.given,
                    known,
                    divisor,
                )
            if not conditional and not isinstance(decision, Always):
                return False
            if not isinstance(decision, Always):
                fallback = (f"({equation.given}) % ({divisor}) == 0",)
                for condition in decision.conditions or fallback:
                    self._require(condition, why)
            quotient = floor_div(equation.given, divisor)
        return self._bind_root(equation, name, degree, quotient, why, conditional)

    def _bind_root(
        self, equation: Equation, name: str, degree: int, power: Dim, why: str, conditional: bool
    ) -> bool:
        root = exact_root(power, degree)
        if root is not None:
            self._bind(name, root, why, equation.places.get(name, equation.span))
            return True
        if isinstance(power, int):
            raise problems.no_root(
                self.text, equation.places.get(name, equation.span), name, degree, power, why
            )
        if conditional:
            self.leave_free(name, equation.span)
            self._require(f"{self.bindings[name].value}**{degree} == {power}", why)
            return True
        return False

    def _force_powers(self, equations: list[Equation]) -> list[Equation]:
        """Adds the equations on single names that the rational row span of the exponents forces."""
        if len(equations) < 2:
            return equations
        rows = [(self._unknown(e), self._remaining(e)) for e in equations]
        if any(given is None for _, given in rows):
            return equations
        forced: list[Equation] = []
        for combination in forced_powers([unknown for unknown, _ in rows]):
            above = product(rows[i][1] ** p for i, p in combination.powers if p > 0)  # type: ignore[operator]
            below = product(rows[i][1] ** -p for i, p in combination.powers if p < 0)  # type: ignore[operator]
            used = [equations[i] for i, _ in combination.powers]
            self._check_combination(combination.name, combination.degree, above, below, used)
            if combination.name is not None:
                quotient = exact_quotient(above, below, self.facts)
                if quotient is not None:
                    origin = " and ".join(map(str, used))
                    names = (combination.name,) * combination.degree
                    forced.append(Equation(names, 1, quotient, used[0].span, origin))
        return [*forced, *equations]

    def _check_combination(
        self, name: str | None, degree: int, above: Dim, below: Dim, used: list[Equation]
    ) -> None:
        """name**degree * below == above must be possible in whole numbers."""
        if name is None:
            impossible = isinstance(decide(above, Comparison.EQ, below, self.facts), Never)
        else:
            impossible = isinstance(decide_divides(below, above, self.facts), Never)
            if isinstance(above, int) and isinstance(below, int) and not impossible:
                impossible = exact_root(above // below, degree) is None
        if impossible:
            spans = tuple(equation.span for equation in used)
            raise problems.no_solution(self.text, spans, [str(equation) for equation in used])

    def _remaining(self, equation: Equation) -> Dim | None:
        """The given length divided by what is known, where that is whole for all values."""
        known = product(
            [
                equation.constant,
                *(self.bindings[n].value for n in equation.names if n in self.bindings),
            ]
        )
        if known == 0 or equation.given == 0:
            raise problems.zero_product(self.text, equation.span, equation.left, equation.origin)
        return exact_quotient(equation.given, known, self.facts)

    def _list_cases(self, equations: list[Equation]) -> list[Equation]:
        """Numbers leave finitely many cases: what they agree on is known, and none at all is a
        contradiction.
        """
        numbers = [
            (self._unknown(e), left)
            for e in equations
            if isinstance(left := self._remaining(e), int)
        ]
        if not numbers:
            return equations
        cases = whole_solutions(numbers, self.admits)
        if cases is None:
            return equations
        used = [e for e in equations if isinstance(self._remaining(e), int)]
        if not cases:
            raise problems.no_solution(
                self.text, tuple(e.span for e in used), [str(e) for e in used]
            )
        origin = " and ".join(map(str, used)) + " leave no other whole number"
        for name, value in agreed(cases).items():
            span = next(e.span for e in used if name in e.names)
            self._bind(name, value, origin, span)
        return equations
