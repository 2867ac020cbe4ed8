"""The graph: a function in SSA form, its values and nodes, and the functions of its module.

    shape_example(%x: float32[n, m, 2]):
      %lv0: float32[n, m*2] = torch.reshape(%x, (n, m*2))
      %lv1: float32[2*n*m] = torch.flatten(%lv0)
      return %lv1

A `Node` calls something (an operator, a function of the module, an external function, or matches a
shape) on values and constants, and makes one `Value`, or several where what it calls returns a
tuple. Here is structure only: what was built, in which order, and that it is well formed. Types are
filled in by the solver's `TypedGraph`, which the public ``dimsolve.Graph`` is.

What torch names (a dtype, a device) is held by its name, so that a graph is data without torch:

    torch.full((n, 2), 0.5, dtype=torch.float16)
    args ((n, 2), 0.5)    kwargs {"dtype": Constant("torch.float16")}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .display import Displayed, render
from .errors import GraphError, Problem
from .types import Computed, Dim, ScalarType, Shape, ShapeType, TensorType, Type

if TYPE_CHECKING:
    from .operator import Declaration


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant that is named, not written: ``torch.float32``. ``path``: its import path."""

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
    """An object that a traced program brought along, in ``Graph.attachments``; never in JSON."""

    name: str

    def __str__(self) -> str:
        return f"attached {self.name}"


Place: TypeAlias = "tuple[str | int, ...]"
"""Where something is in a tree: the keys on the way to it."""


@dataclass(frozen=True, slots=True)
class Made:
    """What a tree of plain containers stands for at one place.

    kind: ``class``, a new object of the class that ``name`` is the import path of, whose attributes
    or items the tree has; ``argument``, the object that the caller gave at ``place``; ``same``, the
    object that is at another ``place`` too; ``constant``, what has the import path ``name``;
    ``device``, the device of that name.
    """

    kind: Literal["class", "argument", "same", "constant", "device"]
    name: str = ""
    place: Place = ()


@dataclass(frozen=True, slots=True)
class Left:
    """What a function leaves of an object or a container that it was given. ``parts``: of a list
    all, else those that it has set; ``removed``: the keys that it has taken out.
    """

    parts: Mapping[Any, Any]
    removed: tuple[str | int, ...] = ()


@dataclass(slots=True, eq=False, repr=False)
class Value:
    """A value of a graph. Its type is what deduction knows of it by now.

    Arithmetic, indexing and torch functions on values append nodes to their graph.
    """

    graph: Graph
    name: str
    type: Type
    producer: Node | None = None

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
        """Appends a call of a torch function: torch calls this where one is given a value."""
        value = next(value for value in values_in((*args, *(kwargs or {}).values())))
        return value.graph.call(func, *args, **(kwargs or {}))


def _binary(path: str, *, swapped: bool = False) -> Callable[[Value, Any], Value]:
    def method(self: Value, other: Any) -> Value:
        left, right = (other, self) if swapped else (self, other)
        result: Value = self.graph.call(path, left, right)
        return result

    return method


_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "matmul", "pow", "xor")
for _name, _path in [*((n, n) for n in _ARITHMETIC), ("and", "and_"), ("or", "or_")]:
    setattr(Value, f"__{_name}__", _binary(f"_operator.{_path}"))
    setattr(Value, f"__r{_name}__", _binary(f"_operator.{_path}", swapped=True))
for _name in ("lt", "le", "gt", "ge"):
    setattr(Value, f"__{_name}__", _binary(f"_operator.{_name}"))

_MALFORMED = Problem(GraphError, "malformed-graph", "the graph is not well formed", "{reason}")
_NO_ALGORITHM = Problem(
    GraphError,
    "no-such-algorithm",
    "there is no such algorithm",
    "{id} has no algorithm {tag!r:.60}",
    'write node.algorithm("dim"): along annotated dimensions',
)

Argument: TypeAlias = Any
"""A tree of tuples, lists, dicts and slices over Values, Python numbers and texts, Constants,
Devices and Dims.
"""


def values_in(argument: Argument) -> Iterator[Value]:
    """Yields the values in an argument tree from left to right, as often as they occur."""
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


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """Calls an operator by its import path; methods stand as ``torch.Tensor.view``."""

    path: str


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """Calls a graph of the same module. ``symbols``: lengths that the caller gives outright."""

    function: str
    symbols: tuple[tuple[str, Dim], ...] = ()


@dataclass(frozen=True, slots=True)
class ExternalCall:
    """Calls a function that is known by name only; ``result`` is the type it is said to return."""

    function: str
    result: Type


@dataclass(frozen=True, slots=True)
class MatchShape:
    """Matches a shape to a pattern: symbols seen first are bound, the rest is asserted."""

    pattern: tuple[Dim | None, ...]


