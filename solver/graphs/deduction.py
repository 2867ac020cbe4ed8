"""From one call of an operator to the types of its results.

The call's arguments are encoded: tensors become a `StandIn` with a shape and a dtype, and calls
with equal keys have equal results (`encode`). The operator declares what it promises for them, its
annotation is solved for the output shapes, and its dtypes are taken over (`deduce`). Where the
declaration needs what is not known, the result is unknown and running it will tell.

    linear(%x: float32[batch, 512], %w: float32[64, 512])    a b, c b -> a c    float32[batch, 64]
    unique(%x: float32[n])                                   a^ -> b^           float32[_b]

With tensors of unknown rank the operator is asked at rank 0, 1, 2 and so on, beyond every number in
the arguments (`deduce_partial`). Ranks at which it can never be called are excluded; what the
others agree on is known:

    flatten(x: float32[*])              float32[_f]
    permute(x: ?[*], (0, 2, 3, 1))      x is ?[_0, _1, _2, _3]
    add(x: float32[*], y: float32[m])   float32[broadcast_shapes(x, (m,))]

Backward, an annotation is a relation: with ``* , * -> *`` and one operand ``(m, n)`` all three are
(`operand_dims`). ``torch.add`` broadcasts and says less; a graph's own ``ewise_add`` takes two
tensors of one shape and one dtype. A strict graph requires equal dtypes of more operators
(`strict_dtype`), and under autocast the dtypes of results are unknown (`Autocast`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dimsolve.ir.errors import DimsolveError, ShapeError
from dimsolve.ir.graph import Argument, Constant, Node, Value
from dimsolve.ir.operator import Declaration, Operator, operator_at
from dimsolve.ir.read_expression import read_relation
from dimsolve.ir.types import (
    ANY,
    Computed,
    Known,
    ObjectType,
    ScalarType,
    Shape,
    ShapeType,
    TensorType,
    TupleType,
    Type,
)

from ..algebra.dims import substitute, symbols_of
from ..algebra.poly import Dim, Poly, product, symbol
from ..infer import infer_sizes
from ..proof.claims import Claim, claim_of
from ..solution import Solution
from . import problems
from .join import join
from .problems import Refused

if TYPE_CHECKING:
    from dimsolve.ir.graph import Graph


PREFIX = "dimsolve."
EWISE = ("add", "sub", "mul", "div", "maximum", "minimum", "pow")
"""The torch functions that have a form without broadcasting: ``dimsolve.ewise_add`` and so on."""

LINEAR = {"add": ((0, 1),), "sub": ((0, 1),), "mul": ((0,), (1,)), "div": ((0,),)}


def _ewise(name: str) -> Callable[..., Declaration]:
    def declare(input: Any, other: Any) -> Declaration:
        dtype = input.dtype if input.dtype is not None else other.dtype
        return Declaration(
            "*, * -> *", (input, other), linear=LINEAR.get(name, ()), dtypes=(dtype,)
        )

    return declare


BUILTIN: dict[str, Operator] = {
    f"{PREFIX}ewise_{name}": Operator(
        f"ewise_{name}", f"{PREFIX}ewise_{name}", _ewise(name), parameters=("input", "other")
    )
    for name in EWISE
}
"""By path. What they compute is ``torch.NAME``; `dimsolve.exec.run` checks the shapes before."""

SAME_TYPE = frozenset(BUILTIN)
"""Operators whose operands and result have one dtype."""


class StandIn:
    """A tensor without data: its shape (None where the rank is not known), its dtype, and which
    value of the call it stands for.
    """

    __slots__ = ("dtype", "place", "shape")

    def __init__(self, shape: tuple[Dim | None, ...] | None, dtype: str | None, place: int) -> None:
        self.shape = shape
        self.dtype = dtype
        self.place = place

    @property
    def ndim(self) -> int | None:
        """The rank, None where it is not known."""
        return None if self.shape is None else len(self.shape)

    def dim(self) -> int | None:
        """Returns the rank, None where it is not known."""
        return self.ndim

    def __repr__(self) -> str:
        return f"<StandIn {self.dtype} {self.shape}>"


class SomeNumber(float):
    """A number that only running can tell; it compares as not a number, so that nothing is
    concluded from its value.
    """

    dtype_name: str

    def __new__(cls, dtype: str) -> SomeNumber:
        self = super().__new__(cls, "nan")
        self.dtype_name = dtype
        return self


@dataclass(frozen=True, slots=True)
class SomeObject:
    """A value that is no tensor and no number, of some type."""

    type: Type
    place: int


@dataclass(slots=True)
class Call:
    """Encoded arguments. ``values`` are the values that occur, in the order of their places."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    key: Hashable = ()
    values: list[Value] = field(default_factory=list)


