"""What makes an expression a length: the claims under which it is at least 1, as plain as can be.

n - 5            n - 5 >= 1              n % 4            n % 4 != 0
n//2             n >= 2                  max(0, n - 5)    n - 5 >= 1
min(n, s - 2)    n >= 1, s - 2 >= 1      8//(n - 1)       n - 1 != 0, 8//(n - 1) >= 1
"""

from __future__ import annotations

from collections.abc import Iterator

from dimsolve.ir.expression import Comparison

from .algebra.dims import Call, Function, line_in_call, surely_positive
from .algebra.poly import Dim, atoms_of, symbol
from .proof.claims import Claim

_DIVISIONS = (Function.FLOORDIV, Function.MOD, Function.CEILDIV)


def has_value(dim: Dim) -> Iterator[Claim]:
    """Yields claims that hold together exactly where no divisor in the dim is 0.

    >>> from dimsolve.solver.shapes import to_dim
    >>> [str(claim) for claim in has_value(to_dim("8//(n - 1) + n//2"))]
    ['n - 1 != 0']
    """
    for atom in sorted(atoms_of(dim)):
        if not isinstance(atom, Call):
            continue
        for argument in atom.arguments:
            yield from has_value(argument)
        divisor = atom.arguments[-1]
        if atom.function in _DIVISIONS and not surely_positive(divisor):
            yield Claim(divisor, Comparison.NE, 0)


def is_length(dim: Dim) -> Iterator[Claim]:
    """Yields claims that hold together exactly where the dim has a value and is at least 1."""
    if not surely_positive(dim):
        yield from has_value(dim)
        yield from at_least(dim, 1)


def at_least(dim: Dim, least: Dim) -> Iterator[Claim]:
    """Yields claims that hold together exactly where ``dim >= least``, if it has a value.

    >>> from dimsolve.solver.shapes import to_dim
    >>> [str(claim) for claim in at_least(to_dim("2*(n//3) - 1"), 1)]
    ['n >= 3']
    """
    line = line_in_call(dim)
    if line is None or line[0] < 1 or not isinstance(least, int):
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
