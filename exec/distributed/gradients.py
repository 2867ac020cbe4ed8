"""Gradients of replicated parameters, summed over the ranks while the backward pass goes on.

    g3 ready, g2 ready -> one sum begins -> g1, g0 ready -> a second one begins -> both have ended

A parameter that sharded work uses has a share of its gradient on each rank. What a share is added
to is not looked at before the backward pass has ended, so the sums begin when there is enough to
send, several gradients in one piece of memory, and are waited for at the end. Only then are they
added to ``.grad``: autograd is handed nothing, so it can neither add to a share that is not whole
yet nor take a copy of one. A parameter may come several times in a pass (a module called twice),
or not at all. Where somebody looks earlier (hooks, FSDP, DistributedDataParallel,
``torch.autograd.grad``, second derivatives) each share is summed at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.autograd import Function

from .collectives import AllReduce

CAPACITY = 4 * 2**20
"""Bytes of gradients that are sent together."""


@dataclass
class _Bucket:
    """Gradients of one dtype. bytes: of all. members: parameters and their shares, which become
    places in one piece of memory when they are sent.
    """

    dtype: torch.dtype
    device: torch.device
    bytes: int = 0
    members: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    finish: Callable[[], None] | None = None

    def fits(self, gradient: Tensor, capacity: int) -> bool:
        alike = self.dtype is gradient.dtype and self.device == gradient.device
        return alike and self.bytes + gradient.nbytes <= capacity

    def add(self, parameter: Tensor, gradient: Tensor) -> None:
        """Takes a share; a second one of a parameter is added to the first."""
        first = self.members.get(id(parameter))
        if first is None:
            self.bytes += gradient.nbytes
            self.members[id(parameter)] = parameter, gradient
        else:
            self.members[id(parameter)] = parameter, first[1] + gradient

    def send(self, end: Any) -> None:
        """Begins to sum all shares."""
        memory = torch.cat([share.reshape(-1) for _, share in self.members.values()])
        start = 0
        for key, (parameter, share) in self.members.items():
            place = memory[start : start + share.numel()].view(share.shape)
            self.members[key] = parameter, place
            start += share.numel()
        self.finish = end.begin_sum(memory)


class _Pass:
    """The sums of one backward pass."""

    def __init__(self, end: Any, capacity: int) -> None:
        self.end = end
        self.capacity = capacity
        self.buckets: list[_Bucket] = []

    def add(self, parameter: Tensor, gradient: Tensor) -> None:
        """Takes a share of a parameter's gradient; a second one is added to the first, unless that
        has been sent.
        """
        last = self.buckets[-1] if self.buckets else None
        known = last is not None and id(parameter) in last.members
        if last is None or not (known or last.fits(gradient, self.capacity)):
            if last is not None:
                last.send(self.end)
            last = _Bucket(gradient.dtype, gradient.device)
            self.buckets.append(last)
        last.add(parameter, gradient)

    def finish(self) -> None:
        """Waits for all sums and adds them to the parameters' gradients."""
        buckets, self.buckets = self.buckets, []
        with torch.no_grad():
            if buckets:
                buckets[-1].send(self.end)
            for bucket in buckets:
                assert bucket.finish is not None
                bucket.finish()
                for parameter, place in bucket.members.values():
                    add_to_gradient(parameter, place)


def add_to_gradient(parameter: Tensor, gradient: Tensor) -> None:
    """Does what autograd's own node of a parameter does."""
    if parameter.grad is None:
        parameter.grad = gradient
    else:
        parameter.grad.add_(gradient)


class GradientBuckets:
    """The sums of one program along one axis. ``end``: this rank's end of it, which can begin."""

    def __init__(self, end: Any) -> None:
        self.end = end
        self.capacity = CAPACITY
        # The engine holds a pass until it has ended, or failed: then nothing waits for it.
        self._passes: WeakValueDictionary[int, _Pass] = WeakValueDictionary()

    def add(self, parameter: Tensor, gradient: Tensor) -> None:
        """Adds the sum of all ranks' gradients to ``parameter.grad`` when the pass has ended."""
        task = torch._C._current_graph_task_id()
        found = self._passes.get(task)
        if found is None:
            found = self._passes[task] = _Pass(self.end, self.capacity)
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(found.finish)
        found.add(parameter, gradient)


class ShareGradientLater(Function):
    """R -> R, a parameter that sharded work uses: its gradient is summed by the end of the pass."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor, buckets: GradientBuckets) -> Tensor:
        ctx.given = parameter if is_ours(parameter) else None, buckets
        return parameter.view_as(parameter)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        parameter, buckets = ctx.given
        if torch.is_grad_enabled():
            again: Any = AllReduce.apply
            return again(gradient, buckets.end, False), None
        if parameter is None or not is_unwatched(parameter, gradient, ctx.next_functions[0][0]):
            return buckets.end.all_reduce(gradient.contiguous()), None
        if parameter.requires_grad:
            buckets.add(parameter, gradient)
        return None, None


def is_ours(parameter: Tensor) -> bool:
    """Whether nobody but an optimiser manages the parameter, as far as can be known."""
    from torch.nn.parallel import DistributedDataParallel

    wrapped = DistributedDataParallel._active_ddp_module is not None
    return parameter.is_leaf and hasattr(parameter, "_dimsolve_part") and not wrapped


def is_unwatched(parameter: Tensor, gradient: Tensor, node: Any) -> bool:
    """Whether the gradient goes to ``parameter.grad`` as it is, and nobody looks at it on the way.

    node: autograd's own node of the parameter.
    """
    watched = parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None)
    found = parameter.grad
    return (
        not watched
        and (found is None or _is_alike(found, gradient))
        and parameter.is_contiguous()
        and _is_alike(parameter, gradient)
        and _is_accumulated(node)
    )


def _is_alike(tensor: Tensor, gradient: Tensor) -> bool:
    strided = tensor.layout is torch.strided and gradient.layout is torch.strided
    return strided and (gradient.dtype, gradient.shape) == (tensor.dtype, tensor.shape)


def _is_accumulated(node: Any) -> bool:
    """Whether this pass adds to ``.grad``; ``torch.autograd.grad`` hands gradients out instead."""
    try:
        return bool(torch._C._will_engine_execute_node(node))
    except RuntimeError:  # What torch says of a leaf whose gradient is handed out.
        return False
