"""Equations that leave a few cases, because integers divide each other or do not.

x*y + x == 6        x divides 6: x = 1, 2, 3 or 6
a*a == 4*q + 1      4 divides a*a - 1: a = 2*t + 1
x*(3*y + 1) == y*y  3*y + 1 divides 9*y*y, hence 1
"""

from __future__ import annotations

from ..algebra.dims import floor_div
from ..algebra.integers import divisors
from ..algebra.monomials import UNIT
from ..algebra.poly import Poly, atoms_of, symbol
from ..algebra.residues import ResidueTable, residue_table
from .charts import least_of
from .claims import Sign
from .drafts import Draft, Empty, Goal, Split
from .one_atom import coefficients_of, line_in
from .product_equations import balance_of

MAX_CLASSES = 16
MAX_DIVISORS = 24


def split_cases(draft: Draft, dim: Poly) -> None:
    """Raises Split where dim == 0 leaves a few cases, Empty where it leaves none."""
    _split_divisors(draft, dim)
    _split_residues(draft, dim)
    _split_quotient(draft, dim)


def _split_divisors(draft: Draft, dim: Poly) -> None:
    """``x * (...) == constant``: x is one of the constant's divisors."""
    constant = dim.terms.get(UNIT, 0)
    if not constant:
        return
    first, *others = (dict(m) for m in dim.terms if m)
    shared = [a for a in first if all(a in m for m in others)]
    found = divisors(abs(constant), MAX_DIVISORS) if shared else None
    if found is None:
        return
    name = min(shared, key=lambda a: (not draft.is_positive(a), a))
    power = min(m[name] for m in (first, *others))
    least, most = least_of(name, draft.lower), draft.upper.get(name)
    values = [d for d in found if constant % d**power == 0]
    if not draft.is_positive(name):
        values = [-d for d in reversed(values)] + values
    values = [v for v in values if (least is None or v >= least) and (most is None or v <= most)]
    if not values:
        raise Empty
    raise Split(*(([(symbol(name) - value, Sign.ZERO)], {}) for value in values))


def _split_residues(draft: Draft, dim: Poly) -> None:
    """A constant that divides some terms divides the sum of the others: the residue classes in
    which it does.
    """
    if balance_of(draft, dim) is not None:
        return
    moduli = {
        abs(c)
        for m, c in dim.terms.items()
        if len(m) == 1 and m[0][1] == 1 and sum(m[0][0] in dict(n) for n in dim.terms) == 1
    }
    for modulus in sorted(moduli):
        table = residue_table(dim, modulus, draft.budget)
        if table is None:
            continue
        if not table.classes:
            raise Empty
        if table.is_everything or len(table.classes) > MAX_CLASSES:
            continue
        raise Split(*((goals, {}) for goals in class_goals(table)))


def class_goals(table: ResidueTable) -> list[list[Goal]]:
    """Returns, for each class of the table, the goals that say that the atoms are in it."""
    cases: list[list[Goal]] = []
    for residues in table.classes:
        goals: list[Goal] = []
        for atom, period, residue in zip(table.atoms, table.periods, residues, strict=True):
            if period > 1:
                whole = period * floor_div(symbol(atom), period)
                goals.append((symbol(atom) - whole - residue, Sign.ZERO))
        cases.append(goals)
    return cases


def _split_quotient(draft: Draft, dim: Poly) -> None:
    """``x * (p*y + r) == b(y)``: p*y + r divides p**k * b(y), hence the constant that is left where
    p*y + r is 0.
    """
    if len(atoms_of(dim)) != 2:
        return
    for name in sorted(atoms_of(dim)):
        slope, rest = line_in(dim, name)
        if isinstance(slope, int) or isinstance(rest, int) or atoms_of(slope) != atoms_of(rest):
            continue
        line, curve = coefficients_of(slope), coefficients_of(rest)
        if len(line) != 2:
            continue
        constant = sum(
            c * (-line[0]) ** i * line[1] ** (len(curve) - 1 - i) for i, c in enumerate(curve)
        )
        found = divisors(abs(constant), MAX_DIVISORS) if constant else None
        if found is not None:
            values = [-d for d in reversed(found)] + found
            raise Split(*(([(slope - value, Sign.ZERO)], {}) for value in values))
