"""`trace`: from a PyTorch model, or a function, to a graph in which every value has its symbolic
shape.

    names = {"input_ids": {0: "batch", 1: "seq"}}
    graph = ds.trace(model, kwargs={"input_ids": ids}, dynamic=names)
    graph.values["logits"].type        float32[batch, seq, 32000]

torch captures the calls (`dimsolve.exec.capture.capture`); their shapes come from our own solver,
and are compared with what torch's fake tensors say. A function without an annotation has torch's
shape, and one that is refuted by torch is taken for having none.

The inputs of a captured program, as inputs of a graph: arguments, parameters, buffers, sizes.

    x: float32[batch, 8] with batch dynamic    %x, and torch's symbol s52 is batch
    a size of an argument that is itself unused    %batch: int, found by where torch has it from

Arguments come first, in the order of the call, then what the program takes besides.

What a model returned, with the graph's values in place of the stand-ins that it was given.

Where a stand-in is found in the result tells the output's name: ``logits`` of a model output, ``0``
of a tuple, ``hidden_states.3``, ``past_key_values.layers.0.keys``. Containers become dicts, lists
and tuples; so does an object that holds such values, by its attributes, and the graph notes its
class. What the model has changed in the objects that it was given is read in the same way.

A length that a model returns has no stand-in: Python makes a new integer of it. `lengths_as_values`
hands such a model's lengths out as calls of `hand_out`, which stand for their argument.

Reads a captured fx graph into a `Graph`: names, symbols, sources, and types that torch confirms.

Every call is deduced by our own solver; equal calls are solved once. What torch's fake tensors say
of the result is then compared: equal polynomials pass at once, others are proved equal, and where
that fails the call counts as not annotated and has torch's shape, so that nothing is planned on a
promise that does not hold.
"""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from dimsolve.ir.errors import Diagnostic, DimsolveError, ShapeError
from dimsolve.ir.graph import (
    CONTRACT,
    Argument,
    Attachment,
    Constant,
    Device,
    InputKind,
    Left,
    Made,
    Node,
    OperatorCall,
    Place,
    Region,
    Value,
    values_in,
)
from dimsolve.ir.operator import operator_at, operator_of
from dimsolve.ir.types import Known, ScalarType, TensorType, Type
from dimsolve.partition import regions
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.graphs import problems
from dimsolve.solver.graphs.deduction import Outcome, place_values
from dimsolve.solver.graphs.names import path_of
from dimsolve.solver.graphs.system import Contradiction

