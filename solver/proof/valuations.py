"""Divisibility of products, prime by prime: how often a prime divides each factor.

    h*t == d, d % 7 == 0, t % 7 == 1      gives  h % 7 == 0       7 does not divide t
    h*t == d, d % 8 == 0, t % 4 == 2      gives  h % 4 == 0       t takes one 2 of three
    a*b == c*d, c % 9 == 0, b % 3 != 0    gives  a % 9 == 0

For a prime p let v(x) be how often p divides x, which is not 0: v(x*y) = v(x) + v(y), so an
equation of products is linear in the v of its factors. A residue r of x modulo p**j says that
v(x) = v(r) where p**j does not divide r, and v(x) >= j where it does. A factor is a symbol, or a
polynomial that is none (``h + 1`` in ``(h + 1)*t``). Whether v(q) >= k follows for the p**k that
the claim asks for is a question of linear programming.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from dimsolve.ir.expression import Comparison, Relation

from ..algebra.budget import Budget, OutOfBudgetError
from ..algebra.dims import Call, Function, evaluate, line_in_call, symbols_of
from ..algebra.integers import prime_powers
from ..algebra.linear import is_contradictory
from ..algebra.poly import (
    UNIT,
    Dim,
    Poly,
    TooLarge,
    atoms_of,
    build,
    common_monomial,
    content,
    divide_exactly,
    terms_of,
)
from .cells import Goal
from .claims import Sign, claim_of
from .facts import Facts

STEPS = 2_000
MAX_FACTORS = 16
MAX_ROWS = 40

Factor: TypeAlias = "str | Poly"
Factors: TypeAlias = "tuple[int, Mapping[Factor, int]]"
"""A constant, and how often each factor occurs."""
Row: TypeAlias = "tuple[int, Mapping[Factor, int]]"
"""``constant + sum of coefficient * v(factor)``, which is at least 0."""


def follows_from_valuations(modulus: int, dividend: Dim, facts: Facts) -> bool:
    """Whether it is shown that modulus, at least 1, divides dividend wherever the facts hold.

    >>> from dimsolve.solver.algebra.poly import symbol
    >>> from dimsolve.solver.proof.facts import read_facts
    >>> facts = read_facts(["h*t == d", "d % 8 == 0", "t % 4 == 2"])
    >>> follows_from_valuations(4, symbol("h"), facts)
    True
    >>> follows_from_valuations(8, symbol("h"), facts)
    False
    """
    asked, powers = factors_of(dividend), prime_powers(modulus)
    if asked is None or powers is None:
        return False
    equations = [found for r in facts.relations if (found := _equation(r)) is not None]
    residues = [said for goal in facts.goals if (said := _residue(goal)) is not None]
    if not equations and not residues:
        return False
    try:
        return all(_follows(p, k, asked, equations, residues) for p, k in powers)
    except (OutOfBudgetError, TooLarge):
        return False


def factors_of(dim: Dim) -> Factors | None:
    """Returns a length as a product; None where it is 0 or a factor is no polynomial of symbols.

    >>> from dimsolve.solver.algebra.poly import symbol
    >>> h, t = symbol("h"), symbol("t")
    >>> constant, found = factors_of(6 * h * t * t + 6 * t * t)
    >>> constant, {str(factor): count for factor, count in found.items()}
    (6, {'t': 2, 'h + 1': 1})
    """
    if dim == 0 or any(isinstance(atom, Call) for atom in atoms_of(dim)):
        return None
    if isinstance(dim, int):
        return dim, {}
    shared = common_monomial(dim.terms, lambda atom: True)
    found: dict[Factor, int] = dict(shared)
    constant = content(dim)
    rest = divide_exactly(dim, constant * build({shared: 1}))
    if isinstance(rest, int):
        return constant * rest, found
    if rest is None:
        return None
    lead = max(rest.terms.items(), key=lambda term: (len(term[0]), term[0]))
    factor = rest if lead[1] > 0 else -rest  # a factor and its negative are one
    assert isinstance(factor, Poly)
    found[factor] = 1
    return constant, found


def _equation(relation: Relation) -> tuple[Factors, Factors] | None:
    """The two products that a fact says are equal. Of one side all factors are positive symbols:
    then no factor is 0.
    """
    try:
        claim = claim_of(relation)
    except (TooLarge, ZeroDivisionError):
        return None
    if claim.comparison is not Comparison.EQ:
        return None
    left, right = factors_of(claim.left), factors_of(claim.right)
    if left is None or right is None:
        return None
    plain = [all(isinstance(factor, str) for factor in side[1]) for side in (left, right)]
    return (left, right) if any(plain) else None


def _residue(goal: Goal) -> tuple[Dim, int, int, bool] | None:
    """(q, m, r, whether q % m == r, or it is not so) that a fact says; None for other facts."""
    line = line_in_call(goal[0])
    if goal[1] is Sign.NONNEGATIVE or line is None or line[1].function is not Function.MOD:
        return None
    slope, call, offset = line
    (dividend, modulus), remainder = call.arguments, -offset * slope
    if abs(slope) != 1 or not isinstance(modulus, int) or not 0 <= remainder < modulus:
        return None
    return dividend, modulus, remainder, goal[1] is Sign.ZERO


def _follows(
    prime: int,
    power: int,
    asked: Factors,
    equations: Iterable[tuple[Factors, Factors]],
    residues: Iterable[tuple[Dim, int, int, bool]],
) -> bool:
    """Whether prime**power divides a product."""
    rows: list[Row] = []
    known: dict[str, tuple[int, int]] = {}
    for dividend, modulus, remainder, holds in residues:
        j = _times(prime, modulus)
        if not j:
            continue
        rest = dividend - terms_of(dividend).get(UNIT, 0)
        if holds and isinstance(rest, Poly) and len(rest.terms) == 1 and rest == dividend:
            ((monomial, _),) = rest.terms.items()
            if rest.terms[monomial] == 1 and len(monomial) == 1 and monomial[0][1] == 1:
                name = monomial[0][0]
                if isinstance(name, str) and not isinstance(name, Call):
                    known[name] = max(known.get(name, (0, 0)), (j, remainder % prime**j))
        found = factors_of(dividend)
        if found is None:
            continue
        if holds:
            rows += _rows_of_residue(prime, j, remainder % prime**j, found)
        elif remainder == 0 and prime**j == modulus:
            rows.append(_less(_valuation(prime, found), j - 1))
    for left, right in equations:
        one, other = _valuation(prime, left), _valuation(prime, right)
        rows += [_minus(one, other), _minus(other, one)]
    wanted = _valuation(prime, asked)
    rows.append(_less(wanted, power - 1))
    names = sorted({factor for row in rows for factor in row[1]}, key=str)
    for factor in names:
        if isinstance(factor, Poly) and symbols_of(factor) <= known.keys():
            j = min(known[name][0] for name in symbols_of(factor))
            value = evaluate(factor, {name: known[name][1] for name in symbols_of(factor)})
            rows += _rows_of_residue(prime, j, value % prime**j, (1, {factor: 1}))
    if len(names) > MAX_FACTORS or len(rows) > MAX_ROWS:
        return False
    table = [[row[0], *(row[1].get(factor, 0) for factor in names)] for row in rows]
    return is_contradictory(table, Budget(STEPS))


def _rows_of_residue(prime: int, j: int, residue: int, found: Factors) -> list[Row]:
    """What a residue modulo prime**j says of the factors."""
    at_least = _times(prime, residue) if residue else j
    value = _valuation(prime, found)
    rows = [(value[0] - at_least, value[1])]
    return rows if not residue else [*rows, _less(value, at_least)]


def _less(value: Row, most: int) -> Row:
    """``value <= most``"""
    return most - value[0], {factor: -count for factor, count in value[1].items()}


def _minus(one: Row, other: Row) -> Row:
    counts = {f: one[1].get(f, 0) - other[1].get(f, 0) for f in {**one[1], **other[1]}}
    return one[0] - other[0], counts


def _valuation(prime: int, found: Factors) -> Row:
    return _times(prime, found[0]), found[1]


def _times(prime: int, number: int) -> int:
    """How often a prime divides a number that is not 0."""
    count = 0
    while number % prime == 0:
        number //= prime
        count += 1
    return count
