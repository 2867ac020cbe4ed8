"""Case analysis: cells that together cover every value that satisfies some claims.

    h % 8 == 4, h <= 20   one cell: h = 8*$1 + 4, 0 <= $1 <= 2
    max(a, b) == 4        two cells: a = 4, b <= 4  and  b = 4, a <= 3

A cell that cannot be shown to be empty as it is is `refined`: split into parts that together are
the whole.

    p != 0                     p >= 1  or  p <= -1
    2 <= x <= 5                x = 2, 3, 4, 5
    a floor of a*a by 4        a = 4*t, 4*t + 1, 4*t + 2, 4*t + 3
    x*x + y*y - 2*x*y < 0      x = y + t  or  y = x + t + 1       (one order, then the other)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

from ..algebra.budget import Budget, OutOfBudgetError
from ..algebra.dims import Call, Function
from ..algebra.divisors import divides_everywhere, residue_table
from ..algebra.poly import Dim, Poly, TooLarge, atoms_of, replace, symbol, terms_of
from .cells import WHOLE, Cell, Empty, Goal, PartialCell, Split, least_of
from .claims import Sign
from .elimination import class_goals, solve, solve_products
from .emptiness import is_empty
from .floors import express
from .order import bound, exclude, propagate, sharpened

MAX_CELLS = 256
MAX_TERMS = 80
MAX_LINEAR = 2_000
"""Terms of a goal in general, and where each is one atom."""


@dataclass(frozen=True, slots=True)
class Cover:
    """cells: their union contains every value that satisfies the claims; none: the claims clash.

    complete: no claim had to be ignored.
    """

    cells: tuple[Cell, ...]
    complete: bool


EVERYTHING = Cover((WHOLE,), True)


def cover_of(goals: Sequence[Goal], budget: Budget, base: Cell = WHOLE) -> Cover:
    """Returns the cells of the goals within a cell.

    A goal that would need too many cases, or too large a polynomial, is left out: the cells then
    cover more than they must, which is sound for every proof. When the budget ends, what is
    pending is left out.
    """
    if not goals and base is WHOLE:
        return EVERYTHING
    return finished([PartialCell(base, goals, budget)], budget)


def finished(partials: Sequence[PartialCell], budget: Budget) -> Cover:
    """Returns the cells of partial cells whose goals are still pending."""
    waiting = list(reversed(partials))
    cells: list[Cell] = []
    complete = True
    try:
        while waiting:
            partial = waiting[-1]
            cases = _worked(partial, MAX_CELLS - len(waiting) - len(cells))
            if cases is None and not is_empty(partial.cell(), budget):
                cells.append(partial.cell())
            complete = complete and not partial.dropped
            waiting.pop()
            waiting.extend(reversed(cases or ()))
    except OutOfBudgetError:
        complete = False
        cells.extend(partial.cell() for partial in waiting)
    return Cover(tuple(cells), complete)


def _worked(partial: PartialCell, room: int) -> list[PartialCell] | None:
    """Takes a partial cell's goals: the cells that replace it, or None where it is done."""
    try:
        while partial.pending or propagate(partial) or partial.later or sharpened(partial):
            cases = _run(partial, room)
            if cases is not None:
                return cases
        cases = solve_products(partial)
        return cases if cases is None or len(cases) <= room else None
    except (Empty, ZeroDivisionError):
        return []
    except TooLarge:
        return None


def _run(partial: PartialCell, room: int) -> list[PartialCell] | None:
    """Takes all pending goals; returns the cases of the first one that must be split."""
    last = not partial.pending and bool(partial.later)
    while partial.pending or last:
        goal = partial.later.pop(0) if last else partial.pending.pop()
        partial.budget.spend(10)
        try:
            _take(partial, *goal)
        except TooLarge:
            partial.dropped = True
        except Split as split:
            if not last:
                partial.later.append(goal)
            elif len(split.cases) <= room:
                return [_case(partial, goal, *case) for case in split.cases]
            else:
                partial.dropped = True
        last = False
    return None


