"""The policy "auto" against every legal plan of small graphs, and against one device."""

from __future__ import annotations

from itertools import islice, product
from math import prod
from random import Random
from typing import Any

import pytest
import torch

import dimsolve as ds
from dimsolve.examples import llama
from dimsolve.exec.graph import Graph
from dimsolve.partition.inlining import inlined
from dimsolve.partition.machine import Machine
from dimsolve.partition.mesh import Mesh
from dimsolve.partition.planning import auto, formulation
from dimsolve.partition.planning.auto import Asked, formulation_of
from dimsolve.partition.planning.axis_state import AxisState
from dimsolve.partition.planning.network import Network
from dimsolve.partition.planning.planner import Policy
from dimsolve.partition.planning.requirements import Requirements
from dimsolve.partition.planning.vocabulary import Option
from dimsolve.partition.search.clock import TimeUp
from tests.oracles.all_ranks import compare

from .models import traced
from .random_graphs import chaos, random_graph
from .test_policies import equal, split_of, two_linears

SIZES = {"batch": 8, "seq": 16}
SLOW = Machine.named("h100").model_copy(
    update={"floor": 1e-9, "flops": {"float64": 1e9}, "bandwidth": 1e9}
)
"""A machine on which computing takes long, so that small graphs are worth cutting."""


def fixed(mesh: Mesh, options: tuple[Option, ...]) -> Policy:
    """A policy that takes these options."""

    def decide(state: AxisState, requirements: Requirements) -> list[str]:
        axis = mesh.index(state.axis)
        for number, option in enumerate(options):
            state.decide(number, option.choices[axis])
        return []

    return Policy("fixed", decide)


def price(plan: ds.Plan, sizes: dict[str, int], machine: Machine) -> int:
    """What a step costs."""
    return plan.cost(sizes, machine=machine).picoseconds


@pytest.mark.parametrize("seed", range(24))
def test_no_plan_of_a_random_graph_is_faster(seed: int) -> None:
    """All combinations of options where they are few, else some; each is a plan with a price."""
    random = Random(seed)
    graph = random_graph(random, random.randint(1, 4)).graph
    meshes = [{"a": 2}, {"a": 4}, {"a": 3}, {"a": 2, "b": 2}, {"a": 3, "b": 2}, {"a": 2, "b": 3}]
    mesh = Mesh.of(random.choice(meshes))
    uneven = random.choice(["refuse", "parameters", "allow", "allow"])
    network = Network(inlined(graph))
    machine = random.choice([SLOW, Machine.named("h100")])
    sizes = dict.fromkeys(network.classes.known, 8)
    best = ds.plan(graph, mesh, "auto", machine=machine, sizes=sizes, uneven=uneven)
    assert best.search is not None
    assert best.cost().picoseconds == best.search.cost
    assert ds.verify(ds.Plan.from_json(best.to_json()).for_graph(graph)).ok
    options = formulation_of(network, mesh, Asked(machine, sizes, uneven=uneven)).options()
    every = product(*options)
    if prod(map(len, options)) > 150:
        every = iter([tuple(random.choice(each) for each in options) for _ in range(60)])
    costs = [
        price(ds.plan(graph, mesh, fixed(mesh, taken), uneven=uneven), sizes, machine)
        for taken in islice(every, 150)
    ]
    plans = [ds.plan(graph, mesh, chaos(random), uneven=uneven) for _ in range(10)]
    costs += [price(each, sizes, machine) for each in plans]
    assert min(costs) >= best.search.cost
    if prod(map(len, options)) <= 150:
        assert min(costs) == best.search.cost


