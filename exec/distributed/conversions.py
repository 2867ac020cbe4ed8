"""From one placement to another, along one mesh axis or several, with gradients.

    from \\ to    R                  S(j)             P(sum)
    R            nothing            slice            rank 0 keeps it, zeros elsewhere
    S(i)         all-gather         all-to-all       into zeros
    P(sum)       all-reduce         reduce-scatter   nothing

P(max), P(min) and P(prod) go through R; S(i) -> S(i) with other blocks gathers and cuts anew. The
gradient goes the way back, by the pairs of `dimsolve.exec.distributed.collective_functions`: a loss
that every rank computes is one loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from dimsolve.partition.placement import Partial, Placement, Reduction, Replicate, Shard

from .collective_functions import (
    AllReduce,
    DivideGradient,
    Exchange,
    Gather,
    ReduceScatter,
    ShareGradient,
    Slice,
)
from .communicator import Communicator
from .partial_functions import Insert, JoinExtreme, JoinProduct, Keep


def convert(
    tensor: Tensor,
    source: Placement,
    target: Placement,
    communicator: Communicator,
    *,
    shared_gradient: bool = False,
) -> Tensor:
    """Returns this rank's part under ``target`` of the value whose part under ``source`` is given.

    shared_gradient: the result is replicated and used by sharded work, so that each rank computes a
    share of its gradient, and the shares are summed on the way back. For other targets it means
    nothing. Raises ShapeError where a dimension cannot be cut into equal parts.
    """
    match source, target:
        case Replicate(), Replicate():
            return _call(ShareGradient, tensor, communicator) if shared_gradient else tensor
        case Replicate(), Shard():
            return _call(Slice, tensor, target, communicator)
        case Replicate(), Partial():
            return _call(Keep, tensor, target.reduction, communicator)
        case Shard(), Replicate():
            return _call(Gather, tensor, source, communicator, shared_gradient)
        case Shard(), Shard():
            return _reshard(tensor, source, target, communicator)
        case Shard(), Partial(Reduction.AVG):
            gathered = _call(Gather, tensor, source, communicator, False)
            return _call(Keep, gathered, target.reduction, communicator)
        case Shard(), Partial():
            return _call(Insert, tensor, source, target.reduction, communicator)
        case Partial(), Replicate():
            return _join(tensor, source.reduction, communicator, shared_gradient)
        case Partial(Reduction.SUM), Shard():
            return _call(ReduceScatter, tensor, target, communicator)
        case Partial(Reduction.AVG), Shard():
            return _call(ReduceScatter, tensor, target, communicator) / communicator.size
        case Partial(), Partial() if source == target:
            return tensor
        case _:
            whole = _join(tensor, source.reduction, communicator, False)  # type: ignore[union-attr]
            return convert(whole, Replicate(), target, communicator)


def made_by_shards(tensor: Tensor, communicator: Communicator) -> Tensor:
    """Returns a replicated output of sharded work as a value whose gradient is whole.

    The shares of the gradient that the ranks' programs send back for their inputs add up.
    """
    return _call(DivideGradient, tensor, communicator)


def convert_axes(
    tensor: Tensor,
    sources: Sequence[Placement],
    targets: Sequence[Placement],
    communicators: Sequence[Communicator],
    *,
    shared_gradient: Sequence[bool] | None = None,
) -> Tensor:
    """Returns the part under ``targets`` on a mesh: one placement per axis, outer axis first.

    An inner axis that cuts the same dimension as an outer one that changes is gathered first and
    cut again at last: its parts are parts of what the outer axis leaves.
    """
    shared = shared_gradient or [False] * len(targets)
    current = list(sources)
    for inner in reversed(range(len(targets))):
        outer = range(inner)
        if any(_in_the_way(current[inner], sources[o], targets[o]) for o in outer):
            tensor = convert(tensor, current[inner], Replicate(), communicators[inner])
            current[inner] = Replicate()
    for axis, target in enumerate(targets):
        tensor = convert(
            tensor, current[axis], target, communicators[axis], shared_gradient=shared[axis]
        )
    return tensor


def _in_the_way(inner: Placement, source: Placement, target: Placement) -> bool:
    """Whether an inner placement must be undone before an outer axis goes from source to target."""
    if source == target:
        return False
    match inner:
        case Shard(dim):
            return any(isinstance(p, Shard) and p.dim == dim for p in (source, target))
        case Partial(reduction):
            sums = (Reduction.SUM, Reduction.AVG)
            return any(
                isinstance(p, Partial)
                and p.reduction is not reduction
                and not (p.reduction in sums and reduction in sums)
                for p in (source, target)
            )
        case _:
            return False


def _reshard(tensor: Tensor, source: Shard, target: Shard, communicator: Communicator) -> Tensor:
    if source == target:
        return tensor
    if source.dim == target.dim:
        whole = _call(Gather, tensor, source, communicator, False)
        return _call(Slice, whole, target, communicator)
    return _call(Exchange, tensor, source, target, communicator)


def _join(tensor: Tensor, reduction: Reduction, communicator: Communicator, shared: bool) -> Tensor:
    match reduction:
        case Reduction.SUM:
            return _call(AllReduce, tensor, communicator, shared)
        case Reduction.AVG:
            return _call(AllReduce, tensor, communicator, shared) / communicator.size
        case Reduction.MAX | Reduction.MIN:
            return _call(JoinExtreme, tensor, reduction, communicator, shared)
        case Reduction.PROD:
            return _call(JoinProduct, tensor, communicator, shared)


def _call(function: Any, *arguments: Any) -> Tensor:
    apply: Callable[..., Tensor] = function.apply
    return apply(*arguments)