from .. import flex
from ..graph import Graph
from ..modes import autocast_now
from ..registration.errors import shadowed
from .argument_objects import (
    PLAIN,
    attributes_of,
    class_path,
    is_plain_container,
    not_seen,
    place_name,
    setting_of,
)
from .aten import (
    PREFIX,
    TRANSFORMS,
    Switches,
    is_reachable,
    line_of_the_model,
    method_path,
    named,
    plain_call,
    source_of,
    target_path,
)
from .capture import HAND_OUT, Capture, captures, is_tensor
from .confirm import Confirmation, dtype_of
from .dtype_reads import other_dtypes
from .dynamic import Dynamic, given_sizes
from .errors import (
    GRADIENTS,
    TraceError,
    context_function,
    excludes_example,
    function_transform,
    no_call,
    no_model,
    own_gradients,
    reentrant_closure,
    replaces_data,
    unknown_size,
    unknown_tensor,
    unreachable,
)
from .torch_dims import Guards, NotExpressible, TorchDims, specialised
from .torch_python import ARGUMENTS_OF_CHECKPOINT
from .traced_model import refuse_backward_hooks, traced_model

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
                self.graph.settings[leaf.name] = setting_of(leaf.value)
        for part in self.captured.objects:
            if not is_plain_container(part.value):
                self.graph.settings[part.name] = Constant(class_path(type(part.value)))
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
        preferred = "".join(c if c.isalnum() else "_" for c in name)
        type = TensorType(len(dims), dtype_of(tensor), Known(tuple(dims)))
        return self.graph.input(self.graph.fresh_name(preferred), type, target=name)

    def _as_long(self, name: str, index: int) -> list[str]:
        """The other inputs with a dimension there of the same length, which is not dynamic."""
        shapes = {
            leaf.name: tuple(tensor.shape)
            for leaf, tensor in zip(self.captured.leaves, self.captured.tensors, strict=False)
            if hasattr(leaf.value, "dtype")
        }
        given = {leaf.name: leaf.dims for leaf in self.captured.leaves}
        length = shapes[name][index]
        return [
            each
            for each, shape in shapes.items()
            if each != name and shape[index : index + 1] == (length,) and index not in given[each]
        ]

    def _bind(self, name: str, index: int, dim: Dim, size: Any) -> None:
        node = getattr(size, "node", None)
        expression: Any = getattr(node, "expr", None)
        if not getattr(expression, "is_Symbol", False):
            raise specialised(name, index, dim, size, self._as_long(name, index))
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
        if id(example) not in self.state:
            self._refuse_unseen(node)
        if not hasattr(fake, "dtype"):
            try:
                return self._size(self.dims.dim(fake))
            except NotExpressible as error:
                raise unknown_size(str(error), *self._property(node)) from None
        dims = self.dims.shape(fake)
        type = TensorType(len(dims), dtype_of(fake), Known(dims))
        name, kind = self.state.get(id(example), (node.name, CONSTANT))
        if kind == "constant":
            self.graph.attachments[name] = example
        preferred = "".join(c if c.isalnum() else "_" for c in name)
        return self.graph.input(self.graph.fresh_name(preferred), type, kind=kind, target=name)

    def _property(self, node: Any) -> tuple[str, str]:
        """Which number of which argument a placeholder is, in words."""
        source = node.meta.get("source")
        what = getattr(getattr(source, "prop", None), "name", "value").lower().replace("_", " ")
        leaves = {leaf.path: leaf.name for leaf in self.captured.leaves}
        return what, leaves.get(_path(getattr(source, "base", None)), "an argument")

    def _refuse_unseen(self, node: Any) -> None:
        """Raises TraceError for a tensor that torch has from an argument, and that no leaf is."""
        path = _path(node.meta.get("source"))
        if path and hasattr(node.meta["example_value"], "dtype"):
            parts = (*self.captured.objects, *self.captured.leaves)
            head = next((part.name for part in parts if part.path == path[:2]), str(path[1]))
            inside = [str(key) for key in path[2:] if key is not None]
            raise not_seen(".".join([head, *inside]))

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
        preferred = "".join(c if c.isalnum() else "_" for c in name)
        return self.graph.input(self.graph.fresh_name(preferred), type, kind=kind, target=name)

    def _size(self, dim: Dim) -> Value:
        """The integer input that is this length; one for all that are the same length."""
        for entry in self.graph.inputs:
            if entry.kind == "size" and entry.target == str(dim):
                return entry.value
        preferred = str(dim) if str(dim).isidentifier() else "size"
        name = self.graph.fresh_name(preferred)
        return self.graph.input(name, ScalarType("int", dim), kind="size", target=str(dim))

    def drop_unused_sizes(self) -> None:
        """Removes the sizes that no call and no result asks for."""
        used = {value for node in self.graph.nodes() for value in node.operands()}
        used |= set(values_in(self.graph.returned()))
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


