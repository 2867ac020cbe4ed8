"""The bytes that one rank needs for a training step.

    parameters    its parts of the parameters and buffers
    gradients     as many as the parameters have
    optimizer     two numbers for each parameter with Adam
    activations   what the backward pass needs, and what is live beside it at the worst moment

Activations are an estimate from above: every value that has a gradient is kept until the backward
pass, views share the memory of what they are taken from, and kernels need no memory of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .aliasing import VIEWS
from .plan_data import PlanData, problem
from .sizes import Sizes

NO_STATES = problem(
    "not-a-count",
    "this is no number of optimiser states",
    "optimizer_states = {states:.60}",
    "SGD keeps 0 numbers for each parameter, with momentum 1, Adam 2",
)


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of one rank."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int

    @property
    def total(self) -> int:
        """All of them together."""
        return self.parameters + self.gradients + self.optimizer + self.activations


def memory_of(plan: PlanData, sizes: Sizes, optimizer_states: int) -> Memory:
    """Returns the memory of one rank. Raises PlanError for a symbol without a size."""
    if not isinstance(optimizer_states, int) or optimizer_states < 0:
        raise NO_STATES(states=repr(optimizer_states))
    stored = {"parameter": 0, "buffer": 0}
    for entry in plan.inputs:
        if entry.kind in stored:
            stored[entry.kind] += sizes.bytes(entry.shape, entry.dtype)
    trained = stored["parameter"]
    return Memory(
        parameters=trained + stored["buffer"],
        gradients=trained,
        optimizer=optimizer_states * trained,
        activations=_activations(plan, sizes),
    )


def _activations(plan: PlanData, sizes: Sizes) -> int:
    """The peak of live bytes over the forward pass."""
    live = _Live(plan, sizes)
    for number, operator in enumerate(plan.operators):
        for operand in operator.operands:
            live.take(operand.source)
        if operator.name not in VIEWS:
            for output in operator.outputs:
                live.add(output.value, sizes.bytes(output.shape, output.dtype))
        live.drop((operand.source for operand in operator.operands), number)
        live.drop((output.value for output in operator.outputs), number)
    for result in plan.outputs:
        live.take(result.source)
    return live.peak


class _Live:
    """What is in memory while the plan runs. ``peak``: the most bytes so far."""

    def __init__(self, plan: PlanData, sizes: Sizes) -> None:
        self.sizes = sizes
        self.conversions = {entry.id: entry for entry in plan.conversions}
        made = [output for entry in plan.operators for output in entry.outputs]
        self.kept = {entry.value for entry in plan.inputs if entry.gradient == "always"}
        self.kept |= {entry.value for entry in made if entry.gradient == "always"}
        self.kept |= {entry.id for entry in plan.conversions if entry.backward_runs == "always"}
        self.last = _last_uses(plan)
        self.bytes: dict[str, int] = {}
        self.total = self.peak = 0

    def take(self, source: str) -> None:
        """A value, or a conversion, is used: what was not converted yet is converted now."""
        entry = self.conversions.get(source)
        if entry is None or source in self.bytes:
            return
        self.take(entry.source)
        if entry.forward:
            self.add(source, self.sizes.bytes(entry.shape_after, entry.dtype))

    def add(self, name: str, size: int) -> None:
        """Something is made."""
        if name not in self.bytes:
            self.bytes[name] = size
            self.total += size
            self.peak = max(self.peak, self.total)

    def drop(self, names: Iterable[str], number: int) -> None:
        """What nothing needs after this operator is freed; what has a gradient is not."""
        for name in names:
            if name not in self.kept and self.last.get(name, number) <= number:
                self.total -= self.bytes.pop(name, 0)


def _last_uses(plan: PlanData) -> dict[str, int]:
    """The last operator that uses each value or conversion; a view uses what it is taken from as
    long as it is used itself.
    """
    last: dict[str, int] = {}
    for number, operator in reversed(list(enumerate(plan.operators))):
        end = number
        if operator.name in VIEWS:
            end = max([number, *(last.get(out.value, number) for out in operator.outputs)])
        for operand in operator.operands:
            last[operand.source] = max(last.get(operand.source, end), end)
    for output in plan.outputs:
        last[output.value] = last[output.source] = len(plan.operators)
    return last
