"""Equal to one device: every conversion, on every mesh, forward and gradient, against the whole."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from dimsolve.exec.distributed.collectives import convert, convert_axes, made_by_shards
from dimsolve.exec.distributed.sharding import (
    assemble_parts,
    gradient_parts,
    gradient_parts_of,
    local_parts,
    products_of_others,
)
from dimsolve.exec.distributed.simulated import SimulatedWorld
from dimsolve.ir.errors import ShapeError
from dimsolve.partition.placement import Partial, Placement, Reduction, Replicate, Shard

SHAPE = (24, 36)
SHARDS: list[Placement] = [Shard(0), Shard(1), Shard(0, blocks=2), Shard(1, blocks=3)]
PARTIALS: list[Placement] = [Partial(reduction) for reduction in Reduction]
SUM, MAX = Partial(Reduction.SUM), Partial(Reduction.MAX)


def noise(seed: int, shape: tuple[int, ...] = SHAPE) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def parts_along(
    whole: Tensor, placement: Placement, count: int, seed: int, ties: bool
) -> list[Tensor]:
    """Parts that stand for ``whole`` in no special way: summands all differ, some maxima tie."""
    noises = [noise(100 * seed + i, tuple(whole.shape)) for i in range(count)]
    match placement:
        case Partial(Reduction.SUM | Reduction.AVG as reduction):
            mean = torch.stack(noises).mean(0)
            share = whole / count if reduction is Reduction.SUM else whole
            return [share + n - mean for n in noises]
        case Partial(Reduction.PROD):
            factors = [n.sign() * (n.abs() + 0.5) for n in noises[1:]]
            return [whole / torch.stack([torch.ones_like(whole), *factors]).prod(0), *factors]
        case Partial(reduction):
            below = 1 if reduction is Reduction.MAX else -1
            winner = torch.stack(noises).argmax(0)
            wins = [(winner == i) | (ties & (n > 1)) for i, n in enumerate(noises)]
            losers = [whole - below * n.abs() for n in noises]
            return [torch.where(w, whole, other) for w, other in zip(wins, losers, strict=True)]
        case _:
            return local_parts(whole, (placement,), {"a": count})


def parts_of(
    whole: Tensor, placements: tuple[Placement, ...], mesh: dict[str, int]
) -> list[Tensor]:
    """The parts of all ranks; ranks that hold replicas hold the same, partial inside or not."""
    parts = [(whole, 0)]
    ties = len(mesh) == 1
    for placement, count in zip(placements, mesh.values(), strict=True):
        step = 0 if isinstance(placement, Replicate) else 1
        parts = [
            (piece, seed * count + step * index)
            for part, seed in parts
            for index, piece in enumerate(parts_along(part, placement, count, seed, ties))
        ]
    return [part for part, _ in parts]


def gradients_of(
    gradient: Tensor,
    parts: list[Tensor],
    targets: tuple[Placement, ...],
    mesh: dict[str, int],
    shared: tuple[bool, ...],
) -> list[Tensor]:
    """What the users of the parts send back: where it is shared, any summands of the gradient."""
    if not targets:
        return [gradient]
    (_, count), *rest = mesh.items()
    inner, size = dict(rest), len(parts) // count
    groups = [parts[i : i + size] for i in range(0, len(parts), size)]
    if shared[0]:
        pieces = parts_along(gradient, SUM, count, 7, ties=False)
    else:
        joined = [assemble_parts(group, targets[1:], inner) for group in groups]
        pieces = gradient_parts(gradient, joined, targets[0])
    return [
        piece
        for group, whole in zip(groups, pieces, strict=True)
        for piece in gradients_of(whole, group, targets[1:], inner, shared[1:])
    ]


def close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-11, atol=1e-11)


def check(
    sources: tuple[Placement, ...],
    targets: tuple[Placement, ...],
    mesh: dict[str, int],
    shared: tuple[bool, ...],
) -> None:
    whole, weight = noise(1), noise(2)
    given = parts_of(whole, sources, mesh)
    close(assemble_parts(given, sources, mesh), whole)

    def program(member: Any) -> tuple[Tensor, Tensor]:
        part = given[member.rank].clone().requires_grad_()
        communicators = [member[axis] for axis in mesh]
        found = convert_axes(part, sources, targets, communicators, shared_gradient=shared)
        uneven = any(isinstance(target, Shard) and target.of for target in targets)
        all_found = (
            local_parts(whole, targets, mesh) if uneven else list(member.world.all_gather(found))
        )
        found.backward(gradients_of(weight, all_found, targets, mesh, shared)[member.rank])
        assert part.grad is not None
        return found.detach(), part.grad

    ranks = SimulatedWorld(mesh).run(program)
    close(assemble_parts([value for value, _ in ranks], targets, mesh), whole)
    if not any(isinstance(placement, Partial) for placement in targets):
        for (value, _), wanted in zip(ranks, local_parts(whole, targets, mesh), strict=True):
            close(value, wanted)
    wanted_gradients = gradient_parts_of(weight, given, sources, mesh)
    for (_, gradient), wanted in zip(ranks, wanted_gradients, strict=True):
        close(gradient, wanted)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("source", [*SHARDS, Replicate(), *PARTIALS], ids=str)
def test_every_pair_on_one_axis(source: Placement, count: int) -> None:
    for target in [*SHARDS, Replicate(), *PARTIALS]:
        for shared in (False, True) if isinstance(target, Replicate) else (False,):
            check((source,), (target,), {"a": count}, (shared,))


TWO_AXES = list(product([Shard(0), Shard(1), Shard(0, blocks=2), Replicate(), SUM, MAX], repeat=2))


@pytest.mark.parametrize("sources", TWO_AXES, ids=str)
def test_every_pair_of_pairs_on_two_axes(sources: tuple[Placement, ...]) -> None:
    mesh = {"dp": 2, "tp": 3} if isinstance(sources[0], Shard) else {"dp": 2, "tp": 2}
    for targets in TWO_AXES:
        shared = (targets[0] == Replicate(), False)
        check(sources, targets, mesh, shared)


@pytest.mark.parametrize("reduction", [Reduction.MIN, Reduction.PROD, Reduction.AVG])
def test_reductions_that_do_not_commute(reduction: Reduction) -> None:
    """The inner axis is reduced first: a max over dp of mins over tp is no min of maxes."""
    for sources in (
        (Partial(reduction), SUM),
        (SUM, Partial(reduction)),
        (Partial(reduction), MAX),
    ):
        for targets in ((Replicate(), Replicate()), (Shard(0), Shard(1)), (Shard(1), Replicate())):
            check(sources, targets, {"dp": 2, "tp": 2}, (False, False))


def test_three_axes() -> None:
    mesh = {"dp": 2, "sp": 2, "tp": 2}
    check((Shard(0), Shard(0), SUM), (Shard(1), Replicate(), Shard(0)), mesh, (False, True, False))
    check((Shard(1), SUM, Shard(1)), (Replicate(), Shard(1), Shard(1)), mesh, (True, False, False))


def test_a_part_that_goes_there_and_back_is_the_same() -> None:
    whole = noise(3)

    def program(member: Any) -> bool:
        parts = local_parts(whole, (Shard(1, blocks=3),), {"a": 2})
        there = convert(parts[member.rank], Shard(1, blocks=3), Shard(0), member["a"])
        back = convert(there, Shard(0), Shard(1, blocks=3), member["a"])
        return torch.equal(back, parts[member.rank])

    assert SimulatedWorld({"a": 2}).run(program) == [True, True]


def test_integers_and_booleans_are_converted_exactly() -> None:
    whole = torch.arange(24).reshape(4, 6)

    def program(member: Any) -> tuple[Tensor, Tensor]:
        part = local_parts(whole, (Shard(1),), {"a": 2})[member.rank]
        flags = convert(part > 11, Shard(1), Partial(Reduction.MAX), member["a"])
        return (
            convert(part, Shard(1), Shard(0), member["a"]),
            convert(flags, Partial(Reduction.MAX), Replicate(), member["a"]),
        )

    for rank, (rows, flags) in enumerate(SimulatedWorld({"a": 2}).run(program)):
        assert torch.equal(rows, whole[2 * rank : 2 * rank + 2])
        assert torch.equal(flags, whole > 11)


def test_what_is_converted_may_be_written_to() -> None:
    """An operator that writes to its input must not reach the value that was converted."""
    whole = torch.ones(4, dtype=torch.float64, requires_grad=True)

    def program(member: Any) -> None:
        for target in (Shard(0), SUM):
            part = convert(whole * 1, Replicate(), target, member["a"])
            part.add_(1)
            part.sum().backward()

    SimulatedWorld({"a": 2}).run(program)
    assert torch.equal(whole.detach(), torch.ones(4, dtype=torch.float64))


def test_products_of_others_stand_zeros() -> None:
    factors = torch.tensor([[0.0, 2.0, 0.0], [3.0, 5.0, 0.0], [4.0, 0.0, 7.0]])
    wanted = torch.tensor([[12.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 10.0, 0.0]])
    assert torch.equal(products_of_others(factors), wanted)


def test_a_length_that_cannot_be_cut() -> None:
    with pytest.raises(ShapeError) as raised:
        local_parts(torch.zeros(4, 10), (Shard(1, blocks=2),), {"a": 4})
    assert str(raised.value) == (
        "a tensor cannot be cut into equal parts\n"
        "  S(1, blocks=2) over 4 ranks cuts dimension 1 of (4, 10) into 4 in each of 2 blocks, "
        "and its length is 10"
    )


def test_the_gradient_of_what_sharded_work_has_replicated() -> None:
    """Each rank's making of it has a share, and the shares of an input's gradient are summed."""
    whole = noise(4)

    def program(member: Any) -> Tensor:
        x = whole.clone().requires_grad_()
        given = convert(x, Replicate(), Replicate(), member["a"], shared_gradient=True)
        made_by_shards(given * 3, member["a"]).sum().backward()
        assert x.grad is not None
        return x.grad

    for gradient in SimulatedWorld({"a": 3}).run(program):
        close(gradient, torch.full_like(whole, 3))


@pytest.mark.parametrize("count", [2, 3, 5, 7, 13])
def test_unequal_parts_are_those_of_chunk(count: int) -> None:
    """Of 24 rows over 13 ranks the last one has none."""
    uneven = [Shard(0, of=24), Shard(1, of=36)]
    whole = noise(0)
    for shard in uneven:
        parts = local_parts(whole, (shard,), {"a": count})
        chunks = whole.chunk(count, shard.dim)
        assert all(torch.equal(part, chunk) for part, chunk in zip(parts, chunks, strict=False))
        assert all(part.numel() == 0 for part in parts[len(chunks) :])
    for source, target in product([*uneven, Replicate(), SUM], repeat=2):
        if source != target:
            for shared in (False, True) if target == Replicate() else (False,):
                check((source,), (target,), {"a": count}, (shared,))
