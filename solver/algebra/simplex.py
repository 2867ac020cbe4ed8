"""Exact linear programming, as far as proofs need it: are these linear inequalities contradictory?

``c + a*x >= 0`` for several rows and x >= 0. Starting from x = 0, a violated row is repaired by
raising a variable that occurs in it with a positive coefficient; a violated row without one is a
proof that no x exists: it is a non-negative combination of the given rows that can never be met
(Farkas). Both choices take the least index, so it ends (Bland 1977). All numbers are integers;
nothing is rounded.

    x - 3 >= 0,  2 - x - y >= 0      contradictory: their sum is -1 - y >= 0
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from .budget import Budget


def is_contradictory(rows: Sequence[Sequence[int]], budget: Budget) -> bool:
    """Whether no rational x >= 0 has ``row[0] + row[1]*x[0] + row[2]*x[1] + ... >= 0`` for every
    row.

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
    """Exchanges a row's variable and a column's. scales[i] * variable of row i == the sum in
    table[i].
    """
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