@dataclass(frozen=True, slots=True)
class MakeShape:
    """Makes a shape from dimensions."""

    dims: tuple[Dim, ...]


Operation: TypeAlias = OperatorCall | FunctionCall | ExternalCall | MatchShape | MakeShape


@dataclass(frozen=True, slots=True)
class Region:
    """Nodes that are run again in the backward pass: what they make is not kept until then.

    The nodes say which region they are in (``Node.region``); those of one region stand one after
    another. ``within``: the region that this one is a part of, or ``""``. The other fields are the
    arguments of ``torch.utils.checkpoint.checkpoint``, and mean what torch says of them.
    """

    name: str
    within: str = ""
    use_reentrant: bool = False
    preserve_rng_state: bool = True
    determinism_check: Literal["default", "none"] = "default"
    early_stop: bool = True
    debug: bool = False

    def arguments(self) -> dict[str, bool | str]:
        """Returns how torch is called: ``use_reentrant``, and what differs from torch's defaults.

        >>> Region("block", preserve_rng_state=False).arguments()
        {'use_reentrant': False, 'preserve_rng_state': False}
        """
        defaults = Region("")
        return {
            name: getattr(self, name)
            for name in CONTRACT
            if name == "use_reentrant" or getattr(self, name) != getattr(defaults, name)
        }

    def __str__(self) -> str:
        inner = ", ".join(f"{name}={value!r}" for name, value in self.arguments().items())
        return f"checkpoint {self.name}({inner})"


CONTRACT = ("use_reentrant", "preserve_rng_state", "determinism_check", "early_stop", "debug")
"""The arguments of ``torch.utils.checkpoint.checkpoint`` that a region keeps."""


@dataclass(frozen=True, slots=True)
class Source:
    """A line of the model's own code; ``file`` is relative to its package or working directory."""

    file: str
    line: int
    code: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """One call. ``id`` is unique in its graph; ``outputs`` are the values it makes.

    ``several``: what it calls returns a tuple, whose fields the outputs are. ``source`` is the line
    of the model and ``module`` the path of the module (``model.layers.0.mlp``) that made the call.
    ``declaration`` is what the operator promises for this call, where its annotation is known;
    planners read it. ``declared`` is what the JSON that it was read from says of that. ``region``
    is the innermost region that it is in, or ``""``. ``order``, of a call that draws: how the
    dimensions of its first tensor lie in memory, the outermost first, where that is not their own
    order.
    """

    id: str
    operation: Operation
    args: tuple[Argument, ...]
    kwargs: dict[str, Argument]
    several: bool = field(default=False, kw_only=True)
    source: Source | None = field(default=None, kw_only=True)
    module: str = field(default="", kw_only=True)
    name: str = field(default="", kw_only=True)
    declared: Declaration | None = field(default=None, kw_only=True)
    region: str = field(default="", kw_only=True)
    order: tuple[int, ...] = field(default=(), kw_only=True)
    outputs: tuple[Value, ...] = field(default=(), init=False)
    declaration: Declaration | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.name = self.name or self.signature.rpartition(".")[2]

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
        """The annotated inputs in order, None for an absent one; else all values used."""
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
        """Returns the way of partitioning with this tag: ``"dim"``, along annotated dimensions."""
        if tag != "dim":
            raise _NO_ALGORITHM(id=self.id, tag=tag)
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


