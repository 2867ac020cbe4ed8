"""Which plan costs least: by enumeration at every size, and no claim without a proof."""

from __future__ import annotations

from itertools import product

import pytest

import dimsolve as ds
from dimsolve.ir.display import render
from dimsolve.partition.inlining import inlined
from dimsolve.partition.machine import Machine
from dimsolve.partition.mesh import Mesh
from dimsolve.partition.plan import Plan
from dimsolve.partition.planning.auto import Asked, formulation_of
from dimsolve.partition.planning.network import Network
from tests.partition.planning.test_auto import SLOW, fixed
from tests.partition.planning.test_policies import two_linears

NAMES = ("data", "tensor", "replicate")


def named() -> dict[str, Plan]:
    return {name: ds.plan(two_linears(), {"tp": 2}, name) for name in NAMES}


FAST = SLOW.model_copy(update={"floor": 0.0, "flops": {"float64": 1e13}, "bandwidth": 1e13})
"""A machine on which a step is mostly communication."""


def costs_at(
    plans: dict[str, Plan], batch: int, seq: int, machine: Machine = SLOW
) -> dict[str, int]:
    found = {}
    for name, plan in plans.items():
        try:
            found[name] = plan.cost(batch=batch, seq=seq, machine=machine).picoseconds
        except ds.PlanError:
            continue
    return found


def test_the_table_is_that_of_all_costs() -> None:
    plans = named()
    over = {"batch": [1, 2, 6, 64], "seq": [1, 3, 16, 301]}
    found = ds.break_even(plans, over, machine=SLOW)
    for batch, seq in product(*over.values()):
        costs = costs_at(plans, batch, seq)
        least = min(costs.values())
        assert dict(found.best[batch, seq].costs) == costs
        assert set(found.best[batch, seq].names) == {n for n in costs if costs[n] == least}
        assert not found.best[batch, seq].proved


def test_every_change_is_one() -> None:
    plans = named()
    found = ds.break_even(plans, {"batch": [2, 5000]}, sizes={"seq": 1}, machine=FAST)
    best = [found.best[size,].names[0] for size in (2, 5000)]
    assert best[0] != best[1]
    (change,) = found.crossings
    below, above = (costs_at(plans, size, 1, FAST) for size in (change.last, change.first))
    assert below[change.before] == min(below.values())
    assert above[change.after] == min(above.values()) < above[change.before]
    for size in range(change.last + 1, change.first):
        assert not {change.before, change.after} <= costs_at(plans, size, 1, FAST).keys()


def test_a_plan_is_best_of_all_only_where_its_search_proved_it() -> None:
    at = {"batch": 8, "seq": 16}
    auto = ds.plan(two_linears(), {"tp": 2}, "auto", machine=SLOW, sizes=at)
    over = {"batch": [6, 8], "seq": [16, 18]}
    found = ds.break_even({"auto": auto, **named()}, over)
    assert found.machine == SLOW
    assert {point for point, best in found.best.items() if best.proved} == {(8, 16)}
    other = ds.break_even({"auto": auto}, over, machine="h100")
    assert not any(best.proved for best in other.best.values())
    limited = ds.plan(
        two_linears(), {"tp": 2}, "auto", machine=SLOW, sizes=at, memory="1 GiB"
    )  # its bound is of plans within 1 GiB
    assert not ds.break_even({"auto": limited}, over).best[8, 16].proved
    assert ds.break_even({"auto": limited}, over, memory="1 GiB").best[8, 16].proved
    assert ds.break_even({"auto": limited}, over, memory="0.9 GiB").best[8, 16].proved


def test_a_proof_is_of_plans_like_those_it_looked_among() -> None:
    """Another mesh, or parameters stored in parts, are none of them."""
    at = {"batch": 8, "seq": 16}
    auto = ds.plan(two_linears(), {"tp": 2}, "auto", machine=SLOW, sizes=at)
    over = {"batch": [8], "seq": [16]}
    for other in (
        ds.plan(two_linears(), {"tp": 4}, "data"),
        ds.plan(two_linears(), {"tp": 2}, "data", state="optimizer"),
    ):
        found = ds.break_even({"auto": auto, "other": other}, over)
        assert not found.best[8, 16].proved
    assert ds.break_even({"auto": auto}, over).best[8, 16].proved