def set_result(
    graph: Graph,
    captured: Capture,
    values: tuple[Argument, ...],
    held: Callable[[Any], Value | None],
) -> None:
    """Says what the graph returns, and what it leaves of its arguments. ``values`` are those of the
    captured program's outputs, in order. held: the value of a parameter or a buffer.
    """
    known: dict[int, Any] = {id(s): v for s, v in zip(captured.stand_ins, values, strict=True)}
    for place, tensor in enumerate(captured.tensors):
        name = captured.leaves[place].name
        given = (e.value for e in graph.inputs if (e.target, e.kind) == (name, "input"))
        found = next(given, None) if is_tensor(tensor) else None
        if found is not None:
            known.setdefault(id(tensor), found)
    reading = _Reading(graph, captured, known, held)
    result = reading.tree(captured.result, (), ("returned",))
    left: dict[Place, Left] = {}
    for number, (at, change) in enumerate(captured.changed.items()):
        parts = {
            key: reading.tree(item, (*at, key), ("left", number, key))
            for key, item in change.parts.items()
        }
        left[at] = Left(parts, tuple(change.removed))
    for number, value in enumerate(values):
        if isinstance(value, Value) and value not in reading.outputs.values():
            reading.outputs[f"output_{number}"] = value
    graph.set_result(result, reading.outputs)
    graph.left = left
    kind = captured.kind
    if kind.__module__ not in ("builtins", "torch") and isinstance(result, dict | tuple):
        graph.container = class_path(kind)


class _Reading:
    """Reads what a call returned and left. ``known``: what stands for a stand-in, by its id."""

    def __init__(
        self,
        graph: Graph,
        captured: Capture,
        known: Mapping[int, Argument],
        held: Callable[[Any], Value | None],
    ) -> None:
        self.graph = graph
        self.held = held
        self.known = known
        self.outputs: dict[str, Value] = {}
        self.arguments = {id(o): at for at, (o, _) in captured.copied.containers.items()}
        self.places: dict[int, Place] = {}
        self.open: set[int] = set()

    def tree(self, result: Any, path: Place, place: Place | None) -> Argument:
        """Returns the result with values in place of stand-ins; their names are their paths.

        place: where it is in what the graph hands out; None inside of an object that the caller
        has, of which nothing is noted.
        """
        if id(result) in self.known and not isinstance(result, str):
            return self._known(self.known[id(result)], path)
        if isinstance(result, PLAIN):
            return result
        own = self.held(result)
        if own is not None:
            return self._known(own, path)
        if place is not None:
            if id(result) in self.arguments:
                self.graph.objects[place] = Made("argument", place=self.arguments[id(result)])
                place = None
            elif id(result) in self.places:
                self.graph.objects[place] = Made("same", place=self.places[id(result)])
                return None
        if id(result) in self.open:
            return None
        items = _parts(result)
        if items is None:
            return self._object(result, path, place)
        return self._container(result, items, path, place)

    def _known(self, value: Argument, path: Place) -> Argument:
        if isinstance(value, Value) and value not in self.outputs.values():
            preferred = name = place_name(path) or "output"
            number = 0
            while name in self.outputs:
                number += 1
                name = f"{preferred}_{number}"
            self.outputs[name] = value
        return value

    def _container(
        self, result: Any, items: Mapping[Any, Any], path: Place, place: Place | None
    ) -> Argument:
        self._note(result, place)
        self.open.add(id(result))
        inner = {}
        for number, (key, item) in enumerate(items.items()):
            at = number if isinstance(result, tuple) else key
            inner[key] = self.tree(item, (*path, key), None if place is None else (*place, at))
        self.open.discard(id(result))
        if isinstance(result, list):
            return list(inner.values())
        if isinstance(result, tuple):
            return tuple(inner.values())
        return inner

    def _note(self, result: Any, place: Place | None) -> None:
        """Notes an object that is met for the first time, and its class."""
        if place is None or (isinstance(result, tuple) and not hasattr(result, "_fields")):
            return
        if not isinstance(result, tuple):
            self.places[id(result)] = place
        if type(result) in (list, dict) or (place == ("returned",) and _is_made_whole(result)):
            return
        readable = isinstance(result, dict) or not isinstance(result, Mapping)
        if readable and "<" not in type(result).__qualname__:
            self.graph.objects[place] = Made("class", class_path(type(result)))
        elif place[0] == "left":
            raise _not_left(place_name(place), result)

    def _object(self, result: Any, path: Place, place: Place | None) -> Argument:
        """An object as a dict of its attributes, where one holds a value; else itself. Raises
        TraceError for a tensor of which the program knows nothing.
        """
        if is_tensor(result):
            raise unknown_tensor(place_name(path))
        attributes = attributes_of(result) or {}
        inside = place is not None and len(place) > 1
        self.open.add(id(result))
        holds = any(
            self._of_the_call(leaf)
            for item in attributes.values()
            if id(item) not in self.open
            for leaf in _leaves(item)
        )
        self.open.discard(id(result))
        if (
            holds
            or id(result) in self.arguments
            or (inside and self._is_inside(place) and _is_data(result, attributes))
        ):
            return self._container(result, attributes, path, place)
        setting = setting_of(result)
        if isinstance(setting, Constant | Device):
            if place is not None:
                kind: Literal["constant", "device"]
                kind, name = (
                    ("constant", setting.path)
                    if isinstance(setting, Constant)
                    else ("device", setting.name)
                )
                self.graph.objects[place] = Made(kind, name)
            return setting
        if place is not None and place[0] == "left":
            raise _not_left(place_name(path), result)
        name = f"result_{len(self.graph.attachments)}"
        self.graph.attachments[name] = result
        return Attachment(name)

    def _of_the_call(self, leaf: Any) -> bool:
        """Whether it is a tensor of the program, or memory of one that the call was given."""
        base = getattr(leaf, "_base", None) if is_tensor(leaf) else None
        return id(leaf) in self.known or id(base) in self.known

    def _is_inside(self, place: Place | None) -> bool:
        """Whether a place is an attribute of an object that is made anew, or left."""
        return place is not None and (place[0] == "left" or place[:-1] in self.graph.objects)


