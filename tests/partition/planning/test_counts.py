"""``graph.legal_parts``: every count answered as planning with that count would be."""

from __future__ import annotations

from typing import Any

import pytest

import dimsolve as ds
from dimsolve.exec.graph import Graph

from .models import traced as traced_model
from .test_policies import PAS, two_linears
from .test_tensor import Grouped, traced


def asked_one_by_one(graph: Graph, policy: Any, up_to: int, uneven: str) -> dict[int, str]:
    """The oracle: a plan for every count."""
    found = {}
    for count in range(1, up_to + 1):
        try:
            made = ds.plan(graph, {"tp": count}, policy, uneven=uneven)
        except ds.PlanError:
            found[count] = "never"
            continue
        if made.uneven or made.factors:
            found[count] = "uneven"
            continue
        own = [c for c in made.conditions if made.reasons[c] != "the graph"]
        found[count] = " and ".join(own) or "always"
    return found


@pytest.mark.parametrize("uneven", ["refuse", "parameters", "allow"])
@pytest.mark.parametrize(
    "policy",
    ["tensor", "data", "replicate", {"linear": {"tp": "n"}}, PAS],
    ids=lambda p: getattr(p, "__name__", str(p)),
)
def test_counts_are_answered_as_planning_answers_them(policy: Any, uneven: str) -> None:
    graph = two_linears(hidden=96)
    counts = graph.legal_parts("tp", policy, up_to=12, uneven=uneven)
    told = {
        **dict.fromkeys(counts.always, "always"),
        **counts.conditional,
        **dict.fromkeys(counts.uneven, "uneven"),
        **dict.fromkeys(counts.forbidden, "never"),
    }
    wanted = asked_one_by_one(graph, policy, 12, uneven)
    assert {count: told[count] for count in wanted} == wanted
    assert not counts.unknown


def test_grouped_heads_decide() -> None:
    graph, _ = traced(Grouped(), 2, 6, 32)
    counts = graph.legal_parts("tp", "tensor", up_to=16, uneven="refuse")
    assert (counts.split, counts.fixed_divisor, counts.always) == ("tp", 2, (1, 2))
    assert "key-value heads that 8 query heads share" in counts.forbidden[4]
    assert not counts.conditional


@pytest.mark.parametrize("uneven", ["refuse", "parameters"])
@pytest.mark.parametrize("name", ["llama", "odd_gpt2"])
def test_counts_of_a_model_are_answered_as_planning_answers_them(name: str, uneven: str) -> None:
    pytest.importorskip("transformers")
    graph, *_ = traced_model(name)
    counts = graph.legal_parts("tp", "tensor", up_to=9, uneven=uneven)
    told = {
        **{count: "always" for count in counts.always if count <= 9},
        **dict.fromkeys(counts.uneven, "uneven"),
        **dict.fromkeys(counts.forbidden, "never"),
    }
    assert told == asked_one_by_one(graph, "tensor", 9, uneven)


def test_a_table_that_the_count_does_not_divide_is_cut_along_its_width() -> None:
    with Graph() as g:
        x = g.input("x", "b, 8", "int64")
        g.output(g.call("torch.nn.functional.embedding", x, g.parameter("w", (32, 48))))
    assert 6 in g.legal_parts("tp", "tensor", up_to=6, uneven="refuse").always
    plan = ds.plan(g, {"tp": 6}, "tensor", uneven="refuse")
    assert [entry.placements for entry in plan.parameters] == [["S(1)"]]


def test_a_batch_may_be_cut_into_what_divides_it() -> None:
    with Graph() as g:
        x = g.input("x", "12*b, 7", "float32")
        g.output(g.call("torch.nn.functional.linear", x, g.parameter("w", (5, 7))))
    counts = g.legal_parts("dp", up_to=8)
    assert counts.always == (1, 2, 3, 4, 6, 12)
    assert counts.conditional == {5: "b % 5 == 0", 7: "b % 7 == 0", 8: "b % 2 == 0"}
