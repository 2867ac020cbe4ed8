"""Products of unknowns that equal numbers leave finitely many cases; here they are listed.

``h*t = 12, h*d = 18`` has four solutions: h is a common divisor of 12 and 18, the rest follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import gcd

from .algebra.integers import divisors
from .algebra.roots import exact_root

MAX_WORK = 4_000
MAX_DIVISORS = 4_096


def whole_solutions(
    equations: Sequence[tuple[Mapping[str, int], int]],
    admits: Callable[[Mapping[str, int]], bool],
) -> list[dict[str, int]] | None:
    """Returns all positive integer solutions, in ascending order, that ``admits`` accepts.

    equations: (exponent of each unknown, value of the product), all values positive. Returns None
    where listing them would take more than a bounded amount of work.

    >>> whole_solutions([({"h": 1, "t": 1}, 6)], lambda case: case["h"] > 1)
    [{'h': 2, 't': 3}, {'h': 3, 't': 2}, {'h': 6, 't': 1}]
    """
    if any(divisors(value, MAX_DIVISORS) is None for _, value in equations):
        return None
    names = list(dict.fromkeys(name for exponents, _ in equations for name in exponents))
    found: list[dict[str, int]] = []
    for work, case in enumerate(_search(names, [(dict(e), v) for e, v in equations], {})):
        if work > MAX_WORK:
            return None
        if case is not None and admits(case):
            found.append(case)
    return found


def _search(
    names: Sequence[str], equations: list[tuple[dict[str, int], int]], chosen: dict[str, int]
) -> Iterator[dict[str, int] | None]:
    """Yields a solution at every leaf that is one, None for every step, so that the caller can
    count the work.
    """
    yield None
    if not names:
        if all(value == 1 for _, value in equations):
            yield dict(chosen)
        return
    name, rest = names[0], names[1:]
    common = 0
    for exponents, value in equations:
        if name in exponents:
            common = gcd(common, value)
    for length in _divisors(common):
        reduced = _divide_out(equations, name, length)
        if reduced is not None:
            yield from _search(rest, reduced, {**chosen, name: length})


@lru_cache(maxsize=1024)
def _divisors(number: int) -> tuple[int, ...]:
    return tuple(divisors(number, MAX_DIVISORS) or ())


def _divide_out(
    equations: list[tuple[dict[str, int], int]], name: str, length: int
) -> list[tuple[dict[str, int], int]] | None:
    reduced: list[tuple[dict[str, int], int]] = []
    for exponents, value in equations:
        power = length ** exponents.get(name, 0)
        if value % power:
            return None
        left = {n: e for n, e in exponents.items() if n != name}
        if not left and value != power:
            return None
        if len(left) == 1 and exact_root(value // power, next(iter(left.values()))) is None:
            return None
        reduced.append((left, value // power))
    return reduced


def agreed(cases: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Returns the names that have the same value in every case.

    >>> agreed([{"h": 2, "t": 3, "d": 1}, {"h": 2, "t": 1, "d": 3}])
    {'h': 2}
    """
    first, *others = cases
    return {
        name: value for name, value in first.items() if all(case[name] == value for case in others)
    }