def encode(args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Call:
    """Returns the arguments with stand-ins for values, and the key of the call."""
    call = Call()
    encoded = [_encode(argument, call.values) for argument in args]
    call.args = tuple([item for item, _ in encoded])
    key: tuple[Hashable, ...] = tuple([item for _, item in encoded])
    if kwargs:
        named = {name: _encode(argument, call.values) for name, argument in kwargs.items()}
        call.kwargs = {name: item for name, (item, _) in named.items()}
        key = (*key, "kwargs", *[(name, item) for name, (_, item) in named.items()])
    call.key = key
    return call


def _encode(argument: Argument, values: list[Value]) -> tuple[Any, Hashable]:
    kind = argument.__class__
    if kind is Value:
        place = len(values)
        values.append(argument)
        return _encode_type(argument.type, place)
    if kind is int or kind is str or argument is None or kind is bool or kind is float:
        return argument, (kind, argument)
    if isinstance(argument, tuple | list):
        encoded = [_encode(item, values) for item in argument]
        items = [item for item, _ in encoded]
        return kind(items), (kind, tuple([key for _, key in encoded]))
    if isinstance(argument, dict):
        pairs = {name: _encode(item, values) for name, item in argument.items()}
        key = tuple([(name, item) for name, (_, item) in pairs.items()])
        return {name: item for name, (item, _) in pairs.items()}, (dict, key)
    if isinstance(argument, slice):
        bounds = [_encode(b, values) for b in (argument.start, argument.stop, argument.step)]
        return slice(*[item for item, _ in bounds]), (slice, tuple([key for _, key in bounds]))
    return argument, (kind, argument)


def _encode_type(type: Type, place: int) -> tuple[Any, Hashable]:
    if isinstance(type, TensorType):
        dims = type.dims
        return StandIn(dims, type.dtype, place), ("t", dims, type.dtype)
    if isinstance(type, ScalarType):
        if type.value is not None:
            return type.value, ("n", type.value)
        return SomeNumber(type.dtype), ("?", type.dtype)
    if isinstance(type, ShapeType) and type.dims is not None and None not in type.dims:
        return type.dims, ("s", type.dims)
    if isinstance(type, TupleType):
        items = [_encode_type(field, place) for field in type.fields]
        return tuple([item for item, _ in items]), ("u", tuple([key for _, key in items]))
    return SomeObject(type, place), ("o", type)


def by_place(arguments: Any) -> dict[int, Any]:
    """Returns what stands for values in encoded arguments, by the places of the values."""
    match arguments:
        case StandIn() | SomeObject():
            return {arguments.place: arguments}
        case tuple() | list():
            items = list(arguments)
        case dict():
            items = list(arguments.values())
        case slice():
            items = [arguments.start, arguments.stop, arguments.step]
        case _:
            return {}
    return {place: found for item in items for place, found in by_place(item).items()}


@dataclass(frozen=True, slots=True)
class Operands:
    """Dimensions of operands that had none. ``free``: symbols in them that are new."""

    dims: tuple[tuple[Value, tuple[Dim, ...]], ...] = ()
    free: frozenset[str] = frozenset()


def operand_dims(declaration: Declaration, operands: Sequence[Value | None]) -> Operands:
    """Returns the dimensions that the annotation gives to tensors of unknown rank; none where it
    gives none.

    operands: the annotated inputs, then the outputs.
    """
    left, _, right = declaration.annotation.partition("->")
    sides = [side.strip() for side in (left, right) if side.strip()]
    shapes = [
        value.type.dims if value is not None and isinstance(value.type, TensorType) else None
        for value in operands
    ]
    if all(shape is None for shape in shapes):
        return Operands()
    try:
        solution = infer_sizes(f"{', '.join(sides)} ->", shapes, arguments=declaration.arguments)
    except DimsolveError:
        return Operands()
    free = {atom for name in solution.free for atom in symbols_of(solution.values[name])}
    found = []
    for value, shape, patterns in zip(operands, shapes, solution.layout.inputs, strict=True):
        if value is None or shape is not None or patterns is None:
            continue
        lengths = [[solution.values[name] for name in p.names] for p in patterns]
        dims = tuple(
            [product([p.constant, *row]) for p, row in zip(patterns, lengths, strict=True)]
        )
        found.append((value, dims))
    return Operands(tuple(found), frozenset(free))


_ONE_DTYPE = """
    abs acos acosh add addcdiv addcmul addmm asin asinh atan atan2 atanh baddbmm bmm cat ceil
    concat conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d cos cosh div
    divide erf exp floor floor_divide fmax fmin fmod gelu group_norm hypot layer_norm lerp linear
    log log2 log10 matmul maximum minimum mul multiply neg negative pow relu remainder rsqrt sigmoid
    sign silu sin sinh sqrt square stack sub subtract tan tanh true_divide truediv where
"""
ONE_DTYPE = frozenset(_ONE_DTYPE.split())
"""Names of operators whose operands and result have one dtype in a strict graph."""


def strict_dtype(node: Node) -> Iterator[tuple[Value, str]]:
    """Yields tensors of a call whose dtype follows from another's; ShapeError where two differ."""
    path = node.signature
    if path not in SAME_TYPE and path.rpartition(".")[2] not in ONE_DTYPE:
        return
    operands = [v for v in node.operands() if isinstance(v.type, TensorType)]
    if path.rpartition(".")[2] == "where":
        operands = operands[1:]
    tensors = [*operands, *[v for v in node.outputs if isinstance(v.type, TensorType)]]
    known = [value for value in operands if value.dtype is not None]
    known = known or [value for value in tensors if value.dtype is not None]
    for value in known[1:]:
        if value.dtype != known[0].dtype:
            raise problems.dtypes_differ(node, known[0], value)
    if known:
        dtype = known[0].dtype
        assert dtype is not None
        yield from ((value, dtype) for value in tensors if value.dtype is None)


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
        conditions = tuple(_rename_claim(claim, names) for claim in self.conditions)
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
    from ..operators.declare.writing import NotKnown

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
    """Declares one call: its inputs are the call's values."""
    inputs = tuple([None if place is None else values[place] for place in declaration.inputs])
    return replace(declaration, inputs=inputs, places=declaration.inputs)


def _output_types(
    declaration: Declaration, solution: Solution
) -> tuple[tuple[Type, ...], dict[str, Dim]]:
    """The types of the outputs, and new symbols for identifiers that the inputs leave open."""
    free = {atom for name in solution.free for atom in symbols_of(solution.values[name])}
    left_open = {atom: symbol(f"{OPEN}{atom}") for atom in free}
    dtypes = declaration.dtypes or (None,) * len(solution.output_dims)
    types: list[Type] = []
    used: dict[str, Dim] = {}
    for dims, dtype in zip(solution.output_dims, dtypes, strict=True):
        if dims is None:
            types.append(TensorType(None, dtype))
            continue
        if left_open:
            for dim in dims:
                used.update({atom: left_open[atom] for atom in sorted(symbols_of(dim) & free)})
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
    from ..operators import find

    return operator_at(path) or BUILTIN.get(path) or find(path)


ENTER = "torch.amp.autocast_mode._enter_autocast"
EXIT = "torch.amp.autocast_mode._exit_autocast"


class Autocast:
    """Reads a graph's nodes as they are added. ``_read``: whether each runs under autocast."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._read: dict[int, bool] = {}
        self._open = 0

    def without_dtypes(self, node: Node, outcome: Outcome) -> Outcome:
        """Returns what is known of a call; nothing of dtypes, where it runs under autocast."""
        if not self._graph.autocast and not self._runs_under(node):
            return outcome
        types = [replace(t, dtype=None) if isinstance(t, TensorType) else t for t in outcome.types]
        return replace(outcome, types=tuple(types))

    def _runs_under(self, node: Node) -> bool:
        nodes = self._graph.nodes()
        for later in nodes[len(self._read) :]:
            self._open += (later.signature == ENTER) - (later.signature == EXIT)
            self._read[id(later)] = self._open > 0
        return self._read.get(id(node), self._open > 0)


MIN_RANKS = 6
MAX_CASES = 128

_BROADCASTING = """
    add sub mul div divide true_divide truediv floor_divide floordiv remainder mod fmod pow atan2
    maximum minimum fmax fmin eq ne lt le gt ge where logical_and logical_or logical_xor bitwise_and
    bitwise_or bitwise_xor and_ or_ xor subtract multiply lerp addcmul addcdiv hypot xlogy iadd isub
    imul itruediv and or
"""
BROADCASTING = frozenset(_BROADCASTING.split())
"""Names of functions whose result has the shape that their operands broadcast to."""


def deduce_partial(operator: Operator, call: Call) -> Outcome | None:
    """Returns what is known of a call with tensors of unknown rank; None where it has too many of
    them, or says nothing.

    Raises ShapeError where no rank is possible.
    """
    unknown = [
        place
        for place, value in enumerate(call.values)
        if isinstance(value.type, TensorType | ShapeType) and value.type.dims is None
    ]
    ranks_given = [value.rank for value in call.values if value.rank is not None]
    highest = max([MIN_RANKS, *[abs(n) + 2 for n in [*_numbers(call), *ranks_given]]])
    if not unknown or (highest + 1) ** len(unknown) > MAX_CASES:
        return None
    found: Outcome | None = None
    possible: list[set[int]] = [set() for _ in unknown]
    refusal: ShapeError | None = None
    for ranks in itertools.product(range(highest + 1), repeat=len(unknown)):
        try:
            outcome = deduce(operator, _at_ranks(call, dict(zip(unknown, ranks, strict=True))))
        except ShapeError as error:
            refusal = error
            continue
        except (IndexError, TypeError, ValueError):
            return None
        for place, rank in zip(possible, ranks, strict=True):
            place.add(rank)
        found = outcome if found is None else _joined(found, outcome)
    if found is None:
        assert refusal is not None
        raise refusal
    only = [(u, min(p)) for u, p in zip(unknown, possible, strict=True) if len(p) == 1]
    return replace(_erased(found), ranks=tuple(only))


def _numbers(call: Call) -> Iterator[int]:
    """The integers among the arguments: dimensions, and lists of them that may be as long as
    the rank.
    """

    def walk(argument: Any) -> Iterator[int]:
        if isinstance(argument, tuple | list):
            yield min(len(argument), 8)
            for item in argument:
                yield from walk(item)
        elif isinstance(argument, int) and abs(argument) <= 8:
            yield argument

    for argument in (*call.args, *call.kwargs.values()):
        yield from walk(argument)


def _at_ranks(call: Call, ranks: dict[int, int]) -> Call:
    """The call with tensors of these ranks in place of those that have none."""

    def changed(argument: Any) -> Any:
        if isinstance(argument, StandIn) and argument.place in ranks and argument.shape is None:
            dims = _new_dims(argument.place, ranks[argument.place])
            return StandIn(dims, argument.dtype, argument.place)
        if isinstance(argument, SomeObject) and argument.place in ranks:
            return _new_dims(argument.place, ranks[argument.place])
        if isinstance(argument, tuple | list):
            return type(argument)(changed(item) for item in argument)
        return argument

    args = tuple(changed(argument) for argument in call.args)
    kwargs = {name: changed(argument) for name, argument in call.kwargs.items()}
    return replace(call, args=args, kwargs=kwargs)


def _new_dims(place: int, rank: int) -> tuple[Dim, ...]:
    return tuple([symbol(f"{OPEN}{place}_{i}") for i in range(rank)])


def _joined(a: Outcome, b: Outcome) -> Outcome:
    if a.several != b.several or len(a.types) != len(b.types):
        return Outcome((TensorType(None, None),), missing="the number of results is not known")
    types = tuple(join(x, y) for x, y in zip(a.types, b.types, strict=True))
    conditions = tuple(claim for claim in a.conditions if claim in b.conditions)
    missing = a.missing or b.missing
    fresh = tuple(dict.fromkeys(a.fresh + b.fresh))
    return Outcome(types, a.several, None, conditions, fresh, missing)


def _erased(outcome: Outcome) -> Outcome:
    """Without the symbols that stood for dimensions of one rank only."""
    own = {
        atom
        for type in outcome.types
        for atom in symbols_in(type)
        if atom.startswith(OPEN) and atom not in outcome.fresh
    }
    types = tuple(_without(type, own) for type in outcome.types)
    conditions = tuple(
        claim
        for claim in outcome.conditions
        if not any(name.startswith(OPEN) for name in claim.symbols())
    )
    return replace(outcome, types=types, conditions=conditions, declaration=None)


def _without(type: Type, names: set[str]) -> Type:
    if not isinstance(type, TensorType) or type.dims is None:
        return type
    dims = tuple(None if dim is None or symbols_of(dim) & names else dim for dim in type.dims)
    return TensorType(len(dims), type.dtype, Known(dims))


def merged(outcome: Outcome, partial: Outcome | None) -> Outcome:
    """Returns what a declaration at unknown rank says, and what holds at every rank besides."""
    declaration = outcome.declaration
    told = declaration is not None and "?" not in declaration.annotation
    if partial is None or (told and len(partial.types) != len(outcome.types)):
        return outcome
    return replace(partial, declaration=declaration if told else None)


def with_computed_shapes(outcome: Outcome, node: Node) -> Outcome:
    """Returns the outcome with shape functions for shapes of unknown rank, where their name is
    known.

    They are functions of the operands' shapes, and run when the graph does: the shape that operands
    broadcast to, or the shape of the only operand of a function that keeps it.
    """
    tensors = [value for value in node.operands() if isinstance(value.type, TensorType)]
    shape: Shape | None = None
    if node.signature.rpartition(".")[2] in BROADCASTING and len(tensors) > 1:
        arguments = [value.name if value.dims is None else value.dims for value in tensors]
        shape = Computed("broadcast_shapes", tuple(arguments))
    elif outcome.declaration is not None and outcome.declaration.annotation == "* -> *":
        shape = tensors[0].shape
    if not isinstance(shape, Computed):
        return outcome
    types = tuple(
        replace(t, shape=shape) if isinstance(t, TensorType) and t.dims is None else t
        for t in outcome.types
    )
    return replace(outcome, types=types)
