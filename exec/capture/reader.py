"""Reads a captured fx graph into a `Graph`: names, symbols, sources, and types that torch confirms.

Every call is deduced by our own solver; equal calls are solved once. What torch's fake tensors say
of the result is then compared: equal polynomials pass at once, others are proved equal, and where
that fails the call counts as not annotated and has torch's shape, so that nothing is planned on a
promise that does not hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dimsolve.ir.errors import ShapeError
from dimsolve.ir.node import (
    Argument,
    Attachment,
    Constant,
    Device,
    InputKind,
    Node,
    OperatorCall,
    Value,
)
from dimsolve.ir.registry import operator_at, operator_of
from dimsolve.ir.types import Known, ScalarType, TensorType, Type
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.graphs import graph_problems
from dimsolve.solver.graphs.deduction import Outcome, place_values
from dimsolve.solver.graphs.paths import path_of
from dimsolve.solver.graphs.system import Contradiction

from ..graph import Graph
from ..registration.registration_errors import shadowed
from .capture import Capture
from .confirm import Confirmation, dtype_of
from .fx_names import method_path, named, source_of, target_path
from .guards import Guards, specialised
from .results import set_result
from .torch_dims import TorchDims

DROPPED = frozenset({"torch._C._log_api_usage_once"})
"""Calls that compute nothing."""

CONSTANT: InputKind = "constant"

PLAIN = frozenset({int, str, float, bool, complex, type(None), type(...)})
"""Python's own constants, which a graph holds as they are."""

INLINED = frozenset({"tag_activation_checkpoint", "wrap", "wrap_activation_checkpoint"})
"""Higher-order operators that only call their body."""


