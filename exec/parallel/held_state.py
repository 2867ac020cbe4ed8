"""Whether ranks hold one state of a model: how often it was loaded and stepped, and its values.

    rank 0: loaded 1 time, stepped 0 times        rank 1: loaded 0 times, stepped 0 times

What one rank loads, steps or draws alone leaves parts that do not go together, and no collective
would tell. So ranks tell each other when they compare inputs anyway. Of each parameter two numbers
are told, made of its first values: their norm, and a sum with fixed weights, which is another one
where values are (a random projection: Johnson and Lindenstrauss, 1984). Replicas whose sums come
in another order may differ by rounding; what differs by more than a hundredth of the norm is named.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from dimsolve.ir.errors import Diagnostic
from dimsolve.partition.placement import Shard

_VALUES = 4096
"""So many values of a parameter are looked at."""

_ALIKE = 1e-2
"""Differences up to this share of the norm are rounding."""

_HINTS = {
    "loaded": "call part.load_state_dict on every rank: each takes its part of the whole state",
    "stepped": "call optimizer.step() on every rank",
    "values": "change parameters alike on every rank: torch.manual_seed with one number before "
    "nn.init, or load one state_dict",
}


@torch.no_grad()
def state_told(part: Any) -> list[float]:
    """Returns what this rank tells of a part: the numbers of loads and of steps, and two numbers
    for each parameter, in their order.
    """
    found = [float(part._loads), float(part._steps)]
    rows = []
    for parameter in _plain(part).values():
        values = parameter.detach().flatten()[:_VALUES].float()
        places = torch.arange(values.numel(), device=values.device, dtype=torch.float32)
        weights = torch.cos(places * places + 0.5 * places)
        rows += [values.dot(weights), values.norm()]
    return found + (torch.stack(rows).tolist() if rows else [])


def _plain(part: Any) -> dict[str, Any]:
    """Parameters as this rank holds them; FSDP's are DTensors, and its own."""
    return {
        name: parameter
        for name, parameter in part.named_parameters()
        if type(parameter) is torch.nn.Parameter and not parameter.is_meta
    }


def different_state(
    part: Any, told: Mapping[int, Sequence[float]], places: Mapping[int, Mapping[str, int]]
) -> Diagnostic | None:
    """Returns the error of ranks that hold different states; None where there is none.

    told: by rank, what `state_told` returned there. places: the ranks' coordinates, on the axes of
    the plan and on others, along which ranks have nothing in common.
    """
    mesh = tuple(part.plan.mesh)
    lines, causes = [], []
    for number, what in enumerate(("loaded", "stepped")):
        pair = _unequal({r: row[number] for r, row in told.items()}, places, outside=mesh)
        if pair is not None:
            (one, first), (other, second) = pair
            said = "a state was loaded" if what == "loaded" else "the optimizer has stepped"
            lines.append(
                f"{said} {_times(first)} on rank {one}, and {_times(second)} on rank {other}"
            )
            causes.append(what)
    names, pairs = list(_plain(part)), []
    for number, name in enumerate(names):
        held = part._held.get(name)
        layout = zip(mesh, held.placements, strict=False) if held is not None else ()
        cut = {axis for axis, placement in layout if isinstance(placement, Shard)}
        at = 2 + 2 * number
        rows = {r: (row[at], row[at + 1]) for r, row in told.items() if len(row) > at + 1}
        pair = _unequal(rows, places, outside=[axis for axis in mesh if axis not in cut])
        if pair is not None:
            pairs.append((name, pair[0][0], pair[1][0]))
    if pairs:
        name, one, other = pairs[0]
        more = f" and {len(pairs) - 1} more" if len(pairs) > 1 else ""
        are, they = ("are", "they are") if more else ("is", "it is")
        lines.append(f"{name}{more} {are} not on rank {other} what {they} on rank {one}")
        causes.append("values")
    if not lines:
        return None
    return Diagnostic(
        code="states-differ",
        title="the ranks hold different states of the model",
        reason="\n  ".join(lines),
        hint=_HINTS[causes[0]],
    )


def _unequal(
    told: Mapping[int, Any], places: Mapping[int, Mapping[str, int]], outside: Iterable[str]
) -> tuple[tuple[int, Any], tuple[int, Any]] | None:
    """The first two ranks that tell something else, of those that differ along these axes only."""
    groups: dict[tuple[tuple[str, int], ...], tuple[int, Any]] = {}
    along = set(outside)
    for rank, found in told.items():
        place = places.get(rank, {})
        key = tuple((axis, index) for axis, index in place.items() if axis not in along)
        first = groups.setdefault(key, (rank, found))
        if not _is_alike(first[1], found):
            return first, (rank, found)
    return None


def _is_alike(one: Any, other: Any) -> bool:
    if not isinstance(one, tuple):
        return bool(one == other)
    (sum_of_one, norm), (sum_of_other, norm_of_other) = one, other
    if not all(map(math.isfinite, (*one, *other))):
        return True
    limit = _ALIKE * max(norm, norm_of_other)
    near = abs(sum_of_one - sum_of_other) <= limit and abs(norm - norm_of_other) <= limit
    return bool(near)


def _times(number: float) -> str:
    """
    >>> _times(1.0), _times(0.0)
    ('once', '0 times')
    """
    return "once" if number == 1 else f"{int(number)} times"
