"""Order, shown in microseconds: floors and extrema are replaced by bounds of theirs.

    x//n >= y   says exactly the same as x >= n*y, and x//n <= y as x < n*y + n
    n*(x//n)    lies between x - n + 1 and x
    x % n       lies between 0 and n - 1, and is at most x where x >= 0
    max(x, y)   is at least x and at least y, and equal to one of them

So ``(s + 7)//8*8 >= s`` follows from ``s + 7 - 7 >= s``. What is left is a polynomial, whose atoms
have bounds, and to which what is known may be added: ``b*k - a*k`` is ``k*(b - a)``. A claim that
does not follow this way is decided by other means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..algebra.budget import Budget, OutOfBudgetError
from ..algebra.dims import Call, Function, floor_div
from ..algebra.poly import (
    Dim,
    Monomial,
    Poly,
    TooLarge,
    atoms_of,
    build,
    divide_exactly,
    divide_monomials,
    line_in,
    terms_of,
)
from .cells import Cell, Range, least_of, range_of
from .floors import divided

STEPS = 60
MAX_DEPTH = 6
MAX_TERMS = 24
MAX_KNOWN = 4
MAX_USES = 3
_EXACT = (Function.FLOORDIV, Function.CEILDIV)


def is_nonnegative(dim: Dim, cell: Cell) -> bool:
    """Whether bounds alone show that dim is never negative. False proves nothing.

    >>> from dimsolve.solver.proof.cells import WHOLE
    >>> from dimsolve.solver.algebra.poly import symbol
    >>> s, h = symbol("s"), symbol("h")
    >>> is_nonnegative(8 * floor_div(s + 7, 8) - s, WHOLE)
    True
    >>> is_nonnegative(s - h * floor_div(s, h), WHOLE), is_nonnegative(s - h, WHOLE)
    (True, False)
    """
    try:
        return _Relaxation(cell, Budget(STEPS)).shows(dim, 1, MAX_DEPTH)
    except (OutOfBudgetError, TooLarge):
        return False


Option = tuple[Dim, int]
"""(dim, factor): factor times what was asked is at least dim."""


class _Relaxation:
    """One search for bounds that show a claim; its steps are counted."""

    __slots__ = ("budget", "cell")

    def __init__(self, cell: Cell, budget: Budget) -> None:
        self.cell = cell
        self.budget = budget

    def shows(self, dim: Dim, scale: int, depth: int) -> bool:
        """Whether the integer dim/scale is shown to be never negative."""
        if isinstance(dim, int):
            return dim > -scale
        self.budget.spend(1 + len(dim.terms) // MAX_TERMS)
        calls = [atom for atom in atoms_of(dim) if isinstance(atom, Call)]
        if not calls:
            return self._bounded(dim, scale, MAX_USES if len(dim.terms) <= MAX_TERMS else 0)
        if len(calls) >= MAX_DEPTH:
            return self._bounded_calls(dim, calls, scale)
        if depth == 0:
            return False
        lines = _lines(dim, calls)
        return any(self._replaced(*line, scale, depth) for line in lines)

    def _replaced(self, call: Call, slope: Dim, rest: Dim, scale: int, depth: int) -> bool:
        """Whether a bound of the call shows that ``(slope*call + rest)/scale`` is >= 0."""
        sign = self._sign(slope)
        if sign == 0:
            return False
        if call.function is Function.MIN or call.function is Function.MAX:
            shown = (self.shows(rest + slope * x, scale, depth - 1) for x in call.arguments)
            all_needed = (sign > 0) == (call.function is Function.MIN)
            return all(shown) if all_needed else any(shown)
        return any(
            self.shows(new, scale * factor, depth - 1)
            for new, factor in self._options(call, slope, sign, rest, scale)
        )

    def _sign(self, slope: Dim) -> int:
        """1 or -1 where the slope is known to have that sign or to be 0, 0 where it is not."""
        if isinstance(slope, int):
            return (slope > 0) - (slope < 0)
        for sign in (1, -1):
            if all(c * sign > 0 for c in slope.terms.values()):
                return sign if self._at_least(slope * sign, 0) else 0
        return 1 if self._at_least(slope, 0) else -1 if self._at_least(-slope, 0) else 0

    def _at_least(self, dim: Dim, least: int) -> bool:
        return self.shows(dim - least, 1, 2)

    def _options(
        self, call: Call, slope: Dim, sign: int, rest: Dim, scale: int
    ) -> Iterator[Option]:
        """Bounds of ``slope*call + rest`` from below, for a quotient or a remainder."""
        x, n = call.arguments
        if not self._at_least(n, 1):
            return
        if call.function is Function.MOD:
            yield (rest if sign > 0 else rest + slope * (n - 1)), 1
            if sign < 0 and self._at_least(x, 0):
                yield rest + slope * x, 1
            yield rest + slope * (x - n * floor_div(x, n)), 1
            return
        up = call.function is Function.CEILDIV
        if scale == 1 and slope == sign:
            yield _exactly(x, n, sign, rest, up=up), 1
            return
        gap = n - 1 if (sign > 0) is not up else 0
        share = divide_exactly(slope, n)
        if share is not None:
            yield rest + share * (x + gap if up else x - gap), 1
        elif isinstance(n, int):
            yield rest * n + slope * (x + gap if up else x - gap), n
        whole, left = divided(x, n) if isinstance(n, Poly) and not up else (0, x)
        if whole != 0:
            yield rest + slope * (whole + floor_div(left, n)), 1
        if not self._at_least(x, 0):
            return
        if sign > 0:
            yield rest, 1
            return
        if share is None and not up and self._at_least(n + slope, 0):
            yield rest - x, 1
        yield rest + slope * x, 1

    def _bounded(self, dim: Dim, scale: int, uses: int) -> bool:
        """A polynomial of atoms: by their bounds, and by what the cell keeps, times monomials."""
        cell = self.cell
        self.budget.spend(1 + len(terms_of(dim)) // 8)
        low, high = range_of(dim, cell.lower, cell.upper)
        if low is not None:
            return low > -scale
        if uses == 0 or (high is not None and high <= -scale) or isinstance(dim, int):
            return False
        for known in cell.nonnegative[:MAX_KNOWN]:
            for factor in self._factors(dim, known):
                if self._bounded(dim - factor * known, scale, uses - 1):
                    return True
        return False

    def _bounded_calls(self, dim: Poly, calls: Sequence[Call], scale: int) -> bool:
        """Many calls are taken as atoms, each with bounds of its own."""
        lower, upper = dict(self.cell.lower), dict(self.cell.upper)
        for call in calls:
            low, high = self._range(call)
            lower[call] = low
            if high is not None:
                upper[call] = high
        low, _ = range_of(dim, lower, upper)
        return low is not None and low > -scale

    def _range(self, call: Call) -> Range:
        """Bounds of a call whose arguments hold no other calls."""
        if any(isinstance(atom, Call) for x in call.arguments for atom in atoms_of(x)):
            return None, None
        ranges = [range_of(x, self.cell.lower, self.cell.upper) for x in call.arguments]
        if call.function is Function.MIN or call.function is Function.MAX:
            return _extremum_range(ranges, least=call.function is Function.MIN)
        (low, high), (n, most) = ranges
        if n is None or n < 1:
            return None, None
        is_up = low is not None and low >= 0
        if call.function is Function.MOD:
            limits = [x for x in (high if is_up else None, None if most is None else most - 1) if x]
            return 0, min(limits, default=None)
        return 0 if is_up else None, high if is_up else None

    def _factors(self, dim: Poly, known: Dim) -> Sequence[Dim]:
        """Monomials that are not negative, times which a term of known cancels one of dim."""
        if isinstance(known, int):
            return ()
        found: dict[Monomial, int] = {}
        for monomial, c in dim.terms.items():
            for other, d in known.terms.items():
                if not other or c < 0 < d or d < 0 < c:
                    continue
                factor = divide_monomials(monomial, other)
                if factor is not None and all(self._is_from_zero(atom) for atom, _ in factor):
                    found[factor] = max(found.get(factor, 0), -(-c // d))
        return [build({m: c}) for m, c in found.items()]

    def _is_from_zero(self, atom: str) -> bool:
        least = least_of(atom, self.cell.lower)
        return least is not None and least >= 0


def _extremum_range(ranges: Sequence[Range], *, least: bool) -> Range:
    """Bounds of the least, or the greatest, of what is within these ranges."""
    lows, highs = [low for low, _ in ranges], [high for _, high in ranges]
    if least:
        (one, other), choose = (lows, highs), min
    else:
        (other, one), choose = (lows, highs), max
    all_known = None if None in one else choose(x for x in one if x is not None)
    any_known = choose((x for x in other if x is not None), default=None)
    return (all_known, any_known) if least else (any_known, all_known)


def _lines(dim: Poly, calls: Sequence[Call]) -> list[tuple[Call, Dim, Dim]]:
    """(call, slope, rest) of what is replaced next: all with an exact bound, else one whose cases
    must all be shown, else a short one.
    """
    lines = [(call, *line_in(dim, call)) for call in sorted(calls, key=lambda c: (len(c), c))]
    exact = [line for line in reversed(lines) if line[1] in (1, -1) and line[0].function in _EXACT]
    return exact or [min(lines, key=lambda line: (line[1] == 0, not _asks_for_all(*line)))]


def _asks_for_all(call: Call, slope: Dim, rest: Dim) -> bool:
    """Whether the call is a least, or a greatest with a minus: then what is chosen for others may
    depend on the case.
    """
    least = call.function is Function.MIN
    return (
        isinstance(slope, int)
        and slope != 0
        and ((least and slope > 0) or (call.function is Function.MAX and slope < 0))
    )


def _exactly(x: Dim, n: Dim, sign: int, rest: Dim, *, up: bool) -> Dim:
    """What is not negative exactly where ``sign*(x//n) + rest`` is not; up: rounded up."""
    if sign > 0:
        return x + n * rest + (n - 1 if up else 0)
    return n * rest - x + (0 if up else n - 1)


def cleared(dim: Dim, is_positive: Callable[[Dim], bool]) -> Dim:
    """Returns what is not negative exactly where dim is not, with one floor less where that works.

    is_positive: whether a divisor is known to be at least 1.

    >>> from dimsolve.solver.algebra.poly import symbol
    >>> a, b = symbol("a"), symbol("b")
    >>> str(cleared(floor_div(a, b) - 3, lambda divisor: True))
    'a - 3*b'
    """
    calls = [atom for atom in atoms_of(dim) if isinstance(atom, Call)]
    if not isinstance(dim, Poly) or not calls:
        return dim
    call, slope, rest = _lines(dim, calls)[0]
    if slope not in (1, -1) or call.function not in _EXACT:
        return dim
    x, n = call.arguments
    if not is_positive(n):
        return dim
    return _exactly(x, n, 1 if slope == 1 else -1, rest, up=call.function is Function.CEILDIV)
