"""Conversions: the table of design page 5, what they send, and the way of several axes."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
import torch

from dimsolve.exec.distributed.collectives import convert
from dimsolve.exec.distributed.sharding import assemble_parts, local_parts
from dimsolve.exec.distributed.simulated import Member, SimulatedWorld
from dimsolve.partition.layout import Layout, allowed, local_dims, path
from dimsolve.partition.placement import Partial, Placement, Reduction, Replicate, Shard
from dimsolve.partition.reshard import conversion, sends
from dimsolve.solver.algebra.poly import symbol
from dimsolve.solver.proof.facts import NO_FACTS

R, S0, S1, P = Replicate(), Shard(0), Shard(1), Partial()

TABLE = [
    (P, R, False, "all-reduce", ""),
    (P, R, True, "all-reduce", "all-reduce"),
    (P, S0, False, "reduce-scatter", "all-gather"),
    (S0, R, False, "all-gather", "slice"),
    (S0, R, True, "all-gather", "reduce-scatter"),
    (S0, S1, False, "all-to-all", "all-to-all"),
    (R, S0, False, "slice", "all-gather"),
    (R, P, False, "keep", ""),
    (S0, P, False, "insert", "slice"),
    (R, R, False, "", ""),
    (R, R, True, "", "all-reduce"),
    (S0, Shard(0, 3), False, "all-gather slice", "all-gather slice"),
    (Partial(Reduction.MAX), R, False, "all-reduce", "all-reduce"),
    (Partial(Reduction.AVG), S0, False, "reduce-scatter", "all-gather"),
]


@pytest.mark.parametrize(("before", "after", "shared", "forward", "backward"), TABLE)
def test_every_pair_of_placements_has_its_conjugate_collectives(
    before: Placement, after: Placement, shared: bool, forward: str, backward: str
) -> None:
    found = conversion(before, after, shared)
    assert (" ".join(found.forward), " ".join(found.backward)) == (forward, backward)


@pytest.mark.parametrize(
    ("collective", "share"),
    [("all-reduce", 2.0), ("all-gather", 1.0), ("reduce-scatter", 1.0), ("all-to-all", None)],
)
def test_a_rank_sends_what_ring_algorithms_send(collective: str, share: float | None) -> None:
    """All-reduce is a reduce-scatter and an all-gather; in each a rank passes on n - 1 of n parts.
    In an all-to-all it sends n - 1 of n parts of its own part.
    """
    for count in (2, 3, 4, 8):
        size = 7200 * count * count
        wanted = (count - 1) * size / count * (1 / count if share is None else share)
        assert sends((collective,), size, count) == wanted  # type: ignore[arg-type]


def test_what_is_sent_is_an_expression_in_the_symbols() -> None:
    batch, n = symbol("batch"), symbol("n")
    assert str(sends(("all-reduce",), 512 * batch, 4)) == "768*batch"
    assert str(sends(("all-gather",), 8 * batch, n)) == "(8*batch*n - 8*batch)//n"


def layouts(random: Random, axes: int, dims: tuple[int, ...]) -> Layout:
    """A random layout; partial values of one kind, as one operator makes them."""
    reduction = random.choice(list(Reduction))
    found: list[Placement] = []
    left = list(dims)
    for _ in range(axes):
        dim = random.randrange(len(dims))
        blocks = random.choice([b for b in (1, 2, 3) if left[dim] % (2 * b) == 0] or [0])
        shard = Shard(dim, blocks) if blocks else R
        choice = random.choice([R, shard, shard, Partial(reduction)])
        if isinstance(choice, Shard):
            left[choice.dim] //= 2
        found.append(choice)
    return tuple(found)


@pytest.mark.parametrize("seed", range(150))
def test_the_way_from_one_layout_to_another_keeps_the_value(seed: int) -> None:
    """The steps of a path, run on all ranks, give the parts of the same value."""
    random = Random(seed)
    axes = random.randint(1, 3)
    mesh = dict.fromkeys("abc"[:axes], 2)
    dims = (24, 48)
    source, target = layouts(random, axes, dims), layouts(random, axes, dims)
    if any(isinstance(p, Partial) for p in target):
        target = tuple(R if isinstance(p, Partial) else p for p in target)
    whole = torch.randn(dims, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    parts = local_parts(whole, source, mesh)
    steps = path(source, target, (2,) * axes)

    def run(member: Member) -> torch.Tensor:
        tensor = parts[member.rank]
        for step in steps:
            axis = step.axis
            end = member["abc"[axis]]
            tensor = convert(tensor, step.before[axis], step.after[axis], end)
        return tensor

    results = SimulatedWorld(mesh).run(run)
    assert torch.allclose(assemble_parts(results, target, mesh), whole, rtol=1e-12, atol=1e-12)
    wanted = local_dims(dims, target, (2,) * axes, NO_FACTS)
    assert {tuple(result.shape) for result in results} == {wanted}


def test_a_way_is_never_dearer_than_through_the_whole() -> None:
    """Against brute force over two axes: no sequence of at most three steps is cheaper."""
    from dimsolve.partition.layout import Step, priced_path
    from dimsolve.partition.layout import _price as price

    placements = [R, S0, S1, P]
    counts = (2, 4)
    for source, target in product(product(placements, repeat=2), repeat=2):
        best = priced_path(source, target, counts)[0]
        frontier = [(0.0, source)]
        for _ in range(3):
            grown = []
            for cost, layout in frontier:
                if layout == target:
                    assert best <= cost + 1e-3
                for axis in range(2):
                    for after in dict.fromkeys((target[axis], R)):
                        if after != layout[axis] and allowed(layout, axis, after):
                            if isinstance(after, Shard) and any(
                                layout[o] != target[o] for o in range(axis)
                            ):
                                continue
                            new = (*layout[:axis], after, *layout[axis + 1 :])
                            step = Step(axis, layout, new)
                            grown.append((cost + price(step, counts, True), new))
            frontier = grown
