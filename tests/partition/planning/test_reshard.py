"""Conversions: the table of design page 5, what they send, and the way of several axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from math import prod
from random import Random
from typing import Any

import pytest
import torch

import dimsolve as ds
from dimsolve.exec.distributed.collectives import convert
from dimsolve.exec.distributed.sharding import assemble_parts, local_parts
from dimsolve.exec.distributed.simulated import Member, SimulatedWorld
from dimsolve.partition.fingerprint import graph_id
from dimsolve.partition.inlining import inlined
from dimsolve.partition.layout import (
    Layout,
    Room,
    Step,
    allowed,
    held,
    local_dims,
    path,
    path_aside,
    priced_path,
)
from dimsolve.partition.mesh import Mesh
from dimsolve.partition.placement import Partial, Placement, Reduction, Replicate, Shard
from dimsolve.partition.planning.assemble import Assembly
from dimsolve.partition.planning.derive import derive
from dimsolve.partition.planning.network import Network
from dimsolve.partition.planning.planner import decisions
from dimsolve.partition.reshard import conversion, sends
from dimsolve.solver.algebra.dims import evaluate
from dimsolve.solver.algebra.poly import symbol
from dimsolve.solver.proof.facts import NO_FACTS
from tests.oracles import one_device

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


def room_of(dims: tuple[int, ...], counts: tuple[int, ...]) -> Room:
    """What every dimension may be cut into, by trial."""
    axes = range(len(counts))
    sets = [s for size in axes for s in combinations(axes, size + 1)]
    return tuple(
        frozenset(sum(1 << a for a in s) for s in sets if dim % prod(counts[a] for a in s) == 0)
        for dim in dims
    )


def ways_aside(dims: tuple[int, ...], counts: tuple[int, ...]) -> dict[tuple[Layout, Layout], Any]:
    """Every pair of layouts whose cheapest way goes through a cut of another dimension."""
    mesh = {name: str(count) for name, count in zip("abc", counts, strict=False)}
    room = room_of(dims, counts)
    words = [R, Shard(0), Shard(1), Shard(2)] + [P, Shard(0, 2)] * (len(counts) == 2)
    every = []
    for layout in product(words, repeat=len(counts)):
        plain = [R if p == P else p for p in layout]
        try:
            held(dims, plain, {axis: int(n) for axis, n in mesh.items()})
        except ds.ShapeError:
            continue
        every.append(layout)
    found = {}
    for source, target in product(every, repeat=2):
        old = priced_path(source, target, counts)
        new = path_aside(source, target, counts, True, room)
        assert new[0] <= old[0]
        if new != old:
            found[source, target] = new[1]
    return found


@pytest.mark.parametrize(
    ("dims", "counts", "number"),
    [((4, 8, 16), (2, 2), 76), ((8, 16, 32), (2, 4), 114), ((4, 6, 8), (2, 2), 61)],
)
def test_ways_through_other_dimensions_keep_the_value(
    dims: tuple[int, ...], counts: tuple[int, ...], number: int
) -> None:
    """Every pair over two axes whose way goes aside: what ranks have is what cuts of the whole
    give, to the bit, and every layout on the way cuts into equal parts.
    """
    ways = ways_aside(dims, counts)
    assert len(ways) == number
    check_ways(dims, counts, ways)


def test_ways_of_three_axes_through_other_dimensions_keep_the_value() -> None:
    ways = ways_aside((4, 8, 4), (2, 2, 2))
    assert len(ways) == 876
    check_ways((4, 8, 4), (2, 2, 2), dict([*ways.items()][::8]))


def check_ways(
    dims: tuple[int, ...], counts: tuple[int, ...], ways: Mapping[tuple[Layout, Layout], Any]
) -> None:
    mesh = dict(zip("abc", counts, strict=False))
    whole = torch.randn(dims, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for (source, target), steps in ways.items():
        for step in steps:  # raises where parts are not equal
            held(dims, [R if isinstance(p, Partial) else p for p in step.after], mesh)
        if any(isinstance(p, Partial) for p in target):
            continue
        parts = local_parts(whole, source, mesh)

        def run(member: Member, parts: Any = parts, steps: Sequence[Step] = steps) -> torch.Tensor:
            tensor = parts[member.rank]
            for step in steps:
                axis = step.axis
                ends = step.before[axis], step.after[axis]
                tensor = convert(tensor, *ends, member["abc"[axis]])
            return tensor

        results = SimulatedWorld(mesh).run(run)
        wanted = local_parts(whole, target, mesh)
        exact = not any(isinstance(p, Partial) for p in source)
        for result, each in zip(results, wanted, strict=True):
            assert torch.equal(result, each) if exact else torch.allclose(result, each, rtol=1e-12)


def test_less_room_that_is_enough_gives_the_same_way() -> None:
    """So a way follows from the plan's own conditions."""
    room = room_of((64, 64, 64, 64), (2, 4))
    for source, target in product(product([R, P, S0, S1], repeat=2), repeat=2):
        _, steps = path_aside(source, target, (2, 4), True, room)
        aside = {step.after[step.axis] for step in steps} - {*target, R}
        used = {p.dim for p in aside if isinstance(p, Shard)}
        less = tuple(own if n in used else frozenset[int]() for n, own in enumerate(room))
        assert path_aside(source, target, (2, 4), True, less)[1] == steps


