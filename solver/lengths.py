"""What makes an expression a length: the claims under which it is at least 1, as plain as can be.

n - 5            n - 5 >= 1
n//2             n >= 2
n % 4            n % 4 != 0
max(0, n - 5)    n - 5 >= 1
min(n, s - 2)    n >= 1, s - 2 >= 1
"""

from __future__ import annotations

from collections.abc import Iterator

from dimsolve.ir.expression import Comparison

from .algebra.dims import Call, Function, surely_positive
from .algebra.poly import UNIT, Dim, symbol, terms_of
from .proof.claims import Claim


def at_least(dim: Dim, least: Dim) -> Iterator[Claim]:
    """Yields claims that hold together exactly where ``dim >= least``.

    >>> from dimsolve.solver.shapes import to_dim
    >>> [str(claim) for claim in at_least(to_dim("2*(n//3) - 1"), 1)]
    ['n >= 3']
    """
    line = _line_in_call(dim)
    if line is None or not isinstance(least, int):
        yield Claim(dim, Comparison.GE, least)
        return
    slope, call, offset = line
    bound = -((offset - least) // slope)
    match call.function:
        case Function.FLOORDIV if surely_positive(call.arguments[1]):
            dividend, divisor = call.arguments
            yield from at_least(dividend, divisor * bound)
        case Function.CEILDIV if surely_positive(call.arguments[1]):
            dividend, divisor = call.arguments
            yield from at_least(dividend, divisor * (bound - 1) + 1)
        case Function.MOD if bound == 1 and surely_positive(call.arguments[1]):
            yield Claim(symbol(call), Comparison.NE, 0)
        case Function.MIN:
            for argument in call.arguments:
                yield from at_least(argument, bound)
        case Function.MAX:
            yield from _any_at_least(call, bound)
        case _:
            yield Claim(symbol(call), Comparison.GE, bound)


def _any_at_least(call: Call, least: int) -> Iterator[Claim]:
    """A maximum: a number in it decides at once, or says nothing."""
    open_ = [dim for dim in call.arguments if not isinstance(dim, int)]
    if any(isinstance(dim, int) and dim >= least for dim in call.arguments):
        return
    if len(open_) == 1:
        yield from at_least(open_[0], least)
    else:
        yield Claim(symbol(call), Comparison.GE, least)


def _line_in_call(dim: Dim) -> tuple[int, Call, int] | None:
    """(a, call, b) where the dim is a*call + b with a positive; None for another form."""
    terms = dict(terms_of(dim))
    offset = terms.pop(UNIT, 0)
    if len(terms) != 1:
        return None
    ((monomial, slope),) = terms.items()
    if slope < 1 or len(monomial) != 1 or monomial[0][1] != 1:
        return None
    call = monomial[0][0]
    return (slope, call, offset) if isinstance(call, Call) else None
