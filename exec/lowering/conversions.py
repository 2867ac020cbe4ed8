"""One conversion of a plan as a function of one tensor, chosen when the program is made.

    P(sum) -> R along tp                 all_reduce(x)
    R -> S(0) along dp, of whole numbers slice_(x), recorded nowhere: whole numbers have no gradient

What `dimsolve.exec.distributed.collectives.convert` decides at every call is decided here once:
which autograd function, if any, and its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.compiler import is_compiling

from dimsolve.partition.layout import Layout
from dimsolve.partition.placement import Placement, Replicate, Shard
from dimsolve.solver.algebra.poly import Dim

from ..distributed.collectives import (
    AllReduce,
    Begun,
    DivideGradient,
    Exchange,
    Gather,
    GatherAnnounced,
    GatherBegun,
    Insert,
    ReduceScatter,
    ShareGradient,
    Slice,
    convert,
    pair_of,
)
from ..distributed.communicator import Communicator
from ..distributed.gradients import GradientBuckets, ShareGradientLater
from ..distributed.sharding import filled_up, join_parts

Step: TypeAlias = Callable[[Tensor], Tensor]


def step(
    source: Placement,
    target: Placement,
    communicator: Communicator,
    *,
    shared_gradient: bool,
    recorded: bool = True,
) -> Step | None:
    """Returns the function that converts; None where there is nothing to do.

    recorded: whether a gradient may be asked for.
    """
    if communicator.size == 1 or (
        source == target and not (shared_gradient and isinstance(source, Replicate))
    ):
        return None
    if not recorded:

        def unrecorded(x: Tensor) -> Tensor:
            with torch.no_grad():
                return convert(x, source, target, communicator)

        return _named("convert", unrecorded)
    pair = pair_of(source, target, communicator, shared_gradient)
    if pair is None:

        def general(x: Tensor) -> Tensor:
            return convert(x, source, target, communicator, shared_gradient=shared_gradient)

        return _named("convert", general)
    function, *arguments = pair
    apply: Callable[..., Tensor] = function.apply

    def call(x: Tensor) -> Tensor:
        return apply(x, *arguments)

    return _named(_NAMES.get(function, "convert"), call)


_NAMES: dict[object, str] = {
    ShareGradient: "share_gradient",
    Slice: "slice_part",
    Gather: "all_gather",
    Exchange: "all_to_all",
    Insert: "insert",
    AllReduce: "all_reduce",
    ReduceScatter: "reduce_scatter",
}
"""What a program calls the results."""


def step_of_lengths(
    source: Placement,
    target: Placement,
    communicator: Communicator,
    *,
    shared_gradient: bool,
) -> Callable[..., Tensor] | None:
    """Returns the function for placements whose numbers of blocks, or lengths, are known when it
    runs.

    It takes the tensor, and the `lengths_in` of the source and the target, each where it is a
    shard.
    """
    if communicator.size == 1:
        return None

    def convert_lengths(x: Tensor, *lengths: int) -> Tensor:
        before, after = with_lengths((source, target), iter(lengths))
        return convert(x, before, after, communicator, shared_gradient=shared_gradient)

    return convert_lengths


def lengths_in(*placements: Placement) -> list[Dim]:
    """Returns what symbols may stand in: of every shard its blocks, its length and its unit."""
    found: list[Dim] = []
    for placement in placements:
        if isinstance(placement, Shard):
            found += (placement.blocks, placement.of, placement.unit)
    return found


def with_lengths(layout: Layout, lengths: Iterator[int]) -> Layout:
    """Returns placements with the next numbers in place of their `lengths_in`."""
    return tuple(
        replace(each, blocks=next(lengths), of=next(lengths), unit=next(lengths))
        if isinstance(each, Shard)
        else each
        for each in layout
    )


def share_gradient_later_step(buckets: GradientBuckets) -> Step:
    """Returns what a parameter goes through whose gradient is summed by the end of a pass."""
    at_once: Callable[..., Tensor] = ShareGradient.apply
    later: Callable[..., Tensor] = ShareGradientLater.apply

    def share_gradient(x: Tensor) -> Tensor:
        return at_once(x, buckets.end) if is_compiling() else later(x, buckets)

    return share_gradient


def begin_gather_step(source: Shard, communicator: Any) -> Callable[[Tensor], Begun | None]:
    """Returns what begins to gather a tensor; compiled code gathers it when it is asked for."""

    def begin_gather(x: Tensor) -> Begun | None:
        if is_compiling():
            return None
        return Begun(communicator.begin_gather(filled_up(x, source, communicator.size)))

    return begin_gather


def end_gather_step(source: Shard, communicator: Communicator) -> Callable[..., Tensor]:
    """Returns what waits for the gathered tensor."""
    later: Callable[..., Tensor] = GatherBegun.apply
    at_once: Callable[..., Tensor] = Gather.apply

    def all_gather(x: Tensor, begun: Begun | None, known: Tensor | None = None) -> Tensor:
        if begun is None:
            return at_once(x, source, communicator, False)
        if known is None:
            return later(x, begun, source, communicator)
        known.data = join_parts(begun.rows(), source)
        return known

    return all_gather


def known_gather_step(source: Shard, communicator: Communicator) -> Callable[..., Tensor | None]:
    """Returns what makes a gathered tensor before its numbers are there, as others have to know it;
    it has no memory yet. None where nobody can ask for its gradient.
    """
    announce: Callable[..., Tensor] = GatherAnnounced.apply

    def known(x: Tensor, begun: Begun | None) -> Tensor | None:
        if begun is None or not (x.requires_grad and torch.is_grad_enabled()):
            return None
        return announce(x, source, communicator)

    return known


def divide_gradient_step(communicator: Communicator) -> Step:
    """Returns what a replicated result of sharded work goes through; it may be None, as the weights
    of an attention that was asked for none.
    """
    apply: Callable[..., Tensor] = DivideGradient.apply

    def divide_gradient(x: Tensor) -> Tensor:
        return apply(x, communicator) if isinstance(x, Tensor) else x

    return divide_gradient


def _named(name: str, function: Step) -> Step:
    function.__name__ = name
    return function
