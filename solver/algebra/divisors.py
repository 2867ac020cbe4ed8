"""Where does a constant divide a polynomial? Everywhere, or in which residue classes?

Everywhere is decided completely in the binomial basis. Every polynomial is an integer combination
of products of binomial coefficients, ``x**e = sum S(e, j) * j! * C(x, j)`` with S the Stirling
numbers of the second kind. Those products take the value 1 at their own index and 0 at every
smaller one, so n divides p(x) for all integers x exactly when n divides every coefficient (Polya
1915). The gcd of the coefficients is the *fixed divisor* of p. Values are periodic modulo n, so
bounds from below change nothing.

    n*(n + 1)  =  2*C(n, 1) + 2*C(n, 2)      fixed divisor 2

Else a `ResidueTable` lists the classes, over the shortest periods: ``a*b`` modulo 2 is 0 at (0, 0),
(0, 1) and (1, 0), ``4*s`` modulo 8 at s = 0 with period 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import gcd, prod

from .budget import Budget
from .integers import factors
from .poly import Dim, Monomial, Poly, TooLarge, atoms_of, build, terms_of, value_of

MAX_INDICES = 4_000
MAX_EXPONENT = 64
MAX_NAMES = 12


@lru_cache(maxsize=MAX_EXPONENT + 1)
def _stirling_row(exponent: int) -> tuple[int, ...]:
    """S(exponent, j) * j! for j = 0 .. exponent: how many surjections there are onto j things."""
    if exponent == 0:
        return (1,)
    above = (*_stirling_row(exponent - 1), 0)
    return (0, *(j * (above[j] + above[j - 1]) for j in range(1, exponent + 1)))


def binomial_coefficients(dim: Poly) -> dict[Monomial, int]:
    """Returns the coefficient of each product of C(atom, j), keyed by (atom, j) pairs.

    Raises `TooLarge` past MAX_INDICES products.

    >>> from dimsolve.solver.algebra.poly import symbol
    >>> n = symbol("n")
    >>> sorted(binomial_coefficients(n * (n + 1)).items())
    [((('n', 1),), 2), ((('n', 2),), 2)]
    """
    result: dict[Monomial, int] = {}
    work = 0
    for monomial, coefficient in dim.terms.items():
        if all(exponent == 1 for _, exponent in monomial):
            result[monomial] = result.get(monomial, 0) + coefficient
            continue
        rows = []
        for atom, exponent in monomial:
            if exponent > MAX_EXPONENT:
                raise TooLarge
            row = _stirling_row(exponent)
            rows.append([((atom, j), row[j]) for j in range(1, exponent + 1)])
        for choice in product(*rows):
            work += 1
            if work > MAX_INDICES:
                raise TooLarge
            weight = coefficient
            for _, surjections in choice:
                weight *= surjections
            index = tuple(power for power, _ in choice)
            result[index] = result.get(index, 0) + weight
    return result


def fixed_divisor_of(dim: Dim) -> int:
    """Returns the greatest constant that divides dim at all integers; 0 for 0.

    >>> from dimsolve.solver.algebra.poly import symbol
    >>> n = symbol("n")
    >>> fixed_divisor_of(n * (n + 1) * (n + 2)), fixed_divisor_of(4 * n + 6)
    (6, 2)
    """
    if isinstance(dim, int):
        return abs(dim)
    return gcd(*binomial_coefficients(dim).values())


def divides_everywhere(divisor: int, dim: Dim) -> bool:
    """Whether a constant other than 0 divides dim at all integers."""
    if isinstance(dim, int):
        return dim % divisor == 0
    left = {m: c % divisor for m, c in dim.terms.items() if c % divisor}
    if not left:
        return True
    if all(exponent == 1 for monomial in left for _, exponent in monomial):
        return False
    return all(c % divisor == 0 for c in binomial_coefficients(Poly(left)).values())


def failing_point(divisor: int, dim: Dim, least: Mapping[str, int]) -> dict[str, int] | None:
    """Returns values from least[atom] (1) on at which divisor does not divide, or None.

    Grid points close to the bounds are tried first; the least failing index of the binomial basis,
    moved up by multiples of the divisor, is certain.
    """
    if divides_everywhere(divisor, dim):
        return None
    names = sorted(atoms_of(dim))
    for offsets in _graded(_degrees(dim, names), 64) if len(names) <= MAX_NAMES else ():
        point = {n: least.get(n, 1) + o for n, o in zip(names, offsets, strict=True)}
        if value_of(terms_of(dim), point) % divisor:
            return point
    assert isinstance(dim, Poly)
    coefficients = binomial_coefficients(dim)
    index = min(
        (m for m, c in coefficients.items() if c % divisor),
        key=lambda m: (sum(j for _, j in m), m),
    )
    point = {name: dict(index).get(name, 0) for name in names}
    for name in names:
        short = least.get(name, 1) - point[name]
        point[name] += abs(divisor) * -(-short // abs(divisor)) if short > 0 else 0
    return point


def _degrees(dim: Dim, names: list[str]) -> list[int]:
    """The greatest exponent of each name."""
    return [max(dict(m).get(name, 0) for m in terms_of(dim)) for name in names]


def _graded(degrees: list[int], limit: int) -> Iterator[tuple[int, ...]]:
    """Offsets up to the degrees, small sums first, at most so many."""
    count = 0
    for total in range(sum(degrees) + 1):
        for offsets in _with_sum(degrees, total):
            yield offsets
            count += 1
            if count >= limit:
                return


def _with_sum(degrees: list[int], total: int) -> Iterator[tuple[int, ...]]:
    if not degrees:
        if total == 0:
            yield ()
        return
    if total > sum(degrees):
        return
    for first in range(min(total, degrees[0]), -1, -1):
        for rest in _with_sum(degrees[1:], total - first):
            yield (first, *rest)


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
    """Returns the classes in which modulus divides dim; None where they are too many.

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
        if value_of(terms, dict(zip(atoms, point, strict=True))) % modulus == 0
    }
    periods = tuple(_period(hits, i, modulus) for i in range(len(atoms)))
    classes = {tuple(x % p for x, p in zip(hit, periods, strict=True)) for hit in hits}
    return ResidueTable(atoms, periods, tuple(sorted(classes)))


def _period(hits: set[tuple[int, ...]], place: int, modulus: int) -> int:
    """The least divisor of the modulus by which one coordinate can be moved within the set."""
    period = modulus
    for prime in factors(modulus) or ():
        while period % prime == 0 and _is_period(hits, place, period // prime, modulus):
            period //= prime
    return period


def _is_period(hits: set[tuple[int, ...]], place: int, step: int, modulus: int) -> bool:
    return all(
        (*hit[:place], (hit[place] + step) % modulus, *hit[place + 1 :]) in hits for hit in hits
    )
