"""Solving the equations of one operator, with every step and its reason.

Each input dimension is one equation, *product of its names = given length*. They are solved from
the certain to the open:

1. a name that stands alone is its given length; known factors cancel by exact division;
2. what remains is linear in exponents: the rational row span gives every product that the equations
   force (``h*t = 1024, h*d = 512, t*d = 2048`` forces ``h**2 = 256``), numbers leave finitely many
   cases;
3. a division that is whole under a condition on the symbols is made, and the condition is kept;
4. what is still open stays free: a name becomes a symbol of its own and the rest follows from it.

The order of the inputs never matters. `dimsolve.solver.infer` solves the usual question without
this file; here is the general case, the reasons and the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dimsolve.ir.errors import ShapeError
from dimsolve.ir.expression import Comparison
from dimsolve.ir.span import Span

from . import problems
from .algebra.dims import floor_div, maximum, surely_positive
from .algebra.exponents import Combination, forced_powers
from .algebra.poly import Dim, product
from .algebra.roots import exact_root
from .cases import Search, agreed
from .decision import Always, Decision, Never, Undecided
from .equations import Binding, Equation, Step
from .lengths import at_least, has_value, is_length
from .proof.claims import Claim
from .proof.divisibility import exact_quotient
from .proof.facts import Facts, read_facts
from .proof.prove import decide, decide_divides


@dataclass(frozen=True, slots=True)
class Need:
    """A claim that makes the length of a name positive, or have a value, and what asks for it."""

    claim: Claim
    name: str
    why: str
    span: Span


MAX_USED = 6
"""How many conditions what follows may rely on; further ones are kept, and not reasoned with."""


@dataclass(slots=True)
class Unifier:
    """Solves equations under facts; one use. Read ``bindings``, ``conditions``, ``free``,
    ``steps``.

    ``facts`` grow by the conditions that are met on the way. ``free_symbol`` names the symbol of a
    free identifier, away from the caller's symbols. ``open`` are the equations among free names,
    for listing their solutions. ``needs`` are what makes the given lengths have a value, and every
    name positive, given the conditions and that the others are.
    """

    text: str
    facts: Facts
    free_symbol: Callable[[str], Dim]
    admits: Callable[[Mapping[str, Dim]], bool]
    admission: int = 1
    bindings: dict[str, Binding] = field(default_factory=dict)
    conditions: list[str] = field(default_factory=list)
    free: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    open: list[Equation] = field(default_factory=list)
    needs: list[Need] = field(default_factory=list)

    def solve(self, equations: list[Equation]) -> None:
        """Binds every name that occurs; ShapeError where the equations contradict each other."""
        pending = self._settle(equations, conditional=False)
        pending = self._settle(self._forced(pending) + pending, conditional=False)
        self._use_cases(pending)
        pending = self._settle(pending, conditional=True)
        self.open = list(pending)
        opened = list(dict.fromkeys(name for e in pending for name in self._unknown(e)))
        while pending:
            equation = min(pending, key=lambda e: len(self._unknown(e)))
            name = next(iter(self._unknown(equation)))
            self.leave_free(name, equation.place(name))
            pending = self._settle(pending, conditional=True)
        self.free.extend(name for name in opened if name not in self.free)

    def leave_free(self, name: str, span: Span) -> None:
        """Makes the name a symbol of its own: nothing given tells its length."""
        self.free.append(name)
        self._bind(name, self.free_symbol(name), "left open by the inputs", span)

    def _bind(self, name: str, value: Dim, origin: str, span: Span) -> None:
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
            self._need(claim, equation.left, equation)

    def _need_positive(self, name: str, length: Dim, least: int, equation: Equation) -> None:
        """Keeps that a length must be at least so much for its name to be positive."""
        if least != 1 or not surely_positive(length):
            for claim in at_least(length, least):
                self._need(claim, name, equation)

    def _need(self, claim: Claim, name: str, equation: Equation) -> None:
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

    def _unknown(self, equation: Equation) -> dict[str, int]:
        """The names without a length yet, with their exponents."""
        unknown: dict[str, int] = {}
        for name in equation.names:
            if name not in self.bindings:
                unknown[name] = unknown.get(name, 0) + 1
        return unknown

    def _known(self, equation: Equation) -> Dim:
        """The product of the constant and of the names that have a length; not 0."""
        names = [name for name in equation.names if name in self.bindings]
        known = product([equation.constant, *(self.bindings[name].value for name in names)])
        if known == 0 or equation.given == 0:
            raise problems.zero_product(self.text, equation.span, equation.left, equation.origin)
        return known

    def _settle(self, equations: list[Equation], *, conditional: bool) -> list[Equation]:
        """Uses every equation with at most one unknown name, until none is left; returns the
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
            self._bind(name, equation.given, equation.origin, equation.place(name))
            if equation.given != 0:
                self._need_positive(name, equation.given, 1, equation)
            return True
        divisor = self._known(equation)
        power = self._divide(equation, conditional)
        if power is None:
            return False
        if degree == 1 and power * divisor != equation.given:
            # A multiple of a number is positive from that number on, of a length wherever it is.
            least = divisor if isinstance(divisor, int) else 1
            self._need_positive(name, equation.given, least, equation)
        elif degree == 1:
            self._need_positive(name, power, 1, equation)
        return self._bind_root(equation, name, degree, power, conditional)

    def _compare(self, equation: Equation) -> None:
        """All names are known: the product must be the given length."""
        value = product([equation.constant, *(self.bindings[n].value for n in equation.names)])
        if value == 0 and (len(equation.names) > 1 or equation.constant > 1):
            raise problems.zero_product(self.text, equation.span, equation.left, equation.origin)
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
            given = f"{equation.origin} is {equation.given}, the annotation says {left}"
            return problems.not_the_number(self.text, equation.span, left, given)
        known = [f"{n} = {self.bindings[n].value} ({self.bindings[n].origin})" for n in names]
        spans = (equation.span, *(self.bindings[n].span for n in names))
        if left in names:
            second = f"{equation}{self._assuming()}"
            return problems.two_lengths(self.text, spans, left, known[0], second)
        makes = f"{' and '.join(known)} make it {value}{self._assuming()}"
        return problems.two_lengths(self.text, spans, left, str(equation), makes)

    def _why(self, equation: Equation) -> str:
        known = dict.fromkeys(name for name in equation.names if name in self.bindings)
        rows = [f"{n} = {self.bindings[n].value} ({self.bindings[n].origin})" for n in known]
        return " and ".join([str(equation), *rows])

    def _divide(self, equation: Equation, conditional: bool) -> Dim | None:
        """Returns the given length divided by what is known; None where that is not whole for sure.

        A condition makes it whole if ``conditional``; ShapeError where it never is.
        """
        divisor = self._known(equation)
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
                self.require(decision.conditions or fallback, self._why(equation))
        return floor_div(equation.given, divisor)

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
            self._assuming(),
        )

    def _assuming(self) -> str:
        """Names the conditions that were met before, on which a contradiction may rest."""
        needed = " and ".join(self.conditions)
        return f", where {needed}, which the other dimensions need" if needed else ""

    def _bind_root(
        self, equation: Equation, name: str, degree: int, power: Dim, conditional: bool
    ) -> bool:
        """Binds the name whose power is known; it stays free where that has no polynomial root."""
        root, why, span = exact_root(power, degree), self._why(equation), equation.place(name)
        if root is not None:
            self._bind(name, self._positive_root(equation, name, root, degree), why, span)
            return True
        if isinstance(power, int):
            raise problems.no_root(self.text, span, name, degree, power, why)
        if conditional:
            self.leave_free(name, span)
            self.require((f"{self.bindings[name].value}**{degree} == {power}",), why)
        return conditional

    def _positive_root(self, equation: Equation, name: str, root: Dim, degree: int) -> Dim:
        """Of the two roots of an even power, the one that is positive; both where that varies."""
        if degree == 1 or surely_positive(root):
            return root
        if degree % 2:
            self._need_positive(name, root, 1, equation)
            return root
        self._need(Claim(root, Comparison.NE, 0), name, equation)
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
            if (left := self._divide(equation, conditional=False)) is not None
        ]
        forced: list[Equation] = []
        for combination in forced_powers([self._unknown(equation) for equation, _ in rows]):
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
            spans = tuple(equation.span for equation in used)
            raise problems.no_solution(self.text, spans, [str(equation) for equation in used])

    def _use_cases(self, equations: list[Equation]) -> None:
        """Numbers leave finitely many cases: what they agree on is known; none is a
        contradiction.
        """
        used: list[Equation] = []
        numbers: list[tuple[dict[str, int], int]] = []
        for equation in equations:
            left = self._divide(equation, conditional=False)
            if isinstance(left, int):
                used.append(equation)
                numbers.append((self._unknown(equation), left))
        if not numbers:
            return
        bound = {name: binding.value for name, binding in self.bindings.items()}
        search = Search(numbers, lambda case: self.admits({**bound, **case}), self.admission)
        same = agreed(search)
        if same is None:
            spans = tuple(equation.span for equation in used)
            raise problems.no_solution(self.text, spans, [str(equation) for equation in used])
        origin = " and ".join(map(str, used)) + " leave no other whole number"
        for name, value in same.items():
            place = next(equation.place(name) for equation in used if name in equation.names)
            self._bind(name, value, origin, place)
