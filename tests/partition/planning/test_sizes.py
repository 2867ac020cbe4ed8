"""Sizes of a plan's symbols: by mapping or by keyword, held against what the plan relies on."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dimsolve as ds
from dimsolve.exec.graph import Graph

from .test_policies import two_linears

METHODS = ("memory", "communication", "check")


def data() -> ds.Plan:
    """batch and seq; needs batch % 2 == 0."""
    return ds.plan(two_linears(), {"dp": 2}, "data")


def refused(method: str, *args: Any, plan: ds.Plan | None = None, **named: Any) -> str:
    with pytest.raises(ds.PlanError) as caught:
        getattr(data() if plan is None else plan, method)(*args, **named)
    return str(caught.value)


@pytest.mark.parametrize("method", METHODS)
def test_a_mapping_and_keywords_say_the_same(method: str) -> None:
    plan = data()
    ask = getattr(plan, method)
    whole = ask({"batch": 4, "seq": 3})
    assert ask(batch=4, seq=3) == ask({"batch": 4}, seq=3) == ask(sizes={"batch": 4, "seq": 3})
    assert ask({"batch": 4, "seq": 3}) == whole


@pytest.mark.parametrize("method", METHODS)
def test_a_size_that_is_missing_is_named_with_a_call_that_works(method: str) -> None:
    plan = data()
    text = refused(method)
    call = f'plan.{method}({{"batch": 2, "seq": 1}})'
    assert text == (
        "a size is missing\n"
        "  batch % 2 == 0 needs a size for batch; the symbols of the plan are batch, seq\n"
        f"  hint: write {call}"
    )
    getattr(plan, method)({"batch": 2, "seq": 1})
    if method == "memory":
        call = 'plan.memory({"batch": 6, "seq": 1})'
        assert refused(method, {"batch": 6}).endswith(f"hint: write {call}")


def test_a_check_needs_the_sizes_that_conditions_speak_of() -> None:
    data().check({"batch": 2})
    ds.plan(two_linears(), {"tp": 2}, "tensor").check({})


@pytest.mark.parametrize("method", METHODS)
def test_a_symbol_that_the_plan_has_not_is_named(method: str) -> None:
    expected = "the plan has no such symbol\n  'zz' is none; its symbols are batch, seq"
    assert refused(method, {"zz": 1}) == expected
    assert refused(method, {"batch": 2, "seq": 1}, zz=1) == expected


@pytest.mark.parametrize("method", METHODS)
def test_sizes_that_a_condition_forbids_have_no_answer(method: str) -> None:
    assert refused(method, {"batch": 3, "seq": 3}) == (
        "the plan does not hold at these sizes\n"
        "  it needs batch % 2 == 0 (dp cuts dimension 0 of x), and batch = 3\n"
        "  hint: the plan serves all sizes with batch % 2 == 0"
    )


@pytest.mark.parametrize("method", METHODS)
def test_sizes_that_a_fact_forbids_have_no_answer(method: str) -> None:
    with Graph("f") as g:
        x = g.input("x", "batch, 32", "float32")
        g.assume("batch % 4 == 0")
        g.output(g.call("torch.nn.functional.linear", x, g.parameter("w", (16, 32))))
    plan = ds.plan(g, {"dp": 2}, "data")
    assert (plan.conditions, plan.facts) == ([], ["batch % 4 == 0"])
    assert refused(method, {"batch": 6}, plan=plan) == (
        "the plan does not hold at these sizes\n"
        "  it needs batch % 4 == 0 (a fact of the graph), and batch = 6\n"
        "  hint: the plan serves all sizes with batch % 4 == 0"
    )
    assert refused(method, plan=plan).endswith(f'hint: write plan.{method}({{"batch": 4}})')


def test_the_size_of_a_mesh_is_a_size_too() -> None:
    plan = ds.plan(two_linears(), {"dp": "n"}, "data")
    assert refused("check", {"batch": 3}, plan=plan) == (
        "a size is missing\n"
        "  batch % n == 0 needs a size for n; the symbols of the plan are batch, seq, n\n"
        '  hint: write plan.check({"batch": 3, "seq": 1, "n": 1})'
    )
    assert "batch % n == 0" in refused("memory", batch=3, seq=1, n=2, plan=plan)


NOT_SIZES: list[tuple[Any, str]] = [
    (5, "these are no sizes\n  5 is a int, not a mapping from symbols to sizes"),
    ([("batch", 2)], "these are no sizes\n  [('batch', 2)] is a list, not a mapping"),
    ({"batch": 2.5, "seq": 1}, "this is not a size\n  batch = 2.5\n"),
    ({"batch": True, "seq": 1}, "this is not a size\n  batch = True\n"),
    ({"batch": "2", "seq": 1}, "this is not a size\n  batch = '2'\n"),
    ({"batch": -2, "seq": 1}, "this is not a size\n  batch = -2\n"),
    ({2: 2}, "the plan has no such symbol\n  '2' is none"),
]


@pytest.mark.parametrize(("sizes", "text"), NOT_SIZES, ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_what_is_no_sizes_is_refused(method: str, sizes: Any, text: str) -> None:
    assert refused(method, sizes).startswith(text)


def test_a_size_is_given_once() -> None:
    assert refused("memory", {"batch": 2, "seq": 1}, batch=4) == (
        "a size is given twice\n  'batch' is in the mapping and a keyword too"
    )


@pytest.mark.parametrize("states", [-1, "2", 1.5])
def test_a_number_of_optimiser_states_is_a_number(states: Any) -> None:
    assert refused("memory", {"batch": 2, "seq": 1}, optimizer_states=states) == (
        f"this is no number of optimiser states\n  optimizer_states = {states!r}\n"
        "  hint: SGD keeps 0 numbers for each parameter, with momentum 1, Adam 2"
    )


@pytest.mark.parametrize("other", [None, 3, "plan"])
def test_a_plan_is_compared_with_a_plan(other: Any) -> None:
    assert refused("diff", other) == (
        f"this is not a plan\n  {other!r} is a {type(other).__name__}\n"
        "  hint: dimsolve.plan(graph, mesh, policy) makes one, Plan.from_json reads one"
    )


class Positive(torch.nn.Module):
    """The mean of what is above 0: how much that is, its values decide."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x > 0].square().mean()


def test_a_length_that_values_decide_is_asked_for_and_taken() -> None:
    graph = ds.trace(Positive(), kwargs={"x": torch.ones(4, 6)}, dynamic={"x": {0: "batch"}})
    plan = ds.plan(graph, {"dp": 2})
    (name,) = set(graph.symbols) - {"batch"}
    known = f'{{"batch": 12, "{name}": 1}}'
    said = (
        "a length is known only when the model runs\n"
        f"  no size is given for {name}, which the values of a tensor decide\n"
        f"  hint: say how long it is, plan.memory({known})"
    )
    assert refused("memory", {"batch": 12}, plan=plan) == said
    few, all_of_them = (plan.memory({"batch": 12, name: count}).total for count in (1, 72))
    assert 0 < few < all_of_them
    with pytest.raises(ds.PlanError) as found:
        ds.plan(graph, {"dp": 2}, "auto", sizes={"batch": 12})
    assert str(found.value) == (
        "a length is known only when the model runs\n"
        f"  the policy 'auto' needs a size for {name}, which the values of a tensor decide\n"
        f"  hint: say how long it is, dimsolve.plan(graph, mesh, 'auto', sizes={known})"
    )
    best = ds.plan(graph, {"dp": 2}, "auto", sizes={"batch": 12, name: 40})
    assert ds.verify(best).ok
