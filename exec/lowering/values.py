"""What every value of the graph is in the program: a node, lengths, or a constant, and converted.

    linear_1        P(sum) over tp          linear_1
    linear_1 -> R   asked for               all_reduce(linear_1), made where it is first asked for
    batch           of input_ids            input_ids.size(0), times the parts that it is given in
    u0              of nonzero(x)           nonzero.size(0), times the parts that its rows are in
    add_(h, 1)      h made by a conversion  add_ of a clone: autograd allows no writing to h

A conversion is made once where gradients are recorded and once where they are switched off. The
plan replicates tensors that have aliases, so no alias can miss what is written; what an
operator itself made is written to in place, as on one device.

What ranks send while they compute is found in the finished program (`overlap`):

    a parameter's gradient over dp          its sum is waited for when the backward pass has ended
    logits S(2) -> R, only returned         gathered while the loss is computed, waited for at last

Where the model writes to tensors no gather is put off: what is sent must not change meanwhile.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dimsolve.ir.graph import Node, map_argument
from dimsolve.ir.types import TensorType
from dimsolve.partition.aliasing import shares
from dimsolve.partition.layout import Layout, path
from dimsolve.partition.placement import Placement, Replicate, Shard
from dimsolve.partition.plan_data import ConversionPlan, InputPlan, OperatorPlan, OutputPlan
from dimsolve.solver.algebra.dims import symbols_of
from dimsolve.solver.algebra.poly import Dim, Poly

from ..distributed.communicator import Communicator
from ..distributed.gradients import GradientBuckets
from .beside import beside_step, cuts_between
from .conversions import (
    begin_gather_step,
    divide_gradient_step,
    end_gather_step,
    known_gather_step,
    lengths_in,
    share_gradient_later_step,
    step,
    step_of_lengths,
)
from .lengths import InputLengths, Length, Lengths, Reading
from .program import Origin, origin_of
from .setting import UNEQUAL_GIVEN, UNREADABLE, Setting, identifier, is_real

if TYPE_CHECKING:
    from torch import fx


class Symbols:
    """``lengths`` makes the nodes of lengths. inputs: the dimensions of the inputs, as given."""

    def __init__(self, setting: Setting, given: Mapping[str, fx.Node]) -> None:
        self.setting = setting
        self.inputs = InputLengths(setting.graph.inputs)
        self.lengths = Lengths(setting.fx, self._read)
        self._mesh = {**setting.mesh, **setting.places}
        self._given = given
        self._noted: dict[str, tuple[fx.Node, int, int]] = {}

    def knows(self, dim: Dim) -> bool:
        """Whether the length can be computed by now."""
        return all(self._is_known(name) for name in symbols_of(dim))

    def note(self, node: Node, plan: OperatorPlan | None, made: Mapping[str, Any]) -> None:
        """Notes the symbols that only the shapes of a node's results tell; ``made`` holds them."""
        placements = {out.value: out.placements for out in plan.outputs} if plan else {}
        for value in node.outputs:
            dims = value.dims if isinstance(value.type, TensorType) else None
            for index, dim in enumerate(dims or ()):
                name = _lone_symbol(dim)
                if name and name not in self._noted and self.inputs.reading(name) is None:
                    if self.setting.dealt(placements.get(value.name, []), index) is not None:
                        continue  # a rank's part does not tell the whole
                    times = self.setting.parts(placements.get(value.name, []), index)
                    self._noted[name] = (made[value.name], index, times)

    def _is_known(self, name: str) -> bool:
        return name in self._mesh or name in self._noted or self.inputs.reading(name) is not None

    def _read(self, name: str) -> Length:
        """The node of a symbol."""
        if name in self._mesh:
            return self._mesh[name]
        if name in self._noted:
            node, index, times = self._noted[name]
            return self._calculated(operator.mul, self._size(node, index, name), times, 1)
        found = self.inputs.reading(name)
        if found is None:
            raise UNREADABLE(name=name)
        size: Length = self._whole(name, found)
        size = self._calculated(operator.sub, size, self.lengths(found.rest), 0)
        return self._calculated(operator.floordiv, size, self.lengths(found.divisor), 1)

    def _whole(self, name: str, found: Reading) -> Length:
        """The length of the whole dimension in which a symbol is read."""
        given = self.setting.given_as(found.input)
        cuts = [p for p in given if isinstance(p, Shard) and p.dim == found.index]
        for placement in cuts:
            if isinstance(placement.of, int) and placement.of:
                return placement.of
        entry = next((e for e in self.setting.plan.inputs if e.name == found.input), None)
        wanted = () if entry is None else self.setting.layout(entry.placements)
        # A part tells the whole only where all parts are as long as it.
        if cuts and any(isinstance(p, Shard) and p.dim == found.index and p.of for p in wanted):
            raise UNEQUAL_GIVEN(name=name, input=found.input)
        size = self._size(self._given[found.value], found.index, name)
        times = self.setting.parts_of(given, found.index)
        return self._calculated(operator.mul, size, times, 1)

    def _size(self, node: fx.Node, index: int, name: str) -> fx.Node:
        graph = self.setting.fx
        made = graph.create_node("call_method", "size", (node, index), {}, name=identifier(name))
        made.meta["origin"] = Origin("size", name)
        return made

    def _calculated(self, function: Any, size: Length, other: Length, neutral: int) -> Length:
        if other is neutral:
            return size
        if isinstance(size, int) and isinstance(other, int):
            return int(function(size, other))
        return self.setting.fx.call_function(function, (size, other))


