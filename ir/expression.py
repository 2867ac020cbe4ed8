"""Dimension expressions and relations between them, as they were written.

``8*s``, ``(n + 1)//2`` and ``k % 64 == 0`` are read (`dimsolve.ir.read_expression`) into these frozen trees.
A tree is only what was written: what it means, its canonical form and all arithmetic live in
`dimsolve.solver.dims`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from .span import Span


class Operator(Enum):
    """The closed set of operations. ``//`` rounds down and ``%`` has the sign of its divisor, as in Python."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    FLOORDIV = "//"
    MOD = "%"
    POWER = "**"
    NEGATE = "neg"
    MIN = "min"
    MAX = "max"
    CEILDIV = "ceildiv"


class Comparison(Enum):
    """How the two sides of a relation compare."""

    EQ = "=="
    NE = "!="
    LE = "<="
    LT = "<"
    GE = ">="
    GT = ">"


@dataclass(frozen=True, slots=True)
class Literal:
    """An integer that is written out; never negative (``-3`` is NEGATE of 3)."""

    value: int
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Name:
    """A symbol: a positive integer that is not known yet."""

    name: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator and its operands: one for NEGATE, two or more for MIN and MAX, two for the others.

    The exponent of POWER is always a `Literal`.
    """

    operator: Operator
    operands: tuple[Expression, ...]
    span: Span = field(compare=False)


Expression = Literal | Name | Operation


@dataclass(frozen=True, slots=True)
class Relation:
    """``left == right`` and its kin: a fact, a claim or a condition. ``text`` is what was read."""

    left: Expression
    comparison: Comparison
    right: Expression
    text: str = field(compare=False)
    span: Span = field(compare=False)
