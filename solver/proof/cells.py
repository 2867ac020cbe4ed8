"""Cells: parts of the values that the facts allow, written with parameters that vary freely.

    k % 64 == 0     one cell: k = 64*$1, $1 >= 1
    h*t == 6        four cells of constants

A question is put into every cell: it holds always when it holds in each, because the cells together
cover all values (`dimsolve.solver.proof.case_splits`). What no substitution expresses stays beside
it as polynomials that are not negative, zero, or not zero. An atom without a bound of its own is a
symbol of the caller, at least 1; parameters begin with ``$``, which no symbol does.

A `PartialCell` is one in the making, with the goals that are still to be added. Solved symbols are
replaced everywhere at once, so it is always written in the atoms that are left. `floors` says how a
length is written in them; the rules that add goals are in `elimination` and `order`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import comb, gcd
from typing import TypeAlias

from ..algebra.budget import Budget
from ..algebra.dims import Call, apply, substitute
from ..algebra.poly import (
    Dim,
    Monomial,
    TooLarge,
    atoms_of,
    build,
    common_monomial,
    divide_exactly,
    replace,
    symbol,
    terms_of,
)
from .claims import Sign

Range: TypeAlias = "tuple[int | None, int | None]"


@dataclass(frozen=True, slots=True)
class Cell:
    """values: symbol -> Dim in the atoms that are left. lower: atom -> bound, None for any integer;
    1 where absent.

    calls: a floor, minimum or maximum -> the polynomial that it is in this cell. fresh: the
    number of the newest parameter.
    """

    values: Mapping[str, Dim] = field(default_factory=dict)
    lower: Mapping[str, int | None] = field(default_factory=dict)
    upper: Mapping[str, int] = field(default_factory=dict)
    nonnegative: tuple[Dim, ...] = ()
    zero: tuple[Dim, ...] = ()
    nonzero: tuple[Dim, ...] = ()
    calls: Mapping[str, Dim] = field(default_factory=dict)
    fresh: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing is known but that symbols are positive."""
        return not (self.values or self.lower or self.upper or self.nonnegative or self.zero)

    @property
    def is_free(self) -> bool:
        """Whether the parameters vary independently over all integers from their bounds upwards."""
        return not (self.upper or self.nonnegative or self.zero or self.nonzero)


WHOLE = Cell()
MAX_SHIFTED = 40
MAX_MOVED = 150


def least_of(atom: str, lower: Mapping[str, int | None]) -> int | None:
    """Returns the bound of an atom from below: a symbol's is 1 where it has none of its own. Of a
    call that is not written in atoms yet nothing is known.
    """
    return lower.get(atom, 1) if atom.__class__ is str else lower.get(atom)


def range_of(dim: Dim, lower: Mapping[str, int | None], upper: Mapping[str, int]) -> Range:
    """Returns bounds of dim's values, from the bounds of its atoms alone; None where there is none.

    >>> a, b = symbol("a"), symbol("b")
    >>> range_of(a * b + 2 * a, {}, {}), range_of(a - b, {}, {"a": 4})
    ((3, None), (None, 3))
    """
    if isinstance(dim, int):
        return dim, dim
    bounds = {a: (least_of(a, lower), upper.get(a)) for m in dim.terms for a, _ in m}
    if len({c > 0 for m, c in dim.terms.items() if m}) > 1 and len(dim.terms) <= MAX_SHIFTED:
        try:
            dim = shifted(dim, lower)
        except TooLarge:
            return None, None
        for atom, (least, most) in bounds.items():
            if least is not None:
                bounds[atom] = 0, None if most is None else most - least
    return _sum_range(terms_of(dim), bounds)


def shifted(dim: Dim, lower: Mapping[str, int | None]) -> Dim:
    """Returns dim with every bounded atom x as its least value plus x: all are at least 0."""
    terms = dict(terms_of(dim))
    moves = {a: move for m in terms for a, _ in m if (move := least_of(a, lower))}
    for atom, move in moves.items():
        terms = _moved(terms, atom, move)
        if len(terms) > MAX_MOVED:
            raise TooLarge
    return build({m: c for m, c in terms.items() if c})


