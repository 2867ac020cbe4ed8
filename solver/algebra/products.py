"""Equations between products of positive integers, solved completely.

``a*b == c*d`` is linear in the exponents of every prime: v(a) + v(b) = v(c) + v(d). The
non-negative solutions of such a system are the sums of finitely many minimal ones, its Hilbert
basis, found by the algorithm of Contejean and Devie (An efficient incremental algorithm for solving
systems of linear Diophantine equations, 1994). Each becomes one parameter:

    a*b == c*d      a = z1*z2, b = z3*z4, c = z1*z3, d = z2*z4
    a*a*a == b*b    a = z1**2, b = z1**3
    a*b == 6*c      a prime of 6 may stand in a or in b: (1, 6), (2, 3), (3, 2) or (6, 1)

Where the products are given lengths, ``h*t = a, h*d = b, t*d = c``, Gaussian elimination over the
rationals finds every power of a single unknown that the rows force: ``a * b / c`` is ``h**2``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import lcm
from operator import add, le, mul

from .budget import Budget
from .integers import prime_powers


@dataclass(frozen=True, slots=True)
class Combination:
    """name**degree == product of given[i]**power; that product is 1 where name is None."""

    name: str | None
    degree: int
    powers: tuple[tuple[int, int], ...]


def forced_powers(rows: Sequence[Mapping[str, int]]) -> list[Combination]:
    """Returns the combinations of the rows that leave one unknown or none.

    >>> forced_powers([{"h": 1, "t": 1}, {"h": 1, "d": 1}, {"t": 1, "d": 1}])[0]
    Combination(name='h', degree=2, powers=((0, 1), (1, 1), (2, -1)))
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    matrix = [
        [Fraction(row.get(name, 0)) for name in names]
        + [Fraction(int(i == j)) for j in range(len(rows))]
        for i, row in enumerate(rows)
    ]
    _reduce(matrix, len(names))
    found: list[Combination] = []
    for line in matrix:
        left, right = line[: len(names)], line[len(names) :]
        unknown = [name for name, exponent in zip(names, left, strict=True) if exponent]
        if len(unknown) > 1:
            continue
        degree = lcm(*(value.denominator for value in right))
        powers = tuple((i, int(value * degree)) for i, value in enumerate(right) if value)
        found.append(Combination(unknown[0] if unknown else None, degree if unknown else 1, powers))
    return found


def _reduce(matrix: list[list[Fraction]], columns: int) -> None:
    """Brings the first columns to reduced row echelon form; the others record how."""
    done = 0
    for column in range(columns):
        pivot = next((i for i in range(done, len(matrix)) if matrix[i][column]), None)
        if pivot is None:
            continue
        matrix[done], matrix[pivot] = matrix[pivot], matrix[done]
        scale = matrix[done][column]
        matrix[done] = [value / scale for value in matrix[done]]
        for i, line in enumerate(matrix):
            if i != done and line[column]:
                factor = line[column]
                matrix[i] = [a - factor * b for a, b in zip(line, matrix[done], strict=True)]
        done += 1


Vector = tuple[int, ...]
MAX_NODES = 3_000
MAX_BASIS = 24
MAX_CASES = 200


@dataclass(frozen=True, slots=True)
class Balance:
    """The product of atom**exponents[atom] equals numerator / denominator."""

    exponents: Mapping[str, int]
    numerator: int
    denominator: int


@dataclass(frozen=True, slots=True)
class Family:
    """All solutions: in some case, each atom is its factor times powers of parameters.

    cases: one factor per atom. powers[i]: the exponents of parameter i in each atom.
    """

    atoms: tuple[str, ...]
    cases: tuple[Vector, ...]
    powers: tuple[Vector, ...]


def solve_balances(balances: Sequence[Balance], budget: Budget) -> Family | None:
    """Returns all positive integer solutions; None where they are too many to list.

    A family without cases: there is no solution.

    >>> family = solve_balances([Balance({"a": 1, "b": 1, "c": -1}, 6, 1)], Budget(10_000))
    >>> family.atoms, family.cases, family.powers
    (('a', 'b', 'c'), ((1, 6, 1), (2, 3, 1), (3, 2, 1), (6, 1, 1)), ((0, 1, 1), (1, 0, 1)))
    """
    atoms = tuple(sorted({atom for balance in balances for atom in balance.exponents}))
    rows = [[balance.exponents.get(atom, 0) for atom in atoms] for balance in balances]
    basis = minimal_solutions(rows, None, budget)
    if basis is None or len(basis) > MAX_BASIS:
        return None
    cases: list[Vector] = [(1,) * len(atoms)]
    for prime, sides in sorted(_primes(balances).items()):
        if prime < 0:
            return None
        choices = minimal_solutions(rows, sides, budget)
        if choices is None or len(choices) * len(cases) > MAX_CASES:
            return None
        cases = [
            tuple(f * prime**e for f, e in zip(case, choice, strict=True))
            for case, choice in product(cases, choices)
        ]
    return Family(atoms, tuple(sorted(cases)), tuple(basis))


def _primes(balances: Sequence[Balance]) -> dict[int, list[int]]:
    """prime -> its exponent in each right side; -1 stands for factors that are not known."""
    found: dict[int, list[int]] = {}
    for i, balance in enumerate(balances):
        for number, sign in ((balance.numerator, 1), (balance.denominator, -1)):
            for prime, exponent in prime_powers(number) or ([] if number == 1 else [(-1, 0)]):
                found.setdefault(prime, [0] * len(balances))[i] += sign * exponent
    return {prime: sides for prime, sides in found.items() if prime < 0 or any(sides)}


def minimal_solutions(
    rows: Sequence[Sequence[int]], sides: Sequence[int] | None, budget: Budget
) -> list[Vector] | None:
    """Returns the minimal v >= 0 with rows * v = sides; for None, not 0 and sides 0.

    None past MAX_NODES steps.

    >>> minimal_solutions([[3, -2]], None, Budget(1000))
    [(2, 3)]
    >>> minimal_solutions([[1, 1]], [2], Budget(1000))
    [(0, 2), (1, 1), (2, 0)]
    """
    columns = [tuple(row[j] for row in rows) for j in range(len(rows[0]))]
    if sides is not None:
        columns.append(tuple(-side for side in sides))
    found: list[Vector] = []
    level = [(_unit(len(columns), j), column) for j, column in enumerate(columns)]
    seen = {vector for vector, _ in level}
    while level:
        following: list[tuple[Vector, Vector]] = []
        for vector, residual in level:
            if any(all(map(le, solution, vector)) for solution in found):
                continue
            if not any(residual):
                found.append(vector)
                continue
            for larger, step in _grown(vector, residual, columns):
                if larger not in seen and (sides is None or larger[-1] <= 1):
                    seen.add(larger)
                    following.append((larger, step))
        budget.spend(len(level) * len(columns))
        if len(seen) > MAX_NODES:
            return None
        level = following
    return sorted(v if sides is None else v[:-1] for v in found if sides is None or v[-1])


def _grown(
    vector: Vector, residual: Vector, columns: Sequence[Vector]
) -> Iterator[tuple[Vector, Vector]]:
    """The vectors one step larger whose residual turns towards zero."""
    for j, column in enumerate(columns):
        if sum(map(mul, residual, column)) < 0:
            larger = (*vector[:j], vector[j] + 1, *vector[j + 1 :])
            yield larger, tuple(map(add, residual, column))


def _unit(count: int, j: int) -> Vector:
    return tuple(int(i == j) for i in range(count))
