"""Segments: read as they print, cut as plain indices say, joined back to the whole."""

from __future__ import annotations

import pytest
import torch

from dimsolve.exec.distributed.sharding import cut_rows, join_parts, slice_part
from dimsolve.ir.errors import AnnotationError, ShapeError
from dimsolve.partition.placement import Shard, fractions_of, read_placement, segmented, shard_of
from dimsolve.solver.algebra.poly import symbol

SHARDS = [
    Shard(0), Shard(0, 3), Shard(0, 1, (2, 1, 1)), Shard(0, 2, (2, 1)), Shard(0, 1, (1, 2, 1)),
    Shard(0, 3, (3, 1)), Shard(0, 1, (1, 2, 3, 4, 2)),
]  # fmt: skip


@pytest.mark.parametrize("shard", SHARDS, ids=str)
def test_a_placement_reads_back_as_it_prints(shard: Shard) -> None:
    assert read_placement(str(shard)) == shard


@pytest.mark.parametrize(
    ("text", "one_form"),
    [
        ("S(0, segments=2:2)", "S(0, blocks=2)"),
        ("S(0, segments=8:2:2)", "S(0, segments=4:1:1)"),
        ("S(0, blocks=3, segments=2:1:2:1)", "S(0, blocks=6, segments=2:1)"),
        ("S(0, blocks=b, segments=5:5)", "S(0, blocks=2*b)"),
    ],
)
def test_segments_have_one_form(text: str, one_form: str) -> None:
    assert str(read_placement(text)) == one_form


@pytest.mark.parametrize(
    "text", ["S(0, segments=)", "S(0, segments=2)", "S(0, segments=0:1)", "S(0, segments=a:b)"]
)
def test_what_is_no_list_of_proportions_is_refused(text: str) -> None:
    with pytest.raises(AnnotationError, match="cannot be read"):
        read_placement(text)


@pytest.mark.parametrize("shard", SHARDS, ids=str)
@pytest.mark.parametrize("count", [2, 3])
def test_ranks_have_the_indices_that_the_segments_say(shard: Shard, count: int) -> None:
    """Brute force: of each segment in turn, rank r has the r-th of ``count`` parts."""
    length = int(shard.units) * count * 2  # type: ignore[arg-type]
    whole = torch.arange(length * 3).reshape(length, 3)
    wanted: list[list[int]] = [[] for _ in range(count)]
    start = 0
    for fraction in fractions_of(shard) or ():
        size = int(fraction * length)
        for rank in range(count):
            wanted[rank] += range(start + rank * size // count, start + (rank + 1) * size // count)
        start += size
    rows = cut_rows(whole, shard, count)
    for rank in range(count):
        assert torch.equal(slice_part(whole, shard, rank, count), whole[wanted[rank]])
        assert torch.equal(rows[rank], whole[wanted[rank]])
    assert torch.equal(join_parts(rows, shard), whole)


def test_a_dimension_without_equal_parts_is_refused() -> None:
    with pytest.raises(ShapeError) as caught:
        slice_part(torch.zeros(12), Shard(0, 1, (3, 1)), 0, 2)
    assert str(caught.value) == (
        "a tensor cannot be cut into equal parts\n"
        "  S(0, segments=3:1) over 2 ranks cuts dimension 0 of (12,) into 2 in each of the "
        "segments 3:1, and its length is 12"
    )


def test_symbolic_blocks_have_no_fractions() -> None:
    assert fractions_of(Shard(0, symbol("h"))) is None
    assert fractions_of(Shard(0, 5000)) is None


@pytest.mark.parametrize("shard", SHARDS, ids=str)
def test_fractions_say_the_placement(shard: Shard) -> None:
    assert shard_of(0, fractions_of(shard) or ()) == shard
    assert segmented(0, shard.blocks, shard.segments) == shard
