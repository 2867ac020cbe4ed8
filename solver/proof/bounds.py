"""Adding order to a draft: bounds of single atoms where possible, polynomials that are not negative
otherwise.

2*a >= 2*b + 3        a - b - 2 >= 0          (integers: the constant is rounded)
a*a <= 10             1 <= a <= 3             (one unknown: decided completely)
3*a + 2*b <= 10       also a <= 2, b <= 3     (the others at their least)
"""

from __future__ import annotations

from math import gcd

from ..algebra.integers import integer_root
from ..algebra.monomials import UNIT, Monomial
from ..algebra.poly import Dim, Poly, build, symbol, terms_of
from ..algebra.univariate import Run, sign_runs
from .charts import least_of
from .claims import Sign
from .drafts import Draft, Empty, Goal, Split, cancelled, tightened
from .elimination import misses_zero
from .one_atom import coefficients_of

MAX_ROUNDS = 6
MAX_TERMS = 12
MAX_BITS = 512
MAX_PIECES = 6


def bound(draft: Draft, dim: Dim) -> None:
    """Adds dim >= 0 to the draft; raises Empty where it cannot be."""
    dim = tightened(dim)
    if isinstance(dim, int):
        if dim < 0:
            raise Empty
        return
    low, high = draft.range(dim)
    if low is not None and low >= 0:
        return
    if high is not None and high < 0:
        raise Empty
    assert isinstance(dim, Poly)
    if UNIT not in dim.terms and (factor := draft.common_factor(list(dim.terms))):
        bound(draft, cancelled(dim, factor))
    elif not _bound_one(draft, dim):
        _keep(draft, dim)


def _bound_one(draft: Draft, dim: Poly) -> bool:
    """Decides an inequality in one atom completely."""
    names = {atom for monomial in dim.terms for atom, _ in monomial}
    if len(names) > 1:
        return False
    (name,) = names
    coefficients = coefficients_of(dim)
    if len(coefficients) == 2:
        narrow(draft, name, coefficients[1], coefficients[0])
        return True
    least = least_of(name, draft.lower)
    if least is None:
        return False
    runs = sign_runs(coefficients, least, draft.upper.get(name), draft.budget)
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
    draft.pending.extend(cases[0])
    return True


def _within(name: str, piece: Run) -> list[Goal]:
    goals: list[Goal] = [(symbol(name) - piece.start, Sign.NONNEGATIVE)]
    if piece.stop is not None:
        goals.append((piece.stop - symbol(name), Sign.NONNEGATIVE))
    return goals


def narrow(draft: Draft, atom: str, coefficient: int, constant: int) -> bool:
    """Adds ``coefficient * atom + constant >= 0``; returns whether a bound changed."""
    least, most = least_of(atom, draft.lower), draft.upper.get(atom)
    if coefficient > 0:
        new = -(constant // coefficient)
        if least is not None and new <= least:
            return False
        draft.lower[atom] = least = new
    else:
        new = constant // -coefficient
        if most is not None and new >= most:
            return False
        if least is None:
            draft.set(atom, new - draft.parameter(0))
            return True
        draft.upper[atom] = most = new
    if most is not None and least > most:
        raise Empty
    if least == most:
        draft.set(atom, least)
    return True


def _keep(draft: Draft, dim: Poly) -> None:
    """Adds an inequality in several atoms, unless a kept one says as much; with its opposite it is
    an equation.
    """
    constant = dim.terms.get(UNIT, 0)
    lead, coefficient = next((m, c) for m, c in dim.terms.items() if m)
    for i, other in enumerate(draft.nonnegative):
        met = terms_of(other).get(lead)
        if met == -coefficient and isinstance(total := dim + other, int):
            if total < 0:
                raise Empty
            if total == 0:
                del draft.nonnegative[i]
                draft.pending.append((dim, Sign.ZERO))
                return
        elif met == coefficient and isinstance(gap := other - dim, int):
            if gap > 0:
                draft.nonnegative[i] = dim
            return
    draft.nonnegative.append(dim)
    if constant < 0:
        _not_at_zero(draft, dim)


def _not_at_zero(draft: Draft, dim: Poly) -> None:
    """An atom from 0 upwards at whose 0 the inequality fails is at least 1: ``x*y + x >= 1`` has x
    >= 1.
    """
    for atom in sorted({a for m in dim.terms for a, _ in m if least_of(a, draft.lower) == 0}):
        _, high = draft.range(build({m: c for m, c in dim.terms.items() if atom not in dict(m)}))
        if high is not None and high < 0:
            narrow(draft, atom, 1, -1)


def exclude(draft: Draft, dim: Dim) -> None:
    """Adds dim != 0 to the draft; raises Empty where it cannot be."""
    if isinstance(dim, int):
        if dim == 0:
            raise Empty
        return
    for known in (dim, -dim):
        values = draft.range(known)
        if misses_zero(values):
            return
        if values[0] == 0 or known in draft.nonnegative:
            bound(draft, known - 1)
            return
    constant = terms_of(dim).get(UNIT, 0)
    common = gcd(*(c for m, c in terms_of(dim).items() if m))
    if constant % common == 0 and dim not in draft.nonzero:
        draft.nonzero.append(dim)


def sharpened(draft: Draft) -> bool:
    """Takes the exclusions again whose sign is known by now; returns whether that gave a goal."""
    kept, draft.nonzero = draft.nonzero, []
    for dim in kept:
        exclude(draft, dim)
    return bool(draft.pending)


def propagate(draft: Draft) -> bool:
    """Derives bounds of atoms from what is kept; returns whether one changed.

    Each call looks at everything once; after MAX_ROUNDS it stops, because some chains never end.
    """
    if draft.rounds >= MAX_ROUNDS:
        return False
    changed = False
    for dim in (*draft.nonnegative, *draft.zero, *(-dim for dim in draft.zero)):
        if isinstance(dim, Poly) and len(dim.terms) <= MAX_TERMS and _propagate_one(draft, dim):
            changed = True
            if draft.pending:
                return True
    draft.rounds += changed
    return changed


def _propagate_one(draft: Draft, dim: Poly) -> bool:
    """From ``coefficient * monomial >= -rest`` for each term, with the rest at its greatest."""
    draft.budget.spend(4 * len(dim.terms))
    most = {m: draft.term_range(m, c)[1] for m, c in dim.terms.items()}
    unbounded = [m for m, high in most.items() if high is None]
    if len(unbounded) > 1:
        return False
    total = sum(high for high in most.values() if high is not None)
    changed = False
    for monomial in unbounded or list(most):
        rest = total - (most[monomial] or 0)
        if monomial and rest.bit_length() <= MAX_BITS:
            changed |= _bound_factors(draft, monomial, dim.terms[monomial], rest)
            if draft.pending:
                return True
    return changed


def _bound_factors(draft: Draft, monomial: Monomial, coefficient: int, rest: int) -> bool:
    """From ``coefficient * monomial >= -rest``: bounds of its atoms."""
    if coefficient > 0:
        return (
            len(monomial) == 1
            and monomial[0][1] == 1
            and narrow(draft, monomial[0][0], coefficient, rest)
        )
    if rest < 0 or not all(draft.is_positive(atom) for atom, _ in monomial):
        return False
    limit = rest // -coefficient
    changed = False
    for atom, exponent in monomial:
        others = 1
        for other, e in monomial:
            if other != atom:
                others *= (least_of(other, draft.lower) or 1) ** e
        top = limit // others
        if exponent > 1:
            top = integer_root(top, exponent)
        changed |= narrow(draft, atom, -1, top)
        if draft.pending:
            break
    return changed
