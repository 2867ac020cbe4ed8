"""Equations between products of positive atoms, solved together inside a draft.

a*b == c*d, a == 2*c    the parameters of `dimsolve.solver.algebra.balances` replace all of them
h*t == 12               six cases
"""

from __future__ import annotations

from math import gcd

from ..algebra.balances import Balance, Family, solve_balances
from ..algebra.poly import Dim, atoms_of, terms_of
from .drafts import Draft

MAX_ATOMS = 10


def solve_products(draft: Draft) -> list[Draft] | None:
    """Returns the cases in which all equations between products are solved; None where there are
    none to solve.
    """
    found = {dim: balance for dim in draft.zero if (balance := balance_of(draft, dim)) is not None}
    if not found or len({a for b in found.values() for a in b.exponents}) > MAX_ATOMS:
        return None
    family = solve_balances(list(found.values()), draft.budget)
    if family is None:
        return None
    solved = draft.copy()
    solved.zero = [dim for dim in draft.zero if dim not in found]
    return [_case(solved, family, factors) for factors in family.cases]


def balance_of(draft: Draft, dim: Dim) -> Balance | None:
    """Returns dim == 0 as an equation of products; None where it is none, or an atom may be 0."""
    terms = list(terms_of(dim).items())
    if len(terms) != 2 or terms[0][1] * terms[1][1] > 0:
        return None
    if not all(draft.is_positive(atom) for atom in atoms_of(dim)):
        return None
    (left, c), (right, d) = terms
    exponents = dict(left)
    for atom, exponent in right:
        exponents[atom] = exponents.get(atom, 0) - exponent
    common = gcd(c, d)
    return Balance({a: e for a, e in exponents.items() if e}, abs(d) // common, abs(c) // common)


def _case(draft: Draft, family: Family, factors: tuple[int, ...]) -> Draft:
    case = draft.copy()
    parameters = [case.parameter(1) for _ in family.powers]
    for i, atom in enumerate(family.atoms):
        value: Dim = factors[i]
        for parameter, powers in zip(parameters, family.powers, strict=True):
            value = value * parameter ** powers[i]
        case.set(atom, value)
    return case
