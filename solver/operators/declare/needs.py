"""What a call requires of its lengths beyond its annotation: checked for numbers, kept for symbols.

An annotation says which lengths are equal. That three of ``m`` columns can only be the greatest
where ``m >= 3``, or that ``n`` and ``m`` broadcast only where they are equal or one of them is 1,
is said while the call is declared, beside the lengths that follow from it:

    topk(x: (n, m), 3)      need(m, GE, 3)           a condition of the graph
    topk(x: (4, 2), 3)      need(2, GE, 3, error)    raises the error

Questions about lengths (`at_least`, `never_equal`) compare numbers, and prove for symbols.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache, reduce
from math import gcd
from typing import assert_never

from dimsolve.ir.errors import ShapeError
from dimsolve.ir.expression import Comparison
from dimsolve.ir.operator import Declaration

from ...algebra.dims import Call, Function, floor_div, mod
from ...algebra.evaluation import COMPARE
from ...algebra.poly import UNIT, Dim, Poly, content, divide_exactly, product, terms_of
from ...proof.claims import Claim
from . import errors

EQ, NE, LE, LT, GE, GT = (
    Comparison.EQ,
    Comparison.NE,
    Comparison.LE,
    Comparison.LT,
    Comparison.GE,
    Comparison.GT,
)

_NEEDS: ContextVar[list[Claim] | None] = ContextVar("needs", default=None)


@contextmanager
def collecting() -> Iterator[list[Claim]]:
    """Gives the list to which everything that is needed inside is added."""
    needs: list[Claim] = []
    token = _NEEDS.set(needs)
    try:
        yield needs
    finally:
        _NEEDS.reset(token)


def with_needs(declaration: Declaration, needs: Sequence[Claim]) -> Declaration:
    """Returns the declaration with what the call needs, each claim once."""
    if not needs:
        return declaration
    return replace(declaration, needs=tuple(dict.fromkeys((*declaration.needs, *needs))))


def need(
    left: Dim, comparison: Comparison, right: Dim, otherwise: ShapeError | None = None
) -> None:
    """Says that a comparison of lengths must hold for the call.

    Raises ``otherwise`` for numbers that break it; what holds at a glance is not kept.

    >>> from dimsolve.solver.algebra.poly import symbol
    >>> with collecting() as needs:
    ...     need(symbol("m"), GE, 3)
    ...     need(symbol("m"), GE, 1)
    >>> print(*needs)
    m >= 3
    """
    if isinstance(left, int) and isinstance(right, int):
        if not COMPARE[comparison](left, right):
            raise otherwise or errors.does_not_hold(left, comparison.value, right)
        return
    needs = _NEEDS.get()
    if needs is not None and not _holds_at_a_glance(left, comparison, right):
        needs.append(Claim(left, comparison, right))


def need_multiple(length: Dim, divisor: Dim, otherwise: ShapeError | None = None) -> None:
    """Says that a length is a multiple of another."""
    if divisor == 0:
        raise otherwise or errors.does_not_hold(length, "%", divisor)
    need(mod(length, divisor), EQ, 0, otherwise)


def need_equal_or_one(a: Dim, b: Dim, *, one: Sequence[Dim]) -> None:
    """Says that a == b, or that one of ``one`` is 1, as one equation."""
    if a == b or 1 in one:
        return
    if b == 1:
        need(a, EQ, 1)
    else:
        need(product([a - b, *[length - 1 for length in one]]), EQ, 0)


def _holds_at_a_glance(left: Dim, comparison: Comparison, right: Dim) -> bool:
    """Whether a comparison holds because symbols are positive, or both sides are the same."""
    if left == right:
        return comparison in (EQ, LE, GE)
    match comparison:
        case Comparison.GE:
            rest = left - right
        case Comparison.LE:
            rest = right - left
        case Comparison.GT:
            rest = left - right - 1
        case Comparison.LT:
            rest = right - left - 1
        case _:
            return False
    return _least(rest) >= 0


def _least(dim: Dim) -> int:
    """A lower bound of a sum of positive terms; -1 where it has others."""
    terms = terms_of(dim)
    total = terms.get(UNIT, 0)
    for monomial, coefficient in terms.items():
        if monomial == UNIT:
            continue
        if coefficient < 0:
            return -1
        least = [_least_atom(atom) for atom, _ in monomial]
        if min(least) < 0:
            return -1
        total += coefficient * min(1, *least)
    return total


def _least_atom(atom: str) -> int:
    """1 for a symbol; 0 for a call that is never negative; -1 where that is not seen."""
    if not isinstance(atom, Call):
        return 1
    match atom.function:
        case Function.MIN:
            return 0 if all(_least(argument) >= 0 for argument in atom.arguments) else -1
        case Function.MAX:
            return 0 if any(_least(argument) >= 0 for argument in atom.arguments) else -1
        case Function.MOD:
            return 0 if _least(atom.arguments[1]) >= 1 else -1
        case Function.FLOORDIV | Function.CEILDIV:
            a, b = atom.arguments
            return 0 if _least(a) >= 0 and _least(b) >= 1 else -1
        case _:
            assert_never(atom.function)


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
    from ...proof.facts import NO_FACTS
    from ...proof.prove import decide
    from ...proof.verdict import Never

    return isinstance(decide(a, comparison, b, NO_FACTS), Never)


@lru_cache(maxsize=4096)
def _always(a: Dim, comparison: Comparison, b: Dim) -> bool:
    from ...proof.facts import NO_FACTS
    from ...proof.prove import decide
    from ...proof.verdict import Always

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
