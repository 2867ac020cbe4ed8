"""Integers computed from sizes: ``x.size(0) * 2`` is the length ``2*n``, a symbol like any other.

A Python operator on numbers is folded where all of them are known lengths, so that sizes stay exact
through any arithmetic. What cannot be expressed (a true division, a number that only running can
tell) is a number without a value.

    _operator.floordiv(n, 2)    int n//2         _operator.truediv(n, 2)    float
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from dimsolve.ir.expression import Comparison
from dimsolve.ir.types import ScalarType

from ..algebra.dims import ceil_div, floor_div, maximum, minimum, mod
from ..algebra.poly import Dim, Poly
from ..proof.claims import Claim
from ..proof.facts import Facts
from ..proof.prove import decide
from ..proof.verdict import Always, Never
from .deduction import SomeNumber

FOLD: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "iadd": operator.add,
    "sub": operator.sub,
    "isub": operator.sub,
    "mul": operator.mul,
    "imul": operator.mul,
    "floordiv": floor_div,
    "ifloordiv": floor_div,
    "floor_divide": floor_div,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "remainder": mod,
    "maximum": maximum,
    "minimum": minimum,
    "mod": mod,
    "imod": mod,
    "neg": operator.neg,
    "pos": operator.pos,
    "index": lambda a: a,
    "int": lambda a: a,
    "min": minimum,
    "max": maximum,
    "sym_min": minimum,
    "sym_max": maximum,
    "sym_int": lambda a: a,
    "cdiv": ceil_div,
    "ceildiv": ceil_div,
    "floor": lambda a: a,
    "ceil": lambda a: a,
    "trunc": lambda a: a,
}
"""Functions of whole numbers that have a value as a length."""

COMPARE: dict[str, Comparison] = {
    "eq": Comparison.EQ,
    "ne": Comparison.NE,
    "le": Comparison.LE,
    "lt": Comparison.LT,
    "ge": Comparison.GE,
    "gt": Comparison.GT,
}

_BOOLS = frozenset({"not_", "sym_not", "and_", "or_", "bool", *COMPARE})
_REALS = frozenset(
    {
        "atan2",
        "true_divide",
        "divide",
        "div",
        "truediv",
        "itruediv",
        "float",
        "sym_float",
        "sqrt",
        "sym_sqrt",
        "log2",
    }
)


def is_number(value: object) -> bool:
    """Whether the value is a number: known, symbolic, or known only to be one."""
    return isinstance(value, int | float | Poly)


def fold(path: str, args: tuple[Any, ...], facts: Facts) -> ScalarType | None:
    """Returns the type of a Python operator's result on numbers; None where it is no such operator.

    >>> from dimsolve.solver.proof.facts import NO_FACTS
    >>> from dimsolve.solver.algebra.poly import symbol
    >>> str(fold("_operator.mul", (symbol("n"), 2), NO_FACTS))
    'int 2*n'
    """
    name = path.rpartition(".")[2]
    if len(args) == 1 and isinstance(args[0], tuple | list):
        args = tuple(args[0])
    if not args or not all(is_number(argument) for argument in args):
        return None
    whole = all(isinstance(a, int | Poly) and not isinstance(a, bool) for a in args)
    if whole and name in FOLD:
        try:
            return ScalarType("int", FOLD[name](*args))
        except (ZeroDivisionError, TypeError):
            return None
    if name == "pow" and whole and isinstance(args[1], int) and 0 <= args[1] <= 16:
        return ScalarType("int", _power(args[0], args[1]))
    if whole and name in COMPARE and len(args) == 2:
        return ScalarType("bool", _compared(args[0], COMPARE[name], args[1], facts))
    if name in _BOOLS:
        return ScalarType("bool")
    if name in _REALS or name in FOLD or name == "pow":
        unknown_int = all(isinstance(a, int) or _is_some_int(a) for a in args) and name in FOLD
        return ScalarType("int" if unknown_int else "float")
    return None


def _is_some_int(value: object) -> bool:
    return isinstance(value, Poly) or (isinstance(value, SomeNumber) and value.dtype_name == "int")


def _power(base: Dim, exponent: int) -> Dim:
    result: Dim = base**exponent
    return result


def _compared(left: Dim, comparison: Comparison, right: Dim, facts: Facts) -> int | None:
    """1 where the comparison always holds, 0 where it never does, None where it depends."""
    claim = Claim(left, comparison, right)
    decision = decide(claim.left, claim.comparison, claim.right, facts)
    if isinstance(decision, Always):
        return 1
    return 0 if isinstance(decision, Never) else None
