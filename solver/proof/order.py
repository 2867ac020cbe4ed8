"""Inequalities in a partial cell: bounds of single atoms where possible, else polynomials >= 0.

2*a >= 2*b + 3        a - b - 2 >= 0          integers: the constant is rounded
a*a <= 10             1 <= a <= 3             one unknown: decided completely
3*a + 2*b <= 10       also a <= 2, b <= 3     propagation: the others at their least
"""

from __future__ import annotations

from math import gcd

from ..algebra.integers import integer_root
from ..algebra.poly import (
    UNIT,
    Dim,
    Monomial,
    Poly,
    build,
    coefficients_of,
    symbol,
    terms_of,
)
from ..algebra.signs import (
    Run,
    sign_runs,
)
from .cells import Empty, Goal, PartialCell, Split, cancelled, least_of, tightened
from .claims import Sign
from .elimination import misses_zero

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
        raise Split(*cases)
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
    """Adds an inequality unless a kept one says as much; with its opposite, an equation."""
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
    """An atom at whose 0 the inequality fails is at least 1: x in ``x*y + x >= 1``."""
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
