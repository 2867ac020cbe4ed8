"""Outputs that feed another output on one device, and on a rank are only a gathered copy.

    loss, logits = model(x, y)          on one device the loss is computed from these logits

    logits S(0) ──▶ beside ──▶ loss     on a rank from its part of them; what the caller is handed
         └─ all-gather ─▶ logits        was gathered

Whoever looks at the gradient of such an output (a hook, ``retain_grad``, ``torch.autograd.grad``)
is to see that of the loss too. ``beside`` hands on the part, and knows what is handed out. In the
backward pass it looks whether anybody looks, and only then gathers the part's gradient, and lets it
go back by what is handed out:

    nobody looks      gradient S(0) ──▶ the part                      nothing is sent
    a hook is there   gradient S(0) ─ all-gather ─▶ logits ─▶ hook ─ slice ─▶ the part

All ranks must look: the gradient is gathered from all. One that looks alone is told so. What is
handed out in parts, as a DTensor, has a DTensor's gradient, for which nothing is sent.

Where this cannot be (the output is made in a region that is run again, written to, or a rule's
extreme), a hook says that it does not see the gradient. FSDP and DDP, which only notice by hooks of
theirs when a backward pass begins, are neither told nor given anything.
"""

from __future__ import annotations

import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.autograd import Function
from torch.compiler import is_compiling
from torch.utils._pytree import tree_leaves

from dimsolve.ir.graph import Graph, Value
from dimsolve.ir.types import TensorType
from dimsolve.partition.layout import Layout, path
from dimsolve.partition.placement import Partial, Reduction, Replicate, Shard

from ..distributed.collectives import Gather
from ..distributed.communicator import Communicator
from ..distributed.meeting import meet

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


@dataclass(frozen=True)
class Looks:
    """What tells whether somebody looks at the gradient of an output. ``hooks``: those of the
    tensor that is handed out, whether it lives or not.
    """

    name: str
    hooks: OrderedDict[int, Any]
    handed: ref[Tensor]

    def at(self, ways: Sequence[Any]) -> bool:
        """ways: to where gradients go from the part, from what is handed out, and from a tensor
        that nobody asks for: torch goes there in ``backward()`` only. Where some are asked for, and
        the way of what is handed out is one to them, the gradient takes it.
        """
        if any(not _is_torchs(hook) for hook in self.hooks.values()):
            return True
        handed = self.handed()
        if handed is not None and handed.retains_grad:
            return True
        _, out, unasked = (node for node, _ in ways)
        executes = torch._C._will_engine_execute_node
        return bool(executes(out)) and not executes(unasked)


class _Called(OrderedDict[int, Any]):
    """The hooks of what is handed out, which torch calls with None where no gradient comes by: on
    one device it does not call them there.
    """

    def __setitem__(self, key: int, hook: Any) -> None:
        @wraps(hook)
        def called(gradient: Tensor | None) -> Any:
            return None if gradient is None else hook(gradient)

        super().__setitem__(key, called)


def _is_torchs(hook: Any) -> bool:
    return str(getattr(hook, "__module__", "")).startswith("torch.distributed")


class _Beside(Function):
    """(part, handed out, what nobody asks for) -> the part."""

    @staticmethod
    def forward(
        ctx: Any,
        part: Tensor,
        _: Tensor,
        unasked: Tensor,
        looks: Looks,
        cuts: Cuts,
        placed: Placed,
    ) -> Tensor:
        ctx.looks, ctx.cuts, ctx.placed = looks, cuts, placed
        ctx.set_materialize_grads(False)
        return part.view_as(part)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None) -> tuple[Any, ...]:
        if gradient is None or not ctx.looks.at(ctx.next_functions):
            return gradient, None, None, None, None, None
        gather: Any = Gather
        for shard, end in ctx.cuts:
            meet(end, f"the gradient of output '{ctx.looks.name}'")
            recorded = torch.is_grad_enabled()
            gradient = (gather.apply if recorded else gather.compute)(gradient, shard, end, False)
        gradient = gradient if ctx.placed is None else ctx.placed(gradient)
        return None, gradient, None, None, None, None


Cuts = Sequence[tuple[Shard, Communicator]]
"""The cuts that are undone, in this order, each with its axis' end."""

Placed = Callable[[Tensor], Tensor] | None
"""Makes the DTensor that is handed out of a part; None where a plain tensor is."""


def beside_step(
    name: str, cuts: Cuts, placed: Placed = None
) -> Callable[[Tensor, Tensor | None], Tensor]:
    """Returns what an output goes through on its way to others. name: the output's."""

    def beside(part: Tensor, handed: Tensor | None) -> Tensor:
        if is_compiling() or handed is None or handed is part or not handed.requires_grad:
            return part
        if handed.grad_fn is None or not torch.is_grad_enabled():
            return part
        hooks, unasked = _Called(), torch.empty(0, requires_grad=True)
        _keep_hooks(handed, hooks)
        made: Tensor = _Beside.apply(
            part, handed, unasked, Looks(name, hooks, ref(handed)), cuts, placed
        )
        return made

    return beside


def cuts_between(made: Layout, handed: Layout, ends: Sequence[Communicator]) -> Cuts | None:
    """Returns how the gradient of a part becomes that of what is handed out; None where it is no
    matter of gathering.
    """
    if not all(isinstance(p, Shard | Replicate) or p == Partial(Reduction.SUM) for p in made):
        return None
    start = tuple(each if isinstance(each, Shard) else Replicate() for each in made)
    found: list[tuple[Shard, Communicator]] = []
    for move in path(start, handed, tuple(end.size for end in ends)):
        before, after = move.before[move.axis], move.after[move.axis]
        if not isinstance(before, Shard) or not isinstance(after, Replicate):
            return None
        if not all(isinstance(n, int) for n in (before.blocks, before.of, before.unit)):
            return None
        found.append((before, ends[move.axis]))
    return found


def beside(graph: Graph, converted: Sequence[tuple[int, str]]) -> tuple[Beside, ...]:
    """Returns which of these outputs another output is computed from. converted: the places and
    names of outputs that are handed out otherwise than they are made.
    """
    return tuple(
        (place, name, other)
        for place, name in converted
        if (other := computed_from(graph, name)) is not None
    )


def computed_from(graph: Graph, name: str) -> str | None:
    """Returns the first output that an output's gradient comes from; None where there is none."""
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
        _keep_hooks(leaves[place], Hooks(name, other))


def _keep_hooks(output: Any, hooks: OrderedDict[int, Any]) -> None:
    if isinstance(output, Tensor) and output.grad_fn is not None and output._backward_hooks is None:
        output._backward_hooks = hooks
        output.grad_fn._register_hook_dict(output)  # as torch does with the first hook