def _is_data(result: Any, attributes: Mapping[str, Any]) -> bool:
    """Whether an object is nothing but its attributes."""
    return bool(attributes) and not callable(result)


def _is_made_whole(result: Any) -> bool:
    """Whether the class of a whole result is the graph's ``container``."""
    return isinstance(result, tuple | dict) or dataclasses.is_dataclass(result)


def _not_left(name: str, value: Any) -> TraceError:
    return TraceError(
        Diagnostic(
            code="left-object",
            title=f"the model puts a {type(value).__name__} into {name}",
            reason="an object of an argument, and nothing can make it anew on a rank",
            hint="put tensors, numbers, texts and objects of classes of a module there",
        )
    )


def _parts(result: Any) -> dict[Any, Any] | None:
    """The parts of a container, by name or place; None for what is none."""
    if isinstance(result, Mapping | list | tuple) or (
        dataclasses.is_dataclass(result) and not isinstance(result, type)
    ):
        return dict(_items(result))
    return None


def _items(result: Any) -> Iterator[tuple[Any, Any]]:
    """The parts of a container, by name or place."""
    if isinstance(result, Mapping):
        yield from result.items()
    elif hasattr(result, "_fields"):
        yield from zip(result._fields, result, strict=True)
    elif isinstance(result, list | tuple):
        yield from enumerate(result)
    elif dataclasses.is_dataclass(result) and not isinstance(result, type):
        yield from ((f.name, getattr(result, f.name)) for f in dataclasses.fields(result))


def _leaves(result: Any, depth: int = 6) -> Iterator[Any]:
    """Everything inside of a result that is no container, and of objects their attributes."""
    if isinstance(result, PLAIN) or depth == 0:
        return
    yield result
    inside = [item for _, item in _items(result)] or list(getattr(result, "__dict__", {}).values())
    for item in inside:
        yield from _leaves(item, depth - 1)


DROPPED = frozenset(
    {"torch._C._log_api_usage_once", "torch.ops.aten._assert_tensor_metadata.default"}
)
"""Calls that compute nothing."""

CONSTANT_TYPES = frozenset({int, str, float, bool, complex, type(None), type(...)})
"""Python's own constants, which a graph holds as they are."""

VERSION = "._lower_version_count_by_1"
"""What torch calls after ``x.data = y``, for its checks of what is written in place."""

DATA = ("torch.Tensor.set_", "torch.ops.aten.shallow_copy_data_")
"""What ``x.data = y`` is captured as; the second from torch 2.15 on."""

