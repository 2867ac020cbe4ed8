"""A chart: one part of the values that the facts allow, written with parameters that vary freely.

The fact ``k % 64 == 0`` becomes the chart ``k = 64*$1, $1 >= 1``; ``h*t == 6`` becomes four charts
of constants. A question is put into every chart: it holds always when it holds in each, because the
charts together cover all values. What no substitution expresses stays beside it as polynomials that
are not negative, zero, or not zero.

An atom without a bound of its own is a symbol of the caller, at least 1; parameters begin with
``$``, which no symbol does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import comb
from typing import TypeAlias

from ..algebra.monomials import Monomial
from ..algebra.poly import Dim, TooLarge, build, terms_of

Range: TypeAlias = "tuple[int | None, int | None]"


@dataclass(frozen=True, slots=True)
class Chart:
    """values: symbol -> Dim in the atoms that are left. lower: atom -> bound, None for any integer;
    1 where absent.

    calls: a floor, minimum or maximum -> the polynomial that it is in this chart. fresh: the
    number of the newest parameter.
    """

    values: Mapping[str, Dim] = field(default_factory=dict)
    lower: Mapping[str, int | None] = field(default_factory=dict)
    upper: Mapping[str, int] = field(default_factory=dict)
    nonnegative: tuple[Dim, ...] = ()
    zero: tuple[Dim, ...] = ()
    nonzero: tuple[Dim, ...] = ()
    calls: Mapping[str, Dim] = field(default_factory=dict)
    fresh: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing is known but that symbols are positive."""
        return not (self.values or self.lower or self.upper or self.nonnegative or self.zero)

    @property
    def is_free(self) -> bool:
        """Whether the parameters vary independently over all integers from their bounds upwards."""
        return not (self.upper or self.nonnegative or self.zero or self.nonzero)


WHOLE = Chart()
MAX_SHIFTED = 40
MAX_MOVED = 150


def least_of(atom: str, lower: Mapping[str, int | None]) -> int | None:
    """Returns the bound of an atom from below: a symbol's is 1 where it has none of its own. Of a
    call that is not written in atoms yet nothing is known.
    """
    return lower.get(atom, 1) if atom.__class__ is str else lower.get(atom)


def range_of(dim: Dim, lower: Mapping[str, int | None], upper: Mapping[str, int]) -> Range:
    """Returns bounds of dim's values, from the bounds of its atoms alone; None where there is none.

    >>> from dimsolve.solver.algebra.poly import symbol
    >>> a, b = symbol("a"), symbol("b")
    >>> range_of(a * b + 2 * a, {}, {}), range_of(a - b, {}, {"a": 4})
    ((3, None), (None, 3))
    """
    if isinstance(dim, int):
        return dim, dim
    bounds = {a: (least_of(a, lower), upper.get(a)) for m in dim.terms for a, _ in m}
    if len({c > 0 for m, c in dim.terms.items() if m}) > 1 and len(dim.terms) <= MAX_SHIFTED:
        try:
            dim = shifted(dim, lower)
        except TooLarge:
            return None, None
        for atom, (least, most) in bounds.items():
            if least is not None:
                bounds[atom] = 0, None if most is None else most - least
    return _sum_range(terms_of(dim), bounds)


def shifted(dim: Dim, lower: Mapping[str, int | None]) -> Dim:
    """Returns dim with every bounded atom x written as its least value plus x: then all are at
    least 0.
    """
    terms = dict(terms_of(dim))
    moves = {a: move for m in terms for a, _ in m if (move := least_of(a, lower))}
    for atom, move in moves.items():
        terms = _moved(terms, atom, move)
        if len(terms) > MAX_MOVED:
            raise TooLarge
    return build({m: c for m, c in terms.items() if c})


def _moved(terms: Mapping[Monomial, int], atom: str, move: int) -> dict[Monomial, int]:
    """The terms with atom + move in place of atom, by the binomial theorem; some may be 0."""
    result: dict[Monomial, int] = {}
    for monomial, coefficient in terms.items():
        for place, (name, exponent) in enumerate(monomial):
            if name == atom:
                before, after = monomial[:place], monomial[place + 1 :]
                for k in range(exponent + 1):
                    kept = (*before, (atom, k), *after) if k else before + after
                    weight = coefficient * comb(exponent, k) * move ** (exponent - k)
                    result[kept] = result.get(kept, 0) + weight
                break
        else:
            result[monomial] = result.get(monomial, 0) + coefficient
    return result


def _sum_range(terms: Mapping[Monomial, int], bounds: Mapping[str, Range]) -> Range:
    low: int | None = 0
    high: int | None = 0
    for monomial, coefficient in terms.items():
        least, most = _monomial_range(monomial, bounds)
        if coefficient < 0:
            least, most = most, least
        low = None if low is None or least is None else low + coefficient * least
        high = None if high is None or most is None else high + coefficient * most
        if low is None and high is None:
            break
    return low, high


def _monomial_range(monomial: Monomial, bounds: Mapping[str, Range]) -> Range:
    result: Range = (1, 1)
    for atom, exponent in monomial:
        result = _times(result, _power_range(bounds[atom], exponent))
    return result


def _power_range(base: Range, exponent: int) -> Range:
    low, high = base
    if exponent == 1 or (low is not None and low >= 0):
        return (
            None if low is None else low**exponent,
            None if high is None else high**exponent,
        )
    if exponent % 2:
        return (None if low is None else low**exponent, None if high is None else high**exponent)
    if high is not None and high <= 0:
        return high**exponent, None if low is None else low**exponent
    return 0, None if low is None or high is None else max(low**exponent, high**exponent)


def _times(a: Range, b: Range) -> Range:
    """The interval product; None stands for an end without bound."""
    if a == (1, 1):
        return b
    ends: list[int] = []
    low_open = high_open = False
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            if x is not None and y is not None:
                ends.append(x * y)
                continue
            if x == 0 or y == 0:
                ends.append(0)
                continue
            sign_x = (1 if i else -1) if x is None else (1 if x > 0 else -1)
            sign_y = (1 if j else -1) if y is None else (1 if y > 0 else -1)
            if sign_x * sign_y > 0:
                high_open = True
            else:
                low_open = True
    return (
        None if low_open or (not ends and not high_open) else min(ends, default=None),
        None if high_open or (not ends and not low_open) else max(ends, default=None),
    )
