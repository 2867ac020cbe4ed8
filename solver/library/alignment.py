"""The annotation of a reshape, from the two shapes: factors that both sides have at the same place
share an identifier.

A row-major tensor may be cut at a factor wherever the same product of lengths stands before it (or
behind it) on both sides. Such factors are found group by group between equal prefixes, first from
the left, then from the right; what is left in the middle is in both sides but not at one place, and
stays frozen.

    (b, s, 512) -> (b, s, 8, 64)     a b (c d) -> a b c d      c=8, d=64
    (b*s, d)    -> (b, s, d)         (a b) c -> a b c
    (6, 4)      -> (4, 6)            (a 3) (2 b) -> (a 2) (3 b)      a=2, b=2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dimsolve.solver.algebra.dims import symbols_of
from dimsolve.solver.algebra.poly import Dim, divide_exactly, product, symbol

from .lengths import common_divisor
from .values import Lengths
from .writing import Names, group

_OPEN = "?"
"""Begins the symbols that stand for unknown lengths: no caller's symbol does."""


@dataclass(slots=True)
class Alignment:
    """Patterns of the two shapes, and what a Declaration needs besides."""

    input: list[str]
    output: list[str]
    arguments: dict[str, Any] = field(default_factory=dict)
    fresh: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class _Factor:
    """One factor of a dimension: its length, and whether it stands at one place in both shapes."""

    length: Dim
    shared: bool


def opened(dims: Lengths) -> tuple[Dim, ...]:
    """Returns the lengths with a symbol of its own for every unknown one."""
    return tuple(symbol(f"{_OPEN}{n}") if dim is None else dim for n, dim in enumerate(dims))


def align(dims: Sequence[Dim], sizes: Sequence[Dim]) -> Alignment:
    """Returns the patterns of a reshape from ``dims`` to ``sizes``, whose products are equal.

    >>> result = align((6, 4), (4, 6))
    >>> result.input, result.output, result.arguments
    (['(a 3)', '(2 b)'], ['(a 2)', '(3 b)'], {'a': 2, 'b': 2})
    """
    if 0 in (*dims, *sizes):
        rows = (
            [[_Factor(length, False)] for length in dims],
            [[_Factor(length, False)] for length in sizes],
        )
        return _write(*rows)
    factors_in: list[list[_Factor]] = [[] for _ in dims]
    factors_out: list[list[_Factor]] = [[] for _ in sizes]
    for left, right in _groups(dims, sizes):
        _refine(dims, sizes, left, right, factors_in, factors_out)
    return _write(factors_in, factors_out)


def _groups(dims: Sequence[Dim], sizes: Sequence[Dim]) -> list[tuple[list[int], list[int]]]:
    """Cuts both shapes, without their ones, wherever the products so far are equal."""
    places = [[n for n, dim in enumerate(shape) if dim != 1] for shape in (dims, sizes)]
    ends: dict[Dim, int] = {}
    total: Dim = 1
    for count, place in enumerate(places[1], 1):
        total = total * sizes[place]
        ends[total] = count
    groups: list[tuple[list[int], list[int]]] = []
    done = (0, 0)
    total = 1
    for count, place in enumerate(places[0], 1):
        total = total * dims[place]
        other = ends.get(total)
        if other is not None:
            groups.append((places[0][done[0] : count], places[1][done[1] : other]))
            done = (count, other)
    rest = (places[0][done[0] :], places[1][done[1] :])
    return [*groups, rest] if any(rest) else groups


def _refine(
    dims: Sequence[Dim],
    sizes: Sequence[Dim],
    left: list[int],
    right: list[int],
    factors_in: list[list[_Factor]],
    factors_out: list[list[_Factor]],
) -> None:
    """Fills in the factors of one group: shared ones from the left, shared ones from the right, the
    rest between.
    """
    remaining = {n: dims[n] for n in left}, {n: sizes[n] for n in right}
    front = _shared(remaining, left, right)
    back = _shared(remaining, left[::-1], right[::-1])
    for side, places, factors in ((0, left, factors_in), (1, right, factors_out)):
        for n in places:
            middle = [_Factor(remaining[side][n], False)] if remaining[side][n] != 1 else []
            factors[n] = [*front[side].get(n, []), *middle, *reversed(back[side].get(n, []))]


def _shared(
    remaining: tuple[dict[int, Dim], dict[int, Dim]], left: list[int], right: list[int]
) -> tuple[dict[int, list[_Factor]], dict[int, list[_Factor]]]:
    """Takes off the factors that both sides have first, and divides ``remaining`` by them."""
    found: tuple[dict[int, list[_Factor]], dict[int, list[_Factor]]] = ({}, {})
    i = j = 0
    while i < len(left) and j < len(right):
        a, b = remaining[0][left[i]], remaining[1][right[j]]
        common = 1 if 1 in (a, b) else common_divisor((a, b))
        if common != 1:
            factor = _Factor(common, True)
            for side, n in ((0, left[i]), (1, right[j])):
                found[side].setdefault(n, []).append(factor)
                quotient = divide_exactly(remaining[side][n], common)
                assert quotient is not None
                remaining[side][n] = quotient
        done = remaining[0][left[i]] == 1, remaining[1][right[j]] == 1
        if not any(done):
            break
        i, j = i + done[0], j + done[1]
    return found


def _write(factors_in: list[list[_Factor]], factors_out: list[list[_Factor]]) -> Alignment:
    """Names the factors in reading order. Numbers that are not shared are written out."""
    names = Names()
    words: dict[int, str] = {}
    arguments: dict[str, Any] = {}
    fresh: list[str] = []
    for factor, is_output, is_grouped in _in_reading_order(factors_in, factors_out):
        number = factor.length if isinstance(factor.length, int) and not factor.shared else None
        if number is not None and (is_grouped or number < 2):
            words[id(factor)] = str(number)
            continue
        word = names.one()
        words[id(factor)] = word if factor.shared else f"{word}^"
        if any(name.startswith(_OPEN) for name in symbols_of(factor.length)):
            fresh += [word] if is_output else []
        elif is_output or is_grouped:
            arguments[word] = factor.length
    patterns = [
        [group(*(words[id(f)] for f in factors)) for factors in row]
        for row in (factors_in, factors_out)
    ]
    return Alignment(patterns[0], patterns[1], arguments, tuple(fresh))


def _in_reading_order(
    factors_in: list[list[_Factor]], factors_out: list[list[_Factor]]
) -> Iterator[tuple[_Factor, bool, bool]]:
    """Each factor where it stands first: whether that is in an output, and beside others."""
    seen: set[int] = set()
    for is_output, row in ((False, factors_in), (True, factors_out)):
        for factors in row:
            for factor in factors:
                if id(factor) not in seen:
                    seen.add(id(factor))
                    yield factor, is_output, len(factors) > 1


def elements(dims: Sequence[Dim]) -> Dim:
    """Returns the number of elements of a shape."""
    return product(dims)
