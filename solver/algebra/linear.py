"""Linear systems, decided exactly: inequalities over the rationals, equations over the integers.

    x - 3 >= 0,  2 - x - y >= 0            contradictory: their sum is -1 - y >= 0
    6*x + y == 8*t,  2*x + y == 4*u + 1    no whole solution: 4*x - 8*t + 4*u is not -1

`is_contradictory` is linear programming for x >= 0. From x = 0, a violated row is repaired by
raising a variable that occurs in it with a positive coefficient; a violated row without one is a
combination of the given rows that no x can meet (Farkas). Both choices take the least index, so it
ends (Bland 1977). `has_no_whole_solution` brings equations to triangular form by unimodular column
operations (the Hermite normal form); each then gives one new unknown, or shows that it would not be
whole. All numbers are integers; nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from .budget import Budget


def is_contradictory(rows: Sequence[Sequence[int]], budget: Budget) -> bool:
    """Whether no rational x >= 0 has ``row[0] + row[1]*x[0] + ... >= 0`` for all rows.

    >>> is_contradictory([[-3, 1, 0], [2, -1, -1]], Budget(1000))
    True
    >>> is_contradictory([[-3, 1, 0], [3, -1, -1]], Budget(1000))
    False
    """
    table = [list(row) for row in rows]
    width = len(table[0]) if table else 0
    scales = [1] * len(table)
    outside = list(range(1, width))
    inside = list(range(width, width + len(table)))
    while True:
        violated = [i for i, line in enumerate(table) if line[0] < 0]
        if not violated:
            return False
        row = min(violated, key=inside.__getitem__)
        raising = [j for j in range(1, width) if table[row][j] > 0]
        if not raising:
            return True
        column = min(raising, key=lambda j: outside[j - 1])
        budget.spend(5 + len(table) * width // 6)
        _pivot(table, scales, row, column)
        outside[column - 1], inside[row] = inside[row], outside[column - 1]


def _pivot(table: list[list[int]], scales: list[int], row: int, column: int) -> None:
    """Exchanges a row's and a column's variable; scales[i] * variable i == sum in table[i]."""
    line = table[row]
    pivot = line[column]
    for i, other in enumerate(table):
        factor = other[column]
        if i == row or factor == 0:
            continue
        changed = [pivot * x - factor * y for x, y in zip(other, line, strict=True)]
        changed[column] = factor * scales[row]
        table[i], scales[i] = _lowest_terms(changed, scales[i] * pivot)
    solved = [-x for x in line]
    solved[column] = scales[row]
    table[row], scales[row] = _lowest_terms(solved, pivot)


def _lowest_terms(line: list[int], scale: int) -> tuple[list[int], int]:
    common = gcd(scale, *line)
    return ([x // common for x in line], scale // common) if common > 1 else (line, scale)


def has_no_whole_solution(rows: Sequence[Sequence[int]], budget: Budget) -> bool:
    """Whether no integers x have ``row[0] + row[1]*x[0] + row[2]*x[1] + ... == 0`` for every row.

    >>> has_no_whole_solution([[0, 6, 1, -8, 0], [-1, 2, 1, 0, -4]], Budget(1000))
    True
    >>> has_no_whole_solution([[0, 6, 1, -8, 0], [-4, 2, 1, 0, -4]], Budget(1000))
    False
    """
    lines = [list(row) for row in rows]
    done = 1
    for i, line in enumerate(lines):
        pivot = _single_out(lines[i:], done, budget)
        if pivot is None:
            if line[0]:
                return True
            continue
        if line[0] % line[done]:
            return True
        value = -line[0] // line[done]
        for other in lines[i:]:
            other[0] += other[done] * value
            other[done] = 0
        done += 1
    return False


def _single_out(lines: Sequence[list[int]], first: int, budget: Budget) -> int | None:
    """Leaves the first line one entry from a column on, there; None where it has none."""
    line = lines[0]
    while True:
        columns = [j for j in range(first, len(line)) if line[j]]
        if not columns:
            return None
        least = min(columns, key=lambda j: abs(line[j]))
        if len(columns) == 1:
            for other in lines:
                other[first], other[least] = other[least], other[first]
            return first
        for j in columns:
            quotient = 0 if j == least else line[j] // line[least]
            for other in lines if quotient else ():
                other[j] -= quotient * other[least]
        budget.spend(2 + len(lines) * len(columns) // 4)
