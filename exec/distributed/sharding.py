"""From a whole tensor to what each rank has of it, and back: placements as plain slicing.

    whole (4, 6), S(1) over 2 ranks            rank 0 has [:, 0:3], rank 1 has [:, 3:6]
    whole (6,), S(0, blocks=3) over 2 ranks    rank 0 has elements 0, 2, 4: one half of each block
    whole (6,), S(0, segments=2:1) over 2      rank 0 has elements 0, 1, 4: one half of each segment
    whole (5,), S(0, of=5) over 4 ranks        2, 2, 1 and 0 elements; all send 2
    whole (6,), S(0, of=6, unit=2) over 2      rank 0 has 4 elements, rank 1 has 2
    whole x, P(sum) over 2 ranks               rank 0 has x, rank 1 zeros

Nothing is communicated: tests, `verify` and the loading of parameters use it. Of several mesh axes
the outer one cuts first, and ``blocks`` counts the blocks of what is left to cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import torch
from torch import Tensor

from dimsolve.ir.errors import Diagnostic, ShapeError
from dimsolve.partition.placement import (
    Grouped,
    Partial,
    Placement,
    Reduction,
    Replicate,
    Shard,
)
from dimsolve.solver.algebra.poly import Dim

from ..modes import DEVICES


def blocks_of(shard: Shard) -> int:
    """Returns the number of blocks; a plan's symbols are evaluated before anything runs."""
    if not isinstance(shard.blocks, int):
        raise TypeError(f"{shard} has a symbolic number of blocks; evaluate it first")
    return shard.blocks


