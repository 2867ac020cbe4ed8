"""From one call of an operator to the types of its results.

The operator declares what it promises for these arguments; its annotation is solved for the output
shapes; what it says of dtypes is taken over. Where the declaration needs what is not known, the
result is unknown and running it will tell.

    linear(%x: float32[batch, 512], %w: float32[64, 512])    a b, c b -> a c    float32[batch, 64]
    unique(%x: float32[n])                                   a^ -> b^           float32[_b], a new
    symbol

Calls with equal arguments have equal results, so they are kept by the call's key
(`dimsolve.solver.graphs.stand_ins`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dimsolve.ir.errors import ShapeError
from dimsolve.ir.node import Constant, Value
from dimsolve.ir.operator import Declaration, Operator
from dimsolve.ir.read_expression import read_relation
from dimsolve.ir.registry import operator_at
from dimsolve.ir.types import (
    ANY,
    Computed,
    Known,
    ObjectType,
    ScalarType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
)

from ..algebra.dims import substitute, symbols_of
from ..algebra.poly import Dim, Poly, symbol
from ..infer import infer_sizes
from ..proof.claims import Claim, claim_of
from ..solution import Solution
from .graph_problems import Refused
from .stand_ins import Call, SomeNumber, StandIn

OPEN = "__"
"""Begins the names that new symbols of one call have until the graph gives them their own."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is known of a call. ``types``: of the results; ``several``: they are the fields of a
    tuple.

    declaration: the operator's, with places of the call's values as inputs; None where nothing was
    declared. conditions: what must hold of the symbols. fresh: new symbols in the types. missing:
    why nothing more is known. ranks: of values of unknown rank, by place, where one alone is
    possible.
    """

    types: tuple[Type, ...]
    several: bool = False
    declaration: Declaration | None = None
    conditions: tuple[Claim, ...] = ()
    fresh: tuple[str, ...] = ()
    missing: str = ""
    ranks: tuple[tuple[int, int], ...] = ()

    def renamed(self, names: dict[str, Dim]) -> Outcome:
        """Returns the outcome with its new symbols replaced."""
        conditions = tuple(
            Claim(substitute(c.left, names), c.comparison, substitute(c.right, names))
            for c in self.conditions
        )
        types = tuple(substitute_type(type, names) for type in self.types)
        return replace(self, types=types, conditions=conditions, fresh=())


def substitute_type(type: Type, values: dict[str, Dim]) -> Type:
    """Returns the type with symbols replaced."""

    def changed(dim: Dim | None) -> Dim | None:
        return dim if dim is None or dim.__class__ is int else substitute(dim, values)

    def change(dims: tuple[Dim | None, ...]) -> tuple[Dim | None, ...]:
        return tuple([changed(dim) for dim in dims])

    match type:
        case TensorType(rank, dtype, Known(dims)):
            new = change(dims)
            return type if new == dims else TensorType(rank, dtype, Known(new))
        case TensorType(rank, dtype, Computed(function, arguments)):
            changed_arguments = tuple(a if isinstance(a, str) else change(a) for a in arguments)
            return TensorType(rank, dtype, Computed(function, changed_arguments))
        case ShapeType(dims) if dims is not None:
            return ShapeType(change(dims))
        case ScalarType(dtype, value) if isinstance(value, Poly):
            return ScalarType(dtype, substitute(value, values))
        case TupleType(fields):
            return TupleType(tuple([substitute_type(field, values) for field in fields]))
        case _:
            return type


def symbols_in(type: Type) -> set[str]:
    """Returns the symbols that occur in a type."""
    match type:
        case TensorType() | ShapeType():
            return set().union(*[symbols_of(dim) for dim in type.dims or () if dim is not None])
        case ScalarType(_, value):
            return set() if value is None else symbols_of(value)
        case TupleType(fields):
            return set().union(*[symbols_in(field) for field in fields])
        case _:
            return set()


def deduce(operator: Operator, call: Call) -> Outcome:
    """Returns what the operator promises for a call.

    Raises ShapeError where these arguments can never match.
    """
    declaration = _declared(operator, call)
    if isinstance(declaration, str):
        return Outcome((TensorType(None, None),), missing=declaration)
    if declaration.returns == "value":
        return Outcome(
            (_type_of(declaration.value),),
            declaration=_placed(declaration),
            conditions=tuple(declaration.needs),
        )
    shapes = [_shape_of(value) for value in declaration.inputs]
    arguments = {**declaration.arguments}
    fresh = []
    for identifier in declaration.fresh:
        fresh.append(f"{OPEN}{identifier}")
        arguments[identifier] = symbol(fresh[-1])
    try:
        solution = infer_sizes(declaration.annotation, shapes, arguments=arguments)
    except ShapeError as error:
        raise Refused(error.diagnostic, _placed(declaration).inputs) from error
    types, names = _output_types(declaration, solution)
    conditions = tuple([claim_of(read_relation(text)) for text in solution.conditions])
    if names:
        conditions = tuple(_rename_claim(claim, names) for claim in conditions)
    conditions += tuple(declaration.needs)
    if declaration.returns == "nothing":
        types = ()
    elif declaration.returns == "parts":
        types = (ObjectType("tuple"),)
    return Outcome(
        types,
        declaration.returns == "tuple",
        _placed(declaration),
        conditions,
        (*fresh, *[str(name) for name in names.values()]),
    )


def _declared(operator: Operator, call: Call) -> Declaration | str:
    """What the operator declares for these arguments, or why it does not."""
    from ..library.values import NotKnown

    try:
        return operator.declare(*call.args, **call.kwargs)
    except NotKnown as reason:
        return str(reason)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        return f"its declaration does not take these arguments: {error}"


def _shape_of(value: Any) -> tuple[Dim | None, ...] | None:
    shape = getattr(value, "shape", None)
    return shape if isinstance(shape, tuple) else None


def _placed(declaration: Declaration) -> Declaration:
    """The declaration with the places of the call's values as inputs: it serves every call of the
    same key.
    """
    inputs = tuple([getattr(value, "place", None) for value in declaration.inputs])
    return replace(declaration, inputs=inputs)


def place_values(declaration: Declaration, values: Sequence[Value]) -> Declaration:
    """Returns the declaration of one call: its inputs are the call's values."""
    inputs = tuple([None if place is None else values[place] for place in declaration.inputs])
    return replace(declaration, inputs=inputs, places=declaration.inputs)


