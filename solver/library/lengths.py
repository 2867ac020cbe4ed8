"""Questions about lengths that a declaration asks, with a cheap answer for numbers and a proof for
symbols.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache, reduce
from math import gcd

from dimsolve.ir.expression import Comparison
from dimsolve.solver.algebra.dims import floor_div
from dimsolve.solver.algebra.poly import Dim, Poly, content, divide_exactly, terms_of

from . import errors
from .needs import GE, need, need_multiple


def never_equal(a: Dim, b: Dim) -> bool:
    """Whether two lengths differ for all values of the symbols.

    >>> from dimsolve.solver.algebra.poly import symbol
    >>> never_equal(symbol("s"), symbol("s") + 1), never_equal(symbol("s"), 2)
    (True, False)
    """
    if isinstance(a, int) and isinstance(b, int):
        return a != b
    return a != b and _never(a, Comparison.EQ, b)


def at_least(a: Dim, b: Dim) -> bool:
    """Whether a >= b is proved for all values of the symbols.

    >>> from dimsolve.solver.algebra.poly import symbol
    >>> at_least(symbol("s"), 1), at_least(symbol("s"), 2)
    (True, False)
    """
    if isinstance(a, int) and isinstance(b, int):
        return a >= b
    return a == b or _always(a, Comparison.GE, b)


def less(a: Dim, b: Dim) -> bool:
    """Whether a < b is proved for all values of the symbols."""
    return at_least(b, a + 1)


@lru_cache(maxsize=4096)
def _never(a: Dim, comparison: Comparison, b: Dim) -> bool:
    from dimsolve.solver.decision import Never
    from dimsolve.solver.proof.facts import NO_FACTS
    from dimsolve.solver.proof.prove import decide

    return isinstance(decide(a, comparison, b, NO_FACTS), Never)


@lru_cache(maxsize=4096)
def _always(a: Dim, comparison: Comparison, b: Dim) -> bool:
    from dimsolve.solver.decision import Always
    from dimsolve.solver.proof.facts import NO_FACTS
    from dimsolve.solver.proof.prove import decide

    return isinstance(decide(a, comparison, b, NO_FACTS), Always)


def quotient(what: str, length: Dim, divisor: Dim) -> Dim:
    """Returns length / divisor, which is whole: the call needs it to be where symbols decide.

    Raises ShapeError for numbers where it is not.
    """
    refusal = errors.not_a_multiple(what, length, divisor)
    need(divisor, GE, 1, refusal)
    exact = divide_exactly(length, divisor)
    if exact is not None:
        return exact
    need_multiple(length, divisor, refusal)
    return floor_div(length, divisor)


def common_divisor(lengths: Iterable[Dim]) -> Dim:
    """Returns a length that divides all of them for every value: the greatest for numbers and for
    single terms.

    >>> from dimsolve.solver.algebra.poly import symbol
    >>> s, k = symbol("s"), symbol("k")
    >>> common_divisor([12, 8]), common_divisor([6 * s, 4 * s * k])
    (4, Poly(2*s))
    """
    zero: Dim = 0
    return reduce(_common, lengths, zero)


def _common(a: Dim, b: Dim) -> Dim:
    if a == 0 or b == 0 or a == b:
        return b if a == 0 else a
    if isinstance(a, int) and isinstance(b, int):
        return gcd(a, b)
    for large, small in ((a, b), (b, a)):
        if divide_exactly(large, small) is not None:
            return small
    number = gcd(content(a), content(b))
    shared = [dict(monomial) for dim in (a, b) for monomial in terms_of(dim)]
    powers = {
        atom: min(powers.get(atom, 0) for powers in shared)
        for atom in shared[0]
        if all(atom in p for p in shared)
    }
    monomial = tuple(sorted(powers.items()))
    return Poly({monomial: number}) if monomial else number
