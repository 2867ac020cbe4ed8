"""From what was written to canonical lengths.

    (4*a + 7)//4  ->  a + 1          max(a, 3, 2, a)  ->  max(3, a)

The work is counted: text is short, and what it stands for need not be.
"""

from __future__ import annotations

from typing import assert_never

from dimsolve.ir.expression import Expression, Literal, Name, Operation, Operator, terms

from .budget import Budget, OutOfBudgetError
from .dims import ceil_div, floor_div, maximum, minimum, mod
from .monomials import Monomial
from .poly import MAX_BITS, MAX_TERMS, Dim, TooLarge, build, symbol, terms_of

READ_STEPS = 12_000


def from_expression(expression: Expression) -> Dim:
    """Returns the canonical Dim of what was written.

    Raises ZeroDivisionError for a division by a constant 0 and `solver.poly.TooLarge` past its
    limits.
    """
    try:
        return _from_expression(expression, Budget(READ_STEPS))
    except OutOfBudgetError:
        raise TooLarge from None


def _from_expression(expression: Expression, budget: Budget) -> Dim:
    match expression:
        case Literal(value):
            return value
        case Name(name):
            return symbol(name)
        case Operation(Operator.ADD | Operator.SUBTRACT):
            return _sum(expression, budget)
        case Operation(operator, operands):
            dims = [_from_expression(operand, budget) for operand in operands]
            budget.spend(sum(_size(dim) for dim in dims))
            return _from_operation(operator, dims, budget)
        case _:
            assert_never(expression)


def _sum(expression: Expression, budget: Budget) -> Dim:
    """All terms at once: adding them one by one would copy the sum at each."""
    total: dict[Monomial, int] = {}
    for sign, term in terms(expression):
        dim = _from_expression(term, budget)
        budget.spend(_size(dim))
        for monomial, coefficient in terms_of(dim).items():
            part = coefficient if sign is Operator.ADD else -coefficient
            total[monomial] = total.get(monomial, 0) + part
    if len(total) > MAX_TERMS:
        raise TooLarge
    return build({monomial: c for monomial, c in total.items() if c})


def _size(dim: Dim) -> int:
    return 1 if isinstance(dim, int) else len(dim.terms)


def _from_operation(operator: Operator, operands: list[Dim], budget: Budget) -> Dim:
    match operator:
        case Operator.ADD | Operator.SUBTRACT:
            raise AssertionError(operator)
        case Operator.MULTIPLY:
            return _times(operands[0], operands[1], budget)
        case Operator.NEGATE:
            return -operands[0]
        case Operator.POWER:
            return _power(operands[0], operands[1], budget)
        case Operator.FLOORDIV:
            return floor_div(*operands)
        case Operator.MOD:
            return mod(*operands)
        case Operator.CEILDIV:
            return ceil_div(*operands)
        case Operator.MIN:
            return minimum(*operands)
        case Operator.MAX:
            return maximum(*operands)
        case _:
            assert_never(operator)


def _power(base: Dim, exponent: Dim, budget: Budget) -> Dim:
    assert isinstance(exponent, int)
    result: Dim = 1
    for _ in range(exponent):
        result = _times(result, base, budget)
    return result


def _times(a: Dim, b: Dim, budget: Budget) -> Dim:
    budget.spend(_size(a) * _size(b))
    result = a * b
    if isinstance(result, int) and result.bit_length() > MAX_BITS:
        raise TooLarge
    return result
