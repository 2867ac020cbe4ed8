"""Dimension expressions and relations between them, as they were written.

``8*s``, ``(n + 1)//2`` and ``k % 64 == 0`` are read (`dimsolve.ir.read_expression`) into these
frozen trees. A tree is only what was written: what it means, its canonical form and all arithmetic
live in `dimsolve.solver.algebra.dims`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from .errors import Span


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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Operation:
    """An operator and its operands: one for NEGATE, two or more for MIN and MAX, else two.

    The exponent of POWER is always a `Literal`. A sum of a thousand terms is a thousand sums, each
    the left operand of the next: what looks at trees takes the `terms` of a sum, and recurses into
    those.
    """

    operator: Operator
    operands: tuple[Expression, ...]
    span: Span

    def __eq__(self, other: object) -> bool:
        """Whether the same was written; where it stood does not matter."""
        if not isinstance(other, Operation):
            return NotImplemented
        if self.operator not in SUMS or other.operator not in SUMS:
            return self.operator is other.operator and self.operands == other.operands
        return terms(self) == terms(other)

    def __hash__(self) -> int:
        if self.operator not in SUMS:
            return hash((self.operator, self.operands))
        return hash(tuple(terms(self)))

    def __repr__(self) -> str:
        return f"Operation({str(self)!r})"

    def __str__(self) -> str:
        """Returns text that reads back to an equal tree."""
        match self.operator:
            case Operator.ADD | Operator.SUBTRACT:
                (_, first), *others = terms(self)
                shown = [_bracketed(first, 1)]
                for operator, term in others:
                    shown.append(f" {operator.value} {_bracketed(term, 2)}")
                return "".join(shown)
            case Operator.MIN | Operator.MAX | Operator.CEILDIV:
                return (
                    f"{self.operator.value}({', '.join(str(operand) for operand in self.operands)})"
                )
            case Operator.NEGATE:
                return f"-{_bracketed(self.operands[0], _OWN[Operator.NEGATE])}"
            case Operator.POWER:
                base, exponent = self.operands
                return f"{_bracketed(base, _ATOM)}**{exponent}"
            case _:
                left, right = self.operands
                sign, at_left, at_right = _INFIX[self.operator]
                return f"{_bracketed(left, at_left)}{sign}{_bracketed(right, at_right)}"


Expression = Literal | Name | Operation

SUMS = (Operator.ADD, Operator.SUBTRACT)


def terms(expression: Expression) -> list[tuple[Operator, Expression]]:
    """Returns the terms of a sum, each with ADD or SUBTRACT; of what is no sum, itself.

    ``a + b - (c + d)`` has the terms a, b and (c + d). Without recursion: sums are long.
    """
    found: list[tuple[Operator, Expression]] = []
    while isinstance(expression, Operation) and expression.operator in SUMS:
        operator = expression.operator
        expression, last = expression.operands
        found.append((operator, last))
    return [(Operator.ADD, expression), *reversed(found)]


_OWN = {
    Operator.ADD: 1,
    Operator.SUBTRACT: 1,
    Operator.MOD: 2,
    Operator.MULTIPLY: 3,
    Operator.FLOORDIV: 3,
    Operator.NEGATE: 4,
    Operator.POWER: 5,
}
"""How tightly an operation's text holds together. ``%`` is read like ``*``, but the spaces around
it tell the eye otherwise; as a factor it gets brackets: ``(a % 2)*b``."""
_ATOM = 6
_INFIX = {
    Operator.MOD: (" % ", 3, 4),
    Operator.MULTIPLY: ("*", 3, 4),
    Operator.FLOORDIV: ("//", 3, 4),
}
"""Operation -> sign, and how tightly its left and its right operand must hold together."""


def _bracketed(expression: Expression, at_least: int) -> str:
    """Returns the text, in brackets where it holds together less than its place asks for."""
    own = _ATOM
    if isinstance(expression, Operation):
        own = _OWN.get(expression.operator, _ATOM)
    return f"({expression})" if own < at_least else str(expression)


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


def values_text(values: Mapping[str, int]) -> str:
    """Returns the values of symbols as they are shown.

    >>> values_text({"n": 3, "s": 1})
    'n = 3, s = 1'
    """
    return ", ".join(f"{name} = {value}" for name, value in values.items())