@pytest.mark.parametrize(("count", "faster"), [(2, False), (3, True), (7, True)])
def test_unequal_parts_are_options_with_the_cost_of_the_longest(count: int, faster: bool) -> None:
    """Where the count divides the widths nothing is faster, and the proof is that of equal parts;
    else parts of 64 and 256 are. What is planned runs equal to one device.
    """
    g = two_linears()
    asked: dict[str, Any] = {"machine": SLOW, "sizes": SIZES}
    refused = ds.plan(g, {"tp": count}, "auto", uneven="refuse", **asked)
    made = ds.plan(g, {"tp": count}, "auto", **asked)
    assert refused.search is not None and made.search is not None
    assert made.search.optimal and made.uneven is faster
    assert (made.search.cost < refused.search.cost) is faster
    assert refused.search.uneven == "refuse" and refused.version < 4
    said = "unequal parts have whole units of an operator, or of one beside it"
    assert said not in refused.search.explain()
    assert (said in made.search.explain().splitlines()) is (made.search.uneven != "refuse")
    read = ds.Plan.from_json(made.to_json()).for_graph(g)
    assert read == made and ds.verify(read).ok
    equal_parts = made.search.model_copy(update={"uneven": "refuse"})
    claimed = made.model_copy(update={"search": equal_parts})
    if faster:
        assert not ds.verify(claimed).ok  # the proof is of a larger space
    assert equal(made, g)


def test_a_batch_is_cut_unequally_where_that_is_allowed() -> None:
    g = two_linears()
    asked: dict[str, Any] = {"machine": SLOW, "sizes": {"batch": 7, "seq": 16}}
    kept = ds.plan(g, {"dp": 2}, "auto", uneven="parameters", **asked)
    made = ds.plan(g, {"dp": 2}, "auto", uneven="allow", **asked)
    assert kept.search is not None and made.search is not None
    assert made.search.cost <= kept.search.cost
    assert not made.conditions
    assert made.cost().picoseconds == made.search.cost and ds.verify(made).ok
    assert equal(made, g)


def test_a_mean_of_a_batch_that_is_cut_unequally_weighs_its_parts() -> None:
    with Graph("regression") as g:
        x = g.input("x", "batch, 64", "float64")
        y = g.input("y", "batch, 1", "float64")
        weight = g.parameter("weight", (1, 64), "float64")
        made = g.call("torch.nn.functional.linear", x, weight)
        g.output(g.call("torch.nn.functional.mse_loss", made, y))
    asked: dict[str, Any] = {"machine": SLOW, "sizes": {"batch": 701}}
    plan = ds.plan(g, {"dp": 2}, "auto", uneven="allow", **asked)
    assert plan.search is not None and plan.search.optimal and not plan.conditions
    assert split_of(plan, "linear", "dp") == split_of(plan, "mse_loss", "dp") == "a"
    assert plan.cost().picoseconds == plan.search.cost and ds.verify(plan).ok
    generator = torch.Generator().manual_seed(0)
    sizes = {"x": (5, 64), "y": (5, 1), "weight": (1, 64)}
    given = {
        name: torch.randn(size, dtype=torch.float64, generator=generator)
        for name, size in sizes.items()
    }
    state = {"weight": given.pop("weight")}
    assert compare(plan, g, state, given, {"batch": 5}).ok


def test_an_axis_of_more_ranks_than_key_value_heads_is_searched_as_two_also() -> None:
    """Of an axis that is seen as two the proof is of both: a bound for each way to see it."""
    model, example, names = llama.tiny()
    graph = ds.trace(model, kwargs=example, dynamic=names)
    made = ds.plan(graph, {"tp": 4}, "auto", machine=SLOW, sizes={"batch": 4, "seq": 16})
    assert made.search is not None and made.search.optimal
    seen = [each.mesh for each in made.search.cases]
    assert seen == [{"tp": 4}, {"tp_0": 2, "tp_1": 2}]
    read = ds.Plan.from_json(made.to_json()).for_graph(graph)
    assert read == made and ds.verify(read).ok
    one = made.search.model_copy(update={"cases": made.search.cases[1:]})
    found = ds.verify(made.model_copy(update={"search": one}))
    assert not found.ok and found.reason == "its cases are not those of all its meshes"


