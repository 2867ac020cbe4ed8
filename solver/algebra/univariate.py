"""Polynomials of one unknown, decided completely: where on the integers is p negative, zero,
positive?

The difference ``p(x + 1) - p(x)`` has a lower degree. Where it keeps one sign, p is monotone, and
bisection finds the at most two places where the sign of p changes. So the answer is exact for
coefficients of any size.

    n*n - 10 from n = 1:   negative up to 3, positive from 4
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .budget import Budget


class Run(NamedTuple):
    """All integers from start to stop (None: without end) at which the sign is the same: -1, 0 or
    1.
    """

    start: int
    stop: int | None
    sign: int


def value_at(coefficients: Sequence[int], x: int) -> int:
    """Returns the value at x; coefficients[i] belongs to x**i."""
    total = 0
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def sign_runs(
    coefficients: Sequence[int], start: int, stop: int | None, budget: Budget
) -> list[Run]:
    """Returns the runs of equal sign from start to stop, in order and without gaps.

    >>> sign_runs([-10, 0, 1], 1, None, Budget(1000))
    [Run(start=1, stop=3, sign=-1), Run(start=4, stop=None, sign=1)]
    """
    budget.spend(20 + len(coefficients) ** 2)
    coefficients = _trimmed(coefficients)
    if len(coefficients) <= 1:
        constant = coefficients[0] if coefficients else 0
        return [Run(start, stop, _sign(constant))]
    found: list[Run] = []
    for run in sign_runs(_difference(coefficients), start, stop, budget):
        end = run.stop
        if end is not None and (stop is None or end < stop):
            end += 1
        for piece in _monotone_runs(coefficients, run.start, end, budget):
            _join(found, piece)
    return found


def _monotone_runs(
    coefficients: Sequence[int], start: int, stop: int | None, budget: Budget
) -> list[Run]:
    """The runs on a stretch where p is monotone: at most three signs, each found by bisection."""
    found: list[Run] = []
    position = start
    while stop is None or position <= stop:
        sign = _sign(value_at(coefficients, position))
        last = _last_with(coefficients, sign, position, stop, budget)
        found.append(Run(position, last, sign))
        if last is None:
            break
        position = last + 1
    return found


def _last_with(
    coefficients: Sequence[int], sign: int, start: int, stop: int | None, budget: Budget
) -> int | None:
    """The last position with this sign on a monotone stretch; None where it keeps it for ever."""
    if stop is None:
        if sign == _sign(coefficients[-1]):
            return None
        step = 1
        while _sign(value_at(coefficients, start + step)) == sign:
            budget.spend(2 + step.bit_length() // 32)
            step *= 2
        low, high = start, start + step
    elif _sign(value_at(coefficients, stop)) == sign:
        return stop
    else:
        low, high = start, stop
    while high - low > 1:
        budget.spend(2 + high.bit_length() // 32)
        middle = (low + high) // 2
        if _sign(value_at(coefficients, middle)) == sign:
            low = middle
        else:
            high = middle
    return low


def _join(found: list[Run], piece: Run) -> None:
    """Appends a run that begins at the last one's end or right after it."""
    if found and found[-1].stop is not None and piece.start <= found[-1].stop:
        if piece.stop is not None and piece.stop <= found[-1].stop:
            return
        piece = Run(found[-1].stop + 1, piece.stop, piece.sign)
    if found and found[-1].sign == piece.sign:
        found[-1] = Run(found[-1].start, piece.stop, piece.sign)
    else:
        found.append(piece)


def _difference(coefficients: Sequence[int]) -> list[int]:
    """The coefficients of p(x + 1) - p(x)."""
    moved = list(coefficients)
    for i in range(len(moved) - 1):
        for j in range(len(moved) - 2, i - 1, -1):
            moved[j] += moved[j + 1]
    return [m - c for m, c in zip(moved, coefficients, strict=True)]


def _trimmed(coefficients: Sequence[int]) -> list[int]:
    kept = list(coefficients)
    while kept and kept[-1] == 0:
        kept.pop()
    return kept


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
