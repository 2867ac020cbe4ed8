"""Runs a graph on one device, node by node: the safety net, and the reference for everything that
is planned.

Nothing has to be known for a graph to run. What is known is checked: inputs bind the symbols of
their shapes, patterns are matched, and the shape of every result is compared with its type. A
broadcast of shapes that were not known goes through the shape function that its type names.

    g.run(torch.ones(3, 4))      n = 3 from the input float32[n, 4]

Inputs bind the symbols of their shapes together, because one may give what another needs; the
graph's conditions are checked before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, assert_never

from dimsolve.ir.errors import DimsolveError, Problem, ShapeError
from dimsolve.ir.graph import (
    Argument,
    Attachment,
    Constant,
    Device,
    ExternalCall,
    FunctionCall,
    Input,
    MakeShape,
    MatchShape,
    Node,
    OperatorCall,
    Region,
    Value,
    map_argument,
    values_in,
)
from dimsolve.ir.types import SHAPE, Computed, Dim, ScalarType, ShapeType, TensorType
from dimsolve.solver.algebra.dims import evaluate, symbols_of
from dimsolve.solver.algebra.poly import Poly
from dimsolve.solver.graphs.builder import TypedGraph
from dimsolve.solver.graphs.match import Mismatch, match
from dimsolve.solver.graphs.problems import broken_condition, place
from dimsolve.solver.problems import shape_text

from .calls import resolve
from .modes import restoring
from .rebuild import Rebuilder
from .registration.errors import presence_changed

State = Any
Externals = Mapping[str, Callable[..., Any]]


_INPUT_SHAPE = Problem(
    ShapeError,
    "input-shape",
    "{entry.kind} {entry.target} does not have the shape that the graph expects",
    "it is {entry.value.type}, given {actual}: {reason}",
)
_INPUT_DTYPE = Problem(
    ShapeError,
    "input-dtype",
    "{entry.kind} {entry.target} does not have the dtype that the graph expects",
    "it is {entry.value.type}, given {actual}",
)
_PATTERN = Problem(
    ShapeError,
    "pattern",
    "{node}: the pattern {wanted} does not match",
    "%{value} is {given}: {reason}",
)
_BROKEN_TYPE = Problem(
    ShapeError,
    "result-shape",
    "a result does not have the shape that the graph expects",
    "{what}: {actual} is not {wanted}: {reason}",
    "an operator, or an external function, does not do what is said of it",
)
_NO_ARGUMENT = Problem(
    DimsolveError,
    "no-argument",
    "{function} is called without {entry.target}",
    "{entry.target} is {entry.value.type}",
)
_TOO_MANY_ARGUMENTS = Problem(
    DimsolveError,
    "input-count",
    "the number of arguments does not match",
    "{function} takes {wanted}, {given} given",
)
_NO_STATE = Problem(
    DimsolveError,
    "no-state",
    "the {entry.kind} {entry.target} is not given",
    "{entry.target} is {entry.value.type}",
    "pass the module, or a mapping such as its state_dict, as state",
)
_NO_EXTERNAL = Problem(
    DimsolveError,
    "no-external",
    "the external function {function} is not given",
    "the graph knows it by its name only",
    'pass it: run(..., externals={{"{function}": function}})',
)
_NO_SIZE = Problem(
    DimsolveError,
    "no-size",
    "{function} needs a size that nothing gives",
    "{dim} depends on {missing}, which no input or pattern binds",
)


class Values:
    """One run of one function: ``env`` holds the values, ``sizes`` the lengths of symbols that
    are known by now.
    """

    def __init__(self, graph: TypedGraph, state: State, externals: Externals) -> None:
        self.graph = graph
        self.state = state
        self.externals = externals
        self.env: dict[Value, Any] = {}
        self.sizes: dict[str, int] = {}
        self.device: Any = None

    @property
    def _arguments(self) -> list[str]:
        entries = [entry for entry in self.graph.inputs if entry.kind == "input"]
        return list(dict.fromkeys(entry.target.partition(".")[0] for entry in entries))

    def named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments of a call by name."""
        names = self._arguments
        if len(args) > len(names):
            raise _TOO_MANY_ARGUMENTS(function=self.graph.name, wanted=len(names), given=len(args))
        return {**dict(zip(names, args, strict=False)), **kwargs}

    def bind_inputs(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Gives every input its value, binds the symbols of their shapes, and checks the
        graph's conditions.
        """
        entries = [entry for entry in self.graph.inputs if entry.kind == "input"]
        given, names = self.named(args, kwargs), self._arguments
        for name, value in kwargs.items():
            if name not in names and hasattr(value, "shape"):
                raise presence_changed(self.graph.name, name, traced=False)
        for entry in entries:
            self.env[entry.value] = found = _find(self.graph.name, entry, given)
            if found is None and isinstance(entry.value.type, TensorType):
                raise presence_changed(self.graph.name, entry.target, traced=True)
        for entry in self.graph.inputs:
            if entry.kind in ("parameter", "buffer", "constant"):
                self.env[entry.value] = self._held(entry)
        self.device = next((v.device for v in self.env.values() if hasattr(v, "device")), None)
        self._bind_shapes([entry for entry in self.graph.inputs if entry.kind != "size"])
        for entry in self.graph.inputs:
            if entry.kind == "size":
                self._bind_size(entry, given)
        for condition in self.graph.system.conditions:
            claim = condition.claim
            if claim.symbols() <= self.sizes.keys() and claim.test(self.sizes) is not True:
                raise broken_condition(condition, self.sizes)

    def _held(self, entry: Input) -> Any:
        if entry.target in self.graph.attachments:
            return self.graph.attachments[entry.target]
        if isinstance(self.state, Mapping) and entry.target in self.state:
            return self.state[entry.target]
        owner = self.state
        try:
            for part in entry.target.split("."):
                owner = getattr(owner, part)
        except AttributeError:
            raise _NO_STATE(entry=entry) from None
        return owner

    def _bind_size(self, entry: Input, given: Mapping[str, Any]) -> None:
        dim = entry.value.type.value if isinstance(entry.value.type, ScalarType) else None
        if dim is not None and symbols_of(dim) <= self.sizes.keys():
            self.env[entry.value] = self._size(dim)
            return
        self.env[entry.value] = _find(self.graph.name, entry, given)
        if dim is not None:
            self._match([dim], [int(self.env[entry.value])], f"the size {entry.target}")

    def _bind_shapes(self, entries: Sequence[Input]) -> None:
        """Lays all input shapes on their types together: one may give the symbols that another
        needs.
        """
        patterns: list[Dim | None] = []
        lengths: list[int] = []
        owners: list[Input] = []
        for entry in entries:
            actual = shape_of(self.env[entry.value])
            wanted = entry.value.dims
            if actual is None or wanted is None:
                continue
            self._check_dtype(entry)
            if len(actual) != len(wanted):
                raise _INPUT_SHAPE(
                    entry=entry, actual=shape_text(actual), reason="the ranks differ"
                )
            patterns += wanted
            lengths += actual
            owners += [entry] * len(actual)
        unknown = set().union(*[symbols_of(p) for p in patterns if p is not None])
        known: dict[str, Dim] = dict(self.sizes)
        try:
            found = match(patterns, lengths, unknown - known.keys(), known=known)
        except Mismatch as mismatch:
            entry = owners[mismatch.place]
            actual = shape_of(self.env[entry.value]) or ()
            raise _INPUT_SHAPE(
                entry=entry, actual=shape_text(actual), reason=mismatch.reason
            ) from None
        sizes = {n: size for n, size in found.bindings.items() if isinstance(size, int)}
        self.sizes.update(sizes)

    def _check_dtype(self, entry: Input) -> None:
        actual = getattr(self.env[entry.value], "dtype", None)
        wanted = entry.value.dtype
        if wanted is not None and actual is not None and str(actual) != f"torch.{wanted}":
            raise _INPUT_DTYPE(entry=entry, actual=str(actual).removeprefix("torch."))

    def _match(self, patterns: Sequence[Dim | None], lengths: Sequence[int], what: str) -> None:
        try:
            self._bind(patterns, lengths)
        except Mismatch as mismatch:
            raise _broken_type(what, patterns, lengths, mismatch.reason) from None

    def _bind(self, patterns: Sequence[Dim | None], lengths: Sequence[int]) -> None:
        """Lays patterns on lengths: symbols that are not known yet get theirs, the others must
        agree.
        """
        current = [None if p is None else self.graph.system.current(p) for p in patterns]
        names = set().union(*[symbols_of(p) for p in current if p is not None])
        known: dict[str, Dim] = {name: self.sizes[name] for name in names & self.sizes.keys()}
        found = match(current, lengths, names - known.keys(), known=known)
        for name in names - known.keys():
            size = found.bindings.get(name)
            if isinstance(size, int):
                self.sizes[name] = size

    def value(self, leaf: Argument) -> Any:
        """Returns what a leaf of an argument is when the graph runs."""
        if isinstance(leaf, Value):
            return self.env[leaf]
        if isinstance(leaf, Poly):
            return self._size(self.graph.system.current(leaf))
        if isinstance(leaf, Constant):
            return resolve(leaf.path)
        if isinstance(leaf, Device):
            import torch

            return self.device if leaf.name == "model" else torch.device(leaf.name)
        if isinstance(leaf, Attachment):
            return self.graph.attachments[leaf.name]
        return leaf

    def _size(self, dim: Dim) -> int:
        missing = symbols_of(dim) - self.sizes.keys()
        if missing:
            raise _NO_SIZE(function=self.graph.name, dim=dim, missing=", ".join(sorted(missing)))
        return evaluate(dim, self.sizes)

    def _sizes(self, dims: Sequence[Dim | None]) -> tuple[int, ...]:
        return tuple(self._size(dim) for dim in dims if dim is not None)


def _broken_type(
    what: str, wanted: Sequence[Any], actual: Sequence[int], reason: str
) -> ShapeError:
    """A result of another shape than was deduced, or than an external function was said to give."""
    return _BROKEN_TYPE(
        what=what, actual=shape_text(actual), wanted=shape_text(wanted), reason=reason
    )


def _find(function: str, entry: Input, given: Mapping[str, Any]) -> Any:
    """The argument of an input; ``mask.0`` is the first item of the argument ``mask``."""
    head, *path = entry.target.split(".")
    if head not in given:
        raise _NO_ARGUMENT(function=function, entry=entry)
    return _part(given[head], path)


def _part(value: Any, path: Sequence[str | int]) -> Any:
    """What an argument holds: an item of a list or a dict, or an attribute of an object."""
    for key in path:
        if isinstance(value, Mapping):
            value = value[key]
        elif isinstance(value, list | tuple):
            value = value[int(key)] if str(key).isdecimal() else getattr(value, str(key))
        else:
            value = getattr(value, str(key))
    return value


def shape_of(value: Any) -> tuple[int, ...] | None:
    """Returns the shape of a tensor, or a value that is a shape."""
    if hasattr(value, "shape"):
        return tuple(int(size) for size in value.shape)
    if isinstance(value, tuple | list) and all(isinstance(size, int) for size in value):
        return tuple(value)
    return None


HELD = frozenset({"parameter", "buffer", "constant"})
"""Inputs that are tensors of the model."""


def run(
    graph: TypedGraph,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    state: State = None,
    externals: Externals | None = None,
) -> Any:
    """Returns what the graph returns for these inputs. See `dimsolve.exec.graph.Graph.run`."""
    frame = Frame(graph, state, externals or {})
    frame.bind_inputs(args, kwargs)
    tree = _computed(graph, frame)
    classes = [graph.container, *[made.name for made in graph.objects.values()]]
    if not graph.left and any("<locals>" in name for name in classes):
        return tree  # nobody finds a class inside of a function by its path
    places = [*graph.left, *[m.place for m in graph.objects.values() if m.kind == "argument"]]
    given = frame.named(args, kwargs)
    objects = {place: _part(given[str(place[0])], place[1:]) for place in places}
    return Rebuilder(graph.container, graph.left, graph.objects, frame.device)(tree, objects)


@restoring
def _computed(graph: TypedGraph, frame: Frame) -> Any:
    frame.run_all()
    return map_argument(graph.returned(), frame.value)


class Frame(Values):
    """One run of one function: its nodes, in order."""

    def run_all(self) -> None:
        """Runs all nodes; what is to be run again in the backward pass is."""
        self._run_nodes(self.graph.nodes(), 0)

    def _run_nodes(self, nodes: Sequence[Node], depth: int) -> None:
        """Runs nodes that are all in ``depth`` regions, or in further ones within these."""

        def region_of(node: Node) -> Region | None:
            around = self.graph.regions_around(node)
            return around[depth] if len(around) > depth else None

        for region, group in groupby(nodes, region_of):
            if region is None:
                for node in group:
                    self.run(node)
            else:
                self._run_region(region, list(group), depth + 1)

    def _run_region(self, region: Region, nodes: Sequence[Node], depth: int) -> None:
        from .recompute import run_again

        inside = set(nodes)
        made = [value for node in nodes for value in node.outputs]
        taken = list(
            dict.fromkeys(v for node in nodes for v in node.operands() if v.producer not in inside)
        )
        used = {v for n in self.graph.nodes() if n not in inside for v in n.operands()}
        used.update(values_in(self.graph.result))
        given = [value for value in made if value in used]
        model = {entry.value for entry in self.graph.inputs if entry.kind in HELD}

        def work(*args: Any) -> tuple[Any, ...]:
            inner = Frame(self.graph, self.state, self.externals)
            inner.sizes, inner.device = self.sizes, self.device
            inner.env = {**self.env, **dict(zip(taken, args, strict=True))}
            inner._run_nodes(nodes, depth)
            return tuple([inner.env[value] for value in given])

        args = [self.env[value] for value in taken]
        held = [number for number, value in enumerate(taken) if value in model]
        self.env.update(zip(given, run_again(region, restoring(work), args, held), strict=True))

    def run(self, node: Node) -> None:
        """Runs one node and checks what it made."""
        args = tuple(map_argument(argument, self.value) for argument in node.args)
        kwargs = {
            name: map_argument(argument, self.value) for name, argument in node.kwargs.items()
        }
        result = self._computed(node, args, kwargs)
        made = _fields(result, len(node.outputs)) if node.several else (result,)
        for value, item in zip(node.outputs, made, strict=len(node.outputs) > 0):
            self.env[value] = item
            self._check(node, value, item)

    def _computed(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        match node.operation:
            case OperatorCall(path):
                return resolve(path)(*args, **kwargs)
            case FunctionCall(function, symbols):
                sizes = {name: self._size(dim) for name, dim in symbols}
                return self._called(function, sizes, args, kwargs)
            case ExternalCall(function):
                if function not in self.externals:
                    raise _NO_EXTERNAL(function=function)
                return self.externals[function](*args, **kwargs)
            case MatchShape(pattern):
                self._match_shape(node, pattern, args[0])
                return args[0]
            case MakeShape(dims):
                return tuple(self._size(self.graph.system.current(dim)) for dim in dims)
            case _:
                assert_never(node.operation)

    def _called(
        self, name: str, sizes: dict[str, int], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        callee: Any = self.graph.functions[name]
        frame = Frame(callee, self.state, self.externals)
        frame.sizes.update(sizes)
        frame.bind_inputs(args, kwargs)
        frame.run_all()
        return map_argument(callee.result, frame.value)

    def _match_shape(self, node: Node, pattern: tuple[Dim | None, ...], value: Any) -> None:
        actual, reason = shape_of(value), "the ranks differ"
        if actual is not None and len(actual) == len(pattern):
            try:
                return self._bind(pattern, actual)
            except Mismatch as mismatch:
                reason = mismatch.reason
        raise _PATTERN(
            node=place(node),
            wanted=shape_text(pattern),
            value=node.operands()[0].name,
            given="no shape" if actual is None else shape_text(actual),
            reason=reason,
        )

    def _check(self, node: Node, value: Value, item: Any) -> None:
        """The shape of a result is what its type says; symbols that only running tells are
        bound here.
        """
        type = value.type
        actual = shape_of(item)
        if actual is None or not isinstance(type, TensorType | ShapeType):
            if isinstance(type, ScalarType) and type.value is not None:
                self._match([type.value], [int(item)], f"%{value.name}, {place(node)}")
            return
        if isinstance(type, TensorType) and isinstance(type.shape, Computed):
            self._check_computed(node, value, type.shape, actual)
        dims = type.dims
        if dims is None:
            return
        what = f"%{value.name}: {type}, {place(node)}"
        if len(dims) != len(actual):
            raise _broken_type(what, dims, actual, "the ranks differ")
        self._match(dims, actual, what)

    def _check_computed(
        self, node: Node, value: Value, shape: Computed, actual: Sequence[int]
    ) -> None:
        arguments = [
            self._shape_value(self.graph.values[a]) if isinstance(a, str) else self._sizes(a)
            for a in shape.arguments
        ]
        if shape.function == SHAPE:
            wanted = tuple(arguments[0])
        elif shape.function in self.externals:
            wanted = tuple(self.externals[shape.function](*arguments))
        elif shape.function == "broadcast_shapes":
            import torch

            wanted = tuple(torch.broadcast_shapes(*arguments))
        else:
            return
        if wanted != tuple(actual):
            what = f"%{value.name}: {value.type}, {place(node)}"
            raise _broken_type(what, wanted, actual, f"{shape} is {wanted}")

    def _shape_value(self, value: Value) -> tuple[int, ...]:
        shape = shape_of(self.env[value])
        assert shape is not None
        return shape


def _fields(result: Any, count: int) -> tuple[Any, ...]:
    """The values of a function's result, one for each of so many outputs: its fields, where these
    are as many, or else its leaves. An output may be a tuple of its own.
    """
    if isinstance(result, tuple | list) and len(result) == count:
        return tuple(result)
    return _leaves(result)


def _leaves(result: Any) -> tuple[Any, ...]:
    """The values of a function's result, in the order in which a call makes them."""
    if isinstance(result, Mapping):
        return tuple(leaf for item in result.values() for leaf in _leaves(item))
    if isinstance(result, tuple | list):
        return tuple(leaf for item in result for leaf in _leaves(item))
    return (result,)
