"""Showing that a claim holds nowhere: its cells under the facts are all empty.

While the cells are made they also say where to look for values at which the claim does hold; the
first one ends the attempt.

    a < b  under  a >= 2*b      one cell, and it is empty: 2*b <= a < b with b >= 1
    h == 2 under  h*t == 12     one cell, h = 2 and t = 6: seen
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..algebra.budget import Budget, OutOfBudgetError
from ..algebra.dims import substitute
from ..algebra.divisors import residue_table
from ..algebra.poly import Dim, Poly, TooLarge
from .case_splits import cover_of, refined
from .cells import WHOLE, Cell, Goal, least_of
from .claims import Claim, Sign, difference, is_surely_positive
from .facts import Facts
from .floors import in_cell
from .relaxation import cleared, is_nonnegative
from .search import points

SEARCH = 5_000
RESIDUES = 4_000
MAX_DEPTH = 7

Predicate: TypeAlias = Callable[[Mapping[str, int]], "bool | None"]
Cells: TypeAlias = tuple[Cell, ...]


class Seen:
    """The first values at which a predicate was seen to hold, and to fail."""

    __slots__ = ("fails", "holds", "predicate")

    def __init__(self, predicate: Predicate) -> None:
        self.predicate = predicate
        self.holds: Mapping[str, int] | None = None
        self.fails: Mapping[str, int] | None = None

    def look(self, walk: Iterable[Mapping[str, int]]) -> bool:
        """Evaluates the predicate at points until both were seen; returns whether one is new."""
        new = False
        for point in walk:
            answer = self.predicate(point)
            if answer is True and self.holds is None:
                self.holds, new = point, True
            elif answer is False and self.fails is None:
                self.fails, new = point, True
            if self.holds is not None and self.fails is not None:
                break
        return new


class _Answered(Exception):
    """Values were seen that end the attempt."""


def is_impossible(
    claims: Sequence[Claim], facts: Facts, names: Sequence[str], seen: Seen, budget: Budget
) -> bool:
    """Whether it is proved that no values satisfy the facts and all the claims.

    Stops when values are seen at which the predicate holds or fails as was not seen before. Which
    way gives simpler equations is not known before: the claims are added to the cells of the
    facts, taken without any facts, and the facts are added to their own cells. What is left is cut
    finer and finer.
    """
    try:
        if any(_divides_nowhere(claim, facts, budget) for claim in claims):
            return True
        attempt = _Attempt(_all_sides(claims, facts), facts, names, seen, budget)
        if len(facts.cover.cells) == 1:
            ways = attempt.under_facts, attempt.alone, attempt.facts_under, attempt.finer
        else:
            ways = attempt.alone, attempt.facts_under, attempt.under_facts, attempt.finer
        return any(way() for way in ways)
    except (_Answered, OutOfBudgetError, TooLarge, ZeroDivisionError):
        return False


def _divides_nowhere(claim: Claim, facts: Facts, budget: Budget) -> bool:
    """Whether a constant is to divide, and in no cell do the bounds of its atoms allow residues at
    which it does: 9 divides ``3*s**2 + 4*t`` where t is 0 or 6 modulo 9, and never if t <= 4.
    """
    asked = claim.divisibility()
    if asked is None or not isinstance(asked[0], int) or asked[0] == 0:
        return False
    part = budget.part(min(RESIDUES, budget.left // 4))
    try:
        return all(_has_no_class(asked[0], asked[1], cell, part) for cell in facts.cover.cells)
    except (OutOfBudgetError, TooLarge):
        return False
    finally:
        budget.refund(part)


def _has_no_class(divisor: int, dividend: Dim, cell: Cell, budget: Budget) -> bool:
    found = in_cell(dividend, cell)
    table = None if found is None else residue_table(found[0], abs(divisor), budget)
    if found is None or table is None:
        return False
    home = found[1]

    def is_allowed(atom: str, period: int, residue: int) -> bool:
        least, most = least_of(atom, home.lower), home.upper.get(atom)
        return least is None or most is None or least + (residue - least) % period <= most

    return not any(
        all(map(is_allowed, table.atoms, table.periods, residues)) for residues in table.classes
    )


def _all_sides(claims: Sequence[Claim], facts: Facts) -> list[tuple[Goal, ...]]:
    """The claims together as alternatives of goals; only the last one is cut into two."""
    *others, last = claims
    shared = tuple(difference(claim) for claim in others)
    return [(*shared, side) for side in _sides(last, facts)]


def _sides(claim: Claim, facts: Facts) -> list[Goal]:
    """The claim as alternatives of goals: what is not zero is at least 1 or at most -1."""
    dim, sign = difference(claim)
    if sign is Sign.ZERO or (sign is Sign.NONZERO and claim.negated().divisibility() is not None):
        return [(dim, sign)]
    sides = [dim] if sign is Sign.NONNEGATIVE else [dim - 1, -dim - 1]
    return [(cleared(side, lambda n: _is_positive(n, facts)), Sign.NONNEGATIVE) for side in sides]


def _is_positive(dim: Dim, facts: Facts) -> bool:
    if is_surely_positive(dim):
        return isinstance(dim, Poly) or dim > 0
    return all(is_nonnegative(substitute(dim, cell.values) - 1, cell) for cell in facts.cover.cells)


@dataclass(slots=True)
class _Attempt:
    """Each way returns whether it showed that the alternatives are impossible under the facts."""

    sides: list[tuple[Goal, ...]]
    facts: Facts
    names: Sequence[str]
    seen: Seen
    budget: Budget
    left: Cells | None = None

    def under_facts(self) -> bool:
        return self._empty(self.sides, self.facts.cover.cells)

    def facts_under(self) -> bool:
        turned = [(*side, *self.facts.goals) for side in self.sides]
        return bool(self.facts.goals) and self._empty(turned, (WHOLE,))

    def alone(self) -> bool:
        if not self.facts.goals:
            return False
        part = self.budget.part(self.budget.left // 4)
        try:
            cells = _cells_of(self.sides, (WHOLE,), part)
            for depth in range(MAX_DEPTH):
                if not cells:
                    return True
                cells = _finer(cells, part, depth)
        except (OutOfBudgetError, TooLarge):
            pass
        return False

    def finer(self) -> bool:
        cells = self.left or ()
        for depth in range(MAX_DEPTH):
            if not cells:
                return True
            cells = _finer(cells, self.budget, depth)
            self._look(cells)
        return False

    def _empty(self, sides: list[tuple[Goal, ...]], bases: Cells) -> bool:
        part = self.budget.part(self.budget.left // 2)
        cells = _cells_of(sides, bases, part)
        self.budget.refund(part)
        if not cells:
            return True
        self._look(cells)
        if self.left is None or len(cells) < len(self.left):
            self.left = cells
        return False

    def _look(self, cells: Cells) -> None:
        """Searches cells, with a part of the budget."""
        part = self.budget.part(SEARCH)
        new = self.seen.look(points(self.facts, cells, self.names, part))
        self.budget.refund(part)
        if new:
            raise _Answered


def _cells_of(sides: Sequence[tuple[Goal, ...]], bases: Cells, budget: Budget) -> Cells:
    found: Cells = ()
    for base in bases:
        for goals in sides:
            found += cover_of(goals, budget, base).cells
    return found


def _finer(cells: Cells, budget: Budget, depth: int) -> Cells:
    """The cells cut into parts. Raises OutOfBudgetError where one cannot be cut."""
    found: Cells = ()
    for cell in cells:
        parts = refined(cell, budget, depth)
        if parts is None:
            raise OutOfBudgetError
        found += parts
    return found