class Graph(Displayed):
    """A function of typed values. ``functions``: the graphs that its nodes call, by name.

    ``result`` is what the function returns, a tree whose leaves are values; ``outputs`` are these
    values by name. ``container`` is the import path of the class that the tree was taken from, or
    ``""``. ``settings`` are the arguments of the traced call that are no tensors: they are part of
    the graph. ``autocast``: under which autocast the call was traced, ``{"cpu": "bfloat16"}``;
    ``dtype_reads``: under which it would have read other dtypes, and where, ``{"cpu off": "a:3"}``.
    ``regions`` are the parts that are run again in the backward pass, by name, each after the one
    that it is within.

    ``left`` is what the function leaves of the objects that it was given, by their places: a cache
    that has grown. ``objects`` says which places of what is returned, under ``returned``, and left,
    under ``left`` and a number, are objects of classes.
    """

    def __init__(self, name: str = "main") -> None:
        self.name = name
        self.values: dict[str, Value] = {}
        self.inputs: list[Input] = []
        self.result: Argument = ()
        self.outputs: dict[str, Value] = {}
        self.container = ""
        self.left: dict[Place, Left] = {}
        self.objects: dict[Place, Made] = {}
        self.facts: list[str] = []
        self.checks: list[tuple[str, str]] = []
        self.strict = False
        self.attachments: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}
        self.autocast: dict[str, str] = {}
        self.dtype_reads: dict[str, str] = {}
        self.functions: dict[str, Graph] = {}
        self.regions: dict[str, Region] = {}
        self._nodes: list[Node] = []
        self._silent: set[str] = set()

    def nodes(self) -> list[Node]:
        """Returns the nodes in the order in which they run."""
        return list(self._nodes)

    def node(self, id: str) -> Node:
        """Returns the node with this id; KeyError where there is none."""
        for node in self._nodes:
            if node.id == id:
                return node
        raise KeyError(id)

    def users(self, value: Value) -> list[Node]:
        """Returns the nodes that use a value, in order."""
        return [node for node in self._nodes if value in node.operands()]

    def parameters(self) -> Iterator[Input]:
        """Yields the inputs that are parameters of the model."""
        return (entry for entry in self.inputs if entry.kind == "parameter")

    def add_region(self, region: Region) -> None:
        """Adds a region that nodes may be in. GraphError where its name is taken, or where the
        region that it is within is not known.
        """
        if region.name in self.regions:
            raise _MALFORMED(reason=f"two regions are named {region.name}")
        if region.within and region.within not in self.regions:
            raise _MALFORMED(
                reason=f"{region.name} is within {region.within}, which is no region before"
            )
        self.regions[region.name] = region

    def fresh_region(self, preferred: str) -> str:
        """Returns the name of a region, numbered where it is taken."""
        name, number = preferred, 0
        while name in self.regions:
            number += 1
            name = f"{preferred}_{number}"
        return name

    def regions_around(self, node: Node) -> tuple[Region, ...]:
        """Returns the regions that a node is in, the outermost first."""
        found: list[Region] = []
        name = node.region
        while name:
            found.append(self.regions[name])
            name = found[-1].within
        return tuple(reversed(found))

    def fresh_name(self, name: str) -> str:
        """Returns the name, numbered where it is taken: ``add``, ``add_1``, ``add_2``.

        ``chunk`` is taken too where ``chunk.0`` is a value: the first of a call with several; and
        ``setitem`` by a node of this id, which makes no value.
        """
        free, number = name, 0
        while free in self.values or f"{free}.0" in self.values or free in self._silent:
            number += 1
            free = f"{name}_{number}"
        return free

    def add_input(
        self, name: str, type: Type, kind: InputKind = "input", target: str | None = None
    ) -> Value:
        """Appends an input of this type and returns its value."""
        value = self._add_value(name, type, None)
        self.inputs.append(Input(value, kind, name if target is None else target))
        return value

    def add_node(self, node: Node, types: tuple[Type, ...], names: tuple[str, ...] = ()) -> Node:
        """Appends a node that makes values of these types, named after its id by default."""
        if not names and len(types) == 1 and not node.several:
            names = (node.id,)
        names = names or tuple(f"{node.id}.{i}" for i in range(len(types)))
        made = [self._add_value(n, t, node) for n, t in zip(names, types, strict=True)]
        node.outputs = tuple(made)
        if not node.outputs:
            self._silent.add(node.id)
        self._nodes.append(node)
        return node

    def _add_value(self, name: str, type: Type, producer: Node | None) -> Value:
        if name in self.values:
            raise _MALFORMED(reason=f"two values are named %{name}")
        value = self.values[name] = Value(self, name, type, producer)
        return value

    def set_result(self, result: Argument, outputs: dict[str, Value]) -> None:
        """Says what the function returns."""
        self.result = result
        self.outputs = outputs

    def returned(self) -> Argument:
        """Returns the tree of all that a program of the graph hands out: the result, and where the
        function changes what it was given, what it leaves of that.
        """
        if not self.left:
            return self.result
        left = [dict(item.parts) for item in self.left.values()]
        return {"returned": self.result, "left": left}

    def call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Appends a call; only graphs that deduce types can."""
        raise NotImplementedError("build with dimsolve.Graph, which deduces types")

    def verify(self) -> None:
        """Checks that the graph is well formed; raises GraphError naming what is not.

        Every value is made once, before its uses, by the node it names; names are unique; outputs
        exist; called functions exist and call no function that calls them. The nodes of a region
        stand one after another.
        """
        made: dict[str, Value] = {}
        for entry in self.inputs:
            self._verify_made(entry.value, None, made)
        ids: set[str] = set()
        for node in self._nodes:
            if node.id in ids:
                raise _MALFORMED(reason=f"two nodes are named {node.id}")
            ids.add(node.id)
            for value in node.operands():
                if made.get(value.name) is not value:
                    raise _MALFORMED(reason=f"{node.id} uses %{value.name} before it is made")
            for value in node.outputs:
                self._verify_made(value, node, made)
            if isinstance(node.operation, MatchShape) and len(node.operands()) != 1:
                raise _MALFORMED(reason=f"{node.id} matches {len(node.operands())} values, not one")
        for value in self.outputs.values():
            if made.get(value.name) is not value:
                raise _MALFORMED(reason=f"the output %{value.name} is made by no node")
        returned = set(values_in(self.returned()))
        for name, value in self.outputs.items():
            if value not in returned:
                raise _MALFORMED(
                    reason=f"the output {name} is %{value.name}, which is not returned"
                )
        for value in returned:
            if made.get(value.name) is not value:
                raise _MALFORMED(reason=f"%{value.name} is returned and made by no node")
        if set(made) != set(self.values):
            stray = sorted(set(self.values) - set(made))
            raise _MALFORMED(reason=f"%{stray[0]} is made by no node and is no input")
        self._verify_regions()
        self._verify_functions((self.name,))

    def _verify_made(self, value: Value, producer: Node | None, made: dict[str, Value]) -> None:
        if value.name in made:
            raise _MALFORMED(reason=f"%{value.name} is made twice")
        if value.producer is not producer or value.graph is not self:
            raise _MALFORMED(reason=f"%{value.name} is not a value of this node")
        if self.values.get(value.name) is not value:
            raise _MALFORMED(reason=f"%{value.name} is not listed among the values")
        made[value.name] = value

    def _verify_regions(self) -> None:
        before: tuple[str, ...] = ()
        ended: set[str] = set()
        for node in self._nodes:
            if node.region and node.region not in self.regions:
                raise _MALFORMED(
                    reason=f"{node.id} is in the region {node.region}, which there is not"
                )
            around = tuple([region.name for region in self.regions_around(node)])
            ended.update(set(before) - set(around))
            again = next((name for name in around if name in ended), None)
            if again is not None:
                raise _MALFORMED(
                    reason=f"{node.id} is in the region {again}, which has ended before it"
                )
            before = around

    def _verify_functions(self, path: tuple[str, ...]) -> None:

        for node in self._nodes:
            if isinstance(node.operation, FunctionCall):
                called = self.functions.get(node.operation.function)
                if called is None:
                    raise _MALFORMED(
                        reason=f"{node.id} calls {node.operation.function}, which the module lacks"
                    )
                if called.name in path:
                    raise _MALFORMED(
                        reason=f"{called.name} calls itself through {' -> '.join(path)}"
                    )
                called._verify_functions((*path, called.name))

    def drop_inputs(self, entries: list[Input]) -> None:
        """Removes inputs that nothing uses."""
        for entry in entries:
            self.inputs.remove(entry)
            del self.values[entry.value.name]

    def replace_uses(self, old: Value, new: Value) -> None:
        """Makes every node and output that used ``old`` use ``new``."""

        def change(leaf: Any) -> Any:
            return new if leaf is old else leaf

        for node in self._nodes:
            node.args = map_argument(node.args, change)
            node.kwargs = map_argument(node.kwargs, change)
        self.result = map_argument(self.result, change)
        self.outputs = {name: change(value) for name, value in self.outputs.items()}

    def erase(self, node: Node) -> None:
        """Removes a node whose values nothing uses; GraphError where something does."""
        for value in node.outputs:
            used = self.users(value)
            if used or value in self.outputs.values():
                by = used[0].id if used else "the output"
                raise _MALFORMED(reason=f"{node.id} cannot be removed: {by} uses %{value.name}")
        for value in node.outputs:
            del self.values[value.name]
        self._nodes.remove(node)

    def rename(self, value: Value, name: str) -> None:
        """Gives a value another name, which must be free."""
        if name in self.values:
            raise _MALFORMED(reason=f"two values are named %{name}")
        old = value.name
        self.values = {name if v is value else n: v for n, v in self.values.items()}
        value.name = name
        for other in self.values.values():
            other.type = _renamed(other.type, old, name)

    def move(self, node: Node, before: Node) -> None:
        """Moves a node to stand just before another one."""
        self._nodes.remove(node)
        self._nodes.insert(self._nodes.index(before), node)

    def map_nodes(self, visit: Callable[[Node], None]) -> None:
        """Visits every node in order, then those of each function of the module."""
        for node in self.nodes():
            visit(node)
        for function in self.functions.values():
            function.map_nodes(visit)

    def __str__(self) -> str:
        return str(render(self, "text"))

    def __repr__(self) -> str:
        return f"<Graph {self.name}: {len(self._nodes)} nodes>"

    def show(self) -> str:
        """Returns the graph as text: one line per node, with the type of every value."""
        return str(self)


def _renamed(type: Type, old: str, new: str) -> Type:
    """The type with a value's name replaced where a shape is computed from it."""
    if isinstance(type, TensorType) and isinstance(type.shape, Computed):
        arguments = tuple(new if a == old else a for a in type.shape.arguments)
        return replace(type, shape=replace(type.shape, arguments=arguments))
    return type
