"""Values that satisfy the facts, small ones first.

A cell turns the search for values under facts into a walk over small parameters: under
``k % 64 == 0`` the first values are 64, 128, 192. An equation that the cell could not solve gives
the last of its atoms where that occurs once. Now and then a wide step is tried (10, 100, 10**6
above a bound): some claims fail only far out. Every point is put into the facts as written before
it is handed out, so a cell that covers too much costs time and never an answer. The order is
fixed: the same question has the same counterexample.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice, product, zip_longest
from typing import NamedTuple

from ..algebra.budget import Budget, OutOfBudgetError
from ..algebra.dims import evaluate
from ..algebra.evaluation import names_of
from ..algebra.integers import integer_root
from ..algebra.poly import Power, atoms_of, power_of, symbol, terms_of
from .cells import Cell, least_of
from .facts import Facts, connected, read_facts

MAX_SUM = 40
MAX_NAMES = 40
CLOSE_POINTS = 24
ANY_POINT = 20_000
MAX_MIXED = 6
WIDE = (0, 1, 3, 9, 31, 100, 1_000, 10_000, 10**6, 10**9)


def points(
    facts: Facts, cells: Sequence[Cell], symbols: Sequence[str], budget: Budget
) -> Iterator[dict[str, int]]:
    """Yields values of the symbols that satisfy the facts, from each cell in turn.

    symbols must contain those of the facts.

    >>> facts = read_facts(["k % 64 == 0"])
    >>> next(points(facts, facts.cover.cells, ["k"], Budget(1000)))
    {'k': 64}
    """
    try:
        for found in _in_turns([_walk(cell, symbols, budget) for cell in cells]):
            if found.point is not None:
                budget.spend(3 * len(facts.relations))
                if facts.holds(found.point):
                    yield found.point
    except OutOfBudgetError:
        return


def _in_turns(walks: list[Iterator[_Step]]) -> Iterator[_Step]:
    while walks:
        for walk in list(walks):
            found = next(walk, None)
            if found is None:
                walks.remove(walk)
            else:
                yield found


@lru_cache(maxsize=1024)
def values_apart(facts: Facts, near: Facts) -> Mapping[str, int] | None:
    """Returns values of the facts that are not among the near ones, or None.

    >>> facts = read_facts(["k % 64 == 0", "h*w == n*m", "h >= 70"])
    >>> values_apart(facts, read_facts(["k % 64 == 0"]))
    {'h': 101, 'm': 101, 'n': 1, 'w': 1}
    """
    rest = [relation for relation in facts.relations if relation not in near.relations]
    found: dict[str, int] = {}
    while rest:
        names = names_of(rest[0].left) | names_of(rest[0].right)
        part = connected(rest, names) if names else rest[:1]
        values = _some_values(read_facts(part))
        if values is None:
            return None
        found.update(values)
        rest = [relation for relation in rest if relation not in part]
    return found


@lru_cache(maxsize=256)
def _some_values(facts: Facts) -> Mapping[str, int] | None:
    """Values at which the facts hold; None where none were found.

    First those of the cells. Equations of products, as of reshapes, often hold where all symbols
    are equal, or one of them is 1: these are tried next, with the facts' own numbers.
    """
    names = sorted(facts.symbols)
    walk = points(facts, facts.cover.cells, names, Budget(ANY_POINT))
    for point in walk:
        return point
    numbers = sorted({1, *_numbers_near(facts)})
    equal = (dict.fromkeys(names, number) for number in numbers)
    budget = ANY_POINT // (1 + len(facts.relations))
    for point in islice(chain(equal, _mixed(names, numbers)), budget):
        if facts.holds(point):
            return point
    return None


def _numbers_near(facts: Facts) -> Iterator[int]:
    """Small numbers and powers of two, and multiples of the numbers that the facts write."""
    yield from range(1, 33)
    yield from (2**exponent for exponent in range(6, 13))
    for dim, _ in facts.goals:
        for coefficient in terms_of(dim).values():
            number = abs(coefficient)
            yield from (each for each in (number, number + 1, 2 * number) if 1 <= each < 10**6)


def _mixed(names: Sequence[str], numbers: Sequence[int]) -> Iterator[dict[str, int]]:
    """Each pair of numbers, the one for some of the names and the other for the rest."""
    if len(names) > MAX_MIXED:
        return
    for high, low in product(reversed(numbers), numbers):
        if high != low:
            for chosen in range(1, 2 ** len(names) - 1):
                yield {name: high if chosen >> i & 1 else low for i, name in enumerate(names)}


def all_points(facts: Facts, names: Sequence[str], limit: int) -> list[dict[str, int]] | None:
    """Returns all values that satisfy the facts; None past limit or where not finite.

    >>> all_points(read_facts(["k % 64 == 0", "k <= 200"]), ["k"], 100)
    [{'k': 64}, {'k': 128}, {'k': 192}]
    """
    found: list[dict[str, int]] = []
    for cell in facts.cover.cells:
        values = {name: cell.values.get(name, symbol(name)) for name in names}
        atoms = sorted(set().union(*map(atoms_of, values.values())))
        ranges: list[range] = []
        for atom in atoms:
            least, most = least_of(atom, cell.lower), cell.upper.get(atom)
            if least is None or most is None:
                return None
            ranges.append(range(least, most + 1))
            limit //= max(1, len(ranges[-1]))
        if limit < 1:
            return None
        for point in product(*ranges):
            at = dict(zip(atoms, point, strict=True))
            found.append({name: evaluate(value, at) for name, value in values.items()})
    kept = [point for point in found if all(v >= 1 for v in point.values()) and facts.holds(point)]
    return sorted(kept, key=lambda point: [point[name] for name in names])


class _Step(NamedTuple):
    """One step of a walk: values of the symbols, or None where the cell has none there."""

    point: dict[str, int] | None


def _walk(cell: Cell, symbols: Sequence[str], budget: Budget) -> Iterator[_Step]:
    """The symbols' values at the cell's parameters, which grow from their bounds."""
    values = {name: cell.values.get(name, symbol(name)) for name in symbols}
    last = _solved_last(cell)
    used = set().union(*(atoms_of(dim) for dim in (*values.values(), *cell.zero)))
    names = sorted(used - {power.atom for power in last})
    cost = 2 + len(names) + sum(len(terms_of(dim)) for dim in (*values.values(), *cell.zero))
    budget.spend(4 * cost)
    for steps in _offsets(len(names)):
        budget.spend(cost)
        point = _at(cell, names, steps)
        if point is None or not _solve_rest(cell, last, point):
            yield _Step(None)
            continue
        found = {name: evaluate(value, point) for name, value in values.items()}
        yield _Step(found if all(value >= 1 for value in found.values()) else None)


def _solved_last(cell: Cell) -> list[Power]:
    """One atom of each equation that occurs in one power only, and in no earlier equation."""
    found: list[Power] = []
    earlier: set[str] = set()
    for dim in cell.zero:
        powers = [power_of(dim, name) for name in sorted(atoms_of(dim) - earlier, reverse=True)]
        best = min((power for power in powers if power.exponent), key=_rarity, default=None)
        if best is not None:
            found.append(best)
        earlier |= atoms_of(dim)
    return found


def _rarity(power: Power) -> tuple[int, int]:
    """How rarely an equation has a whole solution: one in as many as the slope says."""
    return power.exponent, abs(power.slope) if isinstance(power.slope, int) else 10**6


def _solve_rest(cell: Cell, last: list[Power], point: dict[str, int]) -> bool:
    """Adds the atoms that equations give; False where one is not whole or out of its bounds."""
    for name, exponent, slope, rest in last:
        divisor = evaluate(slope, point)
        if divisor == 0 or (dividend := -evaluate(rest, point)) % divisor:
            return False
        value = dividend // divisor
        if exponent > 1:
            if value < 0:
                return False
            root = integer_root(value, exponent)
            if root**exponent != value:
                return False
            value = root
        point[name] = value
        least, most = least_of(name, cell.lower), cell.upper.get(name)
        if (least is not None and value < least) or (most is not None and value > most):
            return False
    return True


def _at(cell: Cell, names: Sequence[str], steps: Sequence[int]) -> dict[str, int] | None:
    """Each parameter as many steps from its bound; 0, 1, -1, 2, -2, ... where it has none."""
    point: dict[str, int] = {}
    for name, step in zip(names, steps, strict=True):
        least, most = least_of(name, cell.lower), cell.upper.get(name)
        value = (step + 1) // 2 * (1 if step % 2 else -1) if least is None else least + step
        if most is not None and value > most:
            return None
        point[name] = value
    return point


def _offsets(count: int) -> Iterator[tuple[int, ...]]:
    """Steps of that many parameters: equal ones, close ones, then close and wide ones in turn."""
    if count > MAX_NAMES:
        yield from ((step,) * count for step in range(3))
        return
    close = _graded(range(MAX_SUM), count)
    yield from islice(close, 2)
    yield from ((step,) * count for step in (1, 2) if count > 1)
    wide = _graded(WIDE, count)
    yield from islice(close, CLOSE_POINTS)
    for pair in zip_longest(close, wide):
        yield from (steps for steps in pair if steps is not None)


def _graded(choices: Sequence[int], count: int) -> Iterator[tuple[int, ...]]:
    """All tuples over the choices, by the sum of the places that are taken."""
    for total in range((len(choices) - 1) * count + 1):
        for places in _with_sum(count, total, len(choices) - 1):
            yield tuple(choices[place] for place in places)


def _with_sum(count: int, total: int, most: int) -> Iterator[tuple[int, ...]]:
    if count <= 1:
        if total <= most * count:
            yield (total,) * count
        return
    for first in range(max(0, total - most * (count - 1)), min(total, most) + 1):
        for rest in _with_sum(count - 1, total - first, most):
            yield (first, *rest)