def _lone_symbol(dim: Dim | None) -> str | None:
    """The symbol that a dimension is, where it is nothing else."""
    if not isinstance(dim, Poly) or len(dim.terms) != 1:
        return None
    ((monomial, coefficient),) = dim.terms.items()
    if coefficient != 1 or len(monomial) != 1 or monomial[0][1] != 1:
        return None
    name = monomial[0][0]
    return name if name.isidentifier() else None


OWN = frozenset({"input", "parameter", "buffer", "constant", "size", "copy"})
"""Kinds of steps whose results are the rank's own."""


def with_own_memory(node: Node, operands: list[Any], program: fx.Graph) -> list[Any]:
    """Returns the operands, those that the node writes to as copies where they must be."""
    declaration = node.declaration
    if declaration is None or not declaration.mutates:
        return operands
    found = list(operands)
    for number in declaration.mutates:
        place = declaration.places[number] if number < len(declaration.places) else None
        if place is not None and _foreign(found[place]):
            copy = program.call_method("clone", (found[place],))
            copy.meta["origin"] = Origin("copy", node.id)
            found[place] = copy
    return found


def _foreign(step: Any) -> bool:
    """Whether a step's result is, or is a view of, what a conversion or a rule's function made."""
    meta = getattr(step, "meta", None)
    origin: Origin | None = None if meta is None else meta.get("origin")
    if origin is None or origin.kind in OWN:
        return False
    if origin.kind not in ("operator", "part"):
        return True
    if origin.call is not None and origin.call.local is not None:
        return True
    if origin.kind == "part" or (origin.node is not None and _is_view(origin.node)):
        return any(_foreign(given) for given in step.all_input_nodes)
    return False


def _is_view(node: Node) -> bool:
    declaration = node.declaration
    writes = declaration is not None and bool(declaration.mutates)
    return not writes and any(True for _ in shares(node))


