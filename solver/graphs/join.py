"""Joins of types, and whether one type is another's: per dimension, and honest about symbols.

The join of two types is the most precise type that both are: what they disagree on is lost, and
nothing else.

    join(float32[n, 2], float32[m, 2])        float32[?, 2]
    is_a(float32[n, 2], float32[4, 2])        only if n == 4
    is_a(?[*], float32[n])                    unknown until it runs

A function checks its arguments when it runs, so parameters join as results do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from dimsolve.ir.expression import Comparison
from dimsolve.ir.types import (
    ANY,
    Computed,
    Dim,
    FunctionType,
    Known,
    ObjectType,
    ScalarType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    Unknown,
)

from ..proof.facts import NO_FACTS, Facts
from ..proof.prove import decide
from ..proof.verdict import Always, Never

Dims: TypeAlias = "tuple[Dim | None, ...]"
Verdict: TypeAlias = Literal["yes", "conditional", "unknown", "no"]


def join(a: Type, b: Type, facts: Facts = NO_FACTS) -> Type:
    """Returns the most precise type that values of both types have.

    >>> from dimsolve.ir.types import tensor
    >>> str(join(tensor((3, 2), "float32"), tensor((4, 2), "float32")))
    'float32[?, 2]'
    """
    if a == b:
        return a
    match a, b:
        case TensorType(), TensorType():
            return _join_tensors(a, b, facts)
        case ShapeType(first), ShapeType(second):
            return ShapeType(_join_dims(first, second, facts))
        case ScalarType(), ScalarType() if a.dtype == b.dtype:
            same = a.value is not None and b.value is not None and _equal(a.value, b.value, facts)
            return ScalarType(a.dtype, a.value if same else None)
        case TupleType(first), TupleType(second) if len(first) == len(second):
            pairs = zip(first, second, strict=True)
            return TupleType(tuple(join(x, y, facts) for x, y in pairs))
        case FunctionType(), FunctionType():
            return _join_functions(a, b, facts)
        case _:
            return ANY


def _join_tensors(a: TensorType, b: TensorType, facts: Facts) -> TensorType:
    dtype = a.dtype if a.dtype == b.dtype else None
    rank = a.rank if a.rank == b.rank else None
    if isinstance(a.shape, Computed) and a.shape == b.shape:
        return TensorType(rank, dtype, a.shape)
    dims = _join_dims(a.dims, b.dims, facts)
    return TensorType(rank, dtype, Unknown() if dims is None else Known(dims))


def _join_dims(a: Dims | None, b: Dims | None, facts: Facts) -> Dims | None:
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(
        x if x is not None and y is not None and _equal(x, y, facts) else None
        for x, y in zip(a, b, strict=True)
    )


def _join_functions(a: FunctionType, b: FunctionType, facts: Facts) -> FunctionType:
    parameters = None
    if (
        a.parameters is not None
        and b.parameters is not None
        and len(a.parameters) == len(b.parameters)
    ):
        pairs = zip(a.parameters, b.parameters, strict=True)
        parameters = tuple(join(x, y, facts) for x, y in pairs)
    return FunctionType(parameters, join(a.result, b.result, facts))


def _equal(a: Dim, b: Dim, facts: Facts) -> bool:
    return a == b or isinstance(decide(a, Comparison.EQ, b, facts), Always)


@dataclass(frozen=True, slots=True)
class IsA:
    """Whether every value of one type is of another.

    verdict: yes, and no (never), are theorems; conditional: exactly where the ``conditions`` hold;
    unknown: only running can tell. ``reason``: what stands against it.
    """

    verdict: Verdict
    conditions: tuple[str, ...] = ()
    reason: str = ""

    def __and__(self, other: IsA) -> IsA:
        """Both: the worse verdict, and all conditions."""
        order = ("yes", "conditional", "unknown", "no")
        worse = max(self, other, key=lambda part: order.index(part.verdict))
        conditions = () if worse.verdict == "no" else (*self.conditions, *other.conditions)
        return IsA(worse.verdict, tuple(dict.fromkeys(conditions)), worse.reason)


YES = IsA("yes")


def is_a(derived: Type, base: Type, facts: Facts = NO_FACTS) -> IsA:
    """Returns whether a value of type ``derived`` is one of type ``base``.

    >>> from dimsolve.ir.types import tensor
    >>> is_a(tensor((3, 2), "float32"), tensor((None, 2))).verdict
    'yes'
    """
    if derived == base or base == ANY:
        return YES
    if derived == ANY:
        return IsA("unknown", reason=f"any value may be {base}, or not")
    match derived, base:
        case TensorType(), TensorType():
            return _dtype_is(derived.dtype, base.dtype) & _tensor_is(derived, base, facts)
        case ShapeType(mine), ShapeType(theirs):
            return _dims_are(mine, theirs, facts)
        case ScalarType(), ScalarType():
            value = _value_is(derived.value, base.value, facts)
            return _dtype_is(derived.dtype, base.dtype) & value
        case TupleType(mine), TupleType(theirs) if len(mine) == len(theirs):
            found = YES
            for x, y in zip(mine, theirs, strict=True):
                found = found & is_a(x, y, facts)
            return found
        case FunctionType(), FunctionType():
            return _function_is(derived, base, facts)
        case ObjectType(), ObjectType():
            return IsA("no", reason=f"{derived} is not {base}")
        case _:
            return IsA("no", reason=f"{derived} is not {base}")


def _dtype_is(derived: str | None, base: str | None) -> IsA:
    if base is None or derived == base:
        return YES
    if derived is None:
        return IsA("unknown", reason=f"the dtype is not known to be {base}")
    return IsA("no", reason=f"{derived} is not {base}")


def _tensor_is(derived: TensorType, base: TensorType, facts: Facts) -> IsA:
    if isinstance(base.shape, Computed):
        same = derived.shape == base.shape
        return YES if same else IsA("unknown", reason=f"{base.shape} is computed when it runs")
    if base.dims is None:
        return YES
    return _dims_are(derived.dims, base.dims, facts)


def _dims_are(derived: Dims | None, base: Dims | None, facts: Facts) -> IsA:
    if base is None:
        return YES
    if derived is None:
        return IsA("unknown", reason="the rank is not known")
    if len(derived) != len(base):
        return IsA("no", reason=f"rank {len(derived)} is not {len(base)}")
    found = YES
    for x, y in zip(derived, base, strict=True):
        found = found & _value_is(x, y, facts)
    return found


def _value_is(derived: Dim | None, base: Dim | None, facts: Facts) -> IsA:
    if base is None or derived == base:
        return YES
    if derived is None:
        return IsA("unknown", reason=f"a length is not known to be {base}")
    decision = decide(derived, Comparison.EQ, base, facts)
    if isinstance(decision, Always):
        return YES
    if isinstance(decision, Never):
        return IsA("no", reason=f"{derived} is never {base}")
    conditions = decision.conditions or (f"{derived} == {base}",)
    return IsA("conditional", conditions, f"{derived} is not always {base}")


def _function_is(derived: FunctionType, base: FunctionType, facts: Facts) -> IsA:
    result = is_a(derived.result, base.result, facts)
    if base.parameters is None:
        return result
    if derived.parameters is None:
        return result & IsA("unknown", reason="the parameters are not known")
    if len(derived.parameters) != len(base.parameters):
        return IsA("no", reason="the numbers of parameters differ")
    for x, y in zip(derived.parameters, base.parameters, strict=True):
        result = result & is_a(y, x, facts)
    return result