CHECKPOINTS = frozenset({"tag_activation_checkpoint", "wrap_activation_checkpoint"})
"""The higher-order operators that ``torch.utils.checkpoint.checkpoint`` is captured as."""

INLINED = CHECKPOINTS | {"wrap"}
"""Higher-order operators that only call their body."""


class Reader:
    """Reads one capture. ``unannotated``: paths without an annotation that holds, and why."""

    def __init__(self, captured: Capture, model: Any) -> None:
        self.captured = captured
        self.dims = TorchDims()
        self.env: dict[Any, Any] = {}
        self.unannotated: dict[str, str] = {}
        self.modules = {str(id(module)): name for name, module in named(model, "named_modules")}
        self.model = model
        self._paths: dict[Any, tuple[str, str]] = {}
        self._region = ""

    def graph(self, name: str) -> Graph:
        """Returns the graph. Raises ShapeError where the model's guards contradict what dynamic
        says.
        """
        graph = self.target = Graph(name)
        graph.autocast = autocast_now()
        graph.dtype_reads = other_dtypes(
            self.captured.module, self.captured.reads, self.captured.device
        )
        nodes = list(self.captured.module.graph.nodes)
        inputs = Inputs(graph, self.captured, self.dims, self.model)
        placeholders = [node for node in nodes if node.op == "placeholder"]
        self.held = dict(zip(placeholders, self.captured.examples, strict=True))
        self.env |= inputs.values(nodes)
        self.switches = Switches(graph)
        guards = Guards(nodes, self.dims, graph.system)
        guards.require(guards.of_the_model)
        self.confirmation = Confirmation(self.dims, graph.system)
        self._nodes(nodes, "", self.captured.module)
        if self.unannotated:
            guards.require(guards.of_torch)
        set_result(graph, self.captured, self._argument(nodes[-1].args[0]), inputs.returned)
        inputs.drop_unused_sizes()
        return graph

    # ---- nodes

    def _nodes(self, nodes: list[Any], prefix: str, module: Any) -> None:
        for node in nodes:
            match node.op:
                case "placeholder" | "output":
                    continue
                case "get_attr":
                    self._attribute(node, prefix, module)
                case "call_function" | "call_method" | "call_module":
                    self._call(node, prefix, module)

    def _attribute(self, node: Any, prefix: str, module: Any) -> None:
        held = module
        for part in node.target.split("."):
            held = getattr(held, part)
        name = f"{prefix}{node.target}"
        self.target.attachments[name] = held
        if not hasattr(held, "dtype"):
            self.env[node] = Attachment(name)
            return
        dims = tuple(int(size) for size in held.shape)
        type = TensorType(len(dims), dtype_of(held), Known(dims))
        preferred = self.target.fresh_name(node.name)
        self.env[node] = self.target.input(preferred, type, kind="constant", target=name)

    def _call(self, node: Any, prefix: str, module: Any) -> None:
        path, name = self._path(node, module)
        if path in DROPPED:
            return
        if path == HAND_OUT or path.endswith(VERSION):
            self.env[node] = self._argument(node.args[0])
            return
        if path.startswith(DATA):
            path, name = _written_data(node, self.held)
        if name in INLINED:
            with self._within(name, node, prefix, module):
                self._inline(node, prefix, module)
            return
        if TRANSFORMS.search(path) and path not in regions.CALLS:
            raise function_transform(line_of_the_model(node))
        if path in GRADIENTS:
            raise own_gradients(line_of_the_model(node))
        if not is_reachable(path):
            raise unreachable(path, line_of_the_model(node))
        args = self.switches.arguments(path, self._argument(node.args), node)
        if path == "_operator.getitem" and isinstance(args[0], tuple) and isinstance(args[1], int):
            self.env[node] = args[0][args[1]]
            return
        kwargs = {key: self._argument(item) for key, item in node.kwargs.items()}
        if path.startswith(PREFIX):
            path, args, kwargs = plain_call(path, args, kwargs)
            name = path.removeprefix(PREFIX).replace("_operator.", "").rpartition(".")[2]
        if path == flex.TORCHS and self._is_flex(args):
            path, args, kwargs = self._flex(args, node)
        made = Node(
            self.target.fresh_name(f"{prefix}{node.name}"),
            OperatorCall(path),
            args,
            kwargs,
            source=source_of(node.meta.get("stack_trace")),
            module=self._module(node.meta.get("nn_module_stack")),
            name=name,
            region=self._region,
        )
        self._append(made, node)
        if made.declaration is not None and made.declaration.random:
            made.order = _order_in_memory(node.args[0] if node.args else None)
        self.env[node] = made.outputs if made.several else made.outputs[0] if made.outputs else None

    def _is_flex(self, args: Sequence[Any]) -> bool:
        """Whether the functions of flex_attention, and its lengths, are known."""
        ranks = [each.rank for each in args[:3] if isinstance(each, Value)]
        return ranks == [4] * 3 and isinstance(args[3], Attachment)

    def _flex(self, args: Sequence[Any], node: Any) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """flex_attention as the operator that can be cut."""
        held = self.target.attachments
        score, mask, more = flex.call_of(args, held[args[3].name], held[args[4][-1].name])
        names = [f"{node.name}_{kind}" for kind in ("score", "mask")]
        held |= dict(zip(names, (score, mask), strict=True))
        block = (*args[4][:-1], Attachment(names[1]))
        others = (*args[7:], *[()] * (9 - len(args)))
        positional = (*args[:3], Attachment(names[0]), block, *args[5:7], *others)
        return flex.PATH, positional, more

    def _path(self, node: Any, module: Any) -> tuple[str, str]:
        """The path of what is called, and the operator's name."""
        target = node.target
        if node.op == "call_module":
            return f"module.{target}", target.rpartition(".")[2]
        if node.op == "call_method":
            return method_path(target), target
        found = self._paths.get(target)
        if found is None:
            known = operator_of(target)
            if known is not None and operator_at(known.path) is not known:
                raise shadowed(known.name, known.path)
            path = known.path if known is not None else target_path(target)
            name = known.name if known is not None else path.rpartition(".")[2]
            found = self._paths[target] = (path, name)
        return found

    @contextmanager
    def _within(self, name: str, node: Any, prefix: str, module: Any) -> Iterator[None]:
        """What is read meanwhile is in the region that a checkpoint is."""
        if name not in CHECKPOINTS:
            yield
            return
        if "_checkpoint_context_fn" in getattr(module, node.args[0].target).meta:
            raise context_function(line_of_the_model(node))
        # torch.utils.checkpoint is reentrant where the model does not say.
        reentrant = node.kwargs.get("use_reentrant") is not False
        if reentrant and self._learns_by_closure(node):
            raise reentrant_closure(line_of_the_model(node))
        given = {**node.kwargs, "use_reentrant": reentrant}
        contract = {key: given[key] for key in CONTRACT if key in given}
        region = Region(self.target.fresh_region(f"{prefix}{node.name}"), self._region, **contract)
        self.target.add_region(region)
        around, self._region = self._region, region.name
        outer = self.switches.within(region.name)
        yield
        self._region = around
        self.switches.back(around, outer)

    def _learns_by_closure(self, node: Any) -> bool:
        """Whether a region's only gradients are those of tensors that are computed outside, and are
        no arguments of it. An input of the model may have a gradient in one call and none in
        another, so it does not count.
        """
        inputs = {entry.value for entry in self.target.inputs}
        taken = [
            (given, getattr(given, "meta", {}).get("example_value")) for given in node.args[1:]
        ]
        computed = {
            id(fake)
            for given, fake in taken
            if getattr(fake, "requires_grad", False) and self.env.get(given) not in inputs
        }
        arguments = set(map(id, node.meta[ARGUMENTS_OF_CHECKPOINT]))
        return bool(computed) and not arguments & computed

    def _inline(self, node: Any, prefix: str, module: Any) -> None:
        body_node, *rest = node.args
        body = getattr(module, body_node.target)
        inner = list(body.graph.nodes)
        holes = [n for n in inner if n.op == "placeholder"]
        for hole, argument in zip(holes, rest, strict=False):
            self.env[hole] = self._argument(argument)
        self._nodes(inner, f"{prefix}{node.name}_", body)
        self.env[node] = self._argument(inner[-1].args[0])

    def _argument(self, argument: Any) -> Argument:
        kind = argument.__class__
        if kind in CONSTANT_TYPES:
            return argument
        if kind.__name__ == "Node" and argument in self.env:
            return self.env[argument]
        if isinstance(argument, tuple):
            return tuple([self._argument(item) for item in argument])
        if isinstance(argument, list):
            return [self._argument(item) for item in argument]
        if isinstance(argument, dict):
            return {key: self._argument(item) for key, item in argument.items()}
        if isinstance(argument, slice):
            bounds = (argument.start, argument.stop, argument.step)
            return slice(*[self._argument(bound) for bound in bounds])
        if isinstance(argument, range):
            return tuple(argument)
        return self._constant(argument)

    def _constant(self, argument: Any) -> Argument:
        name = type(argument).__name__
        if name == "device":
            text = str(argument)
            return Device("model" if text == self.captured.device else text)
        if name in ("dtype", "memory_format", "layout"):
            return Constant(str(argument))
        if name == "SymInt":
            return self.dims.dim(argument)
        if callable(argument) and hasattr(argument, "__qualname__"):
            return Constant(path_of(argument))
        key = f"constant_{len(self.target.attachments)}"
        self.target.attachments[key] = argument
        return Attachment(key)

    def _module(self, stack: Mapping[str, Any] | None) -> str:
        if not stack:
            return ""
        key = str(next(reversed(list(stack))))
        name = self.modules.get(key.partition("@")[0])
        if name is None:
            return str(stack[key][0])
        return name

    # ---- types

    def _append(self, made: Node, node: Any) -> None:
        fake = node.meta.get("example_value")
        if fake is None and not node.users:
            self._finish(made, self._outcome(made), ())
            return
        several = isinstance(fake, tuple | list) and type(fake).__name__ != "Size"
        fakes = tuple(fake) if several else (fake,)
        outcome = self._outcome(made)
        types = self.confirmation.types(made, outcome, several, fakes)
        if types is None:
            outcome = Outcome((), missing=outcome.missing or "torch gives another shape")
            types = tuple([self.confirmation.type(item, made) for item in fakes])
        if outcome.missing and (made.operands() or not all(map(_is_single, types))):
            self.unannotated[made.signature] = outcome.missing
        made.several = several
        self._finish(made, outcome, types)

    def _outcome(self, made: Node) -> Outcome:
        try:
            outcome = self.target.propagation.outcome(made)
        except ShapeError as error:
            return Outcome((), missing=str(error.diagnostic.title))
        steps: dict[str, Dim] = {}
        for claim in outcome.conditions:
            try:
                steps.update(self.target.system.require(claim, problems.place(made)))
            except Contradiction:
                return Outcome((), missing=f"it asks for {claim}, which never holds")
        if steps:
            self.target.propagation.substitute(steps)
        return outcome

    def _finish(self, made: Node, outcome: Outcome, types: tuple[Type, ...]) -> None:
        if outcome.declaration is not None:
            made.declaration = place_values(outcome.declaration, made.operands())
        self.target.add_node(made, types)