def _moved(terms: Mapping[Monomial, int], atom: str, move: int) -> dict[Monomial, int]:
    """The terms with atom + move in place of atom, by the binomial theorem; some may be 0."""
    result: dict[Monomial, int] = {}
    for monomial, coefficient in terms.items():
        for place, (name, exponent) in enumerate(monomial):
            if name == atom:
                before, after = monomial[:place], monomial[place + 1 :]
                for k in range(exponent + 1):
                    kept = (*before, (atom, k), *after) if k else before + after
                    weight = coefficient * comb(exponent, k) * move ** (exponent - k)
                    result[kept] = result.get(kept, 0) + weight
                break
        else:
            result[monomial] = result.get(monomial, 0) + coefficient
    return result


def _sum_range(terms: Mapping[Monomial, int], bounds: Mapping[str, Range]) -> Range:
    low: int | None = 0
    high: int | None = 0
    for monomial, coefficient in terms.items():
        least, most = _monomial_range(monomial, bounds)
        if coefficient < 0:
            least, most = most, least
        low = None if low is None or least is None else low + coefficient * least
        high = None if high is None or most is None else high + coefficient * most
        if low is None and high is None:
            break
    return low, high


def _monomial_range(monomial: Monomial, bounds: Mapping[str, Range]) -> Range:
    result: Range = (1, 1)
    for atom, exponent in monomial:
        result = _times(result, _power_range(bounds[atom], exponent))
    return result


def _power_range(base: Range, exponent: int) -> Range:
    low, high = base
    if exponent % 2 or (low is not None and low >= 0):
        return (None if low is None else low**exponent, None if high is None else high**exponent)
    if high is not None and high <= 0:
        return high**exponent, None if low is None else low**exponent
    return 0, None if low is None or high is None else max(low**exponent, high**exponent)


def _times(a: Range, b: Range) -> Range:
    """The interval product; None stands for an end without bound."""
    if a == (1, 1):
        return b
    ends: list[int] = []
    low_open = high_open = False
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            if x is not None and y is not None:
                ends.append(x * y)
                continue
            if x == 0 or y == 0:
                ends.append(0)
                continue
            sign_x = (1 if i else -1) if x is None else (1 if x > 0 else -1)
            sign_y = (1 if j else -1) if y is None else (1 if y > 0 else -1)
            if sign_x * sign_y > 0:
                high_open = True
            else:
                low_open = True
    return (
        None if low_open or (not ends and not high_open) else min(ends, default=None),
        None if high_open or (not ends and not low_open) else max(ends, default=None),
    )


Goal: TypeAlias = tuple[Dim, Sign]

MAX_NEAR = 6


class Empty(Exception):
    """No values satisfy the partial cell."""


class Split(Exception):
    """The goal needs a case split. Of each case: the goals to add first, and what calls are."""

    def __init__(self, *cases: Sequence[Goal], calls: Sequence[Mapping[str, Dim]] = ()) -> None:
        super().__init__()
        self.cases = tuple(zip(cases, calls or [{}] * len(cases), strict=True))


