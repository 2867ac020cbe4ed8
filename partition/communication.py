"""What a training step communicates, counted per collective, axis and direction.

    Traffic("all-reduce", "tp", "forward", 4, 131072)      two in each of two layers
    Traffic("all-reduce", "dp", "backward", 21, 183296)    the gradients of 21 parameters

What rules communicate inside the operators that they split counts too: the moments of a batch
norm, the maxima of a softmax over classes. Bytes are what one rank sends: of an all-reduce of B
bytes over n ranks 2 (n - 1)/n B.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from .plan_data import Axis, Gradient, PlanData
from .reshard import SENT, Collective
from .sizes import Sizes

TRAINING: tuple[Gradient, ...] = ("always",)
"""What runs backward in a step where the caller asks for no gradient of inputs."""


class Traffic(NamedTuple):
    """The collectives of one sort in a step. ``bytes``: sent by one rank in all of them."""

    collective: Collective
    axis: Axis
    direction: str
    count: int  # type: ignore[assignment]  # a tuple's count of equal items is of no use here
    bytes: int


def communication_of(plan: PlanData, sizes: Sizes, input_gradients: bool) -> list[Traffic]:
    """Returns the traffic of one training step, forward first, in the order of the mesh's axes.

    input_gradients: whether what is sent only for the gradients of inputs is counted. Raises
    PlanError for a symbol without a size.
    """
    runs: tuple[Gradient, ...] = ("always", "inputs") if input_gradients else ("always",)
    totals: dict[tuple[str, Axis, Collective], list[int]] = {}
    for direction, axis, collective, sent in each_collective(plan, sizes, runs):
        total = totals.setdefault((direction, axis, collective), [0, 0])
        total[0] += 1
        total[1] += sent
    axes = list(plan.mesh)
    order = sorted(totals, key=lambda key: (key[0] != "forward", axes.index(key[1]), key[2]))
    return [
        Traffic(collective, axis, direction, *totals[direction, axis, collective])
        for direction, axis, collective in order
    ]


def each_collective(
    plan: PlanData,
    sizes: Sizes,
    runs: Collection[Gradient] = TRAINING,
    again: Mapping[str, int] | None = None,
) -> Iterator[tuple[str, Axis, Collective, int]]:
    """Yields the collectives of a step that send something, each with its direction, its axis and
    the bytes that one rank sends. again: how often operators and conversions run forward, where
    that is more than once.
    """
    for each in sendings(plan, sizes.mesh, runs, again):
        sent = sizes.of(each.bytes) * each.weight // each.weights
        yield each.direction, each.axis, each.collective, sent


class Sending(NamedTuple):
    """A collective of a step. A rank sends ``bytes * weight // weights``. where: the conversion, or
    the node whose rule makes it.
    """

    where: str
    direction: str
    axis: Axis
    collective: Collective
    bytes: str
    weight: int = 1
    weights: int = 1


def sendings(
    plan: PlanData,
    mesh: Mapping[Axis, int],
    runs: Collection[Gradient] = TRAINING,
    again: Mapping[str, int] | None = None,
) -> Iterator[Sending]:
    """Yields the collectives of a step that send something, on a mesh of these sizes. again: how
    often operators and conversions run forward, where that is more than once.
    """
    times = again or {}
    for conversion in plan.conversions:
        own, axis = conversion.id, conversion.axis
        ways = [("forward", conversion.forward, conversion.bytes_forward)]
        if conversion.backward_runs in runs:
            ways.append(("backward", conversion.backward, conversion.bytes_backward))
        for direction, collectives, text in ways:
            if any(SENT[each][0] for each in collectives):
                often = times.get(own, 1) if direction == "forward" else 1
                for kind, weight, weights in [*_shares(collectives, mesh[axis])] * often:
                    yield Sending(own, direction, axis, kind, text, weight, weights)
    for operator in plan.operators:
        for each in operator.sends:
            if each.runs in runs:
                own, way = operator.node, each.direction
                for _ in range(times.get(own, 1) if way == "forward" else 1):
                    yield Sending(own, way, each.axis, each.collective, each.bytes)


def shared_bytes(
    collectives: Sequence[Collective], total: int, count: int
) -> Iterator[tuple[Collective, int]]:
    """Yields the collectives that send something; the bytes are shared by what they send."""
    for collective, weight, weights in _shares(collectives, count):
        yield collective, total * weight // weights


def _shares(collectives: Sequence[Collective], count: int) -> Iterator[tuple[Collective, int, int]]:
    sending = [each for each in collectives if SENT[each][0]]
    found = [SENT[each][0] * count ** (2 - SENT[each][1]) for each in sending]
    for collective, weight in zip(sending, found, strict=True):
        yield collective, weight, sum(found)