def cut_shape(shape: Sequence[int], shard: Shard, count: int) -> list[int]:
    """Returns the shape with the cut dimension written as (blocks, count, rest), of a placement
    without segments.

    Raises ShapeError where the dimension is no multiple of blocks * count.

    >>> cut_shape((5, 12), Shard(1, blocks=3), 2)
    [5, 3, 2, 2]
    """
    length = _cuttable(shape, shard, count)
    blocks = blocks_of(shard)
    before, after = shape[: shard.dim], shape[shard.dim + 1 :]
    return [*before, blocks, count, length // (blocks * count), *after]


def _cuttable(shape: Sequence[int], shard: Shard, count: int) -> int:
    """The length of the cut dimension; ShapeError where it has no equal parts."""
    units = blocks_of(shard) * sum(shard.segments or (1,))
    if not 0 <= shard.dim < len(shape) or shape[shard.dim] % (units * count):
        raise _uncuttable(shape, shard, count)
    return shape[shard.dim]


def _segments(tensor: Tensor, shard: Shard, unit: int) -> list[Tensor]:
    """The segments of a tensor whose dimension is cut, each (..., blocks, length, ...)."""
    dim = shard.dim
    blocks = tensor.unflatten(dim, (blocks_of(shard), sum(shard.segments) * unit))
    return list(blocks.split([n * unit for n in shard.segments], dim + 1))


def number_of(dim: Dim, shard: Shard) -> int:
    """Returns a length of a placement as a number; a plan's symbols are evaluated before."""
    if not isinstance(dim, int):
        raise TypeError(f"{shard} has a symbolic length; evaluate it first")
    return dim


def units_of(shard: Shard) -> tuple[int, int]:
    """Returns how many units a cut in unequal parts deals out, and the length of one, in all blocks
    and segments together.

    >>> units_of(Shard(0, blocks=3, of=336, unit=16))
    (7, 48)
    """
    length = number_of(shard.units, shard) * number_of(shard.unit, shard)
    return number_of(shard.of, shard) // length, length


def run_of(shard: Shard, index: int, count: int) -> tuple[int, int]:
    """Returns with which unit an unequal part starts, and how many it has, as torch's ``chunk``
    cuts.

    >>> [run_of(Shard(0, of=5), index, 4) for index in range(4)]
    [(0, 2), (2, 2), (4, 1), (5, 0)]
    """
    units, _ = units_of(shard)
    most = -(-units // count)
    start = min(index * most, units)
    return start, min(most, units - start)


def filled_up(part: Tensor, shard: Shard, count: int) -> Tensor:
    """Returns a part with zeros at its end, as long as the longest: parts that move are alike."""
    if not shard.of:
        return part
    units, length = units_of(shard)
    return _resized(part, shard, part.shape[shard.dim] // length, -(-units // count))


def cut_off(part: Tensor, shard: Shard, index: int, count: int) -> Tensor:
    """Returns part ``index`` without the zeros at its end."""
    if not shard.of:
        return part
    most = -(-units_of(shard)[0] // count)
    return _resized(part, shard, most, run_of(shard, index, count)[1]).contiguous()


def _resized(tensor: Tensor, shard: Shard, have: int, want: int) -> Tensor:
    """The first units of every segment of every block, or all and zeros after them."""
    if have == want:
        return tensor
    blocks, dim, unit = blocks_of(shard), shard.dim, number_of(shard.unit, shard)
    if shard.contiguous:
        return _first(tensor, dim, want * unit)
    segments = shard.segments or (1,)
    cut = tensor.unflatten(dim, (blocks, have * sum(segments) * unit))
    pieces = cut.split([have * each * unit for each in segments], dim + 1)
    first = [_first(p, dim + 1, want * s * unit) for p, s in zip(pieces, segments, strict=True)]
    return joined(first, dim + 1).flatten(dim, dim + 1)


def _first(tensor: Tensor, dim: int, length: int) -> Tensor:
    missing = length - tensor.shape[dim]
    if missing <= 0:
        return tensor.narrow(dim, 0, length)
    shape = list(tensor.shape)
    shape[dim] = missing
    return joined([tensor, tensor.new_zeros(shape)], dim)


def joined(tensors: Sequence[Tensor], dim: int) -> Tensor:
    """Returns tensors of one dtype one after another, in that dtype also under autocast.

    Autocast knows ``cat``, and refuses float16 where it casts to bfloat16; what only moves between
    ranks is no call of the model's.
    """
    kind = tensors[0].device.type
    if kind not in DEVICES or not torch.is_autocast_enabled(kind):
        return torch.cat(list(tensors), dim)
    with torch.autocast(kind, enabled=False):
        return torch.cat(list(tensors), dim)


def cut_rows(whole: Tensor, shard: Shard, count: int) -> Tensor:
    """Returns (count, ...) whose row i is part i.

    Raises ShapeError where there are no equal parts.
    """
    dim = shard.dim
    if shard.of:
        whole, shard = _with_zeros(whole, shard, count), shard.even
    if not shard.segments:
        cut = whole.reshape(cut_shape(whole.shape, shard, count))
        return cut.movedim(dim + 1, 0).flatten(dim + 1, dim + 2)
    unit = _cuttable(whole.shape, shard, count) // int(shard.units)  # type: ignore[arg-type]
    parts = [
        segment.unflatten(dim + 1, (count, -1)).movedim(dim + 1, 0)
        for segment in _segments(whole, shard, unit)
    ]
    return joined(parts, dim + 2).flatten(dim + 1, dim + 2)


def _with_zeros(whole: Tensor, shard: Shard, count: int) -> Tensor:
    """The whole with zeros at the end of what is cut, so that it has equal parts."""
    units, _ = _checked_units(whole, shard, count)
    return _resized(whole, shard, units, -(-units // count) * count)


def _checked_units(whole: Tensor, shard: Shard, count: int) -> tuple[int, int]:
    """The units of a cut in unequal parts; ShapeError where the tensor is not of its length."""
    units, length = units_of(shard)
    dims = whole.dim()
    if not 0 <= shard.dim < dims or not whole.shape[shard.dim] == shard.of == units * length:
        raise _uncuttable(whole.shape, shard, count)
    return units, length


def slice_part(whole: Tensor, shard: Shard, index: int, count: int) -> Tensor:
    """Returns part ``index`` of ``count``; a view where the part is one run of memory."""
    if shard.of:
        units, length = _checked_units(whole, shard, count)
        start, number = run_of(shard, index, count)
        if shard.contiguous:
            return whole.narrow(shard.dim, start * length, number * length)
        padded = _resized(whole, shard, units, -(-units // count) * count)
        return cut_off(slice_part(padded, shard.even, index, count), shard, index, count)
    if shard.segments:
        unit = _cuttable(whole.shape, shard, count) // int(shard.units)  # type: ignore[arg-type]
        dim = shard.dim + 1
        parts = [
            segment.unflatten(dim, (count, -1)).select(dim, index)
            for segment in _segments(whole, shard, unit)
        ]
        return joined(parts, dim).flatten(shard.dim, dim)
    if blocks_of(shard) == 1:
        shape = cut_shape(whole.shape, shard, count)
        length = shape[shard.dim + 2]
        return whole.narrow(shard.dim, index * length, length)
    cut = whole.reshape(cut_shape(whole.shape, shard, count)).select(shard.dim + 1, index)
    return cut.flatten(shard.dim, shard.dim + 1)


def join_parts(stacked: Tensor, shard: Shard) -> Tensor:
    """Returns the whole tensor of parts stacked along dimension 0, (count, ...); unequal ones are
    filled up.
    """
    if shard.of:
        (units, _), count = units_of(shard), stacked.shape[0]
        whole = join_parts(stacked, shard.even)
        return _resized(whole, shard, -(-units // count) * count, units).contiguous()
    count, shape = stacked.shape[0], list(stacked.shape[1:])
    blocks, dim = blocks_of(shard), shard.dim
    if shard.segments:
        unit = shape[dim] // int(shard.units)  # type: ignore[arg-type]
        inner = Shard(dim + 1, blocks, shard.segments)
        parts = [
            segment.movedim(0, dim + 1).flatten(dim + 1, dim + 2)
            for segment in _segments(stacked, inner, unit)
        ]
        return joined(parts, dim + 1).flatten(dim, dim + 1)
    rows = stacked.reshape(count, *shape[:dim], blocks, shape[dim] // blocks, *shape[dim + 1 :])
    shape[dim] *= count
    # A reshape copies only where it must: parts of length 1 would lie in memory in another order.
    return rows.movedim(0, dim + 1).reshape(shape).contiguous()


def neutral(reduction: Reduction, dtype: torch.dtype) -> float | int | bool:
    """Returns the value that changes nothing when it is reduced with another."""
    match reduction:
        case Reduction.SUM | Reduction.AVG:
            return 0
        case Reduction.PROD:
            return 1
        case Reduction.MAX | Reduction.MIN:
            low = reduction is Reduction.MAX
            if dtype.is_floating_point:
                return float("-inf") if low else float("inf")
            if dtype is torch.bool:
                return not low
            return torch.iinfo(dtype).min if low else torch.iinfo(dtype).max


def local_part(whole: Tensor, placement: Placement, index: int, count: int) -> Tensor:
    """Returns what rank ``index`` of ``count`` has; of a partial value the plainest choice.

    P(sum) and P(prod) have the value on rank 0 and the neutral element elsewhere; P(max), P(min)
    and P(avg) have it everywhere.
    """
    match placement:
        case Shard():
            return slice_part(whole, placement, index, count)
        case Replicate() | Grouped():
            return whole
        case Partial(Reduction.SUM | Reduction.PROD as reduction):
            if index == 0:
                return whole
            return torch.full_like(whole, neutral(reduction, whole.dtype))
        case Partial():
            return whole


def assemble(parts: Sequence[Tensor], placement: Placement) -> Tensor:
    """Returns the whole tensor that the ranks' parts stand for."""
    match placement:
        case Shard():
            alike = [filled_up(part, placement, len(parts)) for part in parts]
            return join_parts(torch.stack(alike), placement)
        case Replicate():
            return parts[0]
        case Partial(reduction):
            return reduce_parts(torch.stack(list(parts)), reduction)
        case Grouped():
            raise ValueError(f"which rows the ranks have of {placement} is not known")


def reduce_parts(stacked: Tensor, reduction: Reduction) -> Tensor:
    """Returns the reduction of (count, ...) over its rows, in the rows' dtype."""
    match reduction:
        case Reduction.SUM:
            return stacked.sum(0, dtype=stacked.dtype)
        case Reduction.AVG:
            return stacked.mean(0)
        case Reduction.PROD:
            return stacked.prod(0, dtype=stacked.dtype)
        case Reduction.MAX:
            return stacked.amax(0)
        case Reduction.MIN:
            return stacked.amin(0)


def local_parts(
    whole: Tensor, placements: Sequence[Placement], mesh: Mapping[str, int]
) -> list[Tensor]:
    """Returns the parts of all ranks in rank order; one placement per mesh axis, outer first."""
    parts = [whole]
    for placement, count in zip(placements, mesh.values(), strict=True):
        parts = [local_part(p, placement, index, count) for p in parts for index in range(count)]
    return parts


def assemble_parts(
    parts: Sequence[Tensor], placements: Sequence[Placement], mesh: Mapping[str, int]
) -> Tensor:
    """Returns the whole tensor of the parts of all ranks: the inner axis is joined first."""
    joined = list(parts)
    if len(joined) != prod(mesh.values()):
        raise ValueError(f"{len(joined)} parts for a mesh of {prod(mesh.values())} ranks")
    axes = list(zip(placements, mesh.values(), strict=True))
    for placement, count in reversed(axes):
        joined = [assemble(joined[i : i + count], placement) for i in range(0, len(joined), count)]
    return joined[0]


def gradient_parts(gradient: Tensor, parts: Sequence[Tensor], placement: Placement) -> list[Tensor]:
    """Returns the gradient of every rank's part, given the gradient of the whole value.

    One logical loss is meant. A sharded value has a sharded gradient, a replicated one has the same
    on every rank, and so has each summand of a sum; ranks that tie for a maximum share it evenly.
    """
    count = len(parts)
    match placement:
        case Shard():
            return [slice_part(gradient, placement, index, count) for index in range(count)]
        case Replicate() | Partial(Reduction.SUM):
            return [gradient] * count
        case Grouped():
            raise ValueError(f"which rows the ranks have of {placement} is not known")
        case Partial(Reduction.AVG):
            return [gradient / count] * count
        case Partial(Reduction.PROD):
            others = products_of_others(torch.stack(list(parts)))
            return [gradient * other.conj() for other in others]
        case Partial():
            winners = torch.stack(list(parts)) == assemble(parts, placement)
            return list(gradient * winners / winners.sum(0))


def gradient_parts_of(
    gradient: Tensor,
    parts: Sequence[Tensor],
    placements: Sequence[Placement],
    mesh: Mapping[str, int],
) -> list[Tensor]:
    """Returns `gradient_parts` on a mesh: one placement per axis, outer first."""
    if not placements:
        return [gradient]
    (_, count), *inner = mesh.items()
    size = len(parts) // count
    groups = [parts[i : i + size] for i in range(0, len(parts), size)]
    joined = [assemble_parts(group, placements[1:], dict(inner)) for group in groups]
    gradients = gradient_parts(gradient, joined, placements[0])
    return [
        part
        for group, whole in zip(groups, gradients, strict=True)
        for part in gradient_parts_of(whole, group, placements[1:], dict(inner))
    ]


def products_of_others(stacked: Tensor) -> Tensor:
    """Returns for each row of (count, ...) the product of the others, right where rows are 0."""
    ones = torch.ones_like(stacked[:1])
    dtype = stacked.dtype
    before = joined([ones, stacked[:-1]], 0).cumprod(0, dtype=dtype)
    after = joined([stacked[1:], ones], 0).flip(0).cumprod(0, dtype=dtype).flip(0)
    return before * after


def _uncuttable(shape: Sequence[int], shard: Shard, count: int) -> ShapeError:
    length = f"its length is {shape[shard.dim]}" if 0 <= shard.dim < len(shape) else "it has none"
    blocks = f" in each of {shard.blocks} blocks" if shard.blocks != 1 else ""
    if shard.segments:
        proportions = ":".join(map(str, shard.segments))
        blocks = f"{blocks} of segments" if blocks else " in each of the segments"
        blocks += f" {proportions}"
    return ShapeError(
        Diagnostic(
            code="uncuttable",
            title="a tensor cannot be cut into equal parts",
            reason=f"{shard} over {count} ranks cuts dimension {shard.dim} of {tuple(shape)} "
            f"into {count}{blocks}, and {length}",
        )
    )
