"""Linear equations over the integers, decided: is there a solution in whole numbers, of any sign?

    6*x + y == 8*t,  2*x + y == 4*u + 1      none: their difference is 4*x - 8*t + 4*u == -1

Unimodular column operations bring the equations to triangular form one by one (the Hermite normal
form); each then gives one new unknown, or shows that it would not be whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from .budget import Budget


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
    """Column operations that leave the first line one entry from that column on, in that column;
    None where it has none.
    """
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
