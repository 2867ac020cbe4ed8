"""The simplest text of a claim: an equivalent one that a person reads at a glance.

    max(0, -s + 2048) + s == 2048                     s <= 2048
    (((s + 1)//2) + s - 1)//((s + 1)//2) == 2         s >= 2
    a**2*b - a**2 - a*b**2 + b**2 + a - b == 0        (a - b)*(a - 1)*(b - 1) == 0
    b*s == 2*(s//2)*b                                 s % 2 == 0
    b*s % (4*b) == 0                                  s % 4 == 0
    -k + m - 1 >= 0                                   m >= k + 1

Symbols are positive, so what all terms share is divided out. A bound on one symbol is guessed from
the values at small integers, and taken only where it is proved to be equivalent over all of them.
Factors are found by exact division.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from math import gcd

from dimsolve.ir.expression import Comparison

from ..algebra.dims import Call, Function, mod, symbols_of
from ..algebra.poly import (
    UNIT,
    Dim,
    Poly,
    atoms_of,
    build,
    content,
    degree_of,
    divide_exactly,
    symbol,
    terms_of,
)
from .claims import Claim, Sign, difference
from .facts import Facts, read_facts
from .prove import decide
from .verdict import Always

LOOKED_AT = 72
"""Where the first change is further away, a claim stays as it is: a bound such as 2048 is tried
from the numbers that the claim names."""


LARGEST = 4096
"""Up to this number its divisors are tried as roots."""


@lru_cache(maxsize=1024)
def readable(claim: Claim) -> str:
    """Returns the text of an equivalent claim, the claim's own where no simpler one is found.

    >>> from dimsolve.ir.read_expression import read_relation
    >>> from dimsolve.solver.proof.claims import claim_of
    >>> readable(claim_of(read_relation("max(0, 2048 - s) + s == 2048")))
    's <= 2048'
    """
    names = claim.symbols()
    if len(names) == 1 and claim.left == symbol(*names) and isinstance(claim.right, int):
        return str(claim)
    claim = _shorter(claim)
    if claim.divisibility() is not None:
        return str(claim)
    atoms = atoms_of(claim.left) | atoms_of(claim.right)
    calls = any(isinstance(atom, Call) for atom in atoms)
    names = claim.symbols()
    if len(names) == 1 and (calls or degree_of(claim.left - claim.right) > 1):
        return _bound(claim, *names) or (not calls and _factored(claim)) or str(claim)
    if not calls and claim.comparison in (Comparison.EQ, Comparison.NE):
        return _factored(claim) or str(claim)
    return str(claim)


def _shorter(claim: Claim) -> Claim:
    """The claim without what both sides share: a factor of all terms, terms on both sides."""
    divisibility = claim.divisibility()
    if divisibility is not None:
        divisor, dividend = _without_shared_factor(*divisibility)
        remainder = mod(dividend, divisor)
        return Claim(remainder, Comparison.EQ, 0) if isinstance(remainder, Poly) else claim
    dim, sign = difference(claim)
    if sign is Sign.ZERO and isinstance(dim, Poly):
        whole = _as_divisibility(dim)
        if whole is not None:
            return _shorter(whole)
    shared = len(terms_of(dim)) < 2 or dim == claim.left - claim.right
    linear = _is_linear(dim)
    if isinstance(dim, int) or (not linear and (shared or sign is Sign.NONNEGATIVE)):
        return claim
    return _in_sides(dim, sign) or claim


def _without_shared_factor(divisor: Dim, dividend: Dim) -> tuple[Dim, Dim]:
    """``(4*b, b*s)`` is ``(4, s)``: a positive factor of both, and of the dividend alone what has
    no factor in common with the number that divides.
    """
    for atom in sorted(symbols_of(divisor)):
        while True:
            a, b = divide_exactly(divisor, symbol(atom)), divide_exactly(dividend, symbol(atom))
            if a is None or b is None:
                break
            divisor, dividend = a, b
    common = gcd(content(divisor), content(dividend))
    if common > 1:
        divisor, dividend = _over(divisor, common), _over(dividend, common)
    if isinstance(divisor, int) and content(dividend) > 1:
        dividend = _over(dividend, content(dividend))
    return divisor, dividend


def _over(dim: Dim, number: int) -> Dim:
    found = divide_exactly(dim, number)
    assert found is not None
    return found


def _as_divisibility(dim: Poly) -> Claim | None:
    """``s == 2*(s//2)`` as ``s % 2 == 0``."""
    for atom in sorted(atoms_of(dim)):
        if isinstance(atom, Call) and atom.function is Function.FLOORDIV:
            a, b = atom.arguments
            rest = a - b * symbol(atom)
            if rest in (dim, -dim):
                return Claim(mod(a, b), Comparison.EQ, 0)
    return None


def _is_linear(dim: Dim) -> bool:
    """Whether the dimension is a sum of symbols and a number, times numbers."""
    return all(
        sum(power for _, power in monomial) <= 1
        and not any(isinstance(atom, Call) for atom, _ in monomial)
        for monomial in terms_of(dim)
    )


def _in_sides(dim: Dim, sign: Sign) -> Claim | None:
    """Terms with a minus on the other side, without a common number."""
    terms = dict(terms_of(dim))
    number = terms.pop(UNIT, 0)
    common = gcd(*terms.values())
    if sign is Sign.NONNEGATIVE:
        number = number // common  # g*p + c >= 0 says p >= -(c//g)
    elif number % common:
        return None
    else:
        number //= common
    split = {m: c // common for m, c in terms.items()}
    left = build({m: c for m, c in split.items() if c > 0} | ({UNIT: number} if number > 0 else {}))
    right = build(
        {m: -c for m, c in split.items() if c < 0} | ({UNIT: -number} if number < 0 else {})
    )
    comparison = {
        Sign.ZERO: Comparison.EQ,
        Sign.NONZERO: Comparison.NE,
        Sign.NONNEGATIVE: Comparison.GE,
    }[sign]
    if isinstance(left, int):
        turned = Comparison.LE if comparison is Comparison.GE else comparison
        return Claim(right, turned, left)
    return Claim(left, comparison, right)


def _bound(claim: Claim, name: str) -> str | None:
    """A bound on the only symbol, or a value of it, that is proved to say the same."""
    for point in _changes(claim, name):
        for comparison in (Comparison.GE, Comparison.LE, Comparison.EQ):
            limit = point + 1 if comparison is Comparison.GE else point
            candidate = Claim(symbol(name), comparison, limit)
            if limit > 0 and _agree_near(claim, candidate, name, point) and _same(claim, candidate):
                return str(candidate)
    return None


def _changes(claim: Claim, name: str) -> list[int]:
    """Integers p such that the claim is true at one of p and p + 1 only."""
    near = {number + step for number in _numbers(claim) for step in (-1, 0, 1)}
    points = sorted({*range(1, LOOKED_AT), *(n for n in near if n > 0)})
    return [p for p in points if _true_at(claim, name, p) is not _true_at(claim, name, p + 1)][:2]


def _true_at(claim: Claim, name: str, value: int) -> bool | None:
    return claim.test({name: value})


def _agree_near(claim: Claim, candidate: Claim, name: str, point: int) -> bool:
    nearby = (1, 2, 3, point - 1, point, point + 1, point + 2, 2 * point + 1)
    return all(
        _true_at(claim, name, value) is _true_at(candidate, name, value)
        for value in nearby
        if value > 0
    )


def _numbers(claim: Claim) -> set[int]:
    """The numbers that a claim names, also inside of calls."""
    found: set[int] = set()
    waiting: list[Dim] = [claim.left, claim.right]
    while waiting:
        dim = waiting.pop()
        if isinstance(dim, int):
            found.add(abs(dim))
            continue
        found |= {abs(coefficient) for coefficient in dim.terms.values()}
        for atom in atoms_of(dim):
            if isinstance(atom, Call):
                waiting += atom.arguments
    return found


def _same(claim: Claim, candidate: Claim) -> bool:
    """Whether each of the two is proved to follow from the other, over all positive integers."""
    inside, outside = _known(candidate), _known(candidate.negated())
    opposite = claim.negated()
    return (inside is None or _always(claim, inside)) and (
        outside is None or _always(opposite, outside)
    )


def _known(claim: Claim) -> Facts | None:
    """The bound as a fact; None where no positive integer satisfies it."""
    (name,) = claim.symbols()
    limit = terms_of(claim.right).get((), 0)
    if not any(claim.test({name: value}) for value in (1, limit, limit + 1) if value > 0):
        return None
    return read_facts([str(claim)])


def _always(claim: Claim, facts: Facts) -> bool:
    return isinstance(decide(claim.left, claim.comparison, claim.right, facts), Always)


def _factored(claim: Claim) -> str | None:
    """An equation with zero as a product, where it has factors x - y or x - 1."""
    rest: Dim = claim.left - claim.right
    if isinstance(rest, int):
        return None
    symbols = [symbol(name) for name in sorted(claim.symbols())]
    candidates = [a - b for a, b in combinations(symbols, 2)] + [a - 1 for a in symbols]
    number = abs(terms_of(rest).get(UNIT, 0))
    if len(symbols) == 1 and 1 < number <= LARGEST and divide_exactly(rest, symbols[0] - 1):
        candidates = [symbols[0] - n for n in range(number, 0, -1) if number % n == 0]
    factors: list[str] = []
    for candidate in candidates:
        quotient = divide_exactly(rest, candidate)
        while quotient is not None and not isinstance(rest, int):
            factors.append(f"({candidate})")
            rest = quotient
            quotient = divide_exactly(rest, candidate)
    if len(factors) < 2 or not isinstance(rest, int) or rest == 0:
        return None
    return f"{'*'.join(factors)} {claim.comparison.value} 0"
