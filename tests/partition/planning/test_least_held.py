"""What a search counts of a choice, beside what its plan says: memory from below, time exactly."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from dimsolve.partition.cost import cost_of
from dimsolve.partition.fingerprint import graph_id
from dimsolve.partition.inlining import inlined
from dimsolve.partition.memory import _Step, memory_of
from dimsolve.partition.mesh import Mesh
from dimsolve.partition.plan import Plan
from dimsolve.partition.plan_data import RegionPlan
from dimsolve.partition.planning.assemble import Assembly
from dimsolve.partition.planning.auto import Asked, decided_by, formulation_of
from dimsolve.partition.planning.cases import Case, storages
from dimsolve.partition.planning.formulation import Formulation
from dimsolve.partition.planning.network import Network
from dimsolve.partition.planning.vocabulary import Option
from dimsolve.partition.sizes import Sizes

from .random_graphs import random_graph
from .test_auto import SLOW


def plan_of(network: Network, mesh: Mesh, case: Case, taken: list[Option]) -> Plan:
    """The plan of a case and of one option per operator."""
    decided, classes = decided_by(network, mesh, taken)
    assembly = Assembly(network, mesh, decided, classes, dict(case.states), None)
    return assembly.plan(Plan, graph_id(network.graph), "auto", [], case.regions)


def both(
    network: Network, mesh: Mesh, form: Formulation, case: Case, taken: list[Option]
) -> dict[str, Any]:
    """What the search counts and what the plan says: costs and bytes."""
    made = plan_of(network, mesh, case, taken)
    sizes = Sizes(made, form.sizes, {}, "cost")
    own = form.of(case, 1 << 50)
    exact = own.instance([[option] for option in taken], most=1 << 30).problem
    chosen = [0] * len(exact.costs)
    return {
        "searched": exact.cost(chosen),
        "cost": cost_of(made, sizes, form.costs.machine).picoseconds,
        "held": exact.most_held(chosen),
        "memory": memory_of(made, sizes, form.states).total,
    }


def some_regions(random: Random, network: Network) -> tuple[RegionPlan, ...]:
    """Up to two regions, one after the other, or one in the other."""
    nodes = [operator.node.id for operator in network.operators]
    if not nodes:
        return ()
    places = sorted(random.randrange(len(nodes)) for _ in range(4))
    a, b, c, d = places
    pairs = random.choice([[], [(a, d)], [(a, b), (c, d)], [(a, d), (b, c)]])
    if len(pairs) == 2 and pairs[0][1] >= pairs[1][0] and pairs[0] != (a, d):
        pairs = pairs[:1]
    return tuple(
        RegionPlan(name=f"r{n}", first=nodes[x], last=nodes[y]) for n, (x, y) in enumerate(pairs)
    )


@pytest.mark.parametrize("part", range(4))
def test_what_is_held_at_least_is_no_more_than_the_step_needs(part: int) -> None:
    """Random graphs, meshes, choices, ways to store parameters, and regions."""
    for seed in range(part * 8, part * 8 + 8):
        random = Random(seed)
        network = Network(inlined(random_graph(random, random.randint(2, 7)).graph))
        meshes = [{"a": 2}, {"a": 4}, {"a": 3}, {"a": 2, "b": 2}, {"a": 2, "b": 3}]
        mesh = Mesh.of(random.choice(meshes))
        sizes = dict.fromkeys(network.classes.known, 8)
        form = formulation_of(network, mesh, Asked(SLOW, sizes, 1 << 50, uneven="allow"))
        for _ in range(5):
            states = random.choice(storages(mesh, mesh.names))
            case = Case(states, some_regions(random, network))
            taken = [random.choice(each) for each in form.options()]
            found = both(network, mesh, form, case, taken)
            assert found["held"] <= found["memory"], (seed, found, case)
            assert found["searched"] <= found["cost"], (seed, found, case)
            if not case.regions and not case.states:
                assert found["searched"] == found["cost"], (seed, found, case)


def test_nothing_is_held_after_a_step_but_what_is_given_and_returned() -> None:
    """Also of what is converted on its way to what an operator uses; without regions."""
    for seed in range(6):
        random = Random(seed)
        network = Network(inlined(random_graph(random, random.randint(2, 7)).graph))
        mesh = Mesh.of(random.choice([{"a": 2}, {"a": 2, "b": 2}, {"a": 2, "b": 3}]))
        sizes = dict.fromkeys(network.classes.known, 8)
        form = formulation_of(network, mesh, Asked(SLOW, sizes, 1 << 50))
        for _ in range(3):
            case = Case(random.choice(storages(mesh, mesh.names)))
            made = plan_of(network, mesh, case, [random.choice(each) for each in form.options()])
            step = _Step(made, Sizes(made, form.sizes, {}, "memory"))
            step.most()
            known = {name for result in made.outputs for name in step.chain(result.source)}
            known |= {each.value for each in made.inputs}
            holders = {str(h) for root in step.bytes for h in step.holders[root]} - {"return"}
            assert {h.removesuffix(" begun") for h in holders} <= known, seed
