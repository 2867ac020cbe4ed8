"""The inputs of a captured program, as inputs of a graph: arguments, parameters, buffers, sizes.

    x: float32[batch, 8] with batch dynamic    %x, and torch's symbol s52 is batch
    a size of an argument that is itself unused    %batch: int, found by where torch has it from

Arguments come first, in the order of the call, then what the program takes besides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dimsolve.ir.node import InputKind, Value, values_in
from dimsolve.ir.types import Known, ScalarType, TensorType
from dimsolve.solver.algebra.poly import Dim

from ..graph import Graph
from .capture import Capture
from .confirm import dtype_of
from .fx_names import named
from .guards import specialised
from .torch_dims import TorchDims

CONSTANT: InputKind = "constant"


class Inputs:
    """Adds a capture's inputs to a graph. torch's symbols are bound to the names of ``dynamic``."""

    def __init__(self, graph: Graph, captured: Capture, dims: TorchDims, model: Any) -> None:
        self.graph = graph
        self.captured = captured
        self.dims = dims
        self.state: dict[int, tuple[str, InputKind]] = {}
        kinds: tuple[InputKind, ...] = ("parameter", "buffer")
        for kind in kinds:
            for name, tensor in named(model, f"named_{kind}s"):
                self.state.setdefault(id(tensor), (name, kind))

    def values(self, nodes: list[Any]) -> dict[Any, Value]:
        """Returns the graph's value of every placeholder. Raises ShapeError where the model fixes
        what was to be dynamic.
        """
        placeholders = [node for node in nodes if node.op == "placeholder"]
        examples = dict(zip(placeholders, self.captured.examples, strict=True))
        places = {id(tensor): i for i, tensor in enumerate(self.captured.tensors)}
        used = {
            places[id(example)]: node
            for node, example in examples.items()
            if id(example) in places and not isinstance(example, int)
        }
        values: dict[Any, Value] = {}
        for place, leaf in enumerate(self.captured.leaves):
            if hasattr(leaf.value, "dtype"):
                node = used.get(place)
                value = self._argument(place, leaf.name, leaf.dims, node)
                if node is not None:
                    values[node] = value
            else:
                self.graph.settings[leaf.name] = leaf.value
        self._bind_unused(placeholders)
        for node, example in examples.items():
            if node not in values:
                values[node] = self._held(node, example)
        return values

    def _argument(
        self, place: int, name: str, dynamic: Mapping[int, Dim], node: Any | None
    ) -> Value:
        tensor = self.captured.tensors[place]
        shape = tensor.shape if node is None else node.meta["example_value"].shape
        dims: list[Dim] = []
        for index, size in enumerate(shape):
            dim = dynamic.get(index)
            if dim is not None and node is not None:
                self._bind(name, index, dim, size)
            dims.append(int(tensor.shape[index]) if dim is None else dim)
        wish = "".join(c if c.isalnum() else "_" for c in name)
        type = TensorType(len(dims), dtype_of(tensor), Known(tuple(dims)))
        return self.graph.input(self.graph.fresh_name(wish), type, target=name)

    def _bind(self, name: str, index: int, dim: Dim, size: Any) -> None:
        node = getattr(size, "node", None)
        expression: Any = getattr(node, "expr", None)
        if not getattr(expression, "is_Symbol", False):
            raise specialised(name, index, dim, size)
        own: Any = getattr(node, "_expr", expression)  # before torch found it equal to another one
        for found in (expression, own):
            if found.name not in self.dims.symbols:
                self.dims.bind(found, dim)

    def _bind_unused(self, placeholders: list[Any]) -> None:
        """Binds the sizes of arguments that the program does not take, by where they are from."""
        leaves = {leaf.path: leaf for leaf in self.captured.leaves}
        for symbol, path, index in _sizes_of_arguments(placeholders):
            leaf = leaves.get(path)
            if leaf is not None and index in leaf.dims and symbol.name not in self.dims.symbols:
                self.dims.bind(symbol, leaf.dims[index])

    def _held(self, node: Any, example: Any) -> Value:
        """A placeholder that is no argument: a parameter, a buffer, a size, or a constant of
        the program.
        """
        fake = node.meta["example_value"]
        if not hasattr(fake, "dtype"):
            return self._size(self.dims.dim(fake))
        dims = self.dims.shape(fake)
        type = TensorType(len(dims), dtype_of(fake), Known(dims))
        name, kind = self.state.get(id(example), (node.name, CONSTANT))
        if kind == "constant":
            self.graph.attachments[name] = example
        wish = "".join(c if c.isalnum() else "_" for c in name)
        return self.graph.input(self.graph.fresh_name(wish), type, kind=kind, target=name)

    def returned(self, result: Any) -> Value | None:
        """Returns the value of a parameter or buffer that the model returns as it is; None for
        anything else.
        """
        if id(result) not in self.state:
            return None
        name, kind = self.state[id(result)]
        found = next(
            (e.value for e in self.graph.inputs if (e.target, e.kind) == (name, kind)), None
        )
        if found is not None:
            return found
        type = TensorType(result.ndim, dtype_of(result), Known(tuple(result.shape)))
        wish = "".join(c if c.isalnum() else "_" for c in name)
        return self.graph.input(self.graph.fresh_name(wish), type, kind=kind, target=name)

    def _size(self, dim: Dim) -> Value:
        """The integer input that is this length; one for all that are the same length."""
        for entry in self.graph.inputs:
            if entry.kind == "size" and entry.target == str(dim):
                return entry.value
        wish = str(dim) if str(dim).isidentifier() else "size"
        name = self.graph.fresh_name(wish)
        return self.graph.input(name, ScalarType("int", dim), kind="size", target=str(dim))

    def drop_unused_sizes(self) -> None:
        """Removes the sizes that no call and no result asks for."""
        used = {value for node in self.graph.nodes() for value in node.operands()}
        used |= set(values_in(self.graph.result))
        self.graph.drop_inputs(
            [e for e in self.graph.inputs if e.kind == "size" and e.value not in used]
        )


def _sizes_of_arguments(placeholders: list[Any]) -> Iterator[tuple[Any, tuple[Any, ...], int]]:
    """torch's symbols that are sizes of arguments: the symbol, the argument's path, the dim."""
    environments = (_environment(node.meta["example_value"]) for node in placeholders)
    environment = next((found for found in environments if found is not None), None)
    if environment is None:
        return
    for symbol, sources in environment.var_to_sources.items():
        for source in sources:
            path = _path(getattr(source, "base", None))
            if path and type(getattr(source, "idx", None)) is int:
                yield symbol, path, source.idx


def _environment(fake: Any) -> Any:
    """torch's table of symbols, which every symbolic number and fake tensor holds."""
    holder = getattr(fake, "node", None) or getattr(fake, "fake_mode", None)
    return getattr(holder, "shape_env", None)


def _path(source: Any) -> tuple[Any, ...]:
    """Where an argument is in ``(args, kwargs)``, as torch's pytrees say it; () if it is none."""
    keys: list[Any] = []
    while source is not None and not hasattr(source, "local_name"):
        keys.append(getattr(source, "index", getattr(source, "member", None)))
        source = getattr(source, "base", None)
    sides = {"args": 0, "kwargs": 1}
    name = getattr(source, "local_name", None)
    return (sides[name], *reversed(keys)) if name in sides else ()
