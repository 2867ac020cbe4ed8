"""Where does a claim have a value? Everywhere but where a divisor that is written in it is 0.

    a % (n - 3) == 0       asks that n - 3 is not 0
    a // (b // c) >= 0     asks that c is not 0, and then that b//c is not 0
    0*(a // (n - 3)) == 0  asks for n - 3 too: what is written counts, not what is left of it

A claim holds where it has a value and is true, and so does a fact. A negative divisor has a value,
rounded as Python rounds: ``7 // (-2) == -4`` and ``7 % (-2) == -1``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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

from ..algebra.canonical import from_expression
from ..algebra.dims import Call
from ..algebra.evaluation import Test, Valuation, valuation
from ..algebra.poly import Dim, TooLarge, atoms_of, terms_of
from .claims import Claim

_DIVIDE = (Operator.FLOORDIV, Operator.MOD, Operator.CEILDIV)


def divisors_of(relation: Relation) -> Iterator[Expression]:
    """Yields the divisors that are written and are not numbers or names, the inner ones first."""
    yield from _divisors(relation.left)
    yield from _divisors(relation.right)


def _divisors(expression: Expression) -> Iterator[Expression]:
    found: list[Expression] = []
    todo = [expression]
    while todo:
        node = todo.pop()
        if not isinstance(node, Operation):
            continue
        if node.operator in _DIVIDE and not isinstance(node.operands[1], Literal | Name):
            found.append(node.operands[1])
        todo.extend(node.operands)
    return reversed(found)


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
    return isinstance(dim, int) or (
        all(c > 0 for c in terms_of(dim).values())
        and not any(isinstance(atom, Call) for atom in atoms_of(dim))
    )


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
    """Returns whether all of the relations have a value, as a function of the symbols' values; None
    where that is past the limits.
    """
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
