"""Finitely many cases: products of unknowns that equal numbers, solved one after the other.

    h*t = 12, h*d = 18     h = 1, 2, 3, 6: a common divisor of 12 and 18; t and d follow

The smallest come first and one at a time, so whoever needs only the first ones pays for no more.
The work is counted, and a search that was not finished says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import heappop, heappush
from itertools import islice
from math import gcd
from typing import Any

from .algebra.integers import MAX_TRIAL, divisors, split_factors
from .algebra.poly import exact_root

MAX_WORK = 8_000
"""Steps of a search: some microseconds each."""
MAX_LISTED = 4_096

Product = tuple[Mapping[str, int], int]
"""The exponent of each unknown, and the value of the product."""


class Choices(tuple[dict[str, int], ...]):
    """The first cases, ascending. ``complete``: these are all; else they are finitely many, and
    more than these, or more than could be looked for.

    >>> Choices([{"h": 2}], complete=True)
    ({'h': 2},)
    """

    complete: bool

    def __new__(cls, cases: Any = (), *, complete: bool = True) -> Choices:
        self = super().__new__(cls, cases)
        self.complete = complete
        return self


class Search:
    """All positive integer solutions of products that equal numbers, ascending; one use.

    equations: with values that are positive. admits: which solutions count, and ``cost``: how many
    steps it takes to tell. names: the order of the unknowns. bounds: the greatest value of those
    that stand in no equation. ``complete`` is True once all were found.

    >>> list(Search([({"h": 1, "t": 1}, 6)], lambda case: case["h"] > 1))
    [{'h': 2, 't': 3}, {'h': 3, 't': 2}, {'h': 6, 't': 1}]
    """

    def __init__(
        self,
        equations: Sequence[Product],
        admits: Callable[[Mapping[str, int]], bool],
        cost: int = 1,
        names: Sequence[str] = (),
        bounds: Mapping[str, int] | None = None,
    ) -> None:
        self.complete = False
        self._admits = admits
        self._cost = cost
        self._left = MAX_WORK
        self._equations: list[Product] = list(equations)
        self._bounds = bounds or {}
        self._names = list(
            dict.fromkeys([*names, *(name for exponents, _ in equations for name in exponents)])
        )

    def __iter__(self) -> Iterator[dict[str, int]]:
        try:
            for case in self._cases(self._names, self._equations, {}):
                self._spend(self._cost)
                if self._admits(case):
                    yield case
        except _OutOfWorkError:
            return
        self.complete = True

    def first(self, limit: int) -> Choices:
        """Returns the first cases, at most ``limit``."""
        found = list(islice(self, min(limit, MAX_WORK) + 1))
        return Choices(found[:limit], complete=self.complete and len(found) <= limit)

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise _OutOfWorkError

    def _cases(
        self, names: Sequence[str], equations: list[Product], chosen: dict[str, int]
    ) -> Iterator[dict[str, int]]:
        if not names:
            if all(value == 1 for _, value in equations):
                yield chosen
            return
        name, rest = names[0], names[1:]
        for length in self._lengths(name, equations):
            self._spend(1)
            reduced = _divide_out(equations, name, length)
            if reduced is not None:
                yield from self._cases(rest, reduced, {**chosen, name: length})

    def _lengths(self, name: str, equations: list[Product]) -> Iterator[int]:
        """What a name may be, ascending: a root, a divisor, or any number up to its bound."""
        common = 0
        for exponents, value in equations:
            if name not in exponents:
                continue
            if len(exponents) == 1:
                root = exact_root(value, exponents[name])
                return iter((root,) if isinstance(root, int) else ())
            common = gcd(common, value)
        if common == 0:
            return iter(range(1, self._bounds[name] + 1))
        return self._divisors(common)

    def _divisors(self, number: int) -> Iterator[int]:
        few = _all_divisors(number)
        if few is not None:
            yield from few
            return
        known, rest = split_factors(number)
        for divisor in _ascending(known):
            if rest > 1 and divisor > MAX_TRIAL:
                raise _OutOfWorkError  # divisors with unknown factors may come before this one
            self._spend(1)
            yield divisor
        if rest > 1:
            raise _OutOfWorkError


class _OutOfWorkError(Exception):
    """The search took more than a bounded amount of work, or needs factors that are not known."""


@lru_cache(maxsize=1024)
def _all_divisors(number: int) -> tuple[int, ...] | None:
    found = divisors(number, MAX_LISTED)
    return None if found is None else tuple(found)


def _ascending(powers: Mapping[int, int]) -> Iterator[int]:
    """Yields the divisors of a product of prime powers in ascending order, without making all.

    >>> list(_ascending({2: 2, 3: 1}))
    [1, 2, 3, 4, 6, 12]
    """
    primes = sorted(powers)
    heap: list[tuple[int, int, int]] = [(1, -1, 0)]
    while heap:
        divisor, last, used = heappop(heap)
        yield divisor
        if last >= 0 and used < powers[primes[last]]:
            heappush(heap, (divisor * primes[last], last, used + 1))
        for position in range(last + 1, len(primes)):
            heappush(heap, (divisor * primes[position], position, 1))


def _divide_out(equations: list[Product], name: str, length: int) -> list[Product] | None:
    reduced: list[Product] = []
    for exponents, value in equations:
        if name not in exponents:
            reduced.append((exponents, value))
            continue
        power = length ** exponents[name]
        if value % power:
            return None
        left = {n: e for n, e in exponents.items() if n != name}
        if not left and value != power:
            return None
        reduced.append((left, value // power))
    return reduced


def agreed(search: Search) -> dict[str, int] | None:
    """Returns the names that have the same value in every case; None where there is no case.

    >>> agreed(Search([({"h": 1, "t": 1}, 2), ({"h": 1, "d": 1}, 3)], lambda case: True))
    {'h': 1, 't': 2, 'd': 3}
    """
    same: dict[str, int] | None = None
    for case in search:
        same = {n: v for n, v in (case if same is None else same).items() if case[n] == v}
        if not same:
            return {}
    if not search.complete:
        return {}
    return same
