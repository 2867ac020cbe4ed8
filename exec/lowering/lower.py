"""`lower`: from a plan to the one program that all ranks run, on plain local tensors.

    linear        d over tp = 2      share = share_gradient(x)               (4, 16, 64)
                                     linear = linear(share, q_proj_weight)   (4, 16, 32)
    linear_1      k over tp = 2      linear_1 = linear(linear, o_weight)     (4, 16, 64), a summand
    conversion    P(sum) -> R        whole = all_reduce(linear_1)            (4, 16, 64)

The program is an fx graph whose nodes are the graph's own calls and the plan's conversions. Sizes
among the arguments are computed from the sizes of the inputs by the plan's expressions, so that one
program serves every batch that satisfies the plan's conditions. A conversion is made where it is
first needed, once where gradients are recorded and once where they are switched off.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

import torch

from dimsolve.ir.graph import Graph
from dimsolve.ir.node import (
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
    Value,
    map_argument,
)
from dimsolve.ir.types import ScalarType, ShapeType, TensorType
from dimsolve.partition.placement import Placement, Replicate, Shard
from dimsolve.partition.plan import ConversionPlan, InputPlan, OperatorPlan, Plan
from dimsolve.solver.algebra.poly import Dim, Poly

from ..arguments import Arguments
from ..distributed.communicator import Communicator
from ..distributed.sharding import slice_part
from ..resolve import resolve
from .conversion_steps import divide_gradient_step, step, step_of_blocks
from .input_lengths import InputLengths
from .lengths import Length, Lengths
from .lowering_errors import calls_function, not_known, unreadable
from .plan_text import dim_of, mesh_sizes, placement_of
from .program import Origin, Program, Slot
from .randomness import Draws
from .rank_call import RankCall, rank_call

if TYPE_CHECKING:
    from torch import fx

SWITCH = "torch._C._set_grad_enabled"


def lower(
    graph: Graph,
    plan: Plan,
    communicators: Mapping[str, Communicator],
    *,
    device: torch.device | str = "cpu",
) -> Program:
    """Returns the program of this rank.

    communicators: this rank's end of every mesh axis, by the axis' name. device: what the model's
    own device stands for. Raises LoweringError for a graph that no program can be made of, and
    PlanError for a plan of another graph.
    """
    return _Lowering(graph, plan, communicators, torch.device(device)).program()


class _Lowering:
    """``env``: what each value or conversion is by now: a node, lengths, or a constant."""

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        communicators: Mapping[str, Communicator],
        device: torch.device,
    ) -> None:
        from torch import fx

        self.graph = graph
        self.plan = plan
        self.communicators = {axis: communicators[axis] for axis in plan.mesh}
        self.device = device
        self.fx = fx.Graph()
        self.fx_node = fx.Node
        self.inputs = InputLengths(graph.inputs)
        self.mesh = mesh_sizes(plan, self.communicators)
        self.lengths = Lengths(self.fx, self._read)
        self.draws = Draws(self.communicators, device)
        self.env: dict[str, Any] = {}
        self.without_gradient: dict[str, Any] | None = None
        self.told: dict[str, tuple[fx.Node, int, int]] = {}
        self.whole: dict[str, fx.Node] = {}
        self.slots: list[Slot] = []
        self.constants: dict[str, Any] = {}
        self.operators = {entry.node: entry for entry in plan.operators}
        self.conversions = {entry.id: entry for entry in plan.conversions}

    def program(self) -> Program:
        """Makes the program, node by node in the order of the graph."""
        for entry in self.graph.inputs:
            self._placeholder(entry)
        for entry in self.graph.inputs:
            self._input(entry)
        for node in self.graph.nodes():
            self._node(node)
        absent = self._output()
        return Program.of(
            self.fx,
            inputs=self.inputs,
            slots=tuple(self.slots),
            constants=self.constants,
            container=self.graph.container,
            absent=absent,
            axes=tuple(self.plan.mesh),
            draws=self.draws if any(o.randomness for o in self.plan.operators) else None,
        )

    def _output(self) -> tuple[str, ...]:
        """Makes the output; returns the classes of what the model returned and no graph holds."""
        sources = {entry.value: entry.source for entry in self.plan.outputs}
        absent: list[str] = []

        def leaf(item: Any) -> Any:
            if isinstance(item, Value):
                return self._source(sources.get(item.name, item.name))
            if isinstance(item, Constant):
                absent.append(item.path)
                return None
            return self.lengths(item) if isinstance(item, Poly) else item

        self.fx.output(map_argument(self.graph.result, leaf))
        return tuple(absent)

    # ---- inputs

    def _placeholder(self, entry: Input) -> None:
        if entry.kind == "size":
            return
        node = self.fx.placeholder(identifier(entry.value.name))
        node.meta["origin"] = Origin(entry.kind, entry.target)
        self.whole[entry.value.name] = node
        self.slots.append(Slot(entry.kind, entry.target))

    def _input(self, entry: Input) -> None:
        name = entry.value.name
        held = next((held for held in self.plan.inputs if held.value == name), None)
        if entry.kind == "size":
            type = entry.value.type
            assert isinstance(type, ScalarType)
            self.env[name] = type.value
            return
        self.env[name] = self.whole[name]
        if entry.kind == "constant":
            self.constants[entry.target] = self._constant(entry, held)
        elif entry.kind == "input" and held is not None:
            self.env[name] = self._cut(self.whole[name], held)

    def _cut(self, node: fx.Node, held: InputPlan) -> fx.Node:
        """The part of an input, which callers give whole."""
        for axis, text in zip(self.plan.mesh, held.placements, strict=True):
            node = self._convert(node, axis, Replicate(), self._placement(text), False, held)
        return node

    def _constant(self, entry: Input, held: InputPlan | None) -> Any:
        """The part of a tensor that belongs to the program, on this device."""
        tensor = self.graph.attachments[entry.target].detach()
        for axis, text in zip(self.plan.mesh, held.placements if held else (), strict=False):
            placement, end = self._placement(text), self.communicators[axis]
            if isinstance(placement, Shard):
                tensor = slice_part(tensor, placement, end.rank, end.size).clone()
        return tensor if tensor.is_meta else tensor.to(self.device)

    def _read(self, name: str) -> Length:
        """The node of a symbol: read from an input, or from a result that tells it."""
        if name in self.mesh:
            return self.mesh[name]
        if name in self.told:
            node, index, times = self.told[name]
            return self._calculated(operator.mul, self._size(node, index, name), times, 1)
        found = self.inputs.reading(name)
        if found is None:
            raise unreadable(name)
        size = self._size(self.whole[found.value], found.index, name)
        size = self._calculated(operator.sub, size, self.lengths(found.rest), 0)
        return self._calculated(operator.floordiv, size, self.lengths(found.divisor), 1)

    def _size(self, node: fx.Node, index: int, name: str) -> fx.Node:
        made = self.fx.create_node("call_method", "size", (node, index), {}, name=identifier(name))
        made.meta["origin"] = Origin("size", name)
        return made

    def _calculated(self, function: Any, size: fx.Node, other: Length, neutral: int) -> fx.Node:
        return size if other is neutral else self.fx.call_function(function, (size, other))

    # ---- nodes

    def _node(self, node: Node) -> None:
        plan = self.operators.get(node.id)
        if plan is not None and plan.skipped:
            for value in node.outputs:
                self.env[value.name] = _known(value)
            return
        match node.operation:
            case OperatorCall(path):
                self._call(node, path, plan)
            case MakeShape(dims):
                self.env[node.output.name] = dims
            case MatchShape(pattern):
                self._match(node, pattern, plan)
            case FunctionCall() | ExternalCall():
                raise calls_function(node)
            case _:
                assert_never(node.operation)

    def _call(self, node: Node, path: str, plan: OperatorPlan | None) -> None:
        operands = iter(self._operands(node, plan))
        args = map_argument(node.args, lambda leaf: self._leaf(leaf, operands))
        kwargs = map_argument(node.kwargs, lambda leaf: self._leaf(leaf, operands))
        call = rank_call(
            node, path, plan, Arguments(args, kwargs), self._length, self.communicators, self.draws
        )
        self._results(node, self._made(node, call), plan)
        if path == SWITCH and args and isinstance(args[0], bool):
            self.without_gradient = None if args[0] else {}

    def _made(self, node: Node, call: RankCall) -> fx.Node:
        wish = identifier(node.outputs[0].name if len(node.outputs) == 1 else node.id)
        kind = "call_method" if call.method else "call_function"
        target: Any = call.method or call.function
        args, kwargs = call.arguments.args, dict(call.arguments.kwargs)
        made = self.fx.create_node(kind, target, args, kwargs, name=wish)
        made.meta["origin"] = Origin("operator", node.id, node, call)
        return made

    def _results(self, node: Node, made: fx.Node, plan: OperatorPlan | None) -> None:
        declaration = node.declaration
        if declaration is not None and declaration.returns == "nothing":
            operands = self._operands(node, plan)
            for value, number in zip(node.outputs, declaration.mutates, strict=False):
                place = declaration.places[number]
                assert place is not None
                self.env[value.name] = operands[place]
        elif node.several:
            for index, value in enumerate(node.outputs):
                part = self.fx.call_function(operator.getitem, (made, index))
                part.meta["origin"] = Origin("part", node.id, node)
                self.env[value.name] = part
        elif node.outputs:
            self.env[node.output.name] = made
        self._share_gradients(plan)
        self._tell(node, plan)

    def _share_gradients(self, plan: OperatorPlan | None) -> None:
        """A replicated output of a split operator is made by all ranks: each has a share of its
        gradient.
        """
        for output in plan.outputs if plan is not None else ():
            for axis, text in zip(self.plan.mesh, output.placements, strict=True):
                split = plan.splits.get(axis) if plan is not None else None
                end = self.communicators[axis]
                whole = isinstance(self._placement(text), Replicate)
                made = self.env.get(output.value)
                if split is None or split.identifier is None or not whole or end.size == 1:
                    continue
                if _is_real(output.dtype) and isinstance(made, self.fx_node):
                    shared = self.fx.call_function(divide_gradient_step(end), (made,))
                    shared.meta["origin"] = Origin("share", axis)
                    self.env[output.value] = shared

    def _tell(self, node: Node, plan: OperatorPlan | None) -> None:
        """Notes the symbols that only a result's shape tells."""
        placements = {out.value: out.placements for out in plan.outputs} if plan else {}
        for value in node.outputs:
            dims = value.dims if isinstance(value.type, TensorType) else None
            for index, dim in enumerate(dims or ()):
                name = _lone_symbol(dim)
                if name and name not in self.told and self.inputs.reading(name) is None:
                    times = self._times(placements.get(value.name, []), index)
                    self.told[name] = (self.env[value.name], index, times)

    def _times(self, placements: list[str], dim: int) -> int:
        """In how many parts a dimension is cut."""
        times = 1
        for axis, text in zip(self.plan.mesh, placements, strict=False):
            placement = self._placement(text)
            if isinstance(placement, Shard) and placement.dim == dim:
                times *= self.communicators[axis].size
        return times

    def _match(
        self, node: Node, pattern: tuple[Dim | None, ...], plan: OperatorPlan | None
    ) -> None:
        """Asserts the lengths that are known by now; the value tells the others."""
        (given,) = self._operands(node, plan)
        placements = plan.operands[0].placements if plan is not None else []
        known = [
            (index, self._times(placements, index), self.lengths(dim))
            for index, dim in enumerate(pattern)
            if dim is not None and self._is_known(dim)
        ]
        self.env[node.output.name] = given
        if known and isinstance(node.output.type, TensorType):
            text = ", ".join("?" if dim is None else str(dim) for dim in pattern)
            matching = _matching(node.id, text)
            made = self.fx.create_node("call_function", matching, (given, tuple(known)), {})
            made.meta["origin"] = Origin("operator", node.id, node)
            self.env[node.output.name] = made
        self._tell(node, plan)

    def _is_known(self, dim: Dim) -> bool:
        from dimsolve.solver.algebra.dims import symbols_of

        return all(
            name in self.mesh or name in self.told or self.inputs.reading(name) is not None
            for name in symbols_of(dim)
        )

    # ---- values

    def _operands(self, node: Node, plan: OperatorPlan | None) -> list[Any]:
        if plan is None:
            return [self._source(value.name) for value in node.operands()]
        return [self._source(operand.source) for operand in plan.operands]

    def _leaf(self, leaf: Any, operands: Iterator[Any]) -> Any:
        match leaf:
            case Value():
                return next(operands)
            case Poly():
                return self.lengths(leaf)
            case Constant(path):
                return resolve(path)
            case Device(name):
                return self.device if name == "model" else torch.device(name)
            case Attachment(name):
                return self.graph.attachments[name]
            case _:
                return leaf

    def _source(self, name: str) -> Any:
        """What has a value, or the result of a conversion, which is made here if it is not yet."""
        entry = self.conversions.get(name)
        if entry is None:
            return map_argument(self.env[name], self._counted)
        made = self.env if self.without_gradient is None else self.without_gradient
        if name not in made:
            axis = list(self.plan.mesh).index(entry.axis)
            source, target = self._placement(entry.before[axis]), self._placement(entry.after[axis])
            given = self._source(entry.source)
            shared = entry.shared_gradient
            made[name] = self._convert(given, entry.axis, source, target, shared, entry)
        return made[name]

    def _counted(self, item: Any) -> Any:
        return self.lengths(item) if isinstance(item, Poly) else item

    def _convert(
        self,
        given: fx.Node,
        axis: str,
        source: Placement,
        target: Placement,
        shared: bool,
        entry: ConversionPlan | InputPlan,
    ) -> fx.Node:
        label = entry.id if isinstance(entry, ConversionPlan) else entry.name
        communicator = _labelled(self.communicators[axis], label)
        recorded = _is_real(entry.dtype)
        make = partial(step, shared_gradient=shared, recorded=recorded)
        blocks = [p.blocks for p in (source, target) if isinstance(p, Shard)]
        if any(isinstance(count, Poly) for count in blocks):
            function = step_of_blocks(source, target, communicator, shared_gradient=shared)
            given_args: tuple[Any, ...] = (given, *(self.lengths(count) for count in blocks))
        else:
            function = make(source, target, communicator)
            given_args = (given,)
        if function is None:
            return given
        wish = identifier(f"{entry.value}_{function.__name__}")
        made = self.fx.create_node("call_function", function, given_args, {}, name=wish)
        made.meta["origin"] = Origin("conversion", label, move=(axis, source, target, shared))
        return made

    def _placement(self, text: str) -> Placement:
        return placement_of(text, tuple(self.mesh.items()))

    def _length(self, text: str) -> Length:
        return self.lengths(dim_of(text))


