"""Whether rounding explains what a float32 run differs by from one device: judged in float64.

    gradient of layers.3.conv2.weight      ranks and one device differ by 2.5e-2 in float32
    one device, from its own float64       2.5e-2      a value beside the kink of a relu has moved
    the ranks, from the same float64       4.6e-6
    the ranks in float64                   3e-14       the plan computes the same function

Where a value lies within rounding of a kink, two runs that are both right take different sides of
it, and no fixed tolerance is right for all models. So a run that is beyond its tolerance is judged
once more, against the same model in float64 with the same weights and batch. The ranks are called
equal to one device where all of this holds:

1. The float64 run is of the same program: one device's outputs and loss are within the square root
   of the tolerance of it (1e-2 for float32).
2. The ranks' own program, run in float64 with one device's weights, has the outputs, the loss and
   all gradients of the float64 run, to 1e-9 of each tensor's largest element.
3. Every output, the loss, and every gradient of the float32 run that is beyond its tolerance is at
   most `FACTOR` (4) times as far from float64 as rounding takes one device: the larger of its own
   distance in this run, and of how far float64 itself moves when every weight moves by `ROUNDINGS`
   (64) roundings of float32, up or down, in `MOVES` (2) runs.

By 2 a wrong plan, program or collective is found at any size; by 3 an error of float32 alone is,
unless rounding does as much to one device. (A gradient is measured by the largest element of its
tensor or, where that is nearly zero, by a thousandth of the model's largest, as everywhere.)
Narrower models are not judged: 64 of their roundings are an eighth of a weight. After a step that
was judged equal the ranks go on from one device's weights, so that the next is compared from the
same.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from math import inf, isnan, sqrt
from typing import Any

import torch
from torch import Tensor

from ..capture.argument_objects import mapped
from ..parallel.parallelize import ParallelModule
from .comparable import (
    Handed,
    difference,
    handed_out,
    largest,
    loss_of,
    with_own_memory,
    without_narrowing,
)

EXACT = 1e-9
"""So far may the ranks' program be from one device in float64."""

FACTOR = 4.0
"""So many times as far from float64 as one device is what the ranks may be."""

ROUNDINGS = 64
"""By so many roundings the weights are moved: enough that what is beside a kink goes over it."""

MOVES = 2
"""So many runs with moved weights."""

Named = dict[str, Tensor]
"""The outputs, the loss and the gradients of one run, by name."""


@dataclass(frozen=True, slots=True)
class Distances:
    """The largest distances from one device in float64, relative to each tensor's largest element.

    one_device: in the model's dtype, or with weights moved by roundings. ranks: in the model's
    dtype. exact: of the ranks' program in float64. explained: whether rounding explains the ranks'.
    """

    one_device: float
    ranks: float
    exact: float
    explained: bool


def measure(
    part: ParallelModule,
    model: torch.nn.Module,
    buffers: Mapping[str, Tensor],
    batch: Mapping[str, Any],
    found: tuple[Named, Named],
    beyond: Mapping[str, float],
    allowed: float,
    small: float,
) -> Distances:
    """Returns this rank's distances; all ranks call it alike.

    buffers: the model's, before the run. found: what the ranks' run gave, this rank's parts, and
    what one device's gave. beyond: the names of what is beyond its tolerance. small: a gradient is
    compared with this share of the largest one at least. Where something cannot run in float64,
    nothing is explained.
    """
    mine, whole = found
    try:
        truth = _one_device(model, buffers, batch, 0.0, 0)
        step = ROUNDINGS * torch.finfo(torch.float32).eps / 2
        moved = [_one_device(model, buffers, batch, step, seed) for seed in range(1, MOVES + 1)]
    except (RuntimeError, TypeError, ValueError):  # of every rank alike: nothing is sent here
        return Distances(inf, inf, inf, False)
    ranks = _ranks(part, model, buffers, batch)
    scale = max((largest(t) for n, t in truth.items() if n.startswith("gradient ")), default=0.0)
    one, far, exact, explained = 0.0, 0.0, 0.0, True
    for name, wanted in truth.items():
        size = max(largest(wanted), small * scale if name.startswith("gradient ") else 0.0)
        own = _gap(whole.get(name), wanted, size)
        if not name.startswith("gradient "):
            explained &= own <= sqrt(allowed)
        own = max([own, *[_gap(each.get(name), wanted, size) for each in moved]])
        cut = _part_of(part, name, wanted)
        distance = _gap(mine.get(name), cut, size)
        exact = max(exact, _gap(ranks.get(name), cut, size))
        one, far = max(one, own), max(far, distance)
        explained &= name not in beyond or distance <= FACTOR * own < inf
    explained &= exact <= EXACT and set(beyond) <= set(truth)
    return Distances(one, far, exact, explained)


