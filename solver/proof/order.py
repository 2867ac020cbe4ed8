"""Adding order to a partial cell: bounds of single atoms where possible, polynomials that are not negative
otherwise.

2*a >= 2*b + 3        a - b - 2 >= 0          (integers: the constant is rounded)
a*a <= 10             1 <= a <= 3             (one unknown: decided completely)
3*a + 2*b <= 10       also a <= 2, b <= 3     (the others at their least)

Contradictions between polynomial inequalities, found by linear algebra on monomials.

Atoms are shifted to begin at 0, so every monomial of them is a quantity of its own that is at least
0. What the cell says, and products of what it says, are linear in these quantities; if they
contradict each other there, they contradict each other (Handelman 1988). This is sound and fast,
and finds what bounds, order and broadcasting need.

    a >= 2*b,  b >= a + 1        contradictory: their sum is 0 >= b + 1, and b >= 1
    q*b <= a,  q >= a + 1        contradictory with the product (b - 1)*q >= 0
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations_with_replacement
from math import gcd

from ..algebra.budget import Budget
from ..algebra.integers import integer_root
from ..algebra.poly import (
    UNIT,
    Dim,
    Monomial,
    Poly,
    TooLarge,
    atoms_of,
    build,
    coefficients_of,
    divide_monomials,
    symbol,
    terms_of,
)
from ..algebra.products import has_no_whole_solution
from ..algebra.signs import (
    Run,
    is_contradictory,
    is_nonnegative_in_every_order,
    is_sum_of_squares,
    sign_runs,
)
from .cells import Cell, Empty, Goal, PartialCell, Split, cancelled, least_of, shifted, tightened
from .claims import Sign
from .elimination import misses_zero

MAX_ROWS = 70
MAX_COLUMNS = 90
MAX_CANDIDATES = 160
MAX_TERMS_INEQUALITY = 40
MAX_FACTORS = 16
MAX_EQUATIONS = 12


def is_empty(cell: Cell, budget: Budget) -> bool:
    """Whether it is proved that no values satisfy what the cell says. False proves nothing.

    >>> from dimsolve.solver.algebra.poly import symbol
    >>> a, b = symbol("a"), symbol("b")
    >>> is_empty(Cell(nonnegative=(a - 2 * b, b - a - 1)), Budget(1000))
    True
    """
    budget.spend(4 * sum(len(terms_of(dim)) for dim in cell.nonnegative + cell.zero))
    try:
        given = list(_given(cell))
    except TooLarge:
        return False
    if _contradict(given, cell.lower, budget) or _clash(cell.zero, budget):
        return True
    if any(_degree(dim) > 1 and _is_below_zero(dim, cell, budget) for dim in cell.nonnegative):
        return True
    if max((_degree(dim) for dim in given), default=0) < 2:
        return False
    for more in (_lifted, _products):
        found = more(given, cell, budget)
        given += found
        if found and _contradict(given, cell.lower, budget):
            return True
    return False


def _is_below_zero(dim: Dim, cell: Cell, budget: Budget) -> bool:
    """Whether squares, or orders of the atoms, show that dim is never 0 or more."""
    if is_sum_of_squares(-64 * dim - 1):
        return True
    least = [least_of(atom, cell.lower) for atom in atoms_of(dim)]
    from_zero = all(low is not None and low >= 0 for low in least)
    budget.spend(20 * len(terms_of(dim)))
    return from_zero and is_nonnegative_in_every_order(-dim - 1)


def _clash(zero: Sequence[Dim], budget: Budget) -> bool:
    """Whether equations have no whole solution, with every monomial as an unknown of its own."""
    if len(zero) < 2 or len(zero) > MAX_EQUATIONS:
        return False
    monomials = sorted({m for dim in zero for m in terms_of(dim) if m}, key=lambda m: (len(m), m))
    if len(monomials) > MAX_COLUMNS:
        return False
    budget.spend(len(zero) * len(monomials))
    columns: list[Monomial] = [UNIT, *monomials]
    return has_no_whole_solution(
        [[terms_of(dim).get(m, 0) for m in columns] for dim in zero], budget
    )


def _given(cell: Cell) -> Iterable[Dim]:
    """All that is known to be at least 0, in atoms that begin at 0; the newest inequality last."""
    for dim in cell.zero:
        moved = shifted(dim, cell.lower)
        yield moved
        yield -moved
    for atom, most in cell.upper.items():
        yield most - (least_of(atom, cell.lower) or 0) - symbol(atom)
    for dim in cell.nonnegative:
        yield shifted(dim, cell.lower)


def _contradict(dims: list[Dim], lower: Mapping[str, int | None], budget: Budget) -> bool:
    """Whether they contradict each other, with every monomial as a variable of its own."""
    budget.spend(10 + 2 * sum(len(terms_of(dim)) for dim in dims))
    terms = [dict(terms_of(dim)) for dim in dims if len(terms_of(dim)) <= MAX_TERMS_INEQUALITY]
    signed = {m for dim in terms for m in dim if not _is_square_like(m, lower)}
    terms = _relevant(terms, signed, budget)
    if not any(dim.get(UNIT, 0) < 0 for dim in terms):
        return False
    if len(terms) > MAX_ROWS:
        terms = _nearest(terms, budget)
    monomials = sorted({m for dim in terms for m in dim if m}, key=lambda m: (len(m), m))
    if len(monomials) > MAX_COLUMNS:
        return False
    budget.spend(len(terms) * len(monomials) // 2)
    both = [m for m in monomials if m in signed]
    rows = [
        [dim.get(UNIT, 0), *(dim.get(m, 0) for m in monomials), *(-dim.get(m, 0) for m in both)]
        for dim in terms
    ]
    return is_contradictory(rows, budget)


def _is_square_like(monomial: Monomial, lower: Mapping[str, int | None]) -> bool:
    """Whether the monomial is never negative: atoms without a lower bound have even exponents."""
    return all(e % 2 == 0 or least_of(atom, lower) is not None for atom, e in monomial)


def _relevant(
    terms: list[dict[Monomial, int]], signed: set[Monomial], budget: Budget
) -> list[dict[Monomial, int]]:
    """Leaves out inequalities that no contradiction can use: a monomial in them is cancelled by no
    other.
    """
    while True:
        falling = {m for dim in terms for m, c in dim.items() if c < 0}
        rising = {m for dim in terms for m, c in dim.items() if c > 0}
        budget.spend(sum(len(dim) for dim in terms))
        kept = [
            dim
            for dim in terms
            if all(
                not m or (m in falling if c > 0 else m not in signed or m in rising)
                for m, c in dim.items()
            )
        ]
        if len(kept) == len(terms):
            return kept
        terms = kept


def _nearest(terms: list[dict[Monomial, int]], budget: Budget) -> list[dict[Monomial, int]]:
    """The inequalities closest to the last one, by monomials in common: it is mostly the one in
    question.
    """
    waiting = sorted(terms[:-1], key=len)
    chosen = [terms[-1]]
    met = set(terms[-1])
    while waiting and len(chosen) < MAX_ROWS:
        budget.spend(len(waiting))
        near = [dim for dim in waiting if not met.isdisjoint(m for m in dim if m)]
        if not near:
            break
        chosen += near[: MAX_ROWS - len(chosen)]
        met.update(m for dim in near for m in dim)
        waiting = [dim for dim in waiting if dim not in near]
    return chosen


def _factors(given: list[Dim], budget: Budget) -> tuple[list[Poly], int]:
    """The short inequalities, and the degree that products of them may have: what occurs already,
    at least 2.
    """
    short = [dim for dim in given if isinstance(dim, Poly) and len(dim.terms) <= 8]
    budget.spend(4 * len(short))
    return short[-MAX_FACTORS:], max(2, *(_degree(dim) for dim in given))


def _lifted(given: list[Dim], cell: Cell, budget: Budget) -> list[Dim]:
    """Inequalities times monomials, where that turns a term of them into a monomial that occurs."""
    short, limit = _factors(given, budget)
    bounded = {a for dim in given for a in atoms_of(dim) if least_of(a, cell.lower) is not None}
    wanted = {m for dim in given for m in terms_of(dim)}
    found: list[Dim] = []
    for dim in short:
        budget.spend(len(dim.terms) * len(wanted))
        for factor in _cofactors(dim, wanted, bounded):
            if _degree(dim) + sum(e for _, e in factor) <= limit:
                budget.spend(2 * len(dim.terms))
                found.append(dim * Poly({factor: 1}))
    return found[:MAX_CANDIDATES]


def _products(given: list[Dim], cell: Cell, budget: Budget) -> list[Dim]:
    """Inequalities times each other."""
    short, limit = _factors(given, budget)
    found: list[Dim] = []
    for left, right in combinations_with_replacement(short, 2):
        if _degree(left) + _degree(right) <= limit:
            budget.spend(2 * len(left.terms) * len(right.terms))
            found.append(left * right)
    return found[:MAX_CANDIDATES]


def _cofactors(dim: Poly, wanted: set[Monomial], bounded: set[str]) -> list[Monomial]:
    """Monomials of bounded atoms that lift a term of dim to a monomial that occurs somewhere."""
    found: set[Monomial] = set()
    for target in wanted:
        for monomial in dim.terms:
            factor = divide_monomials(target, monomial)
            if factor and all(atom in bounded for atom, _ in factor):
                found.add(factor)
    return sorted(found)


def _degree(dim: Dim) -> int:
    return max((sum(e for _, e in m) for m in terms_of(dim)), default=0)


MAX_ROUNDS = 6
MAX_TERMS_BOUNDS = 12
MAX_BITS = 512
MAX_PIECES = 6


def bound(partial: PartialCell, dim: Dim) -> None:
    """Adds dim >= 0 to the partial cell; raises Empty where it cannot be."""
    dim = tightened(dim)
    if isinstance(dim, int):
        if dim < 0:
            raise Empty
        return
    low, high = partial.range(dim)
    if low is not None and low >= 0:
        return
    if high is not None and high < 0:
        raise Empty
    assert isinstance(dim, Poly)
    if UNIT not in dim.terms and (factor := partial.common_factor(list(dim.terms))):
        bound(partial, cancelled(dim, factor))
    elif not _bound_one(partial, dim):
        _keep(partial, dim)


def _bound_one(partial: PartialCell, dim: Poly) -> bool:
    """Decides an inequality in one atom completely."""
    names = {atom for monomial in dim.terms for atom, _ in monomial}
    if len(names) > 1:
        return False
    (name,) = names
    coefficients = coefficients_of(dim)
    if len(coefficients) == 2:
        narrow(partial, name, coefficients[1], coefficients[0])
        return True
    least = least_of(name, partial.lower)
    if least is None:
        return False
    runs = sign_runs(coefficients, least, partial.upper.get(name), partial.budget)
    pieces: list[Run] = []
    for run in runs:
        if run.sign >= 0:
            if pieces and pieces[-1].stop is not None and pieces[-1].stop + 1 == run.start:
                pieces[-1] = Run(pieces[-1].start, run.stop, 1)
            else:
                pieces.append(run)
    if not pieces:
        raise Empty
    if len(pieces) > MAX_PIECES:
        return False
    cases = [_within(name, piece) for piece in pieces]
    if len(cases) > 1:
        raise Split(*((case, {}) for case in cases))
    partial.pending.extend(cases[0])
    return True


def _within(name: str, piece: Run) -> list[Goal]:
    goals: list[Goal] = [(symbol(name) - piece.start, Sign.NONNEGATIVE)]
    if piece.stop is not None:
        goals.append((piece.stop - symbol(name), Sign.NONNEGATIVE))
    return goals


def narrow(partial: PartialCell, atom: str, coefficient: int, constant: int) -> bool:
    """Adds ``coefficient * atom + constant >= 0``; returns whether a bound changed."""
    least, most = least_of(atom, partial.lower), partial.upper.get(atom)
    if coefficient > 0:
        new = -(constant // coefficient)
        if least is not None and new <= least:
            return False
        partial.lower[atom] = least = new
    else:
        new = constant // -coefficient
        if most is not None and new >= most:
            return False
        if least is None:
            partial.set(atom, new - partial.parameter(0))
            return True
        partial.upper[atom] = most = new
    if most is not None and least > most:
        raise Empty
    if least == most:
        partial.set(atom, least)
    return True


def _keep(partial: PartialCell, dim: Poly) -> None:
    """Adds an inequality in several atoms, unless a kept one says as much; with its opposite it is
    an equation.
    """
    constant = dim.terms.get(UNIT, 0)
    lead, coefficient = next((m, c) for m, c in dim.terms.items() if m)
    for i, other in enumerate(partial.nonnegative):
        met = terms_of(other).get(lead)
        if met == -coefficient and isinstance(total := dim + other, int):
            if total < 0:
                raise Empty
            if total == 0:
                del partial.nonnegative[i]
                partial.pending.append((dim, Sign.ZERO))
                return
        elif met == coefficient and isinstance(gap := other - dim, int):
            if gap > 0:
                partial.nonnegative[i] = dim
            return
    partial.nonnegative.append(dim)
    if constant < 0:
        _not_at_zero(partial, dim)


def _not_at_zero(partial: PartialCell, dim: Poly) -> None:
    """An atom from 0 upwards at whose 0 the inequality fails is at least 1: ``x*y + x >= 1`` has x
    >= 1.
    """
    for atom in sorted({a for m in dim.terms for a, _ in m if least_of(a, partial.lower) == 0}):
        _, high = partial.range(build({m: c for m, c in dim.terms.items() if atom not in dict(m)}))
        if high is not None and high < 0:
            narrow(partial, atom, 1, -1)


def exclude(partial: PartialCell, dim: Dim) -> None:
    """Adds dim != 0 to the partial cell; raises Empty where it cannot be."""
    if isinstance(dim, int):
        if dim == 0:
            raise Empty
        return
    for known in (dim, -dim):
        values = partial.range(known)
        if misses_zero(values):
            return
        if values[0] == 0 or known in partial.nonnegative:
            bound(partial, known - 1)
            return
    constant = terms_of(dim).get(UNIT, 0)
    common = gcd(*(c for m, c in terms_of(dim).items() if m))
    if constant % common == 0 and dim not in partial.nonzero:
        partial.nonzero.append(dim)


def sharpened(partial: PartialCell) -> bool:
    """Takes the exclusions again whose sign is known by now; returns whether that gave a goal."""
    kept, partial.nonzero = partial.nonzero, []
    for dim in kept:
        exclude(partial, dim)
    return bool(partial.pending)


def propagate(partial: PartialCell) -> bool:
    """Derives bounds of atoms from what is kept; returns whether one changed.

    Each call looks at everything once; after MAX_ROUNDS it stops, because some chains never end.
    """
    if partial.rounds >= MAX_ROUNDS:
        return False
    changed = False
    for dim in (*partial.nonnegative, *partial.zero, *(-dim for dim in partial.zero)):
        if (
            isinstance(dim, Poly)
            and len(dim.terms) <= MAX_TERMS_BOUNDS
            and _propagate_one(partial, dim)
        ):
            changed = True
            if partial.pending:
                return True
    partial.rounds += changed
    return changed


def _propagate_one(partial: PartialCell, dim: Poly) -> bool:
    """From ``coefficient * monomial >= -rest`` for each term, with the rest at its greatest."""
    partial.budget.spend(4 * len(dim.terms))
    most = {m: partial.term_range(m, c)[1] for m, c in dim.terms.items()}
    unbounded = [m for m, high in most.items() if high is None]
    if len(unbounded) > 1:
        return False
    total = sum(high for high in most.values() if high is not None)
    changed = False
    for monomial in unbounded or list(most):
        rest = total - (most[monomial] or 0)
        if monomial and rest.bit_length() <= MAX_BITS:
            changed |= _bound_factors(partial, monomial, dim.terms[monomial], rest)
            if partial.pending:
                return True
    return changed


def _bound_factors(partial: PartialCell, monomial: Monomial, coefficient: int, rest: int) -> bool:
    """From ``coefficient * monomial >= -rest``: bounds of its atoms."""
    if coefficient > 0:
        return (
            len(monomial) == 1
            and monomial[0][1] == 1
            and narrow(partial, monomial[0][0], coefficient, rest)
        )
    if rest < 0 or not all(partial.is_positive(atom) for atom, _ in monomial):
        return False
    limit = rest // -coefficient
    changed = False
    for atom, exponent in monomial:
        others = 1
        for other, e in monomial:
            if other != atom:
                others *= (least_of(other, partial.lower) or 1) ** e
        top = limit // others
        if exponent > 1:
            top = integer_root(top, exponent)
        changed |= narrow(partial, atom, -1, top)
        if partial.pending:
            break
    return changed
