"""Law: parts of unequal length joined are the whole, over every conversion; so are gradients."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from dimsolve.exec.distributed.collectives import convert
from dimsolve.exec.distributed.sharding import assemble, run_of, slice_part
from dimsolve.exec.distributed.simulated import SimulatedWorld
from dimsolve.exec.parallel.state import Held
from dimsolve.partition.layout import held, longest
from dimsolve.partition.placement import Partial, Placement, Replicate, Shard, read_placement


@pytest.mark.parametrize(("length", "count"), list(product(range(1, 13), range(1, 8))))
def test_parts_are_those_of_chunk_and_join_to_the_whole(length: int, count: int) -> None:
    whole, shard = torch.arange(length), Shard(0, of=length)
    found = [slice_part(whole, shard, index, count) for index in range(count)]
    theirs = [*whole.chunk(count), *[whole[:0]] * count][:count]
    assert all(map(torch.equal, found, theirs))
    assert torch.equal(assemble(found, shard), whole)
    assert longest(shard, count) == len(found[0])


CUTS = [
    Shard(0, of=12, unit=4),
    Shard(0, 2, of=12, unit=2),
    Shard(0, 1, (2, 1), of=12, unit=1),
    Shard(1, of=5),
    Replicate(),
    Partial(),
    Shard(0),
]


def test_every_conversion_and_its_gradient_are_those_of_the_whole() -> None:
    whole = torch.arange(60, dtype=torch.float64).reshape(12, 5)
    weight = torch.randn(12, 5, dtype=torch.float64)

    def program(member: object) -> None:
        end = member["ranks"]  # type: ignore[index]
        for source, target in product(CUTS, repeat=2):
            given = _part(whole, source, end.rank).requires_grad_()
            made = convert(given, source, target, end)
            if not isinstance(target, Partial):
                assert torch.equal(made, _part(whole, target, end.rank)), (source, target)
                (made * _part(weight, target, end.rank)).sum().backward()
                if isinstance(source, Shard):
                    assert torch.equal(given.grad, _part(weight, source, end.rank))

    SimulatedWorld[None](3).run(program)  # type: ignore[arg-type]


def _part(whole: torch.Tensor, placement: Placement, rank: int) -> torch.Tensor:
    match placement:
        case Shard():
            return slice_part(whole, placement, rank, 3).clone()
        case Partial():
            return whole.clone() if rank == 0 else torch.zeros_like(whole)
        case _:
            return whole.clone()


@pytest.mark.parametrize("shard", [cut for cut in CUTS if isinstance(cut, Shard) and cut.of])
def test_a_placement_is_read_as_it_is_written_and_held_as_it_is_cut(shard: Shard) -> None:
    assert read_placement(str(shard)) == shard
    whole = torch.arange(60).reshape(12, 5)
    shown = held((12, 5), shard, "tp=3")
    for rank in range(3):
        rows, columns = shown.indices((rank,))
        own = [row for run in rows for row in run], [c for run in columns for c in run]
        assert torch.equal(whole[own[0]][:, own[1]], slice_part(whole, shard, rank, 3))

        class End:
            size, axis = 3, "tp"

        end = End()
        end.rank = rank  # type: ignore[attr-defined]
        runs = Held((shard,), (end,)).runs((12, 5))  # type: ignore[arg-type]
        assert sum(run.sizes[0] * run.sizes[1] for run in runs) == len(own[0]) * len(own[1])


def test_the_first_part_is_the_longest() -> None:
    lengths = [run_of(Shard(0, of=112, unit=16), index, 3)[1] for index in range(3)]
    assert lengths == [3, 3, 1]