class Values:
    """``env``: what each value, or conversion with its gradient, is by now."""

    def __init__(self, setting: Setting, lengths: Lengths) -> None:
        self.env: dict[str, Any] = {}
        self._setting = setting
        self._lengths = lengths
        self._conversions = {entry.id: entry for entry in setting.plan.conversions}
        self._without_gradient: dict[str, Any] | None = None
        self._returned: dict[str, Any] = {}
        self._node = type(setting.fx._root)

    @property
    def recorded(self) -> bool:
        """Whether gradients are recorded here."""
        return self._without_gradient is None

    def record(self, recorded: bool) -> None:
        """Says that gradients are recorded from here on, or are not."""
        if recorded is not self.recorded:
            self._without_gradient = None if recorded else {}

    def source(self, name: str) -> Any:
        """Returns what a value is, or the result of a conversion, which is made here if it is not
        yet.
        """
        entry = self._conversions.get(name)
        if entry is None:
            return map_argument(self.env[name], self._counted)
        made = self.env if self._without_gradient is None else self._without_gradient
        if name not in made:
            axis = list(self._setting.plan.mesh).index(entry.axis)
            source = self._setting.placement(entry.before[axis])
            target = self._setting.placement(entry.after[axis])
            given, shared = self.source(entry.source), entry.shared_gradient
            made[name] = self._convert(given, entry.axis, source, target, shared, entry)
        return made[name]

    def operands(self, node: Node, plan: OperatorPlan | None) -> list[Any]:
        """Returns what the tensors among a node's arguments are, as the plan wants them."""
        if plan is None:
            return [self.source(value.name) for value in node.operands()]
        return [self.source(operand.source) for operand in plan.operands]

    def cut(self, node: fx.Node, source: Layout, held: InputPlan) -> fx.Node:
        """Returns the part of an input that the plan wants of what there is."""
        return self.moved(node, source, self._setting.layout(held.placements), held)

    def returned(self, name: str, entry: OutputPlan | None, *, always: bool = False) -> Any:
        """Returns what an output is handed out as: whole, but along the axes that are kept in the
        parts that it is made in. always: it is left of an argument, and never left out.
        """
        if entry is None:
            return self.source(name)
        how, placing = self._setting.returned(entry.name), self._setting.returned.as_placed
        if how == "none" and not always:
            return None
        placed = how == "placed" and placing is not None
        made, target = self._handed(entry, placed)
        if not any(isinstance(placement, Shard) for placement in target):
            return self.source(entry.source)
        if name not in self._returned:
            part = self.moved(self.source(entry.value), made, target, entry)
            if placed and placing is not None:
                part = self._setting.fx.call_function(placing(target), (part,))
            self._returned[name] = part
        return self._returned[name]

    def _handed(self, entry: OutputPlan, placed: bool) -> tuple[Layout, Layout]:
        """How an output is made, and how it is handed out."""
        made = self._setting.layout(entry.placements)
        target = tuple(
            (placement if isinstance(placement, Shard) and _as_dtensor(placement) else Replicate())
            if placed
            else self._rows(entry.name, number, placement)
            for number, placement in enumerate(made)
        )
        return made, target

    def beside(self, name: str, entry: OutputPlan) -> fx.Node | None:
        """Lets an output's users take it, and what is made of it on the way to what is handed out,
        from steps that know what is handed out. Returns that; None where it is not known so.
        """
        how, placing = self._setting.returned(entry.name), self._setting.returned.as_placed
        placed = how == "placed" and placing is not None
        if how == "none":
            return None
        made, target = self._handed(entry, placed)
        as_handed = None
        ends = [
            labelled(self._setting.communicators[axis], entry.name)
            for axis in self._setting.plan.mesh
        ]
        places = [(name, made)]
        if any(isinstance(placement, Shard) for placement in target):
            as_handed = placing(target) if placed and placing is not None else None
        else:
            source = entry.source
            while (conversion := self._conversions.get(source)) is not None:
                places.append((source, self._setting.layout(conversion.after)))
                source = conversion.source
        cuts = [cuts_between(layout, target, ends) for _, layout in places]
        handed: fx.Node | None = None if None in cuts else self.returned(name, entry)
        if handed is None or handed is self.env[name]:
            return None
        for (place, _), undone in zip(places, cuts, strict=True):
            if undone is not None and self.env[place] is not handed:
                step = beside_step(entry.name, undone, as_handed)
                known = self._setting.fx.call_function(step, (self.env[place], handed))
                known.meta["origin"] = Origin("beside", entry.name)
                self.env[place] = known
        return handed

    def _rows(self, name: str, number: int, made: Placement) -> Placement:
        """Returns how an output lies for callers that give parts of a batch along this axis: in the
        rows of the batch, in the first dimension that is as long. All else is whole, but for parts
        that have no dimension of the batch's length, as of batch and sequence in one.
        """
        setting = self._setting
        if tuple(setting.plan.mesh)[number] not in setting.kept:
            return Replicate()
        inputs = {entry.value.name: entry.value.type for entry in setting.graph.inputs}
        types = {entry.name: inputs[entry.value] for entry in setting.plan.inputs}
        dims = _dims(setting.graph.outputs[name].type)
        for given, layout in setting.given.items():
            batch, lengths = layout[number], _dims(types.get(given))
            if not isinstance(batch, Shard) or batch.blocks != 1:
                continue
            rows = [dim for dim, length in enumerate(dims) if length == lengths[batch.dim]]
            if not symbols_of(lengths[batch.dim]):  # other dimensions may be as long by chance
                rows = (
                    [batch.dim]
                    if isinstance(made, Shard) and {batch.dim, made.dim} <= {*rows}
                    else []
                )
            if rows:
                return replace(batch, dim=rows[0])
        return made if isinstance(made, Shard) else Replicate()

    def moved(
        self, node: fx.Node, source: Layout, target: Layout, entry: InputPlan | OutputPlan
    ) -> fx.Node:
        """Returns a value in another layout, a conversion for each step of the cheapest way."""
        axes = tuple(self._setting.plan.mesh)
        counts = tuple(self._setting.communicators[axis].size for axis in axes)
        for move in path(source, target, counts):
            before, after = move.before[move.axis], move.after[move.axis]
            node = self._convert(node, axes[move.axis], before, after, False, entry)
        return node

    def share_gradients(self, plan: OperatorPlan) -> None:
        """A replicated output of a split operator is made by all ranks: each has a share of its
        gradient.
        """
        for output in plan.outputs:
            for axis, text in zip(self._setting.plan.mesh, output.placements, strict=True):
                split, end = plan.splits.get(axis), self._setting.communicators[axis]
                whole = isinstance(self._setting.placement(text), Replicate)
                if split is None or split.identifier is None or not whole or end.size == 1:
                    continue
                if is_real(output.dtype) and isinstance(self.env.get(output.value), self._node):
                    self.env[output.value] = self._divided(self.env[output.value], axis, end)

    def _divided(self, made: fx.Node, axis: str, end: Communicator) -> fx.Node:
        shared = self._setting.fx.call_function(divide_gradient_step(end), (made,))
        shared.meta["origin"] = Origin("share", axis)
        return shared

    def _counted(self, item: Any) -> Any:
        return self._lengths(item) if isinstance(item, Poly) else item

    def _convert(
        self,
        given: fx.Node,
        axis: str,
        source: Placement,
        target: Placement,
        shared: bool,
        entry: ConversionPlan | InputPlan | OutputPlan,
    ) -> fx.Node:
        label = entry.id if isinstance(entry, ConversionPlan) else entry.name
        end = labelled(self._setting.communicators[axis], label)
        lengths, recorded = lengths_in(source, target), is_real(entry.dtype)
        arguments: tuple[Any, ...] = (given,)
        if any(isinstance(length, Poly) for length in lengths):
            function: Any = step_of_lengths(source, target, end, shared_gradient=shared)
            arguments = (given, *(self._lengths(length) for length in lengths))
        else:
            function = step(source, target, end, shared_gradient=shared, recorded=recorded)
        if function is None:
            return given
        name = identifier(f"{entry.value}_{function.__name__}")
        made = self._setting.fx.create_node("call_function", function, arguments, {}, name=name)
        made.meta["origin"] = Origin(
            "conversion", label, move=(axis, source, target, shared), recorded=recorded
        )
        return made


