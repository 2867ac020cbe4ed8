"""Divisibility of lengths: which constants always divide, and what the quotient is.

fixed_divisor(n*(n + 1))              ->  2
exact_quotient(8*s, 8)                ->  s
exact_quotient(n, 8)  if n % 8 == 0   ->  n//8
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import gcd

from dimsolve.ir.expression import Comparison

from ..algebra.budget import Budget, OutOfBudgetError
from ..algebra.dims import Call, evaluate, floor_div, mod, substitute, symbols_of
from ..algebra.divisors import divides_everywhere, failing_point, fixed_divisor_of
from ..algebra.integers import factors
from ..algebra.poly import Dim, TooLarge, atoms_of, build, divide_exactly, symbol
from .case_splits import Cover
from .cells import Cell, PartialCell, Split, least_of
from .claims import Claim
from .facts import Facts, related
from .floors import divides_over_rationals, express, in_cell
from .refutation import Seen, is_impossible
from .search import all_points, points, values_apart

STEPS = 2_000
MAX_VALUES = 512


@dataclass(frozen=True, slots=True)
class FixedDivisor:
    """A constant that divides a length for all values; 0 where the length is always 0.

    is_greatest: whether it is known to be the greatest such constant.
    """

    value: int
    is_greatest: bool


def fixed_divisor(dim: Dim, facts: Facts) -> int:
    """Returns the greatest constant shown to divide dim under the facts; 0 for 0.

    Without facts it is the greatest there is; `greatest_divisor` says whether it is under facts.

    >>> from dimsolve.solver.proof.facts import NO_FACTS, read_facts
    >>> n = symbol("n")
    >>> fixed_divisor(n * (n + 1), NO_FACTS), fixed_divisor(3 * n, read_facts(["n % 8 == 0"]))
    (2, 24)
    """
    return greatest_divisor(dim, facts).value


@lru_cache(maxsize=256)
def greatest_divisor(dim: Dim, facts: Facts) -> FixedDivisor:
    """Returns what `fixed_divisor` does, and whether it is the greatest.

    What divides in every cell is a divisor; the gcd of dim at values that satisfy the facts is a
    multiple of it. Where they are equal, that is the greatest; where the values are few, they are
    all tried; else the primes between the two are asked about one by one.

    >>> from dimsolve.solver.proof.facts import read_facts
    >>> greatest_divisor(symbol("n"), read_facts(["n % 4 == 0", "n >= 9", "n <= 12"]))
    FixedDivisor(value=12, is_greatest=True)
    """
    if isinstance(dim, int):
        return FixedDivisor(_common_divisor(dim, facts), True)
    near = related(facts, symbols_of(dim))
    if near is not facts and values_apart(facts, near) is not None:
        return greatest_divisor(dim, near)
    low = _common_divisor(dim, facts)
    names = sorted(facts.symbols | symbols_of(dim))
    every = all_points(facts, names, MAX_VALUES)
    walk = points(facts, facts.cover.cells, names, Budget(STEPS)) if every is None else every
    high = 0
    try:
        for point in walk:
            high = gcd(high, evaluate(dim, point))
            if high == low and every is None:
                return FixedDivisor(low, True)
    except ZeroDivisionError:
        return FixedDivisor(low, False)
    if every:
        return FixedDivisor(high, True)
    if high % (low or 1) or (low == 0) != (high == 0):
        return FixedDivisor(low, False)
    return _raised(dim, low, high, facts)


def _raised(dim: Dim, low: int, high: int, facts: Facts) -> FixedDivisor:
    """low times the primes of high/low that are shown to divide too."""
    found = factors(high // low) if low else {}
    budget = Budget(12 * STEPS)
    for prime, count in sorted((found or {}).items()):
        for _ in range(count):
            power = prime
            while low % power == 0:
                power *= prime
            claim = Claim(mod(dim, power), Comparison.EQ, 0)
            names = sorted(facts.symbols | claim.symbols())
            seen = Seen(claim.test)
            seen.look(islice(points(facts, facts.cover.cells, names, budget.part(STEPS)), 20))
            if seen.fails is not None or not is_impossible(
                (claim.negated(),), facts, names, seen, budget
            ):
                break
            low *= prime
    return FixedDivisor(low, low == high)


def _common_divisor(dim: Dim, facts: Facts) -> int:
    """The gcd of the fixed divisors in the cells: it divides always."""
    result = 0
    for cell in facts.cover.cells:
        written = in_cell(dim, cell)
        try:
            result = gcd(result, 1 if written is None else fixed_divisor_of(written[0]))
        except TooLarge:
            return 1
        if result == 1:
            break
    return result


def always_divides(divisor: Dim, dividend: Dim, cover: Cover) -> bool:
    """Whether divisor is proved to divide dividend in the cover wherever it is not 0."""
    return all(_divides_in(divisor, dividend, cell) for cell in cover.cells)


def _divides_in(divisor: Dim, dividend: Dim, cell: Cell) -> bool:
    d, p = divisor, dividend
    if not cell.is_whole or any(isinstance(a, Call) for a in atoms_of(d) | atoms_of(p)):
        partial = PartialCell(cell, [], Budget(STEPS))
        try:
            d, p = express(partial, d), express(partial, p)
        except (OutOfBudgetError, Split, TooLarge, ZeroDivisionError):
            return False
    try:
        if isinstance(d, int):
            return d != 0 and divides_everywhere(d, p)
        return divides_over_rationals(d, p)
    except TooLarge:
        return False


def failing_points(
    divisor: Dim, dividend: Dim, facts: Facts, names: Sequence[str]
) -> Iterator[dict[str, int]]:
    """Yields values of the names at which a constant does not divide: certain ones, one per cell.

    From cells whose parameters vary freely; see `dimsolve.solver.algebra.divisors.failing_point`.
    """
    for cell in facts.cover.cells:
        found = in_cell(dividend, cell) if isinstance(divisor, int) and cell.is_free else None
        if found is None or not isinstance(divisor, int) or divisor == 0:
            continue
        values = {name: cell.values.get(name, symbol(name)) for name in names}
        least = {
            atom: least_of(atom, cell.lower) or 0
            for dim in (found[0], *values.values())
            for atom in atoms_of(dim)
        }
        try:
            point = failing_point(divisor, found[0], least)
        except TooLarge:
            continue
        if point is not None:
            yield {name: evaluate(value, least | point) for name, value in values.items()}


def exact_quotient(dividend: Dim, divisor: Dim, facts: Facts) -> Dim | None:
    """Returns dividend / divisor where it is proved to be whole under the facts, else None.

    >>> from dimsolve.solver.proof.facts import read_facts
    >>> n = symbol("n")
    >>> str(exact_quotient(n, 8, read_facts(["n % 8 == 0"])))
    'n//8'
    """
    if divisor == 0:
        return None
    exact = divide_exactly(dividend, divisor)
    if exact is not None:
        return exact
    known = simplify(dividend, facts), simplify(divisor, facts)
    exact = None if known[1] == 0 else divide_exactly(*known)
    if exact is not None:
        return exact
    if not always_divides(divisor, dividend, facts.cover):
        return None
    return _quotient_of_factor(dividend, divisor, facts) or floor_div(dividend, divisor)


def _quotient_of_factor(dividend: Dim, divisor: Dim, facts: Facts) -> Dim | None:
    """``m*n`` by 8 is ``m*(n//8)`` where 8 divides n: only the factor it divides is floored."""
    if isinstance(dividend, int) or len(dividend.terms) > 1:
        return None
    ((monomial, coefficient),) = dividend.terms.items()
    for power in monomial if len(monomial) > 1 else ():
        factor = build({(power,): coefficient})
        if always_divides(divisor, factor, facts.cover):
            rest = build({tuple(other for other in monomial if other != power): 1})
            return rest * floor_div(factor, divisor)
    return None


def simplify(dim: Dim, facts: Facts) -> Dim:
    """Returns dim with symbols replaced that the facts say in terms of the caller's other symbols.

    >>> from dimsolve.solver.proof.facts import read_facts
    >>> str(simplify(symbol("n") + 1, read_facts(["n == 8*m"])))
    '8*m + 1'
    """
    if isinstance(dim, int) or len(facts.cover.cells) != 1:
        return dim
    values = {
        name: value
        for name, value in facts.cover.cells[0].values.items()
        if not any(atom.startswith("$") for atom in atoms_of(value))
    }
    try:
        return substitute(dim, values) if values else dim
    except (TooLarge, ZeroDivisionError):
        return dim
