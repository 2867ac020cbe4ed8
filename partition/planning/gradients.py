"""Which values have a gradient: in training always, only if the caller asks for an input's, never.

A whole number has none, nor has what is computed from such values only, what is detached, and what
is computed where gradients are switched off.

    ids: int64          never       weight: a parameter    always
    pixels: float32     inputs      linear(pixels, weight) always
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .aliases import written_by, written_value
from .recording import recorded_after

if TYPE_CHECKING:
    from .network import Gradient, Network, Operator

CUT = frozenset({"detach", "detach_", "no_grad", "argmax", "argmin", "argsort"})
"""Operators, by their names, whose results have no gradient whatever their dtype."""

_OF_INPUT: dict[str, Gradient] = {"parameter": "always", "input": "inputs"}
_ORDER: tuple[Gradient, ...] = ("never", "inputs", "always")


def gradient_flags(network: Network) -> None:
    """Fills in the gradient of every value of a network."""
    for wire in network.wires:
        if differentiable(wire.dtype):
            wire.gradient = _OF_INPUT.get(wire.kind, "never")
    recorded = True
    for operator in network.operators:
        recorded = recorded_after(operator.node, recorded)
        if not recorded:
            _keep(network, operator)
        if not recorded or operator.node.name in CUT:
            continue
        flags = [network.wires[wire].gradient for wire in operator.inputs if wire is not None]
        most: Gradient = max(flags, key=_ORDER.index, default="never")
        for value, number in zip(operator.node.outputs, operator.outputs, strict=False):
            if number is not None and differentiable(value.dtype):
                network.wires[number].gradient = most
        if most != "never":
            _pass_on(network, operator, most)


def _pass_on(network: Network, operator: Operator, gradient: Gradient) -> None:
    """What is written to has the gradient of what is written, under every name of its memory."""
    for written, place in written_by(operator.node):
        known = place is not None and bool(operator.node.outputs)
        if known and written_value(operator.node, place or 0) is None:
            continue  # statistics, which batch_norm notes beside its result and does not record
        for value in network.memory[written]:
            wire = network.wire_of(value)
            if differentiable(wire.dtype):
                wire.gradient = max(wire.gradient, gradient, key=_ORDER.index)


def _keep(network: Network, operator: Operator) -> None:
    """What is written to where nothing is recorded keeps the gradient that it had."""
    declaration = operator.declaration
    for place in declaration.mutates:
        wire, value = operator.inputs[place], written_value(operator.node, place)
        if wire is not None and value is not None:
            number = operator.outputs[operator.node.outputs.index(value)]
            if number is not None:
                network.wires[number].gradient = network.wires[wire].gradient


def differentiable(dtype: str | None) -> bool:
    """Whether a tensor of this dtype can have a gradient; one that is not known might.

    >>> differentiable("int64"), differentiable("bfloat16"), differentiable(None)
    (False, True, True)
    """
    return dtype is None or dtype.startswith(("float", "bfloat", "complex"))