@pytest.mark.parametrize("part", range(4))
def test_relaxed_values_bound_the_best_plan_from_below(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no room for sets of needs what is proved stays true, and what is found stays a plan."""
    for seed in range(100 + part * 5, 105 + part * 5):
        random = Random(seed)
        graph = random_graph(random, random.randint(2, 6)).graph
        mesh = Mesh.of(random.choice([{"a": 2}, {"a": 2, "b": 2}]))
        sizes = dict.fromkeys(Network(inlined(graph)).classes.known, 8)
        best = ds.plan(graph, mesh, "auto", machine=SLOW, sizes=sizes).search
        monkeypatch.setattr(formulation, "MOST_PAIRS", 1)
        made = ds.plan(graph, mesh, "auto", machine=SLOW, sizes=sizes)
        assert best is not None and made.search is not None
        assert made.search.bound <= best.cost and best.bound <= made.search.cost, seed
        assert ds.verify(made).ok, seed
        monkeypatch.undo()


def test_two_linears_are_cut_as_megatron_does_and_run_equal_to_one_device() -> None:
    g = two_linears()
    made = ds.plan(g, {"tp": 2}, "auto", machine=SLOW, sizes=SIZES)
    assert [split_of(made, n) for n in ("linear", "gelu", "linear_1")] == ["n", "c", "k"]
    assert made.search is not None and made.search.optimal and made.search.gap == 0
    assert equal(made, g)
    for policy in ("data", "tensor", "data+tensor", "replicate"):
        other = ds.plan(g, {"tp": 2}, policy)
        assert other.cost(SIZES, machine=SLOW).picoseconds >= made.search.cost


def test_a_plan_is_written_with_its_proof_and_read_again() -> None:
    g = two_linears()
    made = ds.plan(g, {"dp": 2, "tp": 2}, "auto", machine=SLOW, sizes=SIZES)
    again = ds.Plan.from_json(made.to_json())
    assert again == made
    assert ds.verify(again.for_graph(g)).ok
    assert again.search is not None
    better = again.search.model_copy(update={"cost": again.search.cost - 1})
    wrong = again.for_graph(g).model_copy(update={"search": better})
    found = ds.verify(wrong)
    assert not found.ok and found.reason.startswith("the plan costs")
    higher = again.search.model_copy(update={"bound": again.search.bound + 1})
    assert not ds.verify(again.for_graph(g).model_copy(update={"search": higher})).ok


def test_a_plan_fits_in_memory_or_there_is_a_proof_that_none_does() -> None:
    g = two_linears()
    for limit in (700_000, 900_000):
        made = ds.plan(g, {"tp": 2}, "auto", machine=SLOW, sizes=SIZES, memory=limit)
        assert made.memory(SIZES).total <= limit
        assert ds.verify(made).ok
    with pytest.raises(ds.PlanError, match="every plan needs more than") as found:
        ds.plan(g, {"tp": 2}, "auto", machine=SLOW, sizes=SIZES, memory="100 KiB")
    assert found.value.diagnostic.code == "nothing-fits"


def test_a_limit_below_what_parameters_need_is_refused_at_once() -> None:
    """Without any time to search, and with the least need; no plan that is found holds less."""
    g, asked = two_linears(), {"machine": SLOW, "sizes": SIZES, "seconds": 0.0}
    with pytest.raises(ds.PlanError) as found:
        ds.plan(g, {"tp": 2}, "auto", memory=10, **asked)
    assert found.value.diagnostic.code == "nothing-fits"
    assert found.value.diagnostic.reason == (
        "the limit is 10 bytes, and every plan needs more than 321 KiB: what the caller gives, and "
        "the parameters with gradients and optimiser states, in parts over all ranks"
    )
    assert "take more ranks" in str(found.value)


@pytest.mark.parametrize("seconds", [0.0, 5.0])
def test_within_a_limit_no_named_policy_that_fits_is_faster(seconds: float) -> None:
    """At a batch that the data policy over both axes cannot take, and a vocabulary that only
    unequal parts cut: the named policies are asked for both ways, and what does not hold is left
    out.
    """
    with Graph("tied") as g:
        ids = g.input("ids", "batch, seq", "int64")
        weight = g.parameter("weight", (97, 32), "float64")
        hidden = g.call("torch.nn.functional.embedding", ids, weight)
        g.output(g.call("torch.nn.functional.linear", hidden, weight))
    mesh, asked = {"dp": 2, "tp": 2}, {"batch": 6, "seq": 16}
    for uneven in ("refuse", "parameters"):
        for policy in ("data+tensor", "tensor"):
            named = ds.plan(g, mesh, policy, uneven=uneven)
            limit = named.memory(asked).total
            more: dict[str, Any] = {"machine": SLOW, "sizes": asked, "seconds": seconds}
            best = ds.plan(g, mesh, "auto", memory=limit, **more)
            assert best.search is not None and best.memory(asked).total <= limit
            assert best.search.cost <= named.cost(asked, machine=SLOW).picoseconds
            assert ds.verify(best).ok


@pytest.mark.parametrize("limit", [None, 900_000])
def test_a_search_without_time_takes_a_plan_that_is_legal_and_claims_nothing(
    limit: int | None,
) -> None:
    """The plan is one of the space: it costs no less than the best one, fits, and is equal."""
    g = two_linears()
    asked: dict[str, Any] = {"machine": SLOW, "sizes": SIZES, "memory": limit}
    made = ds.plan(g, {"dp": 2, "tp": 2}, "auto", **asked, seconds=0.0)
    best = ds.plan(g, {"dp": 2, "tp": 2}, "auto", **asked)
    assert made.search is not None and best.search is not None
    assert made.search.bound == 0 and made.search.gap == 1
    assert best.search.optimal and best.search.cost <= made.search.cost
    assert made.cost().picoseconds == made.search.cost
    assert ds.verify(made).ok
    assert equal(made, g)
    claimed = made.search.model_copy(update={"bound": 1})
    assert not ds.verify(made.model_copy(update={"search": claimed})).ok


def test_what_operators_cost_alone_bounds_a_search_whose_time_is_over_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The problem is never written down: a plan is found axis by axis, and no more is claimed."""
    write = formulation.Formulation.instance

    def late(self: Any, options: Any, most: int | None = None, clock: Any = None) -> Any:
        if clock is not None:
            raise TimeUp
        return write(self, options, most)

    proved = 0
    for seed in range(4):
        random = Random(seed)
        graph = random_graph(random, random.randint(2, 4)).graph
        sizes = dict.fromkeys(Network(inlined(graph)).classes.known, 8)
        best = ds.plan(graph, {"a": 2, "b": 2}, "auto", machine=SLOW, sizes=sizes).search
        with monkeypatch.context() as patch:
            patch.setattr(auto, "MANY", 0)
            patch.setattr(formulation.Formulation, "instance", late)
            made = ds.plan(graph, {"a": 2, "b": 2}, "auto", machine=SLOW, sizes=sizes)
        assert best is not None and made.search is not None
        assert made.search.bound <= best.cost <= made.search.cost
        assert ds.verify(made).ok
        claimed = made.search.model_copy(update={"bound": made.search.bound + 1})
        assert not ds.verify(made.model_copy(update={"search": claimed})).ok
        proved += made.search.bound > 0
    assert proved


def test_sizes_that_are_missing_are_named() -> None:
    with pytest.raises(ds.PlanError) as found:
        ds.plan(two_linears(), {"tp": 2}, "auto", sizes={"batch": 8})
    assert found.value.diagnostic.reason == (
        "the policy 'auto' needs a size for seq: they say which plan is fastest"
    )
    assert isinstance(two_linears(), Graph)


@pytest.mark.parametrize("size", ["8", 8.0, 0, True])
def test_sizes_and_memory_that_are_none_are_refused(size: Any) -> None:
    told = f"this is not a size\n  batch = {size!r}\n  hint: a size is a whole number, 1 or more"
    graph, sizes = two_linears(), {"batch": size, "seq": 16}
    with pytest.raises(ds.PlanError) as found:
        ds.plan(graph, {"tp": 2}, "auto", sizes=sizes)
    assert str(found.value) == told
    with pytest.raises(ds.PlanError) as found:
        ds.break_even({"one": ds.plan(graph, {"tp": 2})}, {"batch": [size]}, sizes={"seq": 16})
    assert str(found.value) == told
    with pytest.raises(ds.PlanError, match="this is no size of a memory\n  -1"):
        ds.plan(graph, {"tp": 2}, "auto", sizes={"batch": 8, "seq": 16}, memory=-1)


@pytest.mark.parametrize("seconds", [-3, True, "60", float("nan")])
def test_seconds_that_are_none_are_refused(seconds: Any) -> None:
    with pytest.raises(ds.PlanError) as found:
        ds.plan(two_linears(), {"tp": 2}, "auto", sizes=SIZES, seconds=seconds)
    assert str(found.value) == (
        f"this is no time to search for a plan\n  seconds is {seconds!r}\n"
        "  hint: write a number, 0 or more: seconds=60"
    )


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "vit"])
def test_auto_is_never_dearer_than_a_named_policy_and_equal_to_one_device(name: str) -> None:
    graph, state, inputs, given = traced(name)
    sizes = {n: size for n, size in given.items() if n in Network(graph).classes.known}
    made = ds.plan(graph, {"tp": 2}, "auto", machine=SLOW, sizes=sizes)
    assert made.search is not None and made.search.gap == 0
    assert made.cost().picoseconds == made.search.cost
    for policy in ("data", "tensor", "data+tensor", "replicate"):
        other = ds.plan(graph, {"tp": 2}, policy).cost(sizes, machine=SLOW)
        assert other.picoseconds >= made.search.cost, policy
    assert compare(made, graph, state, inputs, sizes).ok
    assert ds.verify(made).ok