class Reader:
    """Reads one capture. ``unannotated``: paths without an annotation that holds, and why."""

    def __init__(self, captured: Capture, model: Any) -> None:
        self.captured = captured
        self.dims = TorchDims()
        self.env: dict[Any, Any] = {}
        self.unannotated: dict[str, str] = {}
        self.modules = {str(id(module)): name for name, module in named(model, "named_modules")}
        self.state: dict[int, tuple[str, InputKind]] = {}
        kinds: tuple[InputKind, ...] = ("parameter", "buffer")
        for kind in kinds:
            for name, tensor in named(model, f"named_{kind}s"):
                self.state.setdefault(id(tensor), (name, kind))
        self._paths: dict[Any, tuple[str, str]] = {}

    def graph(self, name: str) -> Graph:
        """Returns the graph. Raises ShapeError where the model's guards contradict what dynamic
        says.
        """
        graph = self.target = Graph(name)
        nodes = list(self.captured.module.graph.nodes)
        self._inputs(nodes)
        guards = Guards(nodes, self.dims, graph.system)
        guards.require(guards.of_the_model)
        self.confirmation = Confirmation(self.dims, graph.system)
        self._nodes(nodes, "", self.captured.module)
        if self.unannotated:
            guards.require(guards.of_torch)
        self._drop_unused_sizes()
        set_result(graph, self.captured, self._argument(nodes[-1].args[0]))
        return graph

    # ---- inputs

    def _inputs(self, nodes: list[Any]) -> None:
        placeholders = [node for node in nodes if node.op == "placeholder"]
        examples = dict(zip(placeholders, self.captured.examples, strict=True))
        places = {id(tensor): i for i, tensor in enumerate(self.captured.tensors)}
        used = {
            places[id(example)]: node
            for node, example in examples.items()
            if id(example) in places and not isinstance(example, int)
        }
        for place, leaf in enumerate(self.captured.leaves):
            if hasattr(leaf.value, "dtype"):
                self._input_leaf(place, leaf.name, leaf.dims, used.get(place))
            else:
                self.target.settings[leaf.name] = leaf.value
        taken = set(used.values())
        for node, example in examples.items():
            if node not in taken:
                self._held(node, example)

    def _input_leaf(
        self, place: int, name: str, named: Mapping[int, Dim], node: Any | None
    ) -> None:
        tensor = self.captured.tensors[place]
        shape = tensor.shape if node is None else node.meta["example_value"].shape
        dims: list[Dim] = []
        for index, size in enumerate(shape):
            dim = named.get(index)
            if dim is not None and node is not None:
                self._bind(name, index, dim, size)
            dims.append(int(tensor.shape[index]) if dim is None else dim)
        wish = "".join(c if c.isalnum() else "_" for c in name)
        type = TensorType(len(dims), dtype_of(tensor), Known(tuple(dims)))
        value = self.target.input(self.target.fresh_name(wish), type, target=name)
        if node is not None:
            self.env[node] = value

    def _bind(self, name: str, index: int, dim: Dim, size: Any) -> None:
        node = getattr(size, "node", None)
        expression: Any = getattr(node, "expr", None)
        if not getattr(expression, "is_Symbol", False):
            raise specialised(name, index, dim, size)
        own: Any = getattr(node, "_expr", expression)  # before torch found it equal to another one
        for found in (expression, own):
            if found.name not in self.dims.symbols:
                self.dims.bind(found, dim)

    def _held(self, node: Any, example: Any) -> None:
        """A placeholder that is no argument: a parameter, a buffer, a size, or a constant of
        the program.
        """
        fake = node.meta["example_value"]
        if not hasattr(fake, "dtype"):
            self.env[node] = self._size(self.dims.dim(fake))
            return
        dims = self.dims.shape(fake)
        type = TensorType(len(dims), dtype_of(fake), Known(dims))
        name, kind = self.state.get(id(example), (node.name, CONSTANT))
        if kind == "constant":
            self.target.attachments[name] = example
        wish = name.replace(".", "_")
        self.env[node] = self.target.input(
            self.target.fresh_name(wish), type, kind=kind, target=name
        )

    def _drop_unused_sizes(self) -> None:
        used = {value for node in self.target.nodes() for value in node.operands()}
        self.target.drop_inputs(
            [e for e in self.target.inputs if e.kind == "size" and e.value not in used]
        )

    def _size(self, dim: Dim) -> Value:
        """The integer input that is this length; one for all that are the same length."""
        for entry in self.target.inputs:
            if entry.kind == "size" and entry.target == str(dim):
                return entry.value
        wish = str(dim) if str(dim).isidentifier() else "size"
        name = self.target.fresh_name(wish)
        return self.target.input(name, ScalarType("int", dim), kind="size", target=str(dim))

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
        wish = self.target.fresh_name(node.name)
        self.env[node] = self.target.input(wish, type, kind="constant", target=name)

    def _call(self, node: Any, prefix: str, module: Any) -> None:
        path, name = self._path(node, module)
        if path in DROPPED:
            return
        if name in INLINED:
            self._inline(node, prefix, module)
            return
        args = self._argument(node.args)
        if path == "_operator.getitem" and isinstance(args[0], tuple) and isinstance(args[1], int):
            self.env[node] = args[0][args[1]]
            return
        kwargs = {key: self._argument(item) for key, item in node.kwargs.items()}
        made = Node(
            self.target.fresh_name(f"{prefix}{node.name}"),
            OperatorCall(path),
            args,
            kwargs,
            source=source_of(node.meta.get("stack_trace")),
            module=self._module(node.meta.get("nn_module_stack")),
            name=name,
        )
        self._append(made, node)
        self.env[node] = made.outputs if made.several else made.outputs[0] if made.outputs else None

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
        if kind in PLAIN:
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
        if outcome.missing:
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
                steps.update(self.target.system.require(claim, graph_problems.place(made)))
            except Contradiction:
                return Outcome((), missing=f"it asks for {claim}, which never holds")
        if steps:
            self.target.propagation.substitute(steps)
        return outcome

    def _finish(self, made: Node, outcome: Outcome, types: tuple[Type, ...]) -> None:
        if outcome.declaration is not None:
            made.declaration = place_values(outcome.declaration, made.operands())
        self.target.add_node(made, types)