def _order_in_memory(argument: Any) -> tuple[int, ...]:
    """The dimensions of a tensor from the outermost in memory on, () where that is their own
    order.
    """
    import torch

    held = getattr(argument, "meta", {}).get("example_value")
    if not isinstance(held, torch.Tensor) or held.layout is not torch.strided:
        return ()
    strides = [getattr(getattr(each, "node", None), "hint", each) for each in held.stride()]
    order = sorted(range(len(strides)), key=lambda dim: (-strides[dim], dim))
    return () if order == sorted(order) else tuple(order)


def _written_data(node: Any, examples: Mapping[Any, Any]) -> tuple[str, str]:
    """``x.data = y`` as a copy of y into x, which the call was given or the model holds; TraceError
    for another x, and where y has another shape or dtype. (torch has put y's shape into what it
    keeps of x, so x itself is asked.)
    """
    x: Any = examples.get(node.args[0])
    y: Any = getattr(node.args[-1], "meta", {}).get("example_value")
    if len(node.args) != 2 or not hasattr(x, "dtype") or not hasattr(y, "dtype"):
        raise unreachable("torch.Tensor.set_", line_of_the_model(node))
    sizes = [getattr(getattr(size, "node", None), "hint", size) for size in y.shape]
    if x.dtype != y.dtype or list(x.shape) != sizes:
        raise replaces_data(line_of_the_model(node))
    return "torch.Tensor.copy_", "copy_"