class PartialCell:
    """The content of a `Cell`, mutable, with the goals that are still to be added.

    pending: the last one is taken first. later: those that need a case split, taken when
    nothing else is left. dropped: a goal was too large and left out. rounds: how often bounds were
    propagated.
    """

    __slots__ = (
        "budget",
        "calls",
        "dropped",
        "fresh",
        "later",
        "lower",
        "nonnegative",
        "nonzero",
        "pending",
        "rounds",
        "upper",
        "values",
        "zero",
    )

    def __init__(self, cell: Cell, goals: Sequence[Goal], budget: Budget) -> None:
        self.values = dict(cell.values)
        self.lower = dict(cell.lower)
        self.upper = dict(cell.upper)
        self.nonnegative = list(cell.nonnegative)
        self.zero = list(cell.zero)
        self.nonzero = list(cell.nonzero)
        self.calls = dict(cell.calls)
        self.fresh = cell.fresh
        self.pending = list(reversed(goals))
        self.later: list[Goal] = []
        self.budget = budget
        self.dropped = False
        self.rounds = 0

    def cell(self) -> Cell:
        """Returns what was found, as data."""
        return Cell(
            values=self.values,
            lower=self.lower,
            upper=self.upper,
            nonnegative=tuple(self.nonnegative),
            zero=tuple(self.zero),
            nonzero=tuple(self.nonzero),
            calls=self.calls,
            fresh=self.fresh,
        )

    def copy(self) -> PartialCell:
        """Returns an independent partial cell with the same content."""
        other = PartialCell(self.cell(), self.pending[::-1], self.budget)
        other.later = list(self.later)
        other.dropped, other.rounds = self.dropped, self.rounds
        return other

    def parameter(self, least: int | None, most: int | None = None) -> Dim:
        """Returns a new atom that is at least least, or any integer, and at most most."""
        self.fresh += 1
        name = f"${self.fresh}"
        self.lower[name] = least
        if most is not None and least is not None:
            self.upper[name] = most
        elif most is not None:
            self.pending.append((most - symbol(name), Sign.NONNEGATIVE))
        return symbol(name)

    def range(self, dim: Dim) -> Range:
        """Returns bounds of dim from the bounds of its atoms."""
        self.budget.spend(2 + sum([4 + 2 ** len(monomial) for monomial in terms_of(dim)]))
        return range_of(dim, self.lower, self.upper)

    def term_range(self, monomial: Monomial, coefficient: int) -> Range:
        """Returns bounds of one term."""
        return range_of(build({monomial: coefficient}), self.lower, self.upper)

    def knows(self, dim: Dim) -> bool:
        """Whether dim >= 0 follows from its atoms' bounds, alone or with one inequality."""
        dim = tightened(dim)
        if isinstance(dim, int):
            return dim >= 0
        low, _ = self.range(dim)
        if low is not None and low >= 0:
            return True
        said = [d for d, sign in self.pending if sign is Sign.NONNEGATIVE] + self.nonnegative
        near = [d for d in said if any(terms_of(d).get(m) == c for m, c in dim.terms.items() if m)]
        return any(
            (low := self.range(dim - d)[0]) is not None and low >= 0 for d in near[:MAX_NEAR]
        )

    def is_positive(self, atom: str) -> bool:
        """Whether the atom is known to be at least 1."""
        least = least_of(atom, self.lower)
        return least is not None and least >= 1

    def common_factor(self, monomials: Sequence[Monomial]) -> Monomial:
        """Returns the greatest monomial of positive atoms that divides all of these."""
        return common_monomial(monomials, self.is_positive)

    def set(self, atom: str, value: Dim) -> None:
        """Replaces an atom everywhere; its bounds, and all that mentions it, become goals again."""
        change = {atom: value}
        self.budget.spend(20 + 2 * sum(len(terms_of(dim)) for dim in self._everything()))
        values = {name: replace(old, change) for name, old in self.values.items()}
        if not atom.startswith("$"):
            values[atom] = value
        goals: list[Goal] = [(_substituted(dim, change), sign) for dim, sign in self.pending]
        later: list[Goal] = [(_substituted(dim, change), sign) for dim, sign in self.later]
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
        self.values, self.pending, self.later, self.calls = values, goals, later, calls
        self.nonnegative, self.zero, self.nonzero = kept

    def _everything(self) -> Iterator[Dim]:
        """All that a replacement looks at."""
        yield from self.values.values()
        yield from self.calls.values()
        for dims in (self.nonnegative, self.zero, self.nonzero):
            yield from dims
        for goals in (self.pending, self.later):
            yield from (dim for dim, _ in goals)

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


def _substituted(dim: Dim, change: Mapping[str, Dim]) -> Dim:
    """A goal with an atom replaced, inside of calls too: a goal may hold calls of parameters."""
    if any(isinstance(atom, Call) for atom in atoms_of(dim)):
        return substitute(dim, change)
    return replace(dim, change)


def tightened(dim: Dim) -> Dim:
    """Returns the sharpest inequality of integers that says the same.

    >>> str(tightened(2 * symbol("a") - 3))
    'a - 2'
    """
    if isinstance(dim, int):
        return dim
    common = gcd(*(c for m, c in dim.terms.items() if m))
    return build({m: c // common for m, c in dim.terms.items() if c // common})


def cancelled(dim: Dim, factor: Monomial) -> Dim:
    """Returns dim / factor, a monomial that divides every term."""
    quotient = divide_exactly(dim, build({factor: 1}))
    assert quotient is not None
    return quotient
