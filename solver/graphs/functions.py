"""Function boundaries and shape matching: where symbols of one scope meet lengths of another.

A call matches the argument shapes with the callee's parameters, solves for the callee's symbols,
and gives the result in the caller's:

    f(x: [h*t]) -> [h, t]        f(y: [768], h=12)   ->  [12, 64]       t = 64
    f(x: [n, m]) -> [m + 1, n]   f(y: [a, ?])        ->  [_m + 1, a]    one dimension is unknown

Without a graph, on types alone:

    call_type((float32[n, m]) -> float32[m + 2, n], [float32[10, ?]])     float32[?, 10]
    erase(float32[n, m + 1], {"n": n})                                    float32[n, ?]
    definable(float32[1, 2*n, m])                                         (m,)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dimsolve.ir.expression import Comparison
from dimsolve.ir.graph import FunctionCall, Node, Value, values_in
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
from ..algebra.poly import Poly, atoms_of, symbol
from ..problems import shape_text
from ..proof.claims import Claim
from ..proof.facts import NO_FACTS, Facts
from . import problems
from .deduction import OPEN, Outcome, substitute_type, symbols_in
from .match import Match, Mismatch, match
from .symbolic_graph import SymbolicGraph

PREFIX = "f."
"""Sets a function's own symbols apart from the caller's while they are matched."""


def call_type(
    function: FunctionType, arguments: Sequence[Type], facts: Facts = NO_FACTS
) -> tuple[Type, tuple[Claim, ...]]:
    """Returns the type of a call's result in the caller's symbols, and the conditions under which
    the arguments fit.

    A length that the arguments do not determine is unknown. Raises ShapeError where an argument can
    never be what the parameter says.

    >>> from dimsolve.solver.graphs.reading import read_type
    >>> function = read_type("(float32[n, m]) -> float32[m + 2, n]")
    >>> print(call_type(function, [read_type("float32[10, ?]")])[0])
    float32[?, 10]
    """
    if function.parameters is None:
        return function.result, ()
    if len(function.parameters) != len(arguments):
        counts = f"{len(function.parameters)} arguments are taken, {len(arguments)} given"
        raise problems.arguments_mismatch(reason=counts)
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
        reason = mismatch.reason.replace(PREFIX, "")
        raise problems.arguments_mismatch(reason=reason) from None
    known = {n: found.bindings[PREFIX + n] for n in names if PREFIX + n in found.bindings}
    return erase(function.result, known), tuple(claim for _, claim in found.conditions)


def lengths_of(parameter: Type, argument: Type) -> list[tuple[Dim | None, Dim | None]]:
    """Returns the lengths of a parameter, each beside that of its argument.

    Raises ShapeError where the argument is of another kind, rank or dtype.
    """
    match parameter, argument:
        case _ if ANY in (parameter, argument):
            return []
        case FunctionType(), FunctionType():
            return []
        case TupleType(wanted), TupleType(given) if len(wanted) == len(given):
            pairs = zip(wanted, given, strict=True)
            return [pair for one, other in pairs for pair in lengths_of(one, other)]
        case ScalarType(), ScalarType():
            return [(parameter.value, argument.value)]
        case (TensorType(), TensorType()) | (ShapeType(), ShapeType()):
            assert isinstance(parameter, TensorType | ShapeType)
            assert isinstance(argument, TensorType | ShapeType)
            dtypes = {getattr(t, "dtype", None) for t in (parameter, argument)} - {None}
            dims, others = parameter.dims, argument.dims
            if len(dtypes) < 2 and (dims is None or others is None):
                return []
            if len(dtypes) < 2 and len(dims or ()) == len(others or ()):
                return list(zip(dims or (), others or (), strict=True))
        case _:
            pass
    raise problems.arguments_mismatch(reason=f"{argument} is not {parameter}")


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


def match_shape(graph: SymbolicGraph, node: Node, pattern: tuple[Dim | None, ...]) -> Outcome:
    """Returns the type that a pattern gives to a tensor or a shape, and what is still to check."""
    value = next(values_in(node.args))
    system = graph.system
    dims = value.dims
    if dims is not None and len(dims) != len(pattern):
        raise problems.pattern_rank(
            pattern=shape_text(pattern), name=value.name, rank=len(dims), dims=shape_text(dims)
        )
    names = set().union(*[symbols_of(dim) for dim in pattern if dim is not None])
    seen = system.given.keys() | system.open.keys() | system.solved.keys()
    claims: list[Claim] = []
    if dims is not None:
        given = [None if _is_open(dim, system.open) else dim for dim in dims]
        current = [None if dim is None else system.current(dim) for dim in pattern]
        try:
            found = match(current, given, names - seen, facts=system.facts)
        except Mismatch as mismatch:
            raise problems.cannot_match(
                pattern=shape_text(pattern), dim=mismatch.place, reason=mismatch.reason
            ) from None
        for name, length in found.bindings.items():
            system.bind(name, length)
        claims = [claim for _, claim in found.conditions]
        claims += _undetermined(current, given, found, names - seen)
        for dim, wanted in zip(dims, pattern, strict=True):
            if dim is not None and wanted is not None and _is_open(dim, system.open):
                claims.append(Claim(dim, Comparison.EQ, system.current(wanted)))
    system.name([system.current(symbol(name)) for name in names], problems.place(node))
    known = dims or (None,) * len(pattern)
    matched = tuple(
        length if wanted is None else system.current(wanted)
        for wanted, length in zip(pattern, known, strict=True)
    )
    return Outcome((_with_dims(value.type, matched),), conditions=tuple(claims))


def _undetermined(
    patterns: list[Dim | None], given: list[Dim | None], found: Match, names: set[str]
) -> list[Claim]:
    """Rows of a pattern whose new symbols nothing determines: ``a + b`` on n is n == a + b."""
    left = names - found.bindings.keys()
    return [
        Claim(length, Comparison.EQ, substitute(pattern, found.bindings))
        for pattern, length in zip(patterns, given, strict=True)
        if pattern is not None and length is not None and symbols_of(pattern) & left
    ]


def _is_open(dim: Dim | None, names: Iterable[str]) -> bool:
    """Whether the dimension is one open symbol: nothing is known of it yet."""
    if not isinstance(dim, Poly) or len(dim.terms) != 1:
        return False
    atoms = atoms_of(dim)
    return len(atoms) == 1 and atoms <= set(names) and dim == symbol(next(iter(atoms)))


def _with_dims(type: Type, dims: tuple[Dim | None, ...]) -> Type:
    if isinstance(type, ShapeType):
        return ShapeType(dims)
    return TensorType(len(dims), type.dtype if isinstance(type, TensorType) else None, Known(dims))


def call(graph: SymbolicGraph, node: Node) -> Outcome:
    """Returns the types that a call of another graph gives, in the caller's symbols.

    Symbols of the callee that the arguments leave open become new ones; the callee checks them when
    it runs. Raises ShapeError where the arguments can never be what the parameters say.
    """
    operation = node.operation
    assert isinstance(operation, FunctionCall)
    callee = callee_of(graph, operation.function)
    pairs = bind_arguments(callee, node)
    bindings = _boundary(graph, callee, pairs, dict(operation.symbols))
    fresh: dict[str, Dim] = {}
    names: dict[str, Dim] = {}
    for name in (*callee.system.given, *callee.system.open):
        found = bindings.bindings.get(_inner(callee, name))
        if found is None:
            found = fresh[name] = symbol(f"{OPEN}{name.lstrip('_')}")
        names[name] = found
    types = [substitute_type(value.type, names) for value in values_in(callee.result)]
    claims = [claim for _, claim in bindings.conditions]
    inner = callee.system.renamed(names, callee.system.conditions)
    used = set().union(*[symbols_in(type) for type in types])
    kept = {name: dim for name, dim in fresh.items() if atoms_of(dim) & used}
    dropped = set().union(*[atoms_of(dim) for name, dim in fresh.items() if name not in kept])
    conditions = [claim for claim in (*claims, *inner) if not claim.symbols() & dropped]
    return Outcome(
        tuple(types),
        not isinstance(callee.result, Value),
        conditions=tuple(conditions),
        fresh=tuple(atom for dim in kept.values() for atom in atoms_of(dim)),
    )


def callee_of(graph: SymbolicGraph, name: str) -> SymbolicGraph:
    """Returns the graph of the module that has this name."""
    callee: Any = graph.functions[name]
    found: SymbolicGraph = callee
    return found


def bind_arguments(callee: SymbolicGraph, node: Node) -> list[tuple[Value, Any]]:
    """Returns the callee's parameters, each with its argument; ShapeError where their number
    differs.
    """
    entries = list(callee.inputs)
    if len(node.args) > len(entries):
        raise problems.argument_count(
            function=callee.name, wanted=len(entries), given=len(node.args)
        )
    pairs = [(entry.value, arg) for entry, arg in zip(entries, node.args, strict=False)]
    for entry in entries[len(node.args) :]:
        if entry.target not in node.kwargs:
            given = len(node.args) + len(node.kwargs)
            raise problems.argument_count(function=callee.name, wanted=len(entries), given=given)
        pairs.append((entry.value, node.kwargs[entry.target]))
    return pairs


def _inner(callee: SymbolicGraph, name: str) -> str:
    """A callee's symbol apart from the caller's, whatever their names are."""
    return f"{callee.name}.{name}"


def _boundary(
    graph: SymbolicGraph,
    callee: SymbolicGraph,
    pairs: list[tuple[Value, Any]],
    given: dict[str, Dim],
) -> Match:
    names = (*callee.system.given, *callee.system.open)
    apart: dict[str, Dim] = {name: symbol(_inner(callee, name)) for name in names}
    patterns: list[Dim | None] = []
    lengths: list[Dim | None] = []
    owners: list[str] = []
    for parameter, argument in pairs:
        for pattern, length in _rows(callee, parameter, argument):
            patterns.append(None if pattern is None else substitute(pattern, apart))
            lengths.append(length)
            owners.append(parameter.name)
    try:
        return match(
            patterns,
            lengths,
            {_inner(callee, name) for name in names},
            known={_inner(callee, name): dim for name, dim in given.items()},
            facts=graph.system.facts,
        )
    except Mismatch as mismatch:
        reason = mismatch.reason.replace(f"{callee.name}.", "")
        owner = f"%{owners[mismatch.place]}: {callee.values[owners[mismatch.place]].type}"
        raise problems.argument_mismatch(
            function=callee.name, parameter=owner, reason=reason
        ) from None


def _rows(
    callee: SymbolicGraph, parameter: Value, argument: Any
) -> list[tuple[Dim | None, Dim | None]]:
    """The lengths of one parameter beside those of its argument."""
    wanted, given = parameter.type, getattr(argument, "type", None)
    if (
        isinstance(wanted, TensorType)
        and isinstance(given, TensorType)
        and wanted.dtype is not None
        and given.dtype not in (None, wanted.dtype)
    ):
        reason = f"it is {wanted.dtype}, the argument %{argument.name} is {given.dtype}"
        raise problems.argument_mismatch(
            function=callee.name, parameter=f"%{parameter.name}", reason=reason
        )
    if isinstance(wanted, ScalarType):
        value = given.value if isinstance(given, ScalarType) else argument
        return [(wanted.value, value if isinstance(value, int | Poly) else None)]
    if not isinstance(wanted, TensorType | ShapeType):
        return []
    if not isinstance(given, TensorType | ShapeType) or type(given) is not type(wanted):
        reason = f"it is {wanted}, the argument is {argument}"
        raise problems.argument_mismatch(
            function=callee.name, parameter=f"%{parameter.name}", reason=reason
        )
    if wanted.dims is None or given.dims is None:
        return []
    if len(wanted.dims) != len(given.dims):
        reason = f"it is {wanted}, the argument %{argument.name} is {given}"
        raise problems.argument_mismatch(
            function=callee.name, parameter=f"%{parameter.name}", reason=reason
        )
    return list(zip(wanted.dims, given.dims, strict=True))
