"""Values and nodes: the parts of a graph in SSA form.

A `Value` is made once, by a node or as an input, and has a type. A `Node` calls something (an
operator, a function of the module, an external function, or matches a shape) on values and
constants, and makes one value, or several where what it calls returns a tuple.

    %lv0: float32[n, m*2] = torch.reshape(%x, (n, m*2))       Node("lv0",
    OperatorCall("torch.reshape"), args, ...)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .types import Dim, ScalarType, Shape, ShapeType, TensorType, Type

if TYPE_CHECKING:
    from .graph import Graph
    from .operator import Declaration


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


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """Calls an operator by its import path; methods stand as ``torch.Tensor.view``."""

    path: str


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """Calls a graph of the same module by its name. ``symbols``: lengths of its symbols that the
    caller gives outright.
    """

    function: str
    symbols: tuple[tuple[str, Dim], ...] = ()


@dataclass(frozen=True, slots=True)
class ExternalCall:
    """Calls a function that is known by name only; ``result`` is the type it is said to return."""

    function: str
    result: Type


@dataclass(frozen=True, slots=True)
class MatchShape:
    """Matches the shape of a tensor, or a shape, to a pattern: symbols seen first are bound, the
    rest is asserted.
    """

    pattern: tuple[Dim | None, ...]


@dataclass(frozen=True, slots=True)
class MakeShape:
    """Makes a shape from dimensions."""

    dims: tuple[Dim, ...]


Operation: TypeAlias = OperatorCall | FunctionCall | ExternalCall | MatchShape | MakeShape


@dataclass(frozen=True, slots=True)
class Source:
    """A line of the model's own code. ``file`` is relative: to the package it was installed with,
    or to where Python ran.
    """

    file: str
    line: int
    code: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


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


class Node:
    """One call. ``id`` is unique in its graph; ``outputs`` are the values it makes.

    ``several``: what it calls returns a tuple, whose fields the outputs are. ``source`` is the line
    of the model and ``module`` the path of the module (``model.layers.0.mlp``) that made the call.
    ``declaration`` is what the operator promises for this call, where its annotation is known;
    planners read it.
    """

    __slots__ = (
        "args",
        "declaration",
        "id",
        "kwargs",
        "module",
        "name",
        "operation",
        "outputs",
        "several",
        "source",
    )

    def __init__(
        self,
        id: str,
        operation: Operation,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        *,
        several: bool = False,
        source: Source | None = None,
        module: str = "",
        name: str = "",
    ) -> None:
        self.id = id
        self.operation = operation
        self.args = args
        self.kwargs = kwargs
        self.several = several
        self.source = source
        self.module = module
        self.name = name or self.signature.rpartition(".")[2]
        self.outputs: tuple[Value, ...] = ()
        self.declaration: Declaration | None = None

    @property
    def signature(self) -> str:
        """The full name of what is called: ``torch.nn.functional.linear``."""
        match self.operation:
            case OperatorCall(path):
                return path
            case FunctionCall(function) | ExternalCall(function):
                return function
            case MatchShape():
                return "match_shape"
            case MakeShape():
                return "shape"

    @property
    def annotation(self) -> str:
        """The annotation that holds for this call; ``""`` where the operator has none."""
        return self.declaration.annotation if self.declaration is not None else ""

    @property
    def inputs(self) -> tuple[Value | None, ...]:
        """The annotated inputs, in order (None for an absent one); all values used, where there is
        no annotation.
        """
        if self.declaration is not None:
            return tuple(self.declaration.inputs)
        return tuple(dict.fromkeys(self.operands()))

    @property
    def output(self) -> Value:
        """The only output. Raises ValueError where there are several."""
        (value,) = self.outputs
        return value

    def operands(self) -> list[Value]:
        """Returns the values in the arguments, from left to right, each as often as it occurs."""
        return [*values_in(self.args), *values_in(self.kwargs)]

    def algorithm(self, tag: str) -> Algorithm:
        """Returns the way of partitioning with this tag, for ``graph.partition``. There is one,
        ``"dim"``: along annotated dimensions.
        """
        if tag != "dim":
            raise ValueError(f"{self.id} has no algorithm {tag!r}; write node.algorithm('dim')")
        return Algorithm(self, tag)

    def __repr__(self) -> str:
        return f"<Node {self.id}: {self.signature}>"


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A way to partition a node, by its tag."""

    node: Node
    tag: str


InputKind: TypeAlias = Literal["input", "parameter", "buffer", "constant", "size"]


@dataclass(frozen=True, slots=True)
class Input:
    """Where an input value comes from.

    kind: an argument of the call, a parameter or buffer of the model, a constant tensor, or a size
    (an integer that is the length of some input's dimension). target: the argument's name, or the
    qualified name in the model (``lm_head.weight``).
    """

    value: Value
    kind: InputKind
    target: str