def _output_types(
    declaration: Declaration, solution: Solution
) -> tuple[tuple[Type, ...], dict[str, Dim]]:
    """The types of the outputs, and new symbols for identifiers that the inputs leave open."""
    left_open = {
        atom: symbol(f"{OPEN}{atom}")
        for name in solution.free
        for atom in symbols_of(solution.values[name])
    }
    dtypes = declaration.dtypes or (None,) * len(solution.output_dims)
    types: list[Type] = []
    used: dict[str, Dim] = {}
    for dims, dtype in zip(solution.output_dims, dtypes, strict=True):
        if dims is None:
            types.append(TensorType(None, dtype))
            continue
        if left_open:
            used.update(
                {
                    atom: left_open[atom]
                    for dim in dims
                    for atom in sorted(symbols_of(dim) & left_open.keys())
                }
            )
            dims = tuple([substitute(dim, left_open) for dim in dims])
        types.append(TensorType(len(dims), dtype, Known(dims)))
    return tuple(types), used


def _rename_claim(claim: Claim, names: dict[str, Dim]) -> Claim:
    return Claim(substitute(claim.left, names), claim.comparison, substitute(claim.right, names))


def _type_of(value: Any) -> Type:
    """The type of a value that is known without running."""
    if isinstance(value, StandIn):
        return TensorType(None if value.shape is None else len(value.shape), value.dtype)
    if isinstance(value, bool):
        return ScalarType("bool", int(value))
    if isinstance(value, SomeNumber):
        return ScalarType(value.dtype_name)
    if isinstance(value, int | Poly):
        return ScalarType("int", value)
    if isinstance(value, float):
        return ScalarType("float")
    if isinstance(value, tuple | list):
        if all(isinstance(item, int | Poly) for item in value):
            return ShapeType(tuple(value))
        return TupleType(tuple(_type_of(item) for item in value))
    if isinstance(value, str | Constant):
        return ObjectType(str(value))
    return ANY


def find_operator(path: str) -> Operator | None:
    """Returns the operator of an import path: a registered one, one of the library, one of the
    graph's own; None otherwise.
    """
    from ..library import find
    from .builtin_operators import BUILTIN

    return operator_at(path) or BUILTIN.get(path) or find(path)
