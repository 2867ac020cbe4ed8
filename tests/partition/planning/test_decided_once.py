"""What "auto" decides once for all operators: storage of parameters, and what is run again."""

from __future__ import annotations

from itertools import product
from math import prod
from random import Random

import pytest

import dimsolve as ds
from dimsolve.partition.cost import cost_of
from dimsolve.partition.inlining import inlined
from dimsolve.partition.memory import memory_of
from dimsolve.partition.mesh import Mesh
from dimsolve.partition.planning.auto import Asked, cases_of, formulation_of
from dimsolve.partition.planning.network import Network
from dimsolve.partition.sizes import Sizes
from tests.oracles.all_ranks import compare

from .models import traced
from .random_graphs import random_graph
from .test_auto import SIZES, SLOW
from .test_least_held import plan_of
from .test_policies import equal, two_linears

MOST = 400
"""Plans of a graph that are all made."""


def every_plan(
    graph: ds.Graph, mesh: Mesh, sizes: dict[str, int], stored: bool = True
) -> list[tuple[int, int]]:
    """Cost and bytes of every plan: all choices of all operators in all cases; [] for too many.
    stored: whether parameters may be stored in parts.
    """
    network = Network(inlined(graph))
    asked = Asked(SLOW, sizes, 1 << 50, storage=mesh.names if stored else ())
    form = formulation_of(network, mesh, asked)
    options, cases = form.options(), cases_of(network, mesh, asked)
    if prod(map(len, options)) * len(cases) > MOST:
        return []
    found = []
    for case in cases:
        for taken in product(*options):
            made = plan_of(network, mesh, case, list(taken))
            at = Sizes(made, sizes, {}, "cost")
            found.append((cost_of(made, at, SLOW).picoseconds, memory_of(made, at, 2).total))
    return found


def best_within(plans: list[tuple[int, int]], limit: int) -> int | None:
    """The least cost of a plan that fits."""
    return min((cost for cost, held in plans if held <= limit), default=None)