def _is_single(type: Type) -> bool:
    """Whether it is a tensor of one element, of which there is nothing to cut."""
    return isinstance(type, TensorType) and type.rank == 0


def trace(
    model: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic: Dynamic | None = None,
) -> Graph:
    """Returns the graph of the torch functions that a call of the model makes, with symbolic
    shapes.

    args, kwargs: an example call; only shapes and dtypes of tensors matter. dynamic: the names of
    dynamic dimensions, by argument (`dimsolve.exec.capture.dynamic`); all others are fixed.
    Parameters may be on the meta device. Raises TraceError where the model is not one graph (what
    it does depends on data), with the line; ShapeError where its shapes contradict.
    """
    args = (args,) if _is_tensor(args) else tuple(args)
    if not callable(model):
        raise no_model(model)
    refuse_backward_hooks(model)
    refusal: DimsolveError | None = None
    for captured in _captured(model, args, kwargs or {}, dynamic):
        reader = Reader(captured, model)
        try:
            graph = reader.graph(_name_of(model))
            _check_example(graph, given_sizes(captured.leaves) or {})
        except DimsolveError as error:
            refusal = refusal or error
            continue
        if reader.unannotated:
            _warn(reader.unannotated)
        graph.traced = traced_model(model)
        return graph
    assert refusal is not None
    raise refusal


