"""`lower`: from a plan to the one program that all ranks run, on plain local tensors.

    linear        d over tp = 2      share = share_gradient(x)               (4, 16, 64)
                                     linear = linear(share, q_proj_weight)   (4, 16, 32)
    linear_1      k over tp = 2      linear_1 = linear(linear, o_weight)     (4, 16, 64), a summand
    conversion    P(sum) -> R        whole = all_reduce(linear_1)            (4, 16, 64)

The program is an fx graph whose nodes are the graph's own calls and the plan's conversions. Sizes
among the arguments are computed from the sizes of the inputs by the plan's expressions, so that one
program serves every batch that satisfies the plan's conditions.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, assert_never

import torch
from torch.utils._pytree import tree_leaves

from dimsolve.ir.graph import (
    Argument,
    Attachment,
    Constant,
    Device,
    ExternalCall,
    FunctionCall,
    Graph,
    Input,
    MakeShape,
    MatchShape,
    Node,
    OperatorCall,
    Place,
    Value,
    map_argument,
    values_in,
)
from dimsolve.ir.types import ScalarType, ShapeType, TensorType
from dimsolve.partition import regions
from dimsolve.partition.aliasing import aliases_of, written_by
from dimsolve.partition.inlining import inlined
from dimsolve.partition.layout import Layout
from dimsolve.partition.placement import Shard
from dimsolve.partition.plan import Plan
from dimsolve.partition.plan_data import InputPlan, OperatorPlan
from dimsolve.partition.planning.derive import check_derived
from dimsolve.partition.regions import recorded_after
from dimsolve.solver.algebra.poly import Dim, Poly

from ..calls import Arguments, resolve
from ..distributed.communicator import Communicator
from ..distributed.sharding import slice_part
from ..modes import is_switch
from .beside import beside, computed_from
from .blocks import gather_in_blocks, use_in_graphs_dtype
from .calls import (
    Draws,
    OnWholeOperands,
    RankCall,
    is_wide,
    on_whole_operands,
    rank_call,
    refuse_sparse,
)
from .lengths import Length
from .program import Origin, Program, Slot
from .regions import Regions
from .setting import (
    CALLS_FUNCTION,
    NO_MATCH,
    NOT_KNOWN,
    Returned,
    Setting,
    dim_of,
    identifier,
    reserve,
)
from .together import send_together
from .values import Symbols, Values, overlap, with_own_memory

if TYPE_CHECKING:
    from torch import fx


def lower(
    graph: Graph,
    plan: Plan,
    communicators: Mapping[str, Communicator],
    *,
    device: torch.device | str = "cpu",
    given: Mapping[str, Layout] | None = None,
    kept: Sequence[str] = (),
    stored: Mapping[str, Layout] | None = None,
    returned: Returned | None = None,
    randomness: str = "ranks",
) -> Program:
    """Returns the program of this rank.

    communicators: this rank's end of every mesh axis, by the axis' name. device: what the model's
    own device stands for. given: the layouts of inputs that callers do not give whole, by name.
    kept: axes along which outputs are returned in the parts that they are made in; along the others
    they are returned whole. stored: the layouts of parameters and buffers that ranks hold otherwise
    than the plan says, by name. returned: says of outputs by name that they stay in parts, or are
    left out. randomness: "one-device" draws what one device draws. Raises LoweringError for a graph
    that no program can be made of, and PlanError for a plan that does not follow from the graph.
    """
    check_derived(plan, graph)
    ends = {axis: communicators[axis] for axis in plan.mesh}
    setting = Setting(
        inlined(graph),
        plan,
        ends,
        torch.device(device),
        given=given or {},
        kept=tuple(kept),
        stored=stored or {},
        returned=returned or Returned(),
        randomness=randomness,
    )
    return _Lowering(setting).program()


class _Lowering:
    """``given``: the program's arguments by the names of the graph's inputs."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        reserve(setting.fx, setting.plan.mesh)
        self.graph, self.plan, self.fx = setting.graph, setting.plan, setting.fx
        self.given: dict[str, fx.Node] = {}
        self.symbols = Symbols(setting, self.given)
        self.lengths = self.symbols.lengths
        self.values = Values(setting, self.lengths)
        self.env = self.values.env
        self.wide = is_wide(setting.graph)
        self.draws = Draws(
            setting.communicators, setting.device, one_device=setting.randomness == "one-device"
        )
        self.drawing = False
        self.slots: list[Slot] = []
        self.constants: dict[str, Any] = {}
        self.operators = {entry.node: entry for entry in self.plan.operators}
        self.conversions = {entry.id: entry for entry in self.plan.conversions}
        self.used = {value.name for node in self.graph.nodes() for value in node.operands()}
        self.used |= {value.name for value in self.graph.outputs.values()}
        self.memory = aliases_of(self.graph)
        self.copied: list[tuple[fx.Node, InputPlan]] = []
        self.converted: dict[fx.Node, str] = {}
        self.told: set[fx.Node] = set()
        self.names: dict[Any, str] = {}

    def program(self) -> Program:
        """Makes the program, node by node in the order of the graph."""
        for entry in self.graph.inputs:
            self._placeholder(entry)
        for entry in self.graph.inputs:
            self._input(entry)
        checkpoints = Regions(self.setting, self.draws)
        around = checkpoints.around(self.plan)
        for node in self.graph.nodes():
            checkpoints.begin()
            self._node(node)
            checkpoints.end(around.get(node.id))
            if node.id not in around:
                self._beside(node)
        self._write_back()
        absent = self._output()
        returned = tree_leaves(self.fx.output_node().args[0])
        names = [self.names.get(leaf, "") for leaf in returned]
        leaves = enumerate(returned)
        untold = self.converted.keys() - self.told
        converted = [(n, self.converted[leaf]) for n, leaf in leaves if leaf in untold]
        gathers = gather_in_blocks(self.setting)
        use_in_graphs_dtype(self.setting)
        checkpoints.take_out()
        overlap(self.setting, gather=self.values.recorded)
        send_together(self.fx, self.setting.communicators)
        return Program.of(
            self.fx,
            self.setting.held,
            checkpoints.bodies,
            inputs=self.symbols.inputs,
            slots=tuple(self.slots),
            constants=self.constants,
            container=self.graph.container,
            left=self.graph.left,
            objects=self.graph.objects,
            absent=absent,
            names=tuple(names),
            beside=beside(self.graph, converted),
            axes=tuple(self.plan.mesh),
            gathers=gathers,
            switches=any(is_switch(step.target) for step in self.fx.nodes),
            draws=self.draws if self.drawing else None,
        )

    def _output(self) -> tuple[str, ...]:
        """Makes the output; returns the classes of what the model returned and no graph has."""
        named = self.graph.outputs
        outputs = {named[entry.name].name: entry for entry in self.plan.outputs}
        absent: list[str] = []
        tree = self._without_objects(
            self.graph.returned(), () if self.graph.left else ("returned",)
        )

        def leaf(item: Any, left: bool = False) -> Any:
            if isinstance(item, Value):
                entry = outputs.get(item.name)
                node = self.values.returned(item.name, entry, always=left)
                if entry is not None and node is not None:
                    self.names[node] = entry.name
                if entry is not None and node is not self.values.source(entry.value):
                    self.converted[node] = entry.name
                return node
            if isinstance(item, Constant):
                absent.append(item.path)
                return None
            if isinstance(item, Attachment):
                return self._attached(item.name)
            return self.lengths(item) if isinstance(item, Poly) else item

        def made() -> Any:
            if not self.graph.left:
                return map_argument(tree, leaf)
            left = map_argument(tree["left"], lambda item: leaf(item, True))
            return {"returned": map_argument(tree["returned"], leaf), "left": left}

        if self.values.recorded:
            self.fx.output(made())
            return tuple(absent)
        self._switch(True)  # what is handed out has the gradient that it was made with
        result = made()
        self._switch(False)
        self.fx.output(result)
        return tuple(absent)

    def _beside(self, node: Node) -> None:
        """Lets who looks at the gradients of what is handed out see those of other outputs that are
        computed from it: its users take it from a step that knows what is handed out.
        """
        entries = {self.graph.outputs[entry.name].name: entry for entry in self.plan.outputs}
        for value in node.outputs:
            entry = entries.get(value.name)
            if entry is None or not self.values.recorded or self._is_written(value):
                continue
            if computed_from(self.graph, entry.name) is not None:
                handed = self.values.beside(value.name, entry)
                if handed is not None:
                    self.told.add(handed)

    def _without_objects(self, tree: Argument, place: Place) -> Argument:
        """What is handed out, without what is found elsewhere when it is put together: the caller's
        own objects, constants.
        """
        made = self.graph.objects.get(place)
        if made is not None and (made.kind != "class" or self._is_left_out(tree, place)):
            return None
        if isinstance(tree, dict):
            return {key: self._without_objects(x, (*place, key)) for key, x in tree.items()}
        if isinstance(tree, list | tuple):
            items = [self._without_objects(x, (*place, n)) for n, x in enumerate(tree)]
            return items if isinstance(tree, list) else tuple(items)
        return tree

    def _is_left_out(self, tree: Argument, place: Place) -> bool:
        """Whether an object that is returned holds values, and all of them are left out."""
        names = {value: name for name, value in self.graph.outputs.items()}
        held = [names[value] for value in values_in(tree) if value in names]
        returned = self.setting.returned
        return place[0] == "returned" and bool(held) and {*map(returned, held)} == {"none"}

    def _switch(self, recorded: bool) -> None:
        self.fx.call_function(torch._C._set_grad_enabled, (recorded,))
        self.values.record(recorded)

    # ---- inputs

    def _placeholder(self, entry: Input) -> None:
        if entry.kind == "size":
            return
        node = self.fx.placeholder(identifier(entry.value.name))
        node.target = node.name
        node.meta["origin"] = Origin(entry.kind, entry.target)
        self.given[entry.value.name] = node
        self.slots.append(Slot(entry.kind, entry.target))

    def _input(self, entry: Input) -> None:
        name = entry.value.name
        held = next((held for held in self.plan.inputs if held.value == name), None)
        if entry.kind == "size":
            type = entry.value.type
            assert isinstance(type, ScalarType)
            self.env[name] = type.value
            return
        self.env[name] = self.given[name]
        if entry.kind == "constant":
            self.constants[entry.target] = self._constant(entry, held)
        elif held is not None and name in self.used:
            setting, own = self.setting, self.setting.layout(held.placements)
            is_input = entry.kind == "input"
            source = setting.given_as(held.name) if is_input else setting.stored.get(held.name, own)
            self.env[name] = self.values.cut(self.given[name], source, held)
            if (
                is_input
                and self.env[name] is not self.given[name]
                and self._is_written(entry.value)
            ):
                self._copy(held)

    def _is_written(self, value: Value) -> bool:
        """Whether a node writes to memory of a value."""
        group = self.memory[value]
        return any(x in group for node in self.graph.nodes() for x, _ in written_by(node))

    def _copy(self, held: InputPlan) -> None:
        """Gives an input that is written to memory of its own, where it is a part of what was given
        or was gathered: the caller's has what is written in the end (`_write_back`).
        """
        copy = self.fx.call_method("clone", (self.env[held.value],))
        copy.meta["origin"] = Origin("copy", held.name)
        self.env[held.value] = copy
        self.copied.append((copy, held))

    def _write_back(self) -> None:
        """Puts what was written to copies of the caller's tensors into these."""
        for copy, held in self.copied:
            own, given = self.setting.layout(held.placements), self.setting.given_as(held.name)
            result = self.values.moved(copy, own, given, held)
            written = self.fx.call_method("copy_", (self.given[held.value], result))
            written.meta["origin"] = Origin("written", held.name)

    def _constant(self, entry: Input, held: InputPlan | None) -> Any:
        """The part of a tensor that belongs to the program, on this device."""
        tensor = self.graph.attachments[entry.target].detach()
        for axis, text in zip(self.plan.mesh, held.placements if held else (), strict=False):
            placement, end = self.setting.placement(text), self.setting.communicators[axis]
            if isinstance(placement, Shard):
                tensor = slice_part(tensor, placement, end.rank, end.size).clone()
        return tensor if tensor.is_meta else tensor.to(self.setting.device)

    # ---- nodes

    def _node(self, node: Node) -> None:
        plan = self.operators.get(node.id)
        if plan is not None and plan.skipped:
            for value in node.outputs:
                self.env[value.name] = _known(value)
            return
        match node.operation:
            case OperatorCall(regions.BEGIN):
                self._convert_before(node)
                self._call(node, regions.BEGIN, plan)
            case OperatorCall(path):
                self._call(node, path, plan)
            case MakeShape(dims):
                self.env[node.output.name] = dims
            case MatchShape(pattern):
                self._match(node, pattern, plan)
            case FunctionCall() | ExternalCall():
                raise CALLS_FUNCTION(node=node)
            case _:
                assert_never(node.operation)

    def _convert_before(self, start: Node) -> None:
        """Makes the conversions that nodes inside a mapping need, where none can be made."""
        nodes = self.graph.nodes()
        for node in regions.mapped_from(nodes, nodes.index(start)):
            for operand in self.operators[node.id].operands:
                if operand.value in self.env:
                    self.values.source(operand.source)

    def _call(self, node: Node, path: str, plan: OperatorPlan | None) -> None:
        refuse_sparse(node, plan, self.conversions)
        operands = with_own_memory(node, self.values.operands(node, plan), self.fx)
        left = iter(operands)
        args = map_argument(node.args, lambda x: self._leaf(x, left))
        kwargs = map_argument(node.kwargs, lambda x: self._leaf(x, left))
        ends, given = self.setting.communicators, Arguments(args, kwargs)
        call = rank_call(node, path, plan, given, self._length, ends, self.draws)
        self.drawing = self.drawing or call.randomness is not None
        if self.draws.one_device and plan is not None and call.randomness and call.function:
            operands_lie = [self.setting.layout(each.placements) for each in plan.operands]
            results_lie = [self.setting.layout(each.placements) for each in plan.outputs]
            drawn = self.draws.as_one_device(call.function, node, operands_lie, results_lie)
            call = replace(call, function=drawn)
        if self.wide and plan is not None and call.function is not None:
            exact = on_whole_operands(node, plan, self.setting, call.function, resolve(path))
            call = call if exact is None else self._on_whole_operands(call, exact)
        self._results(node, self._made(node, call), plan, operands)
        self.values.record(recorded_after(node, self.values.recorded))

    def _on_whole_operands(self, call: RankCall, exact: OnWholeOperands) -> RankCall:
        """The call of a function that may have to be told the lengths of parts."""
        if all(isinstance(dim, int) for dim in exact.lengths):
            return replace(call, function=exact)
        lengths = tuple(map(self.lengths, exact.lengths))
        kwargs = {**call.arguments.kwargs, "lengths": lengths}
        return replace(call, function=exact, arguments=Arguments(call.arguments.args, kwargs))

    def _made(self, node: Node, call: RankCall) -> fx.Node:
        name = identifier(node.outputs[0].name if len(node.outputs) == 1 else node.id)
        kind = "call_method" if call.method else "call_function"
        target: Any = call.method or call.function
        args, kwargs = call.arguments.args, dict(call.arguments.kwargs)
        made = self.fx.create_node(kind, target, args, kwargs, name=name)
        made.meta["origin"] = Origin("operator", node.id, node, call)
        return made

    def _results(
        self, node: Node, made: fx.Node, plan: OperatorPlan | None, operands: list[Any]
    ) -> None:
        declaration = node.declaration
        if declaration is not None and declaration.returns == "nothing":
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
        if plan is not None:
            self.values.share_gradients(plan)
        self.symbols.note(node, plan, self.env)

    def _match(
        self, node: Node, pattern: tuple[Dim | None, ...], plan: OperatorPlan | None
    ) -> None:
        """Asserts the lengths that are known by now; the value tells the others."""
        (given,) = self.values.operands(node, plan)
        placements = plan.operands[0].placements if plan is not None else []
        known = [
            (index, self.setting.parts(placements, index), self.lengths(dim))
            if (dealt := self.setting.dealt(placements, index)) is None
            else (index, 1, self.lengths(dealt))
            for index, dim in enumerate(pattern)
            if dim is not None and self.symbols.knows(dim)
        ]
        self.env[node.output.name] = given
        if known and isinstance(node.output.type, TensorType):
            text = ", ".join("?" if dim is None else str(dim) for dim in pattern)
            matching = _matching(node.id, text)
            made = self.fx.create_node("call_function", matching, (given, tuple(known)), {})
            made.meta["origin"] = Origin("operator", node.id, node)
            self.env[node.output.name] = made
        self.symbols.note(node, plan, self.env)

    # ---- arguments

    def _leaf(self, leaf: Any, operands: Iterator[Any]) -> Any:
        match leaf:
            case Value():
                return next(operands)
            case Poly():
                return self.lengths(leaf)
            case Constant(path):
                return resolve(path)
            case Device(name):
                return self.setting.device if name == "model" else torch.device(name)
            case Attachment(name):
                return self._attached(name)
            case _:
                return leaf

    def _attached(self, name: str) -> Any:
        """An object of Python's: the program holds it under a name, as no text stands for it."""
        key = f"held_{identifier(name)}"
        self.setting.held[key] = self.graph.attachments[name]
        return self.fx.get_attr(key)

    def _length(self, text: str) -> Length:
        return self.lengths(dim_of(text))


def _known(value: Value) -> Any:
    """The lengths that a value is, known without running."""
    match value.type:
        case ScalarType(_, dim) if dim is not None:
            return dim
        case ShapeType(dims) if dims is not None and None not in dims:
            return dims
        case _:
            raise NOT_KNOWN(value=value)


def _matching(id: str, pattern: str) -> Any:
    """Returns the function that asserts the shape of a ``match_shape``."""

    def match_shape(x: torch.Tensor, known: tuple[tuple[int, int, int], ...]) -> torch.Tensor:
        for index, times, length in known:
            if x.size(index) * times != length:
                raise NO_MATCH(
                    id=id, pattern=pattern, index=index, length=x.size(index) * times, wanted=length
                )
        return x

    return match_shape
