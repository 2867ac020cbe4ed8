"""Products of unknowns are linear in their exponents.

``h*t = a, h*d = b, t*d = c`` is three rows of exponents; the combination ``a * b / c`` is ``h**2``.
Gaussian elimination over the rationals finds every power of a single unknown that the rows force,
and every combination that leaves no unknown at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm


@dataclass(frozen=True, slots=True)
class Combination:
    """name**degree == product of given[i]**power, over (i, power) in powers; name None: that
    product is 1.
    """

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
    """Brings the first columns to reduced row echelon form, in place; the others record the
    combinations.
    """
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
