"""The bytes that one rank needs for a training step.

    parameters    its parts of the parameters and buffers
    gradients     as many as the parameters have
    optimizer     two numbers for each parameter with Adam
    activations   what the backward pass needs, and what is live beside it at the worst moment

Activations are an estimate from above: every value that has a gradient is kept until the backward
pass, views share the memory of what they are taken from, and kernels need no memory of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .plan import OperatorPlan, Plan
from .planning.writes import VIEWS
from .sizes import Sizes


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


def memory_of(plan: Plan, sizes: Mapping[str, int], optimizer_states: int) -> Memory:
    """Returns the memory of one rank. Raises PlanError for a symbol without a size."""
    known = Sizes(plan, sizes)
    held = {"parameter": 0, "buffer": 0}
    for entry in plan.inputs:
        if entry.kind in held:
            held[entry.kind] += known.bytes(entry.shape, entry.dtype)
    trained = held["parameter"]
    return Memory(
        parameters=trained + held["buffer"],
        gradients=trained,
        optimizer=optimizer_states * trained,
        activations=_activations(plan, known),
    )


def _activations(plan: Plan, sizes: Sizes) -> int:
    """The peak of live bytes over the forward pass."""
    gradient = _with_gradient(plan)
    conversions = {entry.id: entry for entry in plan.conversions}
    last = _last_uses(plan)
    live: dict[str, int] = {}
    kept = peak = 0
    for number, operator in enumerate(plan.operators):
        made = {
            operand.source: sizes.bytes(operand.shape, operand.dtype)
            for operand in operator.operands
            if operand.source in conversions and conversions[operand.source].forward
        }
        if operator.name not in VIEWS:
            made |= {out.value: sizes.bytes(out.shape, out.dtype) for out in operator.outputs}
        for name, size in made.items():
            if name in live:
                continue
            live[name] = size
            kept += size
        peak = max(peak, kept)
        for name in [name for name in made if name in live and name not in gradient]:
            if last.get(name, number) <= number:
                kept -= live.pop(name)
        for operand in operator.operands:
            name = operand.source
            if name in live and name not in gradient and last.get(name, number) <= number:
                kept -= live.pop(name)
    return peak


def _last_uses(plan: Plan) -> dict[str, int]:
    """The last operator that uses each value or conversion; a view uses what it is taken from as
    long as it is used itself.
    """
    last: dict[str, int] = {}
    for number in range(len(plan.operators) - 1, -1, -1):
        operator: OperatorPlan = plan.operators[number]
        end = number
        if operator.name in VIEWS:
            end = max([number, *(last.get(out.value, number) for out in operator.outputs)])
        for operand in operator.operands:
            last[operand.source] = max(last.get(operand.source, end), end)
    for output in plan.outputs:
        last[output.value] = last[output.source] = len(plan.operators)
    return last


def _with_gradient(plan: Plan) -> set[str]:
    """Values, and conversions of values, that have a gradient in training."""
    found = {entry.value for entry in plan.inputs if entry.gradient == "always"}
    for operator in plan.operators:
        for output in operator.outputs:
            if output.gradient == "always":
                found.add(output.value)
    found |= {entry.id for entry in plan.conversions if entry.backward_runs == "always"}
    return found