@pytest.mark.parametrize("memory", [None, 900_000])
def test_the_best_of_all_meshes_of_a_number_of_ranks_is_found_and_proved(
    memory: int | None,
) -> None:
    """Beside a search on each of them."""
    g = two_linears()
    every = [{"ranks": 8}, {"outer": 2, "inner": 4}, {"outer": 4, "inner": 2}]
    asked: dict[str, Any] = {"machine": SLOW, "sizes": SIZES, "memory": memory}
    made = ds.plan(g, 8, "auto", **asked)
    alone = [ds.plan(g, mesh, "auto", **asked).search for mesh in every]
    record = made.search
    assert record is not None
    assert record.cost == min(each.cost for each in alone if each is not None)
    assert record.optimal and ds.verify(made).ok
    meshes = [each.mesh for each in record.cases]
    assert [m for n, m in enumerate(meshes) if m not in meshes[:n]] == every
    assert "of 3 meshes of 8 ranks" in record.explain().splitlines()
    again = ds.Plan.from_json(made.to_json()).for_graph(g)
    assert again == made and ds.verify(again).ok
    assert equal(made, g)


def test_a_proof_that_leaves_out_a_mesh_is_refused() -> None:
    g = two_linears()
    made = ds.plan(g, "8", "auto", "optimizer", machine=SLOW, sizes=SIZES)
    record = made.search
    assert record is not None and ds.verify(made).ok
    assert set(made.state.values()) == {"optimizer"}
    cases = record.cases
    changes: list[dict[str, Any]] = [
        {"cases": cases[:-1]},
        {"cases": cases[::-1]},
        {"ranks": None},
        {"ranks": 4},
        {"ranks": 16},
        {"cases": [*cases[:-1], cases[-1].model_copy(update={"dearer_than": 0, "proof": []})]},
        {"cases": [*cases[:-1], cases[-1].model_copy(update={"mesh": cases[0].mesh})]},
        {"cases": [*cases[:-1], cases[-1].model_copy(update={"state": {}})]},
    ]
    for change in changes:
        changed = made.model_copy(update={"search": record.model_copy(update=change)})
        assert not ds.verify(changed).ok, change
    for other in ({}, {"ranks": "shared"}):
        assert not ds.verify(made.model_copy(update={"state": other})).ok


def test_a_number_of_ranks_is_for_a_search() -> None:
    g = two_linears()
    hint = 'give a number from 1 to 1048576 with the policy "auto", or a mesh, {"dp": 2, "tp": 4}'
    for ranks, policy, reason in (
        (64, "tensor", "64 says of no axis how long it is"),
        (0, "auto", "0 is no number of ranks that is searched"),
        ("2097152", "auto", "2097152 is no number of ranks that is searched"),
    ):
        with pytest.raises(ds.MeshError) as error:
            ds.plan(g, ranks, policy, machine=SLOW, sizes=SIZES)
        text = str(error.value)
        assert "no mesh can be looked for" in text and reason in text and hint in text
    assert ds.plan(g, 1, "auto", machine=SLOW, sizes=SIZES).mesh == {"ranks": "1"}
