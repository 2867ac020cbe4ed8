"""Types at a function's boundary, without a graph: what a call gives, what may leave a scope, what
a type defines.

    call_type((float32[n, m]) -> float32[m + 2, n], [float32[10, ?]])     float32[?, 10]
    erase(float32[n, m + 1], {"n": n})                                   float32[n, ?]
    definable(float32[1, 2*n, m])                                        (m,)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dimsolve.ir.errors import Diagnostic, ShapeError
from dimsolve.ir.types import (
    ANY,
    Dim,
    FunctionType,
    Known,
    ScalarType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
)

from ..algebra.dims import substitute, symbols_of
from ..algebra.poly import Poly, symbol
from ..proof.claims import Claim
from ..proof.facts import NO_FACTS, Facts
from .deduction import symbols_in
from .match import Mismatch, match

PREFIX = "f."
"""Sets a function's own symbols apart from the caller's while they are matched."""


def call_type(
    function: FunctionType, arguments: Sequence[Type], facts: Facts = NO_FACTS
) -> tuple[Type, tuple[Claim, ...]]:
    """Returns the type of a call's result in the caller's symbols, and the conditions under which
    the arguments fit.

    A length that the arguments do not determine is unknown. Raises ShapeError where an argument can
    never be what the parameter says.

    >>> from dimsolve.solver.graphs.read_type import read_type
    >>> function = read_type("(float32[n, m]) -> float32[m + 2, n]")
    >>> print(call_type(function, [read_type("float32[10, ?]")])[0])
    float32[?, 10]
    """
    if function.parameters is None:
        return function.result, ()
    if len(function.parameters) != len(arguments):
        raise _mismatch(f"{len(function.parameters)} arguments are taken, {len(arguments)} given")
    names = set().union(*[symbols_in(parameter) for parameter in function.parameters])
    apart: dict[str, Dim] = {name: symbol(PREFIX + name) for name in names}
    pairs = [
        pair
        for parameter, argument in zip(function.parameters, arguments, strict=True)
        for pair in lengths_of(parameter, argument)
    ]
    patterns = [None if p is None else substitute(p, apart) for p, _ in pairs]
    unknown = {PREFIX + name for name in names}
    try:
        found = match(patterns, [length for _, length in pairs], unknown, facts=facts)
    except Mismatch as mismatch:
        raise _mismatch(mismatch.reason.replace(PREFIX, "")) from None
    known = {n: found.bindings[PREFIX + n] for n in names if PREFIX + n in found.bindings}
    return erase(function.result, known), tuple(claim for _, claim in found.conditions)


def lengths_of(parameter: Type, argument: Type) -> Iterator[tuple[Dim | None, Dim | None]]:
    """Yields the lengths of a parameter, each beside that of its argument.

    Raises ShapeError where the argument is of another kind, rank or dtype.
    """
    if argument == ANY or parameter == ANY:
        return
    if isinstance(parameter, FunctionType) and isinstance(argument, FunctionType):
        return
    if isinstance(parameter, TupleType) and isinstance(argument, TupleType):
        if len(parameter.fields) != len(argument.fields):
            raise _mismatch(f"{argument} is not {parameter}")
        for wanted, given in zip(parameter.fields, argument.fields, strict=True):
            yield from lengths_of(wanted, given)
        return
    if isinstance(parameter, ScalarType) and isinstance(argument, ScalarType):
        yield parameter.value, argument.value
        return
    if not isinstance(parameter, TensorType | ShapeType) or type(parameter) is not type(argument):
        raise _mismatch(f"{argument} is not {parameter}")
    assert isinstance(argument, TensorType | ShapeType)
    dtypes = [getattr(t, "dtype", None) for t in (parameter, argument)]
    if None not in dtypes and dtypes[0] != dtypes[1]:
        raise _mismatch(f"{argument} is not {parameter}")
    if parameter.dims is None or argument.dims is None:
        return
    if len(parameter.dims) != len(argument.dims):
        raise _mismatch(f"{argument} is not {parameter}")
    yield from zip(parameter.dims, argument.dims, strict=True)


def erase(type: Type, names: Mapping[str, Dim]) -> Type:
    """Returns the type as it is outside of a scope: symbols replaced, and what depends on
    others unknown.
    """

    def outside(dim: Dim | None) -> Dim | None:
        if dim is None or not symbols_of(dim) <= names.keys():
            return None
        return substitute(dim, names)

    match type:
        case TensorType(_, dtype, Known(dims)):
            return TensorType(len(dims), dtype, Known(tuple(outside(dim) for dim in dims)))
        case ShapeType(dims) if dims is not None:
            return ShapeType(tuple(outside(dim) for dim in dims))
        case ScalarType(dtype, value):
            return ScalarType(dtype, outside(value))
        case TupleType(fields):
            return TupleType(tuple(erase(field, names) for field in fields))
        case _:
            return type


def definable(type: Type) -> tuple[str, ...]:
    """Returns the symbols that a value of this type defines: those that are a dimension by
    themselves.
    """
    found: dict[str, None] = {}
    match type:
        case TensorType() | ShapeType():
            for dim in type.dims or ():
                names = symbols_of(dim) if isinstance(dim, Poly) else set()
                if len(names) == 1 and dim == symbol(min(names)):
                    found.update(dict.fromkeys(names))
        case TupleType(fields):
            for field in fields:
                found.update(dict.fromkeys(definable(field)))
        case _:
            pass
    return tuple(found)


def _mismatch(reason: str) -> ShapeError:
    return ShapeError(Diagnostic("argument-shape", "these arguments can never fit", reason=reason))