def _dims(type: object) -> tuple[Dim, ...]:
    """The lengths of a tensor; () where they are not known."""
    dims = type.dims if isinstance(type, TensorType) else None
    return () if dims is None or None in dims else tuple(dim for dim in dims if dim is not None)


def _as_dtensor(shard: Shard) -> bool:
    """Whether a DTensor can be made of the parts as they are."""
    return shard.contiguous and (not shard.of or (shard.as_torch and isinstance(shard.of, int)))


def labelled(communicator: Communicator, label: str) -> Communicator:
    """Returns the communicator under the name of who uses it, where it can tell names."""
    rename = getattr(communicator, "labelled", None)
    return communicator if rename is None else rename(label)


def overlap(setting: Setting, *, gather: bool = True) -> None:
    """Changes a finished program so that it waits for what it sends as late as it can.

    gather: whether results may be gathered late too.
    """
    for node in reversed(setting.fx.nodes):
        if _is_beside(node) and not node.users:
            setting.fx.erase_node(node)
    _sum_gradients_later(setting)
    if gather and not any(_writes(node) for node in setting.fx.nodes):
        _gather_results_later(setting)


def _sum_gradients_later(setting: Setting) -> None:
    buckets: dict[str, GradientBuckets] = {}
    for argument in setting.fx.nodes:
        origin = origin_of(argument)
        if origin is None or origin.kind != "parameter" or len(argument.users) != 1:
            continue
        (user,) = argument.users
        move = _move(user)
        if move is None or move[1:] != (Replicate(), Replicate(), True):
            continue
        end = labelled(setting.communicators[move[0]], "the gradients")
        if hasattr(end, "begin_sum"):
            user.target = share_gradient_later_step(
                buckets.setdefault(move[0], GradientBuckets(end))
            )