def is_single(model: torch.nn.Module) -> bool:
    """Whether the narrowest real parameters of a model are float32: what is judged here.

    >>> is_single(torch.nn.Linear(2, 2)), is_single(torch.nn.Linear(2, 2).half())
    (True, False)
    """
    real = {p.dtype for p in model.parameters() if p.is_floating_point()}
    return torch.float32 in real and real <= {torch.float32, torch.float64}


def named(handed: Handed, loss: Tensor | None, gradients: Mapping[str, Tensor | None]) -> Named:
    """Returns what is compared of one run, by name."""
    found = {name: tensor.detach() for name, tensor in handed_out(*handed).items()}
    if loss is not None:
        found["loss"] = loss.detach()
    for name, gradient in gradients.items():
        if gradient is not None:
            found[f"gradient {name}"] = gradient.detach()
    return found


def _one_device(
    model: torch.nn.Module,
    buffers: Mapping[str, Tensor],
    batch: Mapping[str, Any],
    step: float,
    seed: int,
) -> Named:
    """The model in float64, its weights moved by this share of each, up or down."""
    twin = with_weights(model, buffers, step, seed)
    given = mapped(batch, own_double)
    with without_narrowing():
        result = twin(**given)
        loss = loss_of(result)
        if loss is not None and loss.requires_grad:
            loss.backward()
    return named((result, given), loss, {n: p.grad for n, p in twin.named_parameters()})


def with_weights(
    model: torch.nn.Module,
    buffers: Mapping[str, Tensor],
    step: float = 0.0,
    seed: int = 0,
    *,
    wide: bool = True,
) -> torch.nn.Module:
    """Returns a copy of a model with these buffers, its weights moved by this share of each, up or
    down. wide: in float64.
    """
    twin = deepcopy(model).double() if wide else deepcopy(model)
    twin.zero_grad()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, buffer in twin.named_buffers():
            buffer.copy_(buffers[name])
        for parameter in twin.parameters():
            if step:
                signs = torch.randint(0, 2, parameter.shape, generator=generator) * 2 - 1
                parameter.mul_(1 + step * signs.to(parameter.device))
    return twin


def _ranks(
    part: ParallelModule,
    model: torch.nn.Module,
    buffers: Mapping[str, Tensor],
    batch: Mapping[str, Any],
) -> Named:
    """This rank's program in float64, with its parts of the model's weights."""
    leaves: dict[str, Tensor] = {}
    values: list[Any] = []
    whole = dict(model.named_parameters(remove_duplicate=False))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for slot in part.program.slots:
        if slot.kind == "parameter":
            name = names[id(whole[slot.target])]
            if name not in leaves:
                weight = whole[name].detach().double()
                leaf = part.held(slot.target).part(weight).clone()
                leaves[name] = leaf.requires_grad_(whole[name].requires_grad)
            values.append(leaves[name])
        elif slot.kind == "buffer":
            values.append(part.held(slot.target).part(as_double(buffers[slot.target])).clone())
        elif slot.kind == "constant":
            values.append(as_double(part.program.constants[slot.target]))
    given = mapped(batch, own_double)
    modes = {path: module.training for path, module in part.named_modules()}
    entry, inputs, objects = part._programs.find((), given, modes)
    with without_narrowing():
        tree = part.program.run([*inputs, *values])
        result = entry.rebuild(tree, objects)
        loss = loss_of(result)
        if loss is not None and loss.requires_grad:
            loss.backward()
    return named((result, given), loss, {name: leaf.grad for name, leaf in leaves.items()})


def as_double(value: Any) -> Any:
    """Returns a real tensor in float64, and what else there is as it is."""
    real = isinstance(value, Tensor) and value.is_floating_point()
    return value.double() if real else value


def own_double(leaf: Any) -> Any:
    """Returns a leaf of a batch in float64, for a call that may write to it."""
    return as_double(with_own_memory(leaf))


def _part_of(part: ParallelModule, name: str, tensor: Tensor) -> Tensor:
    """What this rank has of one device's tensor."""
    kind, _, place = name.partition(" ")
    return part.held(place).part(tensor) if kind == "gradient" and place in part._held else tensor


def _gap(found: Tensor | None, wanted: Tensor, size: float) -> float:
    """The largest difference over a size; inf where there is none to take, or not a number."""
    gap = inf if found is None else difference(found, wanted)
    return inf if isnan(gap) else gap / (size or 1.0)
