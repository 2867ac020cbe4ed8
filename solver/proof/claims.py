"""A claim between two lengths, in canonical form: what facts, questions and conditions are made of.

``Claim(8*s, EQ, n)`` is a `Relation` whose sides are Dims. Every comparison of integers is one of
three: ``p >= 0``, ``p == 0``, ``p != 0``; `Sign` names them and `difference` brings a claim to one.

    a < b    ->  b - a - 1 >= 0          k % 8 == 0   ->  (k % 8) == 0

A claim, or a fact, holds where it has a value and is true. It has a value everywhere but where a
divisor that is written in it is 0:

    a % (n - 3) == 0       asks that n - 3 is not 0
    a // (b // c) >= 0     asks that c is not 0, and then that b//c is not 0
    0*(a // (n - 3)) == 0  asks for n - 3 too: what is written counts, not what is left of it

A negative divisor rounds as in Python: ``7 // (-2) == -4`` and ``7 % (-2) == -1``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from dimsolve.ir.expression import (
    Comparison,
    Expression,
    Literal,
    Name,
    Operation,
    Operator,
    Relation,
)

from ..algebra.dims import (
    Call,
    Function,
    evaluate,
    from_expression,
    line_in_call,
    surely_positive,
    symbols_of,
)
from ..algebra.evaluation import COMPARE, Test, Valuation, valuation
from ..algebra.poly import Dim, Poly, TooLarge, divide_exactly, symbol


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
        line = line_in_call(self.left) if self.comparison is Comparison.EQ else None
        if line is None or self.right != 0 or abs(line[0]) != 1 or line[2]:
            return None
        dividend, divisor = line[1].arguments[:2]
        return (divisor, dividend) if line[1].function is Function.MOD else None

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

    >>> p, sign = difference(Claim(symbol("a"), Comparison.LT, symbol("b")))
    >>> str(p), sign.value
    ('-a + b - 1', '>= 0')
    """
    left, right = claim.left, claim.right
    match claim.comparison:
        case Comparison.EQ:
            dim, sign = left - right, Sign.ZERO
        case Comparison.NE:
            dim, sign = left - right, Sign.NONZERO
        case Comparison.GE:
            dim, sign = left - right, Sign.NONNEGATIVE
        case Comparison.GT:
            dim, sign = left - right - 1, Sign.NONNEGATIVE
        case Comparison.LE:
            dim, sign = right - left, Sign.NONNEGATIVE
        case Comparison.LT:
            dim, sign = right - left - 1, Sign.NONNEGATIVE
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


_DIVIDE = (Operator.FLOORDIV, Operator.MOD, Operator.CEILDIV)


def divisors_of(relation: Relation) -> Iterator[Expression]:
    """Yields the divisors that are written and are not numbers or names, the inner ones first."""
    for side in (relation.left, relation.right):
        found: list[Expression] = []
        todo = [side]
        while todo:
            node = todo.pop()
            if isinstance(node, Operation):
                if node.operator in _DIVIDE and not isinstance(node.operands[1], Literal | Name):
                    found.append(node.operands[1])
                todo.extend(node.operands)
        yield from reversed(found)


def claims_of_value(relation: Relation) -> tuple[Claim, ...]:
    """Returns the claims that hold together exactly where the relation has a value.

    Divisors that are positive because the symbols are need no claim. Raises ZeroDivisionError
    where a divisor is 0 whatever the symbols are, `solver.poly.TooLarge` past the limits.

    >>> from dimsolve.ir.read_expression import read_relation
    >>> [str(claim) for claim in claims_of_value(read_relation("a % (n - 3) == b//(b + 1)"))]
    ['n - 3 != 0']
    """
    divisors = tuple(divisors_of(relation))
    return _claims_of(divisors) if divisors else ()


@lru_cache(maxsize=512)
def _claims_of(divisors: tuple[Expression, ...]) -> tuple[Claim, ...]:
    found: dict[Dim, Claim] = {}
    for written in divisors:
        divisor = from_expression(written)
        if divisor == 0:
            raise ZeroDivisionError
        if not is_surely_positive(divisor) and -divisor not in found:
            found[divisor] = Claim(divisor, Comparison.NE, 0)
    return tuple(found.values())


def is_surely_positive(dim: Dim) -> bool:
    """Whether a polynomial in symbols has no minus: it is at least 1. Numbers need no claim."""
    return isinstance(dim, int) or surely_positive(dim)


def zero_divisor(relation: Relation, values: Mapping[str, int]) -> Expression | None:
    """Returns the first written divisor that is 0 at these values; None where there is none.

    >>> from dimsolve.ir.read_expression import read_relation
    >>> str(zero_divisor(read_relation("a % (n - 3) == 0"), {"a": 1, "n": 3}))
    'n - 3'
    """
    for written, value in _valuations(relation, relation.text):
        try:
            if value(values) == 0:
                return written
        except TooLarge:
            continue
    return None


@lru_cache(maxsize=128)
def _valuations(relation: Relation, text: str) -> tuple[tuple[Expression, Valuation], ...]:
    """The divisors as they stand in this text: an equal relation may be spelled otherwise."""
    return tuple((written, valuation(written)) for written in divisors_of(relation))


def has_value(relations: Iterable[Relation]) -> Test:
    """Returns a test of whether all relations have a value; None past the limits."""
    divisors = [
        value for relation in relations for _, value in _valuations(relation, relation.text)
    ]

    def test(values: Mapping[str, int]) -> bool | None:
        try:
            return all(value(values) for value in divisors)
        except ZeroDivisionError:
            return False
        except TooLarge:
            return None

    return test
