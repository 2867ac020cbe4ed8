"""Dimension expressions and relations between them, as they were written.

``8*s``, ``(n + 1)//2`` and ``k % 64 == 0`` are read (`dimsolve.ir.read_expression`) into these
frozen trees. A tree is only what was written: what it means, its canonical form and all arithmetic
live in `dimsolve.solver.dims`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from .span import Span


class Operator(Enum):
    """The closed set of operations; ``//`` rounds down and ``%`` has the sign of its divisor."""

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

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Name:
    """A symbol: a positive integer that is not known yet."""

    name: str
    span: Span = field(compare=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator and its operands: one for NEGATE, two or more for MIN and MAX, else two.

    The exponent of POWER is always a `Literal`.
    """

    operator: Operator
    operands: tuple[Expression, ...]
    span: Span = field(compare=False)

    def __str__(self) -> str:
        """Returns the text with no more brackets than reading it back to an equal tree needs."""
        match self.operator:
            case Operator.MIN | Operator.MAX | Operator.CEILDIV:
                return (
                    f"{self.operator.value}({', '.join(str(operand) for operand in self.operands)})"
                )
            case Operator.NEGATE:
                return f"-{_bracketed(self.operands[0], _binding(self))}"
            case Operator.POWER:
                base, exponent = self.operands
                return f"{_bracketed(base, _ATOM)}**{exponent}"
            case _:
                left, right = self.operands
                own = _binding(self)
                sign = self.operator.value
                space = "" if sign in _TIGHT else " "
                return f"{_bracketed(left, own)}{space}{sign}{space}{_bracketed(right, own + 1)}"


Expression = Literal | Name | Operation

_ATOM = 5
_BINDING = {
    Operator.ADD: 1,
    Operator.SUBTRACT: 1,
    Operator.MULTIPLY: 2,
    Operator.FLOORDIV: 2,
    Operator.MOD: 2,
    Operator.NEGATE: 3,
    Operator.POWER: 4,
}
"""How tightly an operation binds; functions bind like atoms."""
_TIGHT = ("*", "//")


def _binding(expression: Expression) -> int:
    return _BINDING.get(expression.operator, _ATOM) if isinstance(expression, Operation) else _ATOM


def _bracketed(expression: Expression, binding: int) -> str:
    """Returns the text, in brackets where it binds less tightly than its place asks for."""
    return f"({expression})" if _binding(expression) < binding else str(expression)


@dataclass(frozen=True, slots=True)
class Relation:
    """``left == right`` and its kin: a fact, a claim or a condition. ``text`` is what was read."""

    left: Expression
    comparison: Comparison
    right: Expression
    text: str = field(compare=False)
    span: Span = field(compare=False)

    def __str__(self) -> str:
        return f"{self.left} {self.comparison.value} {self.right}"
