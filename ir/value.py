"""Values, and the constants that stand beside them in the arguments of a call.

A `Value` is made once, by a node or as an input, and has a type. What torch names (a dtype, a
device) is held by its name, so that a graph is data without torch.

    torch.full((n, 2), 0.5, dtype=torch.float16)     args ((n, 2), 0.5)    kwargs {"dtype":
    Constant("torch.float16")}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from .types import Dim, ScalarType, Shape, ShapeType, TensorType, Type

if TYPE_CHECKING:
    from .graph import Graph
    from .node import Node


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant that is named, not written: ``torch.float32``. ``path`` says where it is imported
    from.
    """

    path: str

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True)
class Device:
    """A device that was named in a call, as text: ``cuda:0``."""

    name: str

    def __str__(self) -> str:
        return f"device {self.name}"


@dataclass(frozen=True, slots=True)
class Attachment:
    """An object that a traced program brought along, kept in ``Graph.attachments``: no JSON
    holds it.
    """

    name: str

    def __str__(self) -> str:
        return f"attached {self.name}"


class Value:
    """A value of a graph. Its type is what deduction knows of it by now.

    Arithmetic, indexing and torch functions on values append nodes to the graph that they belong
    to.
    """

    __slots__ = ("graph", "name", "producer", "type")

    graph: Graph
    name: str
    type: Type
    producer: Node | None

    def __init__(self, graph: Graph, name: str, type: Type, producer: Node | None = None) -> None:
        self.graph = graph
        self.name = name
        self.type = type
        self.producer = producer

    @property
    def shape(self) -> Shape | None:
        """The shape of a tensor in one of its three cases; None for other values."""
        return self.type.shape if isinstance(self.type, TensorType) else None

    @property
    def dims(self) -> tuple[Dim | None, ...] | None:
        """The dimensions of a tensor or a shape, as far as they are known."""
        return self.type.dims if isinstance(self.type, TensorType | ShapeType) else None

    @property
    def rank(self) -> int | None:
        """How many dimensions a tensor or a shape has, if that is known."""
        return self.type.rank if isinstance(self.type, TensorType | ShapeType) else None

    @property
    def dtype(self) -> str | None:
        """The dtype of a tensor or a number, if it is known."""
        return self.type.dtype if isinstance(self.type, TensorType | ScalarType) else None

    def __repr__(self) -> str:
        return f"<Value %{self.name}: {self.type}>"

    def __str__(self) -> str:
        return f"%{self.name}"

    def __bool__(self) -> bool:
        raise TypeError(f"%{self.name} has no truth value: what a graph does cannot depend on data")

    def __iter__(self) -> Iterator[Value]:
        rank = self.rank if isinstance(self.type, ShapeType) else None
        if rank is None:
            raise TypeError(f"%{self.name} ({self.type}) cannot be unpacked")
        return iter([self[i] for i in range(rank)])

    def __getitem__(self, index: Any) -> Value:
        result: Value = self.graph.call("_operator.getitem", self, index)
        return result

    def __neg__(self) -> Value:
        result: Value = self.graph.call("_operator.neg", self)
        return result

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: tuple[Any, ...],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Appends a call of a torch function; torch calls this where one of its functions is given
        a value.
        """
        value = next(value for value in values_in((*args, *(kwargs or {}).values())))
        return value.graph.call(func, *args, **(kwargs or {}))


def _binary(path: str, *, swapped: bool = False) -> Callable[[Value, Any], Value]:
    def method(self: Value, other: Any) -> Value:
        left, right = (other, self) if swapped else (self, other)
        result: Value = self.graph.call(path, left, right)
        return result

    return method


for _name in (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "matmul",
    "pow",
    "and",
    "or",
    "xor",
):
    _path = f"_operator.{_name}_" if _name in ("and", "or") else f"_operator.{_name}"
    setattr(Value, f"__{_name}__", _binary(_path))
    setattr(Value, f"__r{_name}__", _binary(_path, swapped=True))
for _name in ("lt", "le", "gt", "ge"):
    setattr(Value, f"__{_name}__", _binary(f"_operator.{_name}"))

Argument: TypeAlias = Any
"""A tree of tuples, lists, dicts and slices over Values, Python numbers and texts, Constants,
Devices and Dims.
"""


def values_in(argument: Argument) -> Iterator[Value]:
    """Yields the values that occur in an argument tree, from left to right, each as often as it
    occurs.
    """
    if isinstance(argument, Value):
        yield argument
    elif isinstance(argument, tuple | list):
        for item in argument:
            yield from values_in(item)
    elif isinstance(argument, dict):
        for item in argument.values():
            yield from values_in(item)
    elif isinstance(argument, slice):
        yield from values_in((argument.start, argument.stop, argument.step))


def map_argument(argument: Argument, change: Callable[[Any], Any]) -> Argument:
    """Returns the tree with every leaf changed; containers keep their kind."""
    if isinstance(argument, tuple):
        return tuple([map_argument(item, change) for item in argument])
    if isinstance(argument, list):
        return [map_argument(item, change) for item in argument]
    if isinstance(argument, dict):
        return {key: map_argument(item, change) for key, item in argument.items()}
    if isinstance(argument, slice):
        parts = (argument.start, argument.stop, argument.step)
        return slice(*[map_argument(part, change) for part in parts])
    return change(argument)
