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

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dimsolve.ir.errors import ShapeError
from dimsolve.ir.expression import Comparison

from . import problems
from .algebra.dims import maximum, surely_positive
from .algebra.poly import Dim, exact_root, product
from .algebra.products import Combination, forced_powers
from .choices import Search, agreed
from .equations import Bindings, Equation, Step
from .proof.claims import Claim
from .proof.divisibility import exact_quotient
from .proof.prove import decide, decide_divides
from .proof.verdict import Always, Never


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