def _case(
    partial: PartialCell, goal: Goal, goals: Sequence[Goal], calls: Mapping[str, Dim]
) -> PartialCell:
    case = partial.copy()
    case.pending.append(goal)
    case.pending.extend(reversed(goals))
    case.calls.update(calls)
    return case


def _take(partial: PartialCell, dim: Dim, sign: Sign) -> None:
    """Adds one goal, solved as far as it can be."""
    written = express(partial, dim)
    terms = terms_of(written)
    if len(terms) > MAX_TERMS and (len(terms) > MAX_LINEAR or any(len(m) > 1 for m in terms)):
        raise TooLarge
    match sign:
        case Sign.ZERO:
            solve(partial, written)
        case Sign.NONNEGATIVE:
            bound(partial, written)
        case Sign.NONZERO:
            exclude(partial, written)


MAX_VALUES = 16
MAX_MODULUS = 1_024
MAX_PERIOD = 16
OBSTRUCTIONS = {4, 7, 8, 9}


def refined(cell: Cell, budget: Budget, depth: int) -> tuple[Cell, ...] | None:
    """Returns cells that together cover the cell, or None where no case split applies."""
    ways = (_no_residue, _with_remainders, _by_sign, _by_value, _by_residue, *_TURNS[depth % 3])
    budget.spend(10 + 2 * sum(len(terms_of(dim)) for dim in _conditions(cell)))
    for way in ways:
        try:
            partials = way(cell, budget, depth)
        except TooLarge:
            continue
        if partials is not None:
            cells = finished(partials, budget).cells
            budget.spend(0)
            return cells
    return None


def _no_residue(cell: Cell, budget: Budget, depth: int) -> list[PartialCell] | None:
    """An equation that has no solution modulo some number has none."""
    for dim in cell.zero if depth == 0 else ():
        for modulus in sorted({abs(c) for m, c in terms_of(dim).items() if m} | OBSTRUCTIONS):
            table = residue_table(dim, modulus, budget) if modulus > 1 else None
            if table is not None and not table.classes:
                return []
    return None


def _by_sign(cell: Cell, budget: Budget, depth: int) -> list[PartialCell] | None:
    """A polynomial that is not zero is at least 1 or at most -1."""
    if not cell.nonzero:
        return None
    dim, *others = cell.nonzero
    rest = dataclasses.replace(cell, nonzero=tuple(others))
    return [PartialCell(rest, [(side, Sign.NONNEGATIVE)], budget) for side in (dim - 1, -dim - 1)]


def _by_value(cell: Cell, budget: Budget, depth: int) -> list[PartialCell] | None:
    """An atom with few values takes each of them."""
    used = {atom for dim in _conditions(cell) for atom in atoms_of(dim)}
    widths = sorted(
        (most - least, atom)
        for atom, most in cell.upper.items()
        if (least := least_of(atom, cell.lower)) is not None and atom in used
    )
    if not widths or widths[0][0] >= MAX_VALUES:
        return None
    width, atom = widths[0]
    least = least_of(atom, cell.lower) or 0
    return [
        PartialCell(cell, [(symbol(atom) - (least + i), Sign.ZERO)], budget)
        for i in range(width + 1)
    ]


def _by_residue(cell: Cell, budget: Budget, depth: int) -> list[PartialCell] | None:
    """An atom in a product in a floor by a constant takes each residue that matters."""
    for call in cell.calls:
        assert isinstance(call, Call)
        if call.function is not Function.FLOORDIV:
            continue
        dividend, divisor = call.arguments
        if not isinstance(divisor, int) or not 1 < divisor <= MAX_MODULUS:
            continue
        for atom in _turning(dividend, divisor, linear=depth > 1):
            period = _period(dividend, atom, divisor)
            if period is None:
                continue
            partials: list[PartialCell] = []
            for residue in range(period):
                partial = PartialCell(cell, [], budget)
                partial.set(atom, period * partial.parameter(None) + residue)
                partials.append(partial)
            return partials
    return None


def _turning(dim: Dim, modulus: int, *, linear: bool) -> list[str]:
    """The atoms of terms that the modulus does not divide, of degree 2 or more, or of any."""
    return sorted(
        {
            atom
            for monomial, coefficient in terms_of(dim).items()
            if (linear or sum(e for _, e in monomial) > 1) and coefficient % modulus
            for atom, _ in monomial
        }
    )


