"""What a written relation says at given integers, exactly, with nothing rewritten.

A counterexample is returned only after it has been put into the claim and the facts *as written*.
So this file walks the trees of `dimsolve.ir.expression` and shares no code with the canonical forms
that proofs work on. An expression has no value where a divisor is 0; a relation has none where a
side has none.

    7 % 2 == 0  is False        a // (a - 1) == 1  has no value at a = 1
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import eq, floordiv, ge, gt, le, lt, mod, mul, ne
from typing import TypeAlias, assert_never

from dimsolve.ir.expression import (
    Comparison,
    Expression,
    Literal,
    Name,
    Operation,
    Operator,
    Relation,
    terms,
)

from .poly import MAX_BITS, TooLarge

Values: TypeAlias = Mapping[str, int]
Valuation: TypeAlias = Callable[[Values], int]
Test: TypeAlias = Callable[[Values], "bool | None"]

COMPARE: dict[Comparison, Callable[[int, int], bool]] = {
    Comparison.EQ: eq,
    Comparison.NE: ne,
    Comparison.LE: le,
    Comparison.LT: lt,
    Comparison.GE: ge,
    Comparison.GT: gt,
}


def _ceildiv(a: int, b: int) -> int:
    return -(-a // b)


BINARY: dict[Operator, Callable[[int, int], int]] = {
    Operator.MULTIPLY: mul,
    Operator.FLOORDIV: floordiv,
    Operator.MOD: mod,
    Operator.CEILDIV: _ceildiv,
}


def _power(base: int, exponent: int) -> int:
    if base.bit_length() * exponent > 8 * MAX_BITS:
        raise TooLarge
    return int(base**exponent)


def valuation(expression: Expression) -> Valuation:
    """Returns the function from symbol values to the expression's value.

    It raises ZeroDivisionError where there is none, and `solver.poly.TooLarge` for powers past the
    limit.
    """
    match expression:
        case Literal(value):
            return lambda _: value
        case Name(name):
            return lambda values: values[name]
        case Operation(Operator.ADD | Operator.SUBTRACT):
            return _sum([(sign, valuation(term)) for sign, term in terms(expression)])
        case Operation(operator, operands):
            parts = tuple(valuation(operand) for operand in operands)
            return _operation(operator, parts)
        case _:
            assert_never(expression)


def _sum(parts: list[tuple[Operator, Valuation]]) -> Valuation:
    if len(parts) == 2:
        (_, left), (sign, right) = parts
        if sign is Operator.ADD:
            return lambda values: left(values) + right(values)
        return lambda values: left(values) - right(values)
    signed = [(1 if sign is Operator.ADD else -1, part) for sign, part in parts]
    return lambda values: sum([sign * part(values) for sign, part in signed])


def _operation(operator: Operator, parts: tuple[Valuation, ...]) -> Valuation:
    if operator in BINARY:
        compute, (left, right) = BINARY[operator], parts
        return lambda values: compute(left(values), right(values))
    match operator:
        case Operator.NEGATE:
            return lambda values: -parts[0](values)
        case Operator.POWER:
            return lambda values: _power(parts[0](values), parts[1](values))
        case Operator.MIN:
            return lambda values: min(part(values) for part in parts)
        case Operator.MAX:
            return lambda values: max(part(values) for part in parts)
        case _:
            raise AssertionError(operator)


@lru_cache(maxsize=512)
def predicate_of(relation: Relation) -> Test:
    """Returns the function from symbol values to what the relation says there.

    It gives None where a side has no value, or one past the limits.

    >>> from dimsolve.ir.read_expression import read_relation
    >>> test = predicate_of(read_relation("a // (a - 1) == 2"))
    >>> test({"a": 2}), test({"a": 1}), test({"a": 3})
    (True, None, False)
    """
    left, right = valuation(relation.left), valuation(relation.right)
    compare = COMPARE[relation.comparison]

    def test(values: Values) -> bool | None:
        try:
            return compare(left(values), right(values))
        except (ZeroDivisionError, TooLarge):
            return None

    return test


def names_of(expression: Expression) -> frozenset[str]:
    """Returns the symbols that occur in an expression."""
    found: set[str] = set()
    todo = [expression]
    while todo:
        node = todo.pop()
        match node:
            case Literal():
                pass
            case Name(name):
                found.add(name)
            case Operation(_, operands):
                todo.extend(operands)
            case _:
                assert_never(node)
    return frozenset(found)