class Changed(torch.nn.Module):
    """A value that is made cut twice along its last dimension, and used cut along the first."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.scale = torch.nn.Parameter(torch.rand(16, generator=generator, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(torch.tanh(x * self.scale))


CHANGES = {"tanh": {"dp": "c", "tp": "c"}, "sigmoid": {"dp": "a", "tp": "c"}}
EXAMPLE = {"x": torch.rand(8, 6, 16, dtype=torch.float64)}


def changes(plan: ds.Plan) -> list[str]:
    """The steps from one of the two operators to the other."""
    named = [each for each in plan.conversions if each.value == "tanh"]
    return [f"{each.axis} {each.before} {each.after}" for each in named]


def test_a_plan_through_another_dimension_is_equal_to_one_device() -> None:
    """It sends what the plan says, runs forward and backward, and follows from the plan's JSON."""
    graph = ds.trace(Changed(), kwargs=EXAMPLE, dynamic={"x": {0: "batch"}})
    plan = ds.plan(graph, {"dp": 2, "tp": 2}, CHANGES)
    assert changes(plan) == [
        "tp ['S(2)', 'S(2)'] ['S(2)', 'S(1)']",
        "dp ['S(2)', 'S(1)'] ['S(0)', 'S(1)']",
        "tp ['S(0)', 'S(1)'] ['S(0)', 'S(2)']",
    ]
    sent = {(t.axis, t.direction): t.bytes for t in plan.communication(batch=8) if "to-all" in t[0]}
    whole = 8 * 6 * 16 * 8
    assert sent == {
        (axis, way): times * whole // 8
        for axis, times in (("dp", 1), ("tp", 2))
        for way in ("forward", "backward")
    }
    again = ds.Plan.from_json(plan.to_json()).for_graph(graph)
    assert again.conversions == plan.conversions
    one_device.assert_equal(
        one_device.train(Changed(), EXAMPLE, {"x": {0: "batch"}}, {"dp": 2, "tp": 2}, CHANGES)
    )


def test_only_what_is_known_to_divide_is_cut_on_the_way() -> None:
    """Of a length that is a symbol nothing is known, unless the plan relies on it anyway."""
    names = {"x": {0: "batch", 1: "seq"}}
    graph = ds.trace(Changed(), kwargs=EXAMPLE, dynamic=names)
    plan = ds.plan(graph, {"dp": 2, "tp": 2}, CHANGES)
    assert plan.conditions == ["batch % 2 == 0"]
    assert not any("S(1)" in each for each in changes(plan))
    odd = ds.trace(Changed(), kwargs={"x": torch.rand(8, 3, 16)}, dynamic={"x": {0: "batch"}})
    assert not any("S(1)" in each for each in changes(ds.plan(odd, {"dp": 2, "tp": 2}, CHANGES)))
    relies = {**CHANGES, "mul": {"tp": "b"}}
    plan = ds.plan(graph, {"dp": 2, "tp": 2}, relies)
    assert set(plan.conditions) == {"batch % 2 == 0", "seq % 2 == 0"}
    assert any("S(1)" in each for each in changes(plan))


def test_a_way_states_what_it_relies_on() -> None:
    """Where the plan says at which sizes it is legal, a value passes through a cut of a length that
    is a symbol; a plan that says more than it relies on is another one.
    """
    graph = ds.trace(Changed(), kwargs=EXAMPLE, dynamic={"x": {0: "batch", 1: "seq"}})
    plan = ds.plan(graph, {"dp": 2, "tp": 2}, CHANGES)
    said = plan.model_copy(update={"conditions": [*plan.conditions, "seq % 2 == 0"]})
    derived = derive(said, graph)
    assert any("S(1)" in each for each in changes(derived))
    assert derived.reasons["seq % 2 == 0"] == "tp cuts dimension 1 of tanh on its way"
    assert ds.Plan.from_json(derived.to_json()).for_graph(graph) == derived
    more = plan.model_copy(update={"conditions": [*plan.conditions, "seq % 3 == 0"]})
    assert derive(more, graph).conditions == plan.conditions


def test_the_search_relies_on_what_holds_at_its_sizes() -> None:
    graph = ds.trace(Changed(), kwargs=EXAMPLE, dynamic={"x": {0: "batch", 1: "seq"}})
    network, mesh = Network(inlined(graph)), Mesh.with_axes({"dp": 2, "tp": 2})
    decided = decisions(network, mesh, CHANGES, "refuse")
    for seq, number in ((6, 1), (7, 0)):
        assembly = Assembly(network, mesh, decided.axes, decided.classes, {}, None)
        sizes = {"batch": 8, "seq": seq}
        plan = assembly.plan(
            ds.Plan,
            graph_id(graph),
            "",
            [],
            holds=lambda length, parts, at=sizes: evaluate(length, at) % parts == 0,
        )
        assert plan.conditions.count("seq % 2 == 0") == number
        assert any("S(1)" in each for each in changes(plan)) == bool(number)
        assert derive(plan, graph).conversions == plan.conversions
