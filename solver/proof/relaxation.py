"""Order, shown in microseconds: floors and extrema are replaced by bounds of theirs.

    x//n        lies between (x - n + 1)/n and x/n
    x % n       between 0 and n - 1, and at most x where x >= 0
    max(x, y)   is at least x and at least y, and equal to one of them

So ``(s + 7)//8*8 >= s`` follows from ``s + 7 - 7 >= s``. What is left is a polynomial, whose atoms
have bounds. A claim that does not follow this way is decided by other means.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..algebra.dims import Call, Function
from ..algebra.poly import Dim, Poly, atoms_of
from .charts import Chart, range_of
from .one_atom import line_in

MAX_DEPTH = 6
MAX_TERMS = 24
MAX_KNOWN = 4


def is_nonnegative(dim: Dim, chart: Chart, scale: int = 1, depth: int = MAX_DEPTH) -> bool:
    """Whether bounds alone show that the integer dim/scale is never negative. False proves nothing.

    >>> from dimsolve.solver.proof.charts import WHOLE
    >>> from dimsolve.solver.algebra.dims import floor_div
    >>> from dimsolve.solver.algebra.poly import symbol
    >>> s = symbol("s")
    >>> is_nonnegative(8 * floor_div(s + 7, 8) - s, WHOLE)
    True
    """
    if isinstance(dim, int):
        return dim > -scale
    if len(dim.terms) > MAX_TERMS or depth == 0:
        return False
    call = min((atom for atom in atoms_of(dim) if isinstance(atom, Call)), key=len, default=None)
    if call is None:
        return _bounded(dim, chart, scale)
    slope, rest = line_in(dim, call)
    if not isinstance(slope, int) or slope == 0:
        return False
    options, all_needed = _replaced(call, slope, rest, chart)
    shown = (is_nonnegative(new, chart, scale * factor, depth - 1) for new, factor in options)
    return all(shown) if all_needed else any(shown)


def _bounded(dim: Poly, chart: Chart, scale: int) -> bool:
    """A polynomial of atoms: their bounds, or those and one inequality that the chart keeps."""
    for known in (0, *chart.nonnegative[:MAX_KNOWN]):
        low, _ = range_of(dim - known, chart.lower, chart.upper)
        if low is not None and low > -scale:
            return True
    return False


Options = tuple[Iterator[tuple[Dim, int]], bool]


def _replaced(call: Call, slope: int, rest: Dim, chart: Chart) -> Options:
    """(what factor*(slope*call + rest) is at least, factor), and whether all must be shown."""
    if call.function in (Function.MIN, Function.MAX):
        options = iter([(rest + slope * argument, 1) for argument in call.arguments])
        return options, (slope > 0) == (call.function is Function.MIN)
    return _divided(call, slope, rest, chart), False


def _divided(call: Call, slope: int, rest: Dim, chart: Chart) -> Iterator[tuple[Dim, int]]:
    """Bounds of a floor, a ceiling or a remainder, from below where the slope is positive."""
    x, n = call.arguments
    if not is_nonnegative(n - 1, chart):
        return
    if call.function is Function.MOD:
        yield (rest if slope > 0 else rest + slope * (n - 1)), 1
    elif isinstance(n, int):
        gap = n - 1 if (slope > 0) == (call.function is Function.FLOORDIV) else 0
        sign = 1 if call.function is Function.CEILDIV else -1
        yield rest * n + slope * (x + sign * gap), n
    if not is_nonnegative(x, chart):
        return
    if slope < 0 and call.function is not Function.CEILDIV:
        yield rest + slope * x, 1
    elif slope > 0 and call.function is not Function.MOD:
        yield rest, 1
