"""A chart in the making: what is known so far, and the goals that are still to be added.

Lengths are written in the atoms that are left: solved symbols are replaced, a floor gets a parameter of its own
(``q = a//b`` with ``0 <= a - b*q < b``), a minimum or a divisor of unknown sign asks for a case distinction. The rules that
add goals live in `dimsolve.solver.equations` and `dimsolve.solver.bounds`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from .budget import Budget
from .charts import Chart, Range, range_of
from .claims import Sign
from .dims import Call, Function, apply
from .poly import Dim, Poly, atoms_of, replace, symbol, terms_of
from .remainders import divided, known_remainder

Goal: TypeAlias = tuple[Dim, Sign]


class Empty(Exception):
    """No values satisfy the draft."""


class Split(Exception):
    """The goal needs a case distinction. Each case: goals to add first, and what calls are there."""

    def __init__(self, *cases: tuple[Sequence[Goal], Mapping[str, Dim]]) -> None:
        super().__init__()
        self.cases = cases


class Draft:
    """The content of a `Chart`, mutable, with pending goals; the last one is taken first."""

    __slots__ = (
        "budget", "calls", "dropped", "fresh", "lower", "nonnegative", "nonzero", "pending",
        "rounds", "upper", "values", "zero",
    )  # fmt: skip

    def __init__(self, chart: Chart, goals: Sequence[Goal], budget: Budget) -> None:
        self.values = dict(chart.values)
        self.lower = dict(chart.lower)
        self.upper = dict(chart.upper)
        self.nonnegative = list(chart.nonnegative)
        self.zero = list(chart.zero)
        self.nonzero = list(chart.nonzero)
        self.calls = dict(chart.calls)
        self.fresh = chart.fresh
        self.pending = list(reversed(goals))
        self.budget = budget
        self.dropped = False
        self.rounds = 0

    def chart(self) -> Chart:
        """Returns what was found, as data."""
        return Chart(
            values=self.values,
            lower=self.lower,
            upper=self.upper,
            nonnegative=tuple(self.nonnegative),
            zero=tuple(self.zero),
            nonzero=tuple(self.nonzero),
            calls=self.calls,
            fresh=self.fresh,
        )

    def copy(self) -> Draft:
        """Returns an independent draft with the same content."""
        other = Draft(self.chart(), self.pending[::-1], self.budget)
        other.dropped, other.rounds = self.dropped, self.rounds
        return other

    def parameter(self, least: int | None) -> Dim:
        """Returns a new atom that is at least least, or any integer."""
        self.fresh += 1
        name = f"${self.fresh}"
        self.lower[name] = least
        return symbol(name)

    def range(self, dim: Dim) -> Range:
        """Returns bounds of dim from the bounds of its atoms."""
        return range_of(dim, self.lower, self.upper)

    def express(self, dim: Dim) -> Dim:
        """Returns dim as a polynomial in the atoms that are left.

        Raises Split where that takes a case distinction, ZeroDivisionError where dim has no value.
        """
        if isinstance(dim, int):
            return dim
        values = self.values
        if not any(a in values or isinstance(a, Call) for m in dim.terms for a, _ in m):
            return dim
        total: Dim = 0
        for monomial, coefficient in dim.terms.items():
            term: Dim = coefficient
            for atom, exponent in monomial:
                if isinstance(atom, Call):
                    base = self.express_call(atom.function, atom.arguments)
                else:
                    base = values[atom] if atom in values else symbol(atom)
                term = term * base**exponent
            total = total + term
            self.budget.spend(1 + len(terms_of(total)) // 4)
        return total

    def express_call(self, function: Function, arguments: Sequence[Dim]) -> Dim:
        """Returns the polynomial that a function of these arguments is here."""
        written = tuple(self.express(argument) for argument in arguments)
        if function is Function.MOD:
            a, b = written
            return a - b * self.express_call(Function.FLOORDIV, (a, b))
        if function is Function.CEILDIV:
            a, b = written
            return -self.express_call(Function.FLOORDIV, (-a, b))
        folded = apply(function, written)
        for atom in atoms_of(folded):
            if isinstance(atom, Call):
                known = self.calls.get(atom)
                if known is None:
                    known = self._new_call(atom)
                    self.calls[atom] = known
                folded = replace(folded, {atom: known})
        return folded

    def _new_call(self, call: Call) -> Dim:
        """A new parameter for a floor, with what is true of it; a minimum or maximum is split."""
        if call.function is Function.FLOORDIV:
            return self._new_floor(*call.arguments)
        sign = -1 if call.function is Function.MIN else 1
        cases: list[tuple[list[Goal], dict[str, Dim]]] = []
        for i, chosen in enumerate(call.arguments):
            goals = [
                ((chosen - other) * sign - (1 if j < i else 0), Sign.NONNEGATIVE)
                for j, other in enumerate(call.arguments)
                if j != i
            ]
            cases.append((goals, {call: chosen}))
        raise Split(*cases)

    def _new_floor(self, a: Dim, b: Dim) -> Dim:
        """A floor that does not fold: divided as far as possible, then bounded."""
        if isinstance(b, Poly):
            whole, rest = divided(a, b)
            if whole != 0:
                return whole + self.express_call(Function.FLOORDIV, (rest, b))
        low, high = self.range(b)
        if high is not None and high <= -1:
            return self.express_call(Function.FLOORDIV, (-a, -b))
        if low is None or low < 1:
            raise Split(([(b - 1, Sign.NONNEGATIVE)], {}), ([(-b - 1, Sign.NONNEGATIVE)], {}))
        least, most = _quotient_range(self.range(a), low, high)
        if self._at_least(a, 0) and self._at_least(b - 1 - a, 0):
            return 0
        if self._at_least(a + b, 0) and self._at_least(-1 - a, 0):
            return -1
        if least is not None and least == most:
            return least
        quotient = self.parameter(least)
        rest = a - b * quotient
        remainder = known_remainder(a, b)
        if remainder is not None:
            self.pending.append((rest - remainder, Sign.ZERO))
        else:
            self.pending.append((rest, Sign.NONNEGATIVE))
            self.pending.append((b - 1 - rest, Sign.NONNEGATIVE))
        if most is not None:
            self.pending.append((most - quotient, Sign.NONNEGATIVE))
        return quotient

    def _at_least(self, dim: Dim, least: int) -> bool:
        low, _ = self.range(dim)
        return low is not None and low >= least

    def set(self, atom: str, value: Dim) -> None:
        """Replaces an atom everywhere; its bounds, and all that mentions it, become goals again."""
        change = {atom: value}
        self.budget.spend(10 + len(self.pending) + len(self.nonnegative))
        values = {name: replace(old, change) for name, old in self.values.items()}
        if not atom.startswith("$"):
            values[atom] = value
        goals: list[Goal] = [(replace(dim, change), sign) for dim, sign in self.pending]
        kept: list[list[Dim]] = []
        for dims, sign in (
            (self.nonnegative, Sign.NONNEGATIVE),
            (self.zero, Sign.ZERO),
            (self.nonzero, Sign.NONZERO),
        ):
            goals.extend((replace(dim, change), sign) for dim in dims if atom in atoms_of(dim))
            kept.append([dim for dim in dims if atom not in atoms_of(dim)])
        calls = self._renamed_calls(change, goals)
        least, most = self.lower.pop(atom, 1), self.upper.pop(atom, None)
        if least is not None:
            goals.append((value - least, Sign.NONNEGATIVE))
        if most is not None:
            goals.append((most - value, Sign.NONNEGATIVE))
        self.values, self.pending, self.calls = values, goals, calls
        self.nonnegative, self.zero, self.nonzero = kept

    def _renamed_calls(self, change: Mapping[str, Dim], goals: list[Goal]) -> dict[str, Dim]:
        """The known calls in the atoms that are left; one that folds now becomes an equation."""
        calls: dict[str, Dim] = {}
        for call, known in self.calls.items():
            assert isinstance(call, Call)
            known = replace(known, change)
            if any(not atoms_of(a).isdisjoint(change) for a in call.arguments):
                arguments = tuple(replace(argument, change) for argument in call.arguments)
                folded = apply(call.function, arguments)
                atom = next(iter(atoms_of(folded)), None)
                if not isinstance(atom, Call) or folded != symbol(atom):
                    goals.append((known - folded, Sign.ZERO))
                    continue
                call = atom
            calls[call] = known
        return calls


def _quotient_range(a: Range, low: int, high: int | None) -> Range:
    """Bounds of a//b for a within its range and 1 <= low <= b <= high."""
    least, most = a
    if least is not None:
        least = least // low if least < 0 else 0 if high is None else least // high
    if most is not None:
        most = most // low if most >= 0 else -1 if high is None else most // high
    return least, most
