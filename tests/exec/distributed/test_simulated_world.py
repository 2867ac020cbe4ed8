"""A simulated world ends: with every rank's result, or with an error that names the rank."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from dimsolve.exec.distributed.collectives import MeshPart
from dimsolve.exec.distributed.simulated import Member, RankError, SimulatedWorld
from dimsolve.ir.errors import DimsolveError
from dimsolve.partition.placement import Reduction


def test_every_collective() -> None:
    def program(member: Member) -> list[list[Any]]:
        communicator = member.world
        rows = torch.arange(6).reshape(3, 2) + 10 * member.rank
        return [
            communicator.all_reduce(rows[0]).tolist(),
            communicator.all_reduce(rows[0], Reduction.MAX).tolist(),
            communicator.all_gather(rows[0]).tolist(),
            communicator.reduce_scatter(rows).tolist(),
            communicator.all_to_all(rows).tolist(),
            communicator.broadcast(rows[0], 1).tolist(),
        ]

    assert SimulatedWorld(3).run(program)[2] == [
        [30, 33],
        [20, 21],
        [[0, 1], [10, 11], [20, 21]],
        [42, 45],
        [[4, 5], [14, 15], [24, 25]],
        [10, 11],
    ]


def test_axes_of_a_mesh() -> None:
    def program(member: Member) -> tuple[int, int, int]:
        rank = torch.tensor(member.rank)
        sums = [int(member[axis].all_reduce(rank)) for axis in ("dp", "tp")]
        return member.coordinates["dp"], sums[0], sums[1]

    wanted = [(0, 3, 3), (0, 5, 3), (0, 7, 3), (1, 3, 12), (1, 5, 12), (1, 7, 12)]
    assert SimulatedWorld({"dp": 2, "tp": 3}).run(program) == wanted


def test_no_rank_shares_memory_with_another() -> None:
    given = torch.zeros(2)

    def program(member: Member) -> list[torch.Tensor]:
        world, rows = member.world, torch.zeros(2, 2)
        results = [
            world.all_reduce(given),
            world.all_gather(given),
            world.reduce_scatter(rows),
            world.all_to_all(rows),
            world.broadcast(given, 0),
        ]
        return [result.add_(1 + member.rank) for result in results]

    for rank, results in enumerate(SimulatedWorld(2).run(program)):
        assert all(bool((result == 1 + rank).all()) for result in results)
    assert given.tolist() == [0, 0]


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_exception_on_one_rank_ends_all(failing: int) -> None:
    def program(member: Member) -> None:
        member.world.all_reduce(torch.ones(1))
        if member.rank == failing:
            raise ValueError("no such row")
        try:
            member.world.all_reduce(torch.ones(1))
        except Exception:
            pytest.fail("the others are ended, not told")

    threads = threading.active_count()
    with pytest.raises(RankError) as raised:
        SimulatedWorld({"tp": 3}).run(program)
    assert str(raised.value) == f"rank {failing} (tp={failing}) failed\n  ValueError: no such row"
    assert raised.value.rank == failing
    assert isinstance(raised.value.__cause__, ValueError)
    assert threading.active_count() == threads


def test_a_rank_that_ends_early_is_no_hang() -> None:
    def program(member: Member) -> None:
        if member.rank != 1:
            member["tp"].all_gather(torch.ones(2))

    with pytest.raises(RankError) as raised:
        SimulatedWorld({"tp": 3}).run(program)
    assert str(raised.value) == (
        "ranks wait for each other and none can go on\n"
        "  rank 0 in all_gather of float32 (2,); rank 2 in all_gather of float32 (2,); "
        "rank 1 never called that of rank 0\n"
        "  hint: all ranks of a group call the same collectives in the same order"
    )


def test_ranks_that_wait_on_different_axes_are_no_hang() -> None:
    def program(member: Member) -> None:
        axes = ("dp", "tp") if member.rank in (0, 3) else ("tp", "dp")
        for axis in axes:
            member[axis].all_reduce(torch.ones(1))

    with pytest.raises(RankError, match="ranks wait for each other and none can go on"):
        SimulatedWorld({"dp": 2, "tp": 2}).run(program)


def test_ranks_that_call_different_collectives() -> None:
    def program(member: Member) -> None:
        member.world.all_reduce(torch.ones(2 + member.rank))

    with pytest.raises(RankError) as raised:
        SimulatedWorld(2).run(program)
    assert str(raised.value) == (
        "rank 1 (ranks=1) failed\n"
        "  DimsolveError: ranks call different collectives\n"
        "  rank 0 calls all_reduce sum of float32 (2,) "
        "and rank 1 calls all_reduce sum of float32 (3,)\n"
        "  hint: all ranks of a group call the same collectives in the same order"
    )


def test_an_exception_in_backward_ends_all() -> None:
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, member: Member) -> torch.Tensor:
            ctx.member = member
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> Any:
            if ctx.member.rank == 1:
                raise ValueError("in backward")
            return ctx.member.world.all_reduce(gradient), None

    def program(member: Member) -> None:
        apply: Any = Fails.apply
        apply(torch.ones(2, requires_grad=True), member).sum().backward()

    with pytest.raises(RankError, match="ValueError: in backward"):
        SimulatedWorld(2).run(program)


def test_runs_are_deterministic() -> None:
    """Ranks take turns: even what depends on the order of their work comes out the same."""

    def order() -> list[int]:
        seen: list[int] = []

        def program(member: Member) -> None:
            for _ in range(5):
                seen.append(member.rank)
                member.world.all_reduce(torch.ones(1))

        SimulatedWorld(4).run(program)
        return seen

    first = order()
    assert all(order() == first for _ in range(5))


def test_gradients_are_recorded_as_outside() -> None:
    with torch.no_grad():
        assert SimulatedWorld(2).run(lambda member: torch.is_grad_enabled()) == [False, False]


def test_parts_of_several_splits() -> None:
    def program(member: Member) -> tuple[int, int, int, int, int, float]:
        part = MeshPart((("n", member["dp"]), ("c", member["tp"]), ("n", member["sp"])))
        total = float(part["n"].all_reduce(torch.tensor(float(member.rank))))
        return part.index, part.count, part["n"].index, part["c"].index, part["x"].count, total

    seen = SimulatedWorld({"dp": 2, "tp": 3, "sp": 2}).run(program)
    assert [row[0] for row in seen] == list(range(12))
    assert seen[9] == (9, 12, 3, 1, 1, float(2 + 3 + 8 + 9))


def test_the_gradient_of_a_part_s_reduction() -> None:
    """Each rank's use of it is a share of all use of it: the shares are summed."""

    def program(member: Member) -> float:
        x = torch.tensor(2.0, requires_grad=True)
        part = MeshPart((("n", member.world),))
        part.all_reduce(x * 1).backward(torch.tensor(1.0 + member.rank))
        assert x.grad is not None
        return float(x.grad)

    assert SimulatedWorld(3).run(program) == [6.0, 6.0, 6.0]


def test_an_unknown_reduction() -> None:
    with pytest.raises(DimsolveError) as raised:
        MeshPart().all_reduce(torch.ones(1), "mean")
    assert str(raised.value) == (
        "parts cannot be reduced so\n"
        "  all_reduce was asked for 'mean'\n"
        '  hint: write "sum", "max" or "min"'
    )


def test_a_dispatch_mode_is_over_when_its_ranks_have_left_it() -> None:
    """torch notes for the whole process that there is one; torch 2.10 then compiles nothing."""
    from torch.utils import _python_dispatch

    class Mode(_python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*args, **(kwargs or {}))

    def program(member: Member) -> tuple[bool, bool]:
        with Mode():
            member.world.all_reduce(torch.ones(1))
            inside = _python_dispatch.is_in_torch_dispatch_mode()
        member.world.all_reduce(torch.ones(1))
        return inside, _python_dispatch.is_in_torch_dispatch_mode()

    assert SimulatedWorld(3).run(program) == [(True, False)] * 3
    assert not _python_dispatch.is_in_torch_dispatch_mode()
