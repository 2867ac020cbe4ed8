"""From claims to charts: a worklist that solves what can be solved and keeps the rest beside it.

A draft is a chart that is still being made. Claims are taken one at a time, written in what is already known, and then
an equation replaces an atom, a bound moves a parameter's range, a floor gets a parameter of its own
(``q = a//b`` with ``0 <= a - b*q < b``), a minimum splits the draft in two. A contradiction empties it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from .budget import Budget
from .charts import Chart, is_nonnegative, range_of
from .claims import Sign
from .dims import Call, Function, apply, floor_div
from .poly import (
    UNIT,
    Dim,
    Monomial,
    Poly,
    TooLarge,
    atoms_of,
    build,
    divide_monomials,
    replace,
    symbol,
    terms_of,
)


class Empty(Exception):
    """No values satisfy the draft."""


class Split(Exception):
    """The goal needs a case distinction: each case is a list of goals that are added first, with chosen calls."""

    def __init__(self, *cases: tuple[list[Goal], dict[str, Dim]]) -> None:
        super().__init__()
        self.cases = cases


Goal = tuple[Dim, Sign]


class Draft:
    """A chart in the making. Goals on ``pending`` are taken from the end."""

    __slots__ = (
        "budget",
        "calls",
        "dropped",
        "fresh",
        "lower",
        "nonnegative",
        "nonzero",
        "pending",
        "upper",
        "values",
        "zero",
    )

    def __init__(self, chart: Chart, goals: list[Goal], budget: Budget, fresh: int = 0) -> None:
        self.values = dict(chart.values)
        self.lower = dict(chart.lower)
        self.upper = dict(chart.upper)
        self.nonnegative = list(chart.nonnegative)
        self.zero = list(chart.zero)
        self.nonzero = list(chart.nonzero)
        self.calls = dict(chart.calls)
        self.pending = list(reversed(goals))
        self.budget = budget
        self.fresh = fresh or len(chart.lower)
        self.dropped = False

    def chart(self) -> Chart:
        """Returns what was found, as data."""
        return Chart(
            self.values, self.lower, self.upper,
            tuple(self.nonnegative), tuple(self.zero), tuple(self.nonzero), self.calls,
        )  # fmt: skip

    def copy(self) -> Draft:
        """Returns an independent draft with the same content."""
        return Draft(self.chart(), list(reversed(self.pending)), self.budget, self.fresh)

    def parameter(self, least: int | None) -> str:
        """Returns a new atom that is at least least, or any integer."""
        self.fresh += 1
        name = f"${self.fresh}"
        self.lower[name] = least
        return name

    def run(self) -> None:
        """Takes all pending goals. Raises Empty, Split (the goal is back on pending), or OutOfBudget."""
        while self.pending:
            goal = self.pending.pop()
            self.budget.spend(10)
            try:
                self.take(*goal)
            except Split:
                self.pending.append(goal)
                raise
            except ZeroDivisionError:
                raise Empty from None
            except TooLarge:
                self.dropped = True

    def take(self, dim: Dim, sign: Sign) -> None:
        """Adds one goal, solved as far as it can be."""
        dim = self.express(dim)
        match sign:
            case Sign.ZERO:
                self.solve(dim)
            case Sign.NONNEGATIVE:
                self.bound(dim)
            case Sign.NONZERO:
                self.exclude(dim)

    # -- writing a length in what is known ---------------------------------------------------------------

    def express(self, dim: Dim) -> Dim:
        """Returns dim as a polynomial in the atoms that are left; a call that is new gets a parameter."""
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
            self.budget.spend(len(terms_of(total)))
        return total

    def express_call(self, function: Function, arguments: tuple[Dim, ...]) -> Dim:
        """Returns a polynomial that is this call, in the parameters of the draft."""
        arguments = tuple(self.express(argument) for argument in arguments)
        if function is Function.MOD:
            a, b = arguments
            return a - b * self.express_call(Function.FLOORDIV, (a, b))
        if function is Function.CEILDIV:
            a, b = arguments
            return -self.express_call(Function.FLOORDIV, (-a, b))
        folded = apply(function, arguments)
        for atom in atoms_of(folded):
            if isinstance(atom, Call):
                known = self.calls.get(atom)
                if known is None:
                    known = self.new_call(atom)
                    self.calls[atom] = known
                folded = replace(folded, {atom: known})
        return folded

    def new_call(self, call: Call) -> Dim:
        """Returns a new parameter for a floor, with what is true of it; a minimum or maximum is split."""
        if call.function is Function.FLOORDIV:
            return self.new_floor(*call.arguments)
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

    def new_floor(self, a: Dim, b: Dim) -> Dim:
        low, high = range_of(b, self.lower, self.upper)
        if low is not None and low >= 1:
            least, _ = range_of(a, self.lower, self.upper)
            if least is not None:
                least = least // low if least < 0 else 0 if high is None else least // high
            name = self.parameter(least)
            rest = a - b * symbol(name)
            self.pending.append((rest, Sign.NONNEGATIVE))
            self.pending.append((b - 1 - rest, Sign.NONNEGATIVE))
            return symbol(name)
        if high is not None and high <= -1:
            return self.express_call(Function.FLOORDIV, (-a, -b))
        raise Split(([(b - 1, Sign.NONNEGATIVE)], {}), ([(-b - 1, Sign.NONNEGATIVE)], {}))

    # -- equations ---------------------------------------------------------------------------------------

    def solve(self, dim: Dim) -> None:
        """Adds dim == 0."""
        if isinstance(dim, int):
            if dim:
                raise Empty
            return
        low, high = range_of(dim, self.lower, self.upper)
        if (low is not None and low > 0) or (high is not None and high < 0):
            raise Empty
        reduced = self.reduced(dim)
        if isinstance(reduced, int):
            return self.solve(reduced)
        found = self.isolated(reduced)
        if found is None:
            self.zero.append(reduced)
        else:
            self.set(*found)
        return None

    def reduced(self, dim: Poly) -> Dim:
        """Returns dim without its content and without factors that are never zero."""
        constant = dim.terms.get(UNIT, 0)
        common = gcd(*(c for m, c in dim.terms.items() if m))
        if constant % common:
            raise Empty
        terms = {m: c // common for m, c in dim.terms.items()}
        if constant == 0:
            factor = self.common_factor(terms)
            if factor:
                terms = {_cancelled(m, factor): c for m, c in terms.items()}
        return build(terms)

    def common_factor(self, terms: Mapping[Monomial, int]) -> Monomial:
        """The greatest monomial of positive atoms that divides every term."""
        first, *others = terms
        exponents = {a: e for a, e in first if (self.lower.get(a, 1) or 0) >= 1}
        for monomial in others:
            have = dict(monomial)
            exponents = {a: min(e, have[a]) for a, e in exponents.items() if a in have}
        return tuple(sorted(exponents.items()))

    def isolated(self, dim: Poly) -> tuple[str, Dim] | None:
        """Returns (atom, what it is) for an atom that occurs once, alone, with coefficient 1 or -1."""
        counts: dict[str, int] = {}
        for monomial in dim.terms:
            for atom, _ in monomial:
                counts[atom] = counts.get(atom, 0) + 1
        best: tuple[tuple[bool, bool, str], str, Dim] | None = None
        for monomial, coefficient in dim.terms.items():
            if len(monomial) != 1 or monomial[0][1] != 1 or abs(coefficient) != 1:
                continue
            atom = monomial[0][0]
            if counts[atom] > 1:
                continue
            value = symbol(atom) - dim * coefficient
            score = (
                self.fits(atom, value),
                atom.startswith("$") != any(a.startswith("$") for a in atoms_of(value)),
                atom,
            )
            if best is None or score > best[0]:
                best = score, atom, value
        return None if best is None else (best[1], best[2])

    def fits(self, atom: str, value: Dim) -> bool:
        """Whether the value is within the atom's bounds without anything more being said."""
        low, high = range_of(value, self.lower, self.upper)
        least, most = self.lower.get(atom, 1), self.upper.get(atom)
        return (least is None or (low is not None and low >= least)) and (
            most is None or (high is not None and high <= most)
        )

    def set(self, atom: str, value: Dim) -> None:
        """Replaces an atom everywhere; its bounds and all that mentions it become goals again."""
        change = {atom: value}
        values = {name: replace(old, change) for name, old in self.values.items()}
        if not atom.startswith("$"):
            values[atom] = value
        goals: list[Goal] = [(replace(dim, change), sign) for dim, sign in self.pending]
        kept: list[list[Dim]] = []
        for dims, sign in (
            (self.nonnegative, Sign.NONNEGATIVE), (self.zero, Sign.ZERO), (self.nonzero, Sign.NONZERO),
        ):  # fmt: skip
            goals.extend((replace(dim, change), sign) for dim in dims if atom in atoms_of(dim))
            kept.append([dim for dim in dims if atom not in atoms_of(dim)])
        calls = self.renamed_calls(change, goals)
        least, most = self.lower.pop(atom, 1), self.upper.pop(atom, None)
        if least is not None:
            goals.append((value - least, Sign.NONNEGATIVE))
        if most is not None:
            goals.append((most - value, Sign.NONNEGATIVE))
        self.values, self.pending, self.calls = values, goals, calls
        self.nonnegative, self.zero, self.nonzero = kept

    def renamed_calls(self, change: Mapping[str, Dim], goals: list[Goal]) -> dict[str, Dim]:
        """Returns the known calls in the atoms that are left; one that folds now becomes an equation."""
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

    # -- bounds ------------------------------------------------------------------------------------------

    def bound(self, dim: Dim) -> None:
        """Adds dim >= 0."""
        if isinstance(dim, int):
            if dim < 0:
                raise Empty
            return
        common = gcd(*(c for m, c in dim.terms.items() if m))
        dim = build({m: c // common for m, c in dim.terms.items() if c // common})
        low, high = range_of(dim, self.lower, self.upper)
        if low is not None and low >= 0:
            return
        if high is not None and high < 0:
            raise Empty
        variable = [m for m in terms_of(dim) if m]
        if len(variable) == 1 and len(variable[0]) == 1 and variable[0][0][1] == 1:
            coefficient, constant = terms_of(dim)[variable[0]], terms_of(dim).get(UNIT, 0)
            self.narrow(variable[0][0][0], coefficient, constant)
        elif dim not in self.nonnegative:
            self.nonnegative.append(dim)

    def narrow(self, atom: str, coefficient: int, constant: int) -> None:
        """Adds coefficient * atom + constant >= 0 for a coefficient of 1 or -1."""
        least, most = self.lower.get(atom, 1), self.upper.get(atom)
        if coefficient > 0:
            least = -constant if least is None else max(least, -constant)
            self.lower[atom] = least
        else:
            most = constant if most is None else min(most, constant)
            self.upper[atom] = most
        if least is not None and most is not None:
            if least > most:
                raise Empty
            if least == most:
                self.set(atom, least)

    def exclude(self, dim: Dim) -> None:
        """Adds dim != 0."""
        if isinstance(dim, int):
            if dim == 0:
                raise Empty
            return
        low, high = range_of(dim, self.lower, self.upper)
        if low is not None and low >= 0:
            return self.bound(dim - 1) if low == 0 else None
        if high is not None and high <= 0:
            return self.bound(-dim - 1) if high == 0 else None
        self.nonzero.append(dim)
        return None


def _cancelled(monomial: Monomial, factor: Monomial) -> Monomial:
    quotient = divide_monomials(monomial, factor)
    assert quotient is not None
    return quotient
