"""Sums in a narrower type than the model's: done as one device does them, to the last bit.

    a float64 model, cross_entropy(logits.float(), labels), classes over tp = 2
    each rank has the logits whole, computes the loss, and rank 0's share is the loss, the other's 0

A float64 model is equal to one device to 1e-9 where its parts add up in float64. Where its own code
changes to float32 before a sum, a sum of parts rounds otherwise and the gradients are equal to 1e-7
only. Nobody trains in float64; who does wants to compare. So such a sum is not cut. In a float32
model, and where the sum is in float64 after all, the operator is cut as the plan says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from dimsolve.ir.graph import Graph
from dimsolve.ir.node import Node, Value
from dimsolve.ir.types import TensorType
from dimsolve.partition.placement import Partial, Placement, Replicate
from dimsolve.partition.plan import OperatorPlan

from ..distributed.communicator import Communicator
from ..distributed.conversions import convert_axes
from .setting import Setting, is_real

Places = dict[int | str, tuple[Placement, ...]]
"""The placements of tensors among the arguments, by position or name."""


def is_wide(graph: Graph) -> bool:
    """Whether all real parameters of a graph are float64, and there are some."""
    kinds = [entry.value.dtype for entry in graph.inputs if entry.kind == "parameter"]
    real = [dtype for dtype in kinds if is_real(dtype)]
    return bool(real) and all(dtype == "float64" for dtype in real)


def on_whole_operands(
    node: Node, plan: OperatorPlan, setting: Setting, cut: Callable[..., Any], whole: Any
) -> Callable[..., Any] | None:
    """Returns the function for a sum in a narrower type; None where the operator is none.

    cut: what a rank calls for its parts. whole: the operator itself.
    """
    if not all(_is_narrow(value) for value in node.outputs) or plan.sizes or not plan.splits:
        return None
    targets = [tuple(map(setting.placement, output.placements)) for output in plan.outputs]
    places = _places(node, plan, setting)
    sums = [Partial() in target for target in targets]
    if places is None or len(targets) != 1 or not any(sums) or _is_shared(plan, setting, targets):
        return None
    ends = [setting.communicators[axis] for axis in setting.plan.mesh]
    return _dispatched(cut, whole, places, targets[0], ends)


def _is_narrow(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.dtype in (
        "float32",
        "bfloat16",
        "float16",
    )


def _places(node: Node, plan: OperatorPlan, setting: Setting) -> Places | None:
    """Where the operands stand; None where one is not an argument of its own."""
    given: list[tuple[int | str, Any]] = [*enumerate(node.args), *node.kwargs.items()]
    keys = [key for key, argument in given if isinstance(argument, Value)]
    if not len(keys) == len(plan.operands) == len(list(node.operands())):
        return None
    return {
        key: tuple(map(setting.placement, operand.placements))
        for key, operand in zip(keys, plan.operands, strict=True)
    }


def _is_shared(
    plan: OperatorPlan, setting: Setting, targets: Sequence[tuple[Placement, ...]]
) -> bool:
    """Whether a replica's gradient is a sum of shares: then the operator has to be cut."""
    for number, axis in enumerate(setting.plan.mesh):
        if axis in plan.splits:
            held = [o.placements[number] for o in plan.operands if is_real(o.dtype)]
            if "R" in held or any(target[number] == Replicate() for target in targets):
                return True
    return False


def _dispatched(
    cut: Callable[..., Any],
    whole: Callable[..., Any],
    places: Places,
    target: tuple[Placement, ...],
    ends: Sequence[Communicator],
) -> Callable[..., Any]:
    replicas = tuple(Replicate() for _ in ends)

    def call(*args: Any, **kwargs: Any) -> Any:
        given: dict[int | str, Any] = dict(enumerate(args))
        given.update(kwargs.items())
        if any(given[key].dtype is torch.float64 for key in places):
            return cut(*args, **kwargs)
        given |= {
            key: convert_axes(given[key], placements, replicas, ends)
            for key, placements in places.items()
        }
        positional = [given.pop(index) for index in range(len(args))]
        named = {str(name): value for name, value in given.items()}
        return convert_axes(whole(*positional, **named), replicas, target, ends)

    call.__name__ = getattr(cut, "__name__", "whole").lstrip("_")
    return call
