"""A claim between two lengths, in canonical form: what facts, questions and conditions are made of.

``Claim(8*s, EQ, n)`` is a `Relation` whose sides are Dims. Every comparison of integers is one of
three: ``p >= 0``, ``p == 0``, ``p != 0``; `Sign` names them and `difference` brings a claim to one.

    a < b    ->  b - a - 1 >= 0          k % 8 == 0   ->  (k % 8) == 0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from dimsolve.ir.expression import Comparison, Relation

from ..algebra.canonical import from_expression
from ..algebra.dims import Call, Function, evaluate, symbols_of
from ..algebra.evaluation import COMPARE
from ..algebra.poly import Dim, Poly, divide_exactly, symbol


class Sign(Enum):
    """What a claim asks of one integer expression."""

    NONNEGATIVE = ">= 0"
    ZERO = "== 0"
    NONZERO = "!= 0"


NEGATED: dict[Comparison, Comparison] = {
    Comparison.EQ: Comparison.NE,
    Comparison.NE: Comparison.EQ,
    Comparison.LE: Comparison.GT,
    Comparison.LT: Comparison.GE,
    Comparison.GE: Comparison.LT,
    Comparison.GT: Comparison.LE,
}


@dataclass(frozen=True, slots=True)
class Claim:
    """left compared with right, for integers."""

    left: Dim
    comparison: Comparison
    right: Dim

    def __str__(self) -> str:
        return f"{self.left} {self.comparison.value} {self.right}"

    def negated(self) -> Claim:
        """Returns the claim that holds exactly where this one fails."""
        return Claim(self.left, NEGATED[self.comparison], self.right)

    def symbols(self) -> set[str]:
        """Returns the symbols that occur."""
        return symbols_of(self.left) | symbols_of(self.right)

    def divisibility(self) -> tuple[Dim, Dim] | None:
        """Returns (divisor, dividend) where the claim is ``dividend % divisor == 0``."""
        if self.right != 0 or self.comparison is not Comparison.EQ or isinstance(self.left, int):
            return None
        (monomial, coefficient), *more = self.left.terms.items()
        if more or len(monomial) != 1 or abs(coefficient) != 1 or monomial[0][1] != 1:
            return None
        call = monomial[0][0]
        if not isinstance(call, Call) or call.function is not Function.MOD:
            return None
        return call.arguments[1], call.arguments[0]

    def test(self, values: Mapping[str, int]) -> bool | None:
        """Returns what the claim says at these values; None where a side has no value."""
        try:
            left, right = evaluate(self.left, values), evaluate(self.right, values)
        except ZeroDivisionError:
            return None
        return COMPARE[self.comparison](left, right)


@lru_cache(maxsize=512)
def claim_of(relation: Relation) -> Claim:
    """Returns the canonical claim of a written relation.

    Raises ZeroDivisionError for a division by a constant 0 and `solver.poly.TooLarge` past its
    limits.
    """
    return Claim(
        from_expression(relation.left), relation.comparison, from_expression(relation.right)
    )


def difference(claim: Claim) -> tuple[Dim, Sign]:
    """Returns the expression and what is asked of it: the claim holds exactly where the sign does.

    >>> from dimsolve.solver.algebra.poly import symbol
    >>> p, sign = difference(Claim(symbol("a"), Comparison.LT, symbol("b")))
    >>> str(p), sign.value
    ('-a + b - 1', '>= 0')
    """
    dim, sign = _difference(claim)
    return _without_common_symbols(dim), sign


def _without_common_symbols(dim: Dim) -> Dim:
    """Divides by the symbols that all terms share: they are positive, so no sign changes."""
    if isinstance(dim, int) or len(dim.terms) < 2:
        return dim
    shared = set.intersection(*[set(atoms) for atoms in map(dict, dim.terms)])
    for atom in sorted(shared):
        while not isinstance(atom, Call) and isinstance(dim, Poly):
            quotient = divide_exactly(dim, symbol(atom))
            if quotient is None:
                break
            dim = quotient
    return dim


def _difference(claim: Claim) -> tuple[Dim, Sign]:
    left, right = claim.left, claim.right
    match claim.comparison:
        case Comparison.EQ:
            return left - right, Sign.ZERO
        case Comparison.NE:
            return left - right, Sign.NONZERO
        case Comparison.GE:
            return left - right, Sign.NONNEGATIVE
        case Comparison.GT:
            return left - right - 1, Sign.NONNEGATIVE
        case Comparison.LE:
            return right - left, Sign.NONNEGATIVE
        case Comparison.LT:
            return right - left - 1, Sign.NONNEGATIVE