def beside_every_plan(seed: int, axes: int) -> bool:
    """Holds "auto" within limits between the least and the most beside all plans of a small graph,
    on a mesh of so many axes; False where the graph has too few plans, or too many. With one axis
    it is decided too how parameters are stored.
    """
    random = Random(seed)
    graph = random_graph(random, random.randint(1, 3)).graph
    mesh = Mesh.of({name: random.choice([2, 4] if axes < 3 else [2]) for name in "abc"[:axes]})
    sizes = dict.fromkeys(Network(inlined(graph)).classes.known, 8)
    plans = every_plan(graph, mesh, sizes, axes == 1)
    if len(plans) < 6:
        return False
    state = None if axes == 1 else "whole"
    held = sorted({bytes_ for _, bytes_ in plans})
    for limit in {held[0] - 1, held[0], held[len(held) // 2], held[-1]}:
        best = best_within(plans, limit)
        try:
            made = ds.plan(graph, mesh, "auto", state, machine=SLOW, sizes=sizes, memory=limit)
        except ds.PlanError as error:
            assert error.diagnostic.code in ("nothing-fits", "not-found"), seed
            assert best is None or error.diagnostic.code == "not-found", (seed, limit)
            continue
        assert made.search is not None and best is not None
        assert made.search.bound <= best <= made.search.cost, (seed, limit)
        assert made.memory(sizes).total <= limit
        assert ds.verify(made).ok, (seed, ds.verify(made).reason)
    return True


@pytest.mark.parametrize(("first", "axes"), [(500, 1), (540, 1), (580, 1), (620, 3)])
def test_no_plan_that_fits_is_faster_however_parameters_are_stored(first: int, axes: int) -> None:
    """Beside all plans of small graphs, within limits between the least and the most."""
    tried = 0
    for seed in range(first, first + 40):
        tried += beside_every_plan(seed, axes)
        if tried == 3:
            break
    assert tried


def test_parameters_are_stored_in_parts_where_nothing_else_fits_and_run_equal() -> None:
    g = two_linears()
    whole, shared = [
        ds.plan(g, {"dp": 2}, "data", state).memory(SIZES, optimizer_states=20).total
        for state in ("whole", "shared")
    ]
    assert shared < whole
    asked = {"machine": SLOW, "sizes": SIZES, "optimizer_states": 20}
    made = ds.plan(g, {"dp": 2}, "auto", memory=shared, **asked)
    assert made.memory(SIZES, optimizer_states=20).total <= shared
    assert equal(made, g)
    assert ds.verify(made).ok
    again = ds.Plan.from_json(made.to_json()).for_graph(g)
    assert again == made and ds.verify(again).ok


def test_storage_is_decided_as_it_is_asked_for() -> None:
    g = two_linears()
    for state in ("optimizer", "shared"):
        made = ds.plan(g, {"dp": 2}, "auto", {"dp": state}, machine=SLOW, sizes=SIZES)
        assert made.state == {"dp": state}
        assert made.search is not None and made.cost().picoseconds == made.search.cost
        assert ds.verify(made).ok
        assert equal(made, g)
    free = ds.plan(g, {"fsdp": 2}, "auto", machine=SLOW, sizes=SIZES)
    assert free.state == {"fsdp": "shared"}


def test_a_certificate_that_was_changed_is_refused() -> None:
    g = two_linears()
    made = ds.plan(g, {"dp": 2}, "auto", machine=SLOW, sizes=SIZES, memory=10**9)
    record = made.search
    assert record is not None and len(record.cases) == 3 and ds.verify(made).ok
    cases = record.cases
    changes = [
        {"cost": record.cost - 1},
        {"bound": record.bound + 1},
        {"memory": made.memory(SIZES).total - 1},
        {"cases": cases[:-1]},
        {"cases": [cases[0].model_copy(update={"proof": []}), *cases[1:]]},
        {"cases": [cases[0].model_copy(update={"limited": True, "dearer_than": 0}), *cases[1:]]},
        {"cases": [*cases[:-1], cases[-1].model_copy(update={"dearer_than": 2, "proof": []})]},
        {"storage": []},
    ]
    for change in changes:
        changed = made.model_copy(update={"search": record.model_copy(update=change)})
        assert not ds.verify(changed).ok, change


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_blocks_that_run_again_need_less_and_are_equal_to_one_device(name: str) -> None:
    graph, state, inputs, given = traced(name)
    sizes = {n: size for n, size in given.items() if n in Network(inlined(graph)).classes.known}
    network, mesh = Network(inlined(graph)), Mesh.of("dp=2")
    asked = Asked(SLOW, sizes, 1 << 40)
    plain, again = cases_of(network, mesh, asked)
    assert [region.name.rpartition(".")[2] for region in again.regions] == ["0", "1"]
    first = [own[0] for own in formulation_of(network, mesh, asked).options()]
    plans = [plan_of(network, mesh, case, first) for case in (plain, again)]
    held = [each.memory(sizes).total for each in plans]
    costs = [each.cost(sizes, machine=SLOW).picoseconds for each in plans]
    assert held[1] < held[0] and costs[0] < costs[1]
    assert compare(plans[1], graph, state, inputs, sizes).ok


def test_blocks_run_again_where_nothing_else_fits() -> None:
    graph, state, inputs, sizes = traced("llama")
    asked = {"machine": SLOW, "sizes": sizes}
    free = ds.plan(graph, {"tp": 2}, "auto", **asked)
    for part in (0.9, 0.8):
        limit = int(free.memory(sizes).total * part)
        made = ds.plan(graph, {"tp": 2}, "auto", memory=limit, **asked)
        assert made.memory(sizes).total <= limit
        assert made.search is not None and free.search is not None
        assert free.search.bound <= made.search.bound <= made.search.cost
        assert compare(made, graph, state, inputs, sizes).ok
        assert ds.verify(made).ok