def _captured(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic: Dynamic | None
) -> Iterator[Capture]:
    """The captures of a call. Raises TraceError where the example does not fit the model's
    parameters, and it cannot be captured; hooks may change what a model is given.
    """
    try:
        yield from captures(model, args, kwargs, dynamic)
    except DimsolveError as error:
        raise _misfit(model, args, kwargs) or error from error


def _misfit(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> TraceError | None:
    """Why a call does not fit the parameters of what is called; None where it does."""
    try:
        found = inspect.signature(getattr(model, "forward", model))
    except (TypeError, ValueError):
        return None
    try:
        found.bind(*args, **kwargs)
    except TypeError as error:
        takes = list(found.parameters)
        unknown = [name for name in kwargs if name not in takes]
        reason = f"there is no argument {', '.join(unknown)}" if unknown else str(error)
        return no_call(_name_of(model), reason, takes)
    return None


def _check_example(graph: Graph, sizes: Mapping[str, int]) -> None:
    """Raises TraceError where the graph does not hold at the example's own sizes: those that it was
    captured with went another way.
    """
    for condition in graph.system.conditions:
        claim = condition.claim
        if claim.symbols() <= sizes.keys() and claim.test(sizes) is False:
            raise excludes_example(condition, sizes)


def _is_tensor(value: object) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _name_of(model: Any) -> str:
    name = getattr(model, "__name__", None) or type(model).__name__
    return name if name.isidentifier() else "main"


def _warn(unannotated: Mapping[str, str]) -> None:
    listed = "; ".join(f"{path} ({why})" for path, why in sorted(unannotated.items()))
    warnings.warn(
        f"no annotation, so these are only ever replicated: {listed}. "
        "dimsolve.register_op gives a function of yours an annotation",
        stacklevel=3,
    )
