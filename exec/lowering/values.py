"""What every value of the graph is in the program: a node, lengths, or a constant, and converted.

    linear_1        P(sum) over tp     linear_1
    linear_1 -> R   asked for          all_reduce(linear_1), made where it is first asked for

A conversion is made once where gradients are recorded and once where they are switched off: what
was made without recording has no gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dimsolve.ir.node import Node, map_argument
from dimsolve.partition.placement import Placement, Replicate, Shard
from dimsolve.partition.plan import ConversionPlan, InputPlan, OperatorPlan
from dimsolve.solver.algebra.poly import Poly

from ..distributed.communicator import Communicator
from .conversion_steps import divide_gradient_step, step, step_of_blocks
from .lengths import Lengths
from .program import Origin
from .setting import Setting, identifier, is_real

if TYPE_CHECKING:
    from torch import fx


class Values:
    """``env``: what each value, or conversion with its gradient, is by now."""

    def __init__(self, setting: Setting, lengths: Lengths) -> None:
        self.env: dict[str, Any] = {}
        self._setting = setting
        self._lengths = lengths
        self._conversions = {entry.id: entry for entry in setting.plan.conversions}
        self._without_gradient: dict[str, Any] | None = None
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

    def cut(self, node: fx.Node, held: InputPlan) -> fx.Node:
        """Returns the part of an input, which callers give whole."""
        for axis, text in zip(self._setting.plan.mesh, held.placements, strict=True):
            target = self._setting.placement(text)
            node = self._convert(node, axis, Replicate(), target, False, held)
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
        entry: ConversionPlan | InputPlan,
    ) -> fx.Node:
        label = entry.id if isinstance(entry, ConversionPlan) else entry.name
        end = labelled(self._setting.communicators[axis], label)
        blocks = [p.blocks for p in (source, target) if isinstance(p, Shard)]
        arguments: tuple[Any, ...] = (given,)
        if any(isinstance(count, Poly) for count in blocks):
            function: Any = step_of_blocks(source, target, end, shared_gradient=shared)
            arguments = (given, *(self._lengths(count) for count in blocks))
        else:
            recorded = is_real(entry.dtype)
            function = step(source, target, end, shared_gradient=shared, recorded=recorded)
        if function is None:
            return given
        wish = identifier(f"{entry.value}_{function.__name__}")
        made = self._setting.fx.create_node("call_function", function, arguments, {}, name=wish)
        made.meta["origin"] = Origin("conversion", label, move=(axis, source, target, shared))
        return made


def labelled(communicator: Communicator, label: str) -> Communicator:
    """Returns the communicator under the name of who uses it, where it can tell names."""
    rename = getattr(communicator, "labelled", None)
    return communicator if rename is None else rename(label)
