"""Calls with tensors of unknown rank, or shapes of unknown length: what holds wherever they are
possible.

The operator is asked at rank 0, 1, 2 and so on, with a new symbol for every dimension. Ranks at
which it can never be called are out; what the others agree on is known: a flattened tensor has rank
1 whatever it was, a permutation of four dimensions was given four. The ranks go beyond every number
in the arguments, so that a dimension that is named exists at the last of them.

    flatten(x: float32[*])              float32[_f]
    permute(x: ?[*], (0, 2, 3, 1))      x is ?[_0, _1, _2, _3]
    add(x: float32[*], y: float32[m])   float32[broadcast_shapes(x, (m,))]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from dimsolve.ir.errors import ShapeError
from dimsolve.ir.node import Node
from dimsolve.ir.operator import Operator
from dimsolve.ir.types import Computed, Known, Shape, ShapeType, TensorType, Type

from ..algebra.poly import Dim, symbol
from .deduction import OPEN, Outcome, deduce, symbols_in
from .join import join
from .stand_ins import Call, SomeObject, StandIn

MIN_RANKS = 6
MAX_CASES = 128

_NAMES = """
    add sub mul div divide true_divide truediv floor_divide floordiv remainder mod fmod pow atan2
    maximum minimum fmax fmin eq ne lt le gt ge where logical_and logical_or logical_xor bitwise_and
    bitwise_or bitwise_xor and_ or_ xor subtract multiply lerp addcmul addcdiv hypot xlogy iadd isub
    imul itruediv and or
"""
BROADCASTING = frozenset(_NAMES.split())
"""Names of functions whose result has the shape that their operands broadcast to."""


def deduce_partial(operator: Operator, call: Call) -> Outcome | None:
    """Returns what is known of a call with tensors of unknown rank; None where it has too many of
    them, or says nothing.

    Raises ShapeError where no rank is possible.
    """
    unknown = list(_unknown(call))
    highest = max([MIN_RANKS, *[abs(n) + 2 for n in _numbers(call)], *_ranks(call)])
    if not unknown or (highest + 1) ** len(unknown) > MAX_CASES:
        return None
    found: Outcome | None = None
    possible: list[set[int]] = [set() for _ in unknown]
    refusal: ShapeError | None = None
    for ranks in product(range(highest + 1), repeat=len(unknown)):
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


def _unknown(call: Call) -> Iterator[int]:
    for place, value in enumerate(call.values):
        if isinstance(value.type, TensorType | ShapeType) and value.type.dims is None:
            yield place


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


def _ranks(call: Call) -> list[int]:
    return [value.rank + 2 for value in call.values if value.rank is not None]


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
    conditions = tuple(c for c in outcome.conditions if not c.symbols() & _open(c.symbols()))
    return replace(outcome, types=types, conditions=conditions, declaration=None)


def _open(names: set[str]) -> set[str]:
    return {name for name in names if name.startswith(OPEN)}


def _without(type: Type, names: set[str]) -> Type:
    from ..algebra.dims import symbols_of

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