def identifier(name: str) -> str:
    """Returns a name for a program's variable.

    >>> identifier("model.layers.0.weight"), identifier("0")
    ('model_layers_0_weight', '_0')
    """
    plain = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    return plain if plain[:1].isalpha() or plain[:1] == "_" else f"_{plain}"


def _is_real(dtype: str | None) -> bool:
    """Whether a tensor of this dtype can have a gradient."""
    found = None if dtype is None else getattr(torch, dtype)
    return found is None or found.is_floating_point or found.is_complex


def _known(value: Value) -> Any:
    """The lengths that a value is, known without running."""
    match value.type:
        case ScalarType(_, dim) if dim is not None:
            return dim
        case ShapeType(dims) if dims is not None and None not in dims:
            return dims
        case _:
            raise not_known(value)


def _lone_symbol(dim: Dim | None) -> str | None:
    if not isinstance(dim, Poly) or len(dim.terms) != 1:
        return None
    ((monomial, coefficient),) = dim.terms.items()
    if coefficient != 1 or len(monomial) != 1 or monomial[0][1] != 1:
        return None
    name = monomial[0][0]
    return name if name.isidentifier() else None


def _labelled(communicator: Communicator, label: str) -> Communicator:
    """The communicator under the name of who uses it, where it can tell names."""
    labelled = getattr(communicator, "labelled", None)
    return communicator if labelled is None else labelled(label)


def _matching(id: str, pattern: str) -> Any:
    """Returns the function that asserts the shape of a ``match_shape``."""

    def match_shape(x: torch.Tensor, known: tuple[tuple[int, int, int], ...]) -> torch.Tensor:
        for index, times, length in known:
            if x.size(index) * times != length:
                from .lowering_errors import no_match

                raise no_match(id, pattern, index, x.size(index) * times, length)
        return x

    return match_shape