def test_what_does_not_fit_or_serve_is_left_out() -> None:
    plans = {"data": named()["data"]}
    found = ds.break_even(plans, {"batch": [1, 2]}, sizes={"seq": 16}, machine=SLOW)
    assert found.best[1,].names == () and found.best[2,].names == ("data",)
    assert str(found).splitlines()[1].split()[0] == "none"
    none = ds.break_even(plans, {"batch": [2]}, sizes={"seq": 16}, machine=SLOW, memory=10)
    assert none.best[2,].names == ()


def test_the_picture_has_a_cell_for_every_point() -> None:
    found = ds.break_even(named(), {"batch": [2, 4], "seq": [4, 400]}, machine=SLOW)
    svg = render(found, "svg")
    assert svg == render(found, "svg")
    for text in ("batch 2", "batch 4", "seq 4", "seq 400", "cheapest of these plans"):
        assert text in svg


def test_nothing_to_compare_is_said() -> None:
    with pytest.raises(ds.PlanError) as found:
        ds.break_even({}, {"batch": [1]})
    assert str(found.value) == (
        "there is nothing to compare\n"
        "  plans, and sizes of one or two symbols, are wanted\n"
        '  hint: write break_even({"one": plan, "other": other}, {"batch": [8, 16]}, '
        'sizes={"seq": 128})'
    )
    with pytest.raises(ds.PlanError, match="needs a size for seq"):
        ds.break_even(named(), {"batch": [2]})
    with pytest.raises(ds.PlanError, match="'rows' is none"):
        ds.break_even(named(), {"rows": [2]}, sizes={"batch": 2, "seq": 2})


def test_a_region_is_where_no_plan_of_all_is_cheaper() -> None:
    """Beside all plans that there are, at every size that was asked."""
    graph, sizes = two_linears(), {"batch": 2, "seq": 16}
    mesh = Mesh.of({"tp": 2})
    best = ds.plan(graph, mesh, "auto", machine=FAST, sizes=sizes)
    found = ds.best_region(graph, best, "batch", (1, 500))
    options = formulation_of(Network(inlined(graph)), mesh, Asked(FAST, sizes)).options()
    every = {
        str(n): ds.plan(graph, mesh, fixed(mesh, taken))
        for n, taken in enumerate(product(*options))
    }
    least = {n: min(costs_at(every, n, 16, FAST).values()) for n in (*found.proved, 60, 61, 62)}
    own = {n: best.cost(batch=n, seq=16, machine=FAST).picoseconds for n in least}
    assert found.proved[0] == 1 and 2 in found.proved
    assert all(own[n] == least[n] for n in found.proved)
    assert found.below is None and found.above is not None and found.above.beaten
    size = found.above.size
    assert size == found.proved[-1] + 1 and own[size] == found.above.cost
    assert least[size] == found.above.least and least[size] < own[size]
    assert found.above.plan is not None and ds.verify(found.above.plan).ok


def test_a_region_ends_where_the_plan_does_not_fit() -> None:
    graph, sizes = two_linears(), {"batch": 2, "seq": 16}
    free = ds.plan(graph, {"tp": 2}, "auto", machine=SLOW, sizes=sizes)
    limit = int(free.memory(sizes).total * 1.5)
    best = ds.plan(graph, {"tp": 2}, "auto", machine=SLOW, sizes=sizes, memory=limit)
    found = ds.best_region(graph, best, "batch", (1, 1 << 14))
    assert all(best.memory(batch=size, seq=16).total <= limit for size in found.proved)
    assert found.above is not None and not found.above.fits
    assert best.memory(batch=found.above.size, seq=16).total > limit
    beside = found.above.plan
    assert beside is None or beside.memory(batch=found.above.size, seq=16).total <= limit


def test_what_has_no_region_is_refused() -> None:
    graph = two_linears()
    sizes = {"batch": 2, "seq": 16}
    with pytest.raises(ds.PlanError) as told:
        ds.best_region(graph, ds.plan(graph, {"tp": 2}, "data"), "batch", (1, 8))
    assert told.value.diagnostic.reason == "it is not proved that no plan is faster than this one"
    best = ds.plan(graph, {"tp": 2}, "auto", sizes=sizes)
    with pytest.raises(ds.PlanError) as told:
        ds.best_region(graph, best, "rows", (1, 8))
    assert told.value.diagnostic.reason == "the search had no size for 'rows'"
