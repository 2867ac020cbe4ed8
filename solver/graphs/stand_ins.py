"""Arguments as operators see them: tensors that are only a shape and a dtype.

A declaration reads shapes and dtypes, so a `StandIn` can take a tensor's place. Encoding a call's
arguments also gives its key: two calls with equal keys have equal declarations, so that the
equations of a layer that is repeated are solved once.

    linear(%x: float32[batch, 512], %w: float32[64, 512], None) arguments   (StandIn((batch, 512)),
    StandIn((64, 512)), None)      key   (("t", (batch, 512), "float32"), ...)
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from dimsolve.ir.node import Argument, Value
from dimsolve.ir.types import ScalarType, ShapeType, TensorType, TupleType, Type

from ..algebra.poly import Dim


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
