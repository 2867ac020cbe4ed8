"""Outputs that stand beside the way to another output, though they are on it on one device.

    loss, logits = model(x, y)          on one device the loss is computed from these logits

    logits S(0) ──▶ loss                on a rank from its part of them; what the caller is handed
         └─ all-gather ─▶ logits        was gathered, and no gradient of the loss comes by here

A hook on such an output does not see the gradient of the other one. That is said when it is
registered; FSDP and DDP, which only notice by hooks of theirs when a backward pass begins, are not
told.
"""

from __future__ import annotations

import sys
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_leaves

from dimsolve.ir.graph import Graph, Value
from dimsolve.ir.types import TensorType

Beside = tuple[int, str, str]
"""Of an output: its place among the leaves, its name, and an output that is computed from it."""

_STOPS = frozenset({"torch.Tensor.detach", "torch.Tensor.item", "torch.Tensor.tolist"})


class Hooks(OrderedDict[int, Any]):
    """The hooks of an output. ``name``: its own. other: what is computed from it."""

    def __init__(self, name: str, other: str) -> None:
        super().__init__()
        self.name, self.other = name, other

    def __setitem__(self, key: int, hook: Any) -> None:
        caller = sys._getframe(2).f_globals.get("__name__", "")  # 1 is Tensor.register_hook
        if not caller.startswith("torch."):
            warnings.warn(
                f"a hook on output '{self.name}' does not see the gradient of '{self.other}', "
                "which is computed from this rank's part of it; what is handed out was gathered. "
                f"Compute '{self.other}' in the script, from what the part returns, and it does",
                stacklevel=3,
            )
        super().__setitem__(key, hook)


def beside(graph: Graph, converted: Sequence[tuple[int, str]]) -> tuple[Beside, ...]:
    """Returns which of these outputs another output is computed from. converted: the places and
    names of outputs that are handed out otherwise than they are made.
    """
    return tuple(
        (place, name, other)
        for place, name in converted
        if (other := _computed_from(graph, name)) is not None
    )


def _computed_from(graph: Graph, name: str) -> str | None:
    """The first output that an output's gradient comes from; None where there is none."""
    start = graph.outputs[name]
    if not _has_gradient(start):
        return None
    reached = {start}
    for node in graph.nodes():
        if node.signature not in _STOPS and any(each in reached for each in node.operands()):
            reached.update(filter(_has_gradient, node.outputs))
    return next((o for o, value in graph.outputs.items() if value in reached - {start}), None)


def _has_gradient(value: Value) -> bool:
    dtype = value.type.dtype if isinstance(value.type, TensorType) else None
    return str(dtype).startswith(("float", "bfloat", "complex"))


def note_hooks(result: Any, found: Iterable[Beside]) -> None:
    """Has hooks on these outputs of a call say what they do not see."""
    leaves = tree_leaves(result)
    for place, name, other in found:
        output = leaves[place]
        if type(output) is Tensor and output.grad_fn is not None and not output._backward_hooks:
            hooks = Hooks(name, other)
            output._backward_hooks = hooks
            output.grad_fn._register_hook_dict(output)  # as torch does
