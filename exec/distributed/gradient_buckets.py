"""Gradients of replicated parameters, summed over the ranks while the backward pass goes on.

    g3 ready, g2 ready -> one sum begins -> g1, g0 ready -> a second one begins -> both have ended

A parameter that sharded work uses has a share of its gradient on each rank. What a share is added
to is not looked at before the backward pass has ended, so the sums begin when there is enough to
send, several gradients in one piece of memory, and are waited for at the end. The gradients are
then views of that memory. Where somebody would look earlier (hooks, FSDP, DistributedDataParallel,
a gradient that is there already, second derivatives) each sum is waited for at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

CAPACITY = 4 * 2**20
"""Bytes of gradients that are sent together."""


@dataclass
class _Bucket:
    """Memory of one dtype, filled up to ``used`` elements. members: parameters and their places."""

    memory: Tensor
    used: int = 0
    members: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    finish: Callable[[], None] | None = None

    def fits(self, gradient: Tensor) -> bool:
        alike = self.memory.dtype is gradient.dtype and self.memory.device == gradient.device
        return alike and self.used + gradient.numel() <= self.memory.numel()

    def add(self, parameter: Tensor, gradient: Tensor) -> Tensor:
        size = gradient.numel()
        place = self.memory[self.used : self.used + size].view(gradient.shape)
        place.copy_(gradient)
        self.used += size
        self.members.append((parameter, place))
        return place.detach()


class GradientBuckets:
    """The sums of one program along one axis. ``end``: this rank's end of it, which can begin."""

    def __init__(self, end: Any) -> None:
        self.end = end
        self.capacity = CAPACITY
        self._passes: dict[int, list[_Bucket]] = {}

    def add(self, parameter: Tensor, gradient: Tensor) -> Tensor:
        """Returns a tensor that is the sum of all ranks' gradients when the backward pass has
        ended.
        """
        task = torch._C._current_graph_task_id()
        if task not in self._passes:
            self._passes[task] = []
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(lambda: self._end(task))
        buckets = self._passes[task]
        if not buckets or not buckets[-1].fits(gradient):
            if buckets:
                self._send(buckets[-1])
            count = max(self.capacity // gradient.element_size(), prod(gradient.shape))
            buckets.append(_Bucket(gradient.new_empty(count)))
        return buckets[-1].add(parameter, gradient)

    def _send(self, bucket: _Bucket) -> None:
        if bucket.finish is None and bucket.used:
            bucket.finish = self.end.begin_sum(bucket.memory[: bucket.used])

    def _end(self, task: int) -> None:
        """Waits for all sums of a pass."""
        buckets = self._passes.pop(task, [])
        if buckets:
            self._send(buckets[-1])
        for bucket in buckets:
            if bucket.finish is not None:
                bucket.finish()
            for parameter, place in bucket.members:
                found = parameter.grad
                if found is not None and found.data_ptr() != place.data_ptr():
                    found.copy_(place)  # autograd took a copy of the share


class ShareGradientLater(Function):
    """R -> R, a parameter that sharded work uses: its gradient is summed by the end of the pass."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor, buckets: GradientBuckets) -> Tensor:
        ctx.given = parameter if _is_ours(parameter) else None, buckets
        return parameter.view_as(parameter)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        parameter, buckets = ctx.given
        if parameter is None or not _is_unwatched(parameter, gradient):
            return buckets.end.all_reduce(gradient.contiguous()), None
        return buckets.add(parameter, gradient), None


def _is_ours(parameter: Tensor) -> bool:
    """Whether nobody but an optimiser manages the parameter, as far as can be known."""
    from torch.nn.parallel import DistributedDataParallel

    wrapped = DistributedDataParallel._active_ddp_module is not None
    return parameter.is_leaf and hasattr(parameter, "_dimsolve_part") and not wrapped


def _is_unwatched(parameter: Tensor, gradient: Tensor) -> bool:
    """Whether the gradient goes to the parameter as it is and nobody looks at it on the way."""
    watched = parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None)
    return (
        parameter.grad is None
        and not watched
        and not torch.is_grad_enabled()
        and parameter.is_contiguous()
        and gradient.layout is torch.strided
        and (gradient.dtype, gradient.shape) == (parameter.dtype, parameter.shape)
    )