def _with_remainders(cell: Cell, budget: Budget, depth: int) -> list[PartialCell] | None:
    """No case split, but another view: the remainder of a floor becomes an atom with bounds."""
    partial = PartialCell(cell, [], budget)
    for call, quotient in cell.calls.items() if depth == 0 else ():
        assert isinstance(call, Call)
        dividend, divisor = call.arguments[:2]
        if call.function is Function.FLOORDIV and isinstance(divisor, int):
            rest = dividend - divisor * quotient
            if rest in cell.zero or isinstance(rest, int):
                continue
            if any(side in cell.nonnegative for side in (rest, rest - 1, divisor - 1 - rest)):
                goal = rest - partial.parameter(0, divisor - 1)
                partial.pending.append((goal, Sign.ZERO))
    return [partial] if partial.pending else None


def _period(dim: Dim, atom: str, modulus: int) -> int | None:
    """The least period of dim modulo the modulus in one atom, where it is short."""
    for period in range(1, min(modulus, MAX_PERIOD) + 1):
        if modulus % period == 0:
            moved = replace(dim, {atom: symbol(atom) + period})
            if divides_everywhere(modulus, moved - dim):
                return period
    return None


def _by_order(cell: Cell, budget: Budget, depth: int) -> list[PartialCell] | None:
    """Of two atoms in a product or a square with mixed signs, one is the greater."""
    for left, right in _pairs(cell):
        partials: list[PartialCell] = []
        for greater, smaller, gap in ((left, right, 0), (right, left, 1)):
            partial = PartialCell(cell, [], budget)
            partial.set(greater, symbol(smaller) + partial.parameter(gap))
            partials.append(partial)
        return partials
    return None


def _by_least(cell: Cell, budget: Budget, depth: int) -> list[PartialCell] | None:
    """An atom in a product with mixed signs takes its least value, or a greater one."""
    for dim in _conditions(cell):
        signs = {c > 0 for m, c in terms_of(dim).items() if m}
        atoms = sorted(a for m in terms_of(dim) if len(m) > 1 for a, _ in m)
        for atom in atoms if len(signs) > 1 else ():
            least = least_of(atom, cell.lower)
            if least is not None:
                here, above = symbol(atom) - least, symbol(atom) - least - 1
                return [
                    PartialCell(cell, [(here, Sign.ZERO)], budget),
                    PartialCell(cell, [(above, Sign.NONNEGATIVE)], budget),
                ]
    return None


def _by_congruence(cell: Cell, budget: Budget, depth: int) -> list[PartialCell] | None:
    """A constant that divides some terms of an equation divides the sum of the others."""
    best: tuple[float, list[list[Goal]]] | None = None
    for dim in cell.zero:
        for modulus in sorted({abs(c) for m, c in terms_of(dim).items() if m} - {1}):
            table = residue_table(dim, modulus, budget)
            if table is None or len(table.classes) > MAX_VALUES or table.is_everything:
                continue
            share = len(table.classes) / prod(table.periods)
            if best is None or share < best[0]:
                best = share, class_goals(table)
    return None if best is None else [PartialCell(cell, goals, budget) for goals in best[1]]


def _pairs(cell: Cell) -> Iterator[tuple[str, str]]:
    """Pairs of atoms with one least value in one inequality of degree 2 with mixed signs."""
    for dim in _conditions(cell):
        if not isinstance(dim, Poly) or len(dim.terms) > 30:
            continue
        if all(sum(e for _, e in m) < 2 for m in dim.terms):
            continue
        atoms = sorted(a for a in atoms_of(dim) if least_of(a, cell.lower) is not None)
        for left, right in combinations(atoms, 2):
            if least_of(left, cell.lower) == least_of(right, cell.lower):
                yield left, right


def _conditions(cell: Cell) -> tuple[Dim, ...]:
    return cell.nonnegative + cell.zero + cell.nonzero


_TURNS = (
    (_by_order, _by_least, _by_congruence),
    (_by_congruence, _by_least, _by_order),
    (_by_least, _by_order, _by_congruence),
)
