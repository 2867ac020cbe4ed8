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
    Node,
    OperatorCall,
)
from dimsolve.ir.registry import operator_at, operator_of
from dimsolve.ir.types import Known, TensorType, Type
from dimsolve.partition.planning import mapped
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.graphs import graph_problems
from dimsolve.solver.graphs.deduction import Outcome, place_values
from dimsolve.solver.graphs.paths import path_of
from dimsolve.solver.graphs.system import Contradiction

from ..graph import Graph
from ..registration.registration_errors import shadowed
from .aten_calls import PREFIX, plain_call
from .capture import Capture
from .capture_errors import function_transform
from .confirm import Confirmation, dtype_of
from .fx_names import TRANSFORMS, line_of_the_model, method_path, named, source_of, target_path
from .guards import Guards
from .inputs import Inputs
from .lengths import HAND_OUT
from .results import set_result
from .switches import Switches
from .torch_dims import TorchDims

DROPPED = frozenset(
    {"torch._C._log_api_usage_once", "torch.ops.aten._assert_tensor_metadata.default"}
)
"""Calls that compute nothing."""

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
        self.model = model
        self._paths: dict[Any, tuple[str, str]] = {}

    def graph(self, name: str) -> Graph:
        """Returns the graph. Raises ShapeError where the model's guards contradict what dynamic
        says.
        """
        graph = self.target = Graph(name)
        nodes = list(self.captured.module.graph.nodes)
        inputs = Inputs(graph, self.captured, self.dims, self.model)
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
        wish = self.target.fresh_name(node.name)
        self.env[node] = self.target.input(wish, type, kind="constant", target=name)

    def _call(self, node: Any, prefix: str, module: Any) -> None:
        path, name = self._path(node, module)
        if path in DROPPED:
            return
        if path == HAND_OUT:
            self.env[node] = self._argument(node.args[0])
            return
        if name in INLINED:
            self._inline(node, prefix, module)
            return
        if TRANSFORMS.search(path) and path not in mapped.CALLS:
            raise function_transform(line_of_the_model(node))
        args = self.switches.arguments(path, self._argument(node.args), node)
        if path == "_operator.getitem" and isinstance(args[0], tuple) and isinstance(args[1], int):
            self.env[node] = args[0][args[1]]
            return
        kwargs = {key: self._argument(item) for key, item in node.kwargs.items()}
        if path.startswith(PREFIX):
            path, args, kwargs = plain_call(path, args, kwargs)
            name = path.removeprefix(PREFIX).replace("_operator.", "").rpartition(".")[2]
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


def _is_single(type: Type) -> bool:
    """Whether it is a tensor of one element, of which there is nothing to cut."""
    return isinstance(type, TensorType) and type.rank == 0