def _gather_results_later(setting: Setting) -> None:
    *steps, output = setting.fx.nodes
    places = {node: place for place, node in enumerate(steps)}
    for node in steps:
        move, origin = _move(node), origin_of(node)
        if move is None or origin is None:
            continue
        users = [user for user in node.users if user is not output]
        if output not in node.users or not all(map(_is_beside, users)):
            continue
        axis, source, target, shared = move
        given: Any = node.args[0]
        end = labelled(setting.communicators[axis], origin.label)
        waits = any(_is_work(later) for later in steps[places[given] + 1 :])
        whole = target == Replicate() and not shared and len(node.args) == 1
        if isinstance(source, Shard) and whole and waits and hasattr(end, "begin_gather"):
            with setting.fx.inserting_after(given):
                begun = setting.fx.call_function(begin_gather_step(source, end), (given,))
            begun.meta["origin"] = Origin("begun", origin.label)
            node.target = end_gather_step(source, end)
            node.kwargs = {"begun": begun}
            if users:
                with setting.fx.inserting_after(begun):
                    known = setting.fx.call_function(known_gather_step(source, end), (given, begun))
                known.meta["origin"] = Origin("begun", origin.label)
                node.kwargs = {"begun": begun, "known": known}
                for user in users:
                    user.replace_input_with(node, known)
            output.prepend(node)


def _move(step: fx.Node) -> tuple[str, object, object, bool] | None:
    origin = origin_of(step)
    return None if origin is None else origin.move


def _is_beside(step: fx.Node) -> bool:
    """Whether a step only tells what is handed out of what is computed from it."""
    origin = origin_of(step)
    return origin is not None and origin.kind == "beside"


def _is_work(step: fx.Node) -> bool:
    """Whether a step computes with tensors."""
    origin = origin_of(step)
    return origin is not None and (origin.kind == "operator" or origin.region is not None)


def _writes(step: fx.Node) -> bool:
    """Whether a step may change a tensor that it is given."""
    origin = origin_of(step)
    if origin is not None and origin.region is not None:
        return any(map(_writes, origin.region.steps()))
    if origin is None or origin.node is None:
        return False
    declaration = origin.node.declaration
    return declaration is None or bool(declaration.mutates)
