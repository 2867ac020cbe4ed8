"""Law: what cannot be a mesh, a policy, a split or a bound is refused before anything is planned,
in words that name what would work, and leaves the graph as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dimsolve as ds
from dimsolve.exec.graph import Graph

from .test_policies import two_linears, without_line

MESH = '\n  hint: write {"dp": 2, "tp": 4}, or dp=2,tp=4 as text; a size may be a symbol, "n"'
LEAST = "and an axis has at least one rank"
OWN = "is a word of Python or of the programs that are made of plans"
MESHES: list[tuple[Any, str]] = [
    ({}, "it has no axes"),
    ("", "it has no axes"),
    ({"tp": -1}, f"the size of 'tp' is -1, {LEAST}"),
    ({"tp": None}, "the size of 'tp' is None"),
    ({"tp": 0}, f"the size of 'tp' is 0, {LEAST}"),
    ({"tp": "n*0"}, f"the size of 'tp' is 0, {LEAST}"),
    ({"tp": 2.5}, "the size of 'tp' is 2.5"),
    ({"tp": True}, "the size of 'tp' is True"),
    ({"tp": [2]}, "the size of 'tp' is [2]: it is [2], a list"),
    ("tp=", "the size of 'tp' is '': a number, a name or '(' belongs here"),
    ({"": 2}, "'' is no name for an axis"),
    ({1: 2}, "1 is no name for an axis"),
    ({"class": 2}, f"'class' {OWN}"),
    ({"device": 2}, f"'device' {OWN}"),
    ({"\ufb01": 2}, "'\ufb01' is no name for an axis"),
    (None, "None is no mapping from axis names to sizes"),
]


@pytest.mark.parametrize(("mesh", "reason"), MESHES, ids=range(len(MESHES)))
def test_what_is_no_mesh_is_refused(mesh: Any, reason: str) -> None:
    with pytest.raises(ds.MeshError) as caught:
        ds.plan(two_linears(), mesh, "tensor")
    assert str(caught.value) == f"this is not a mesh\n  {reason}{MESH}"


def one_argument(graph: Any) -> Any:
    return graph


def divides(graph: Any, resource: Any) -> Any:
    return graph.nodes()[resource.ngpus // 0]


def looks_for_a_node(graph: Any, resource: Any) -> Any:
    return graph.node("zz")


POLICIES: list[tuple[Callable[..., Any], str]] = [
    (
        one_argument,
        "this function is no policy\n"
        "  one_argument(graph: 'Any') -> 'Any' is called with a graph and a resource: too many "
        "positional arguments\n"
        "  hint: write def PAS(graph, resource): ... return graph",
    ),
    (
        divides,
        "a policy failed\n"
        "  divides raised ZeroDivisionError: integer division or modulo by zero, at test_misuse.py",
    ),
    (
        looks_for_a_node,
        "a policy failed\n  looks_for_a_node raised KeyError: 'zz', at test_misuse.py",
    ),
    (
        lambda graph, resource: 5,
        "a policy returned no graph\n  <lambda> returned 5\n  hint: end it with: return graph",
    ),
]


@pytest.mark.parametrize(("policy", "text"), POLICIES, ids=range(len(POLICIES)))
def test_functions_that_are_no_policies_are_refused(policy: Any, text: str) -> None:
    with pytest.raises(ds.PlanError) as caught:
        ds.plan(two_linears(), {"tp": 2}, policy)
    assert str(caught.value).replace(f":{_line(policy)}", "") == text


def _line(policy: Any) -> int:
    return int(policy.__code__.co_firstlineno) + 1


def test_the_cause_of_a_policy_that_fails_is_kept() -> None:
    with pytest.raises(ds.PlanError) as caught:
        ds.plan(two_linears(), {"tp": 2}, divides)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def partitioned(graph: Any, **given: Any) -> Any:
    node = graph.nodes()[0]
    graph.partition(node, node.algorithm("dim"), **{"idx": 0, "dim": 2, **given})
    return graph


def policy_of(**given: Any) -> Any:
    def PAS(graph: Any, resource: Any) -> Any:  # noqa: N802
        return partitioned(graph, **given)

    return PAS


PLACE = "linear at test_policies.py"
COUNT = "\n  hint: num is the size of an axis, or the number of all ranks"
PARTITIONS: list[tuple[dict[str, Any], str]] = [
    (
        {"num": 2},
        "several mesh axes have as many parts\n"
        f"  PAS asks for 2 parts of {PLACE}; dp and tp of the mesh dp=2, tp=2 may be meant\n"
        '  hint: name the axis: graph.partition(..., axis="dp")',
    ),
    (
        {},
        "several mesh axes have as many parts\n"
        f"  PAS asks for some parts of {PLACE}; dp and tp of the mesh dp=2, tp=2 may be meant\n"
        '  hint: name the axis: graph.partition(..., axis="dp")',
    ),
    (
        {"num": True, "axis": "tp"},
        "this is no number of parts\n"
        f"  PAS asks for True parts of {PLACE}: it is True, a bool{COUNT}",
    ),
    (
        {"num": 0},
        "this is no number of parts\n"
        f"  PAS asks for 0 parts of {PLACE}: nothing is cut in no parts{COUNT}",
    ),
    (
        {"num": 1, "idx": 9},
        "PAS asks for a split that does not exist\n"
        "  * k+, n k+ -> * n\n"
        f"  {PLACE}: index 9 names no tensor: 0 to 1 are the inputs and 2 is the output\n"
        '  hint: name an identifier, such as "k", or give (index, dim)',
    ),
    (
        {"num": 2, "axis": 5},
        "the mesh has no such axis\n  '5' is no axis of the mesh; its axes are dp, tp",
    ),
]


@pytest.mark.parametrize(("given", "text"), PARTITIONS, ids=range(len(PARTITIONS)))
def test_splits_that_cannot_be_meant_are_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ds.DimsolveError) as caught:
        ds.plan(two_linears(), {"dp": 2, "tp": 2}, policy_of(**given))
    assert without_line(str(caught.value)) == text


def test_a_negative_dimension_counts_from_the_end_and_the_axis_gives_the_number() -> None:
    plans = [
        ds.plan(two_linears(), {"tp": 2}, policy_of(**given))
        for given in ({"dim": 2, "num": 2}, {"dim": -1, "num": 2}, {}, {"axis": "tp"})
    ]
    assert {plan.to_json() for plan in plans} == {plans[0].to_json()}
    assert plans[0].operators[0].splits["tp"].identifier == "k"


def foreign(graph: Graph) -> None:
    other = two_linears().nodes()[0]
    graph.partition(other, other.algorithm("dim"), idx=0, dim=1, num=2)


def foreign_algorithm(graph: Graph) -> None:
    algo = two_linears().nodes()[0].algorithm("dim")
    graph.partition(graph.nodes()[0], algo, idx=0, dim=1, num=2)


WISHES: list[tuple[Callable[[Graph], Any], str]] = [
    (foreign, "this is no node of the graph with its algorithm"),
    (foreign_algorithm, "this is no node of the graph with its algorithm"),
    (lambda g: partitioned(g, idx=7), "graph.partition asks for a split that does not exist"),
    (lambda g: partitioned(g, dim=7), "graph.partition asks for an illegal split"),
    (lambda g: partitioned(g, num=-3), "this is no number of parts"),
    (lambda g: partitioned(g, axis=3), "this is no name of a mesh axis"),
]


@pytest.mark.parametrize(("ask", "title"), WISHES, ids=range(len(WISHES)))
def test_a_graph_refuses_at_once_and_is_left_as_it_was(ask: Any, title: str) -> None:
    graph = two_linears()
    before = ds.plan(graph, {"tp": 2}).to_json()
    with pytest.raises(ds.PlanError) as caught:
        ask(graph)
    assert str(caught.value).splitlines()[0] == title
    assert ds.plan(graph, {"tp": 2}).to_json() == before


@pytest.mark.parametrize(
    ("bound", "reason"),
    [
        (0, "up_to is 0, an int"),
        (-5, "up_to is -5, an int"),
        (2.5, "up_to is 2.5, a float"),
        (True, "up_to is True, a bool"),
    ],
)
def test_bounds_that_are_none_are_refused(bound: Any, reason: str) -> None:
    with pytest.raises(ds.AnnotationError) as caught:
        two_linears().legal_parts("tp", "tensor", up_to=bound)
    text = f"up_to is not a whole number from 1 to 10,000\n  {reason}"
    assert str(caught.value) == text


def test_truth_values_are_no_index_of_a_split() -> None:
    with pytest.raises(ds.PlanError) as caught:
        ds.plan(two_linears(), {"tp": 2}, {"linear": {"tp": (True, 0)}})
    assert str(caught.value) == (
        "this is not a policy\n"
        "  'linear': (True, 0)\n"
        '  hint: write {"*.q_proj": {"tp": "n"}}: an identifier or (index, dim) for each axis'
    )
