"""Residue classes: where does a constant divide a polynomial?

    n divides p  in the classes of Z/n that are listed; few of them, over the shortest periods

The table of ``a*b`` modulo 2 is {(0, 0), (0, 1), (1, 0)}; that of ``4*s`` modulo 8 is s = 0 with
period 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import prod

from .budget import Budget
from .integers import factors
from .monomials import Monomial
from .poly import Dim, atoms_of, build, terms_of

MAX_POINTS = 1_024


@dataclass(frozen=True, slots=True)
class ResidueTable:
    """classes: the residues of the atoms, each modulo its period, at which it divides. In order."""

    atoms: tuple[str, ...]
    periods: tuple[int, ...]
    classes: tuple[tuple[int, ...], ...]

    @property
    def is_everything(self) -> bool:
        """Whether it divides everywhere."""
        return len(self.classes) == prod(self.periods)


def residue_table(dim: Dim, modulus: int, budget: Budget) -> ResidueTable | None:
    """Returns the classes in which modulus divides dim, over the shortest periods; None where they
    are too many to try.

    >>> from dimsolve.solver.algebra.poly import symbol
    >>> residue_table(symbol("s") ** 2, 8, Budget(1000))
    ResidueTable(atoms=('s',), periods=(4,), classes=((0,),))
    """
    terms = {m: c % modulus for m, c in terms_of(dim).items() if c % modulus}
    atoms = tuple(sorted(atoms_of(build(terms))))
    if modulus > MAX_POINTS or modulus ** len(atoms) > MAX_POINTS:
        return None
    budget.spend(modulus ** len(atoms) * (1 + len(terms)) // 2)
    hits = {
        point
        for point in product(range(modulus), repeat=len(atoms))
        if _value(terms, dict(zip(atoms, point, strict=True))) % modulus == 0
    }
    periods = tuple(_period(hits, i, modulus) for i in range(len(atoms)))
    classes = {tuple(x % p for x, p in zip(hit, periods, strict=True)) for hit in hits}
    return ResidueTable(atoms, periods, tuple(sorted(classes)))


def _period(hits: set[tuple[int, ...]], place: int, modulus: int) -> int:
    """The least divisor of the modulus by which one coordinate can be moved without leaving the
    set.
    """
    period = modulus
    for prime in factors(modulus) or ():
        while period % prime == 0 and _is_period(hits, place, period // prime, modulus):
            period //= prime
    return period


def _is_period(hits: set[tuple[int, ...]], place: int, step: int, modulus: int) -> bool:
    return all(
        (*hit[:place], (hit[place] + step) % modulus, *hit[place + 1 :]) in hits for hit in hits
    )


def _value(terms: Mapping[Monomial, int], point: Mapping[str, int]) -> int:
    total = 0
    for monomial, term in terms.items():
        for atom, exponent in monomial:
            term *= point[atom] ** exponent
        total += term
    return total
