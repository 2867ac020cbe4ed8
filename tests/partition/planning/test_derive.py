"""What follows from a plan's decisions is derived anew: the first thing that a plan says otherwise
is named, and a decision that no rule offers is refused with the reason.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

import dimsolve as ds
from dimsolve.partition.compare import differences
from dimsolve.partition.planning.derive import check_derived, derive

from .edits import ALL, GONE, SMALL, edited, mlp

HINT = "\n  hint: make the plan anew: dimsolve.plan(graph, mesh, policy)"


def refused(name: str, path: tuple[Any, ...], value: Any) -> str:
    graph, plan = ALL[name]()
    text = json.dumps(edited(json.loads(plan.to_json()), path, value))
    with pytest.raises(ds.PlanError) as caught:
        ds.Plan.from_json(text).for_graph(graph)
    return str(caught.value)


DIFFERENCES: list[tuple[str, tuple[Any, ...], Any, str]] = [
    (
        "mlp, data",
        ("conversions", 0, "shared_gradient"),
        False,
        "conversion up@1, shared_gradient: the plan says false, its splits give true",
    ),
    (
        "mlp, tensor",
        ("outputs", 0, "source"),
        "linear_1",
        'output linear_1, source: the plan says "linear_1", its splits give "linear_1@1"',
    ),
    (
        "mlp, tensor",
        ("operators", 1, "splits"),
        {},
        'operator relu, operands[0].placements[0]: the plan says "S(1)", its splits give "R"',
    ),
    (
        "mlp, tensor",
        ("operators", 0, "splits", "tp", "identifier"),
        "k",
        'operator linear, operands[0].placements[0]: the plan says "R", its splits give "S(1)"',
    ),
    (
        "mlp, tensor",
        ("mesh", "tp"),
        "4",
        'operator linear, operands[1].shape[0]: the plan says "16", its splits give "8"',
    ),
    (
        "mlp, data",
        ("conditions",),
        [],
        'conditions: the plan says [], its splits give ["batch % 2 == 0"]',
    ),
    (
        "mlp, tensor",
        ("conversions", 0, "backward_runs"),
        "never",
        'conversion x@1, backward_runs: the plan says "never", its splits give "inputs"',
    ),
    (
        "mlp, tensor",
        ("inputs", 3, "gradient"),
        "never",
        'input b, gradient: the plan says "never", its splits give "always"',
    ),
    (
        "convnet, data",
        ("graph", "name"),
        "Other",
        'graph.name: the plan says "Other", its splits give "ConvNet"',
    ),
]


@pytest.mark.parametrize(("name", "path", "value", "text"), DIFFERENCES)
def test_the_first_difference_is_named(
    name: str, path: tuple[Any, ...], value: Any, text: str
) -> None:
    expected = f"the plan does not follow from its graph\n  {text}{HINT}"
    assert refused(name, path, value) == expected


ILLEGAL: list[tuple[str, tuple[Any, ...], Any, str, str]] = [
    ("mesh", ("mesh", "tp"), "64", "n into 64 parts", "n = 32 is never a multiple of 64"),
    (
        "no identifier",
        ("operators", 0, "splits", "tp", "identifier"),
        "zz",
        "zz into 2 parts",
        "it has no identifier 'zz'; there are k, n, a",
    ),
    (
        "not partial",
        ("operators", 0, "splits", "tp", "identifier"),
        None,
        "partial into 2 parts",
        "none of its inputs is partial",
    ),
    (
        "blocks",
        ("operators", 0, "splits", "tp", "blocks"),
        "3",
        "n in 3 blocks into 2 parts",
        "n = 32 is never a multiple of 6",
    ),
    (
        "no blocks",
        ("operators", 0, "splits", "tp", "blocks"),
        "-1",
        "n in -1 blocks into 2 parts",
        "n in -1 blocks is no way to cut an identifier",
    ),
    (
        "rule",
        ("operators", 0, "splits", "tp", "rule"),
        3,
        "n into 2 parts",
        "no rule of the operator cuts it so",
    ),
]


@pytest.mark.parametrize(
    ("path", "value", "split", "reason"), [e[1:] for e in ILLEGAL], ids=[e[0] for e in ILLEGAL]
)
def test_an_illegal_decision_is_refused(
    path: tuple[Any, ...], value: Any, split: str, reason: str
) -> None:
    lines = refused("mlp, tensor", path, value).splitlines()
    assert lines[0] == f"the plan has an illegal split: {split} along tp"
    assert lines[1] == "  * k+, n k+ -> * n"
    assert lines[2].startswith("  linear at ") and lines[2].endswith(f": {reason}")
    assert lines[3] == HINT[1:]


def test_a_frozen_identifier_is_not_cut() -> None:
    """The dimension that a softmax is taken over."""
    from dimsolve.exec.graph import Graph

    with Graph("f") as g:
        g.output(g.call("torch.softmax", g.input("x", "batch, 8", "float32"), -1))
    plan = ds.plan(g, {"tp": 2}, {"softmax": {"tp": (0, 0)}})
    data = json.loads(plan.to_json())
    (frozen,) = [n for n, text in data["operators"][0]["lengths"].items() if text == "8"]
    data["operators"][0]["splits"]["tp"]["identifier"] = frozen
    with pytest.raises(ds.PlanError, match="the plan has an illegal split") as caught:
        ds.Plan.from_json(json.dumps(data)).for_graph(g)
    assert f"{frozen}^" in str(caught.value)


@pytest.mark.parametrize("name", ALL)
def test_what_is_derived_is_the_plan(name: str) -> None:
    graph, plan = ALL[name]()
    derived = derive(plan, graph)
    assert list(differences(plan, derived)) == []
    assert derived.to_json() == plan.to_json()


def test_another_legal_decision_is_another_plan() -> None:
    """The policy is a name: a plan that says otherwise who decided is the same plan."""
    graph = mlp()
    column = ds.plan(graph, {"tp": 2}, {"linear": {"tp": "n"}})
    data = json.loads(column.to_json())
    data["policy"], data["notes"] = "by hand", ["moved from a spreadsheet"]
    again = ds.Plan.from_json(json.dumps(data)).for_graph(graph)
    assert again.operators == column.operators and again.conversions == column.conversions


def test_a_plan_that_was_changed_after_it_was_made_does_not_run() -> None:
    from dimsolve.exec.lowering.lower import lower

    graph = mlp()
    plan = ds.plan(graph, {"tp": 1}, "tensor")
    plan.operators.pop()
    with pytest.raises(ds.PlanError) as caught:
        lower(graph, plan, {})
    assert str(caught.value) == (
        f"the plan does not follow from its graph\n  it has 2 operators, and the graph 3{HINT}"
    )
    copied = ds.plan(graph, {"tp": 1}, "tensor").model_copy(update={"symbols": []})
    with pytest.raises(ds.PlanError, match=r"symbols: the plan says \[\], its splits give"):
        check_derived(copied, graph)


def test_an_operator_that_stays_whole_is_not_cut() -> None:
    """Memory that is written to and read under its old name: no rank works on a copy."""
    from dimsolve.exec.graph import Graph

    def graph() -> Graph:
        with Graph("f") as g:
            x = g.input("x", "batch, 8", "float32")
            h = g.call("torch.mul", x, 2)
            seen = g.call("torch.t", h)
            g.call("torch.Tensor.add_", h, 1)
            g.output(g.call("torch.mul", seen, 3))
        return g

    plan = ds.plan(graph(), {"tp": 2}, "replicate")
    data = json.loads(plan.to_json())
    identifier = next(iter(data["operators"][0]["lengths"]))
    split = {"identifier": identifier, "blocks": "1", "segments": [], "rule": None}
    data["operators"][0]["splits"]["tp"] = split
    with pytest.raises(ds.PlanError, match="writes to memory that %mul shares"):
        ds.Plan.from_json(json.dumps(data)).for_graph(graph())


def test_values_are_taken_from_what_is_there() -> None:
    for path, value, reason in (
        (("conversions",), [], "at operators.0.operands.0.source: 'x@1' is no value, and no"),
        (("operators", 2), GONE, "at conversions.2.source: 'linear_1' is no value, and no"),
        (("mesh",), {"pp": "2"}, "at conversions.0.axis: 'tp' is no axis of the mesh"),
        (("mesh", "tp"), "0", "at mesh: the size of 'tp' is 0, and an axis has at least one"),
        (("inputs", 0, "placements"), [], "at inputs.0.placements: there are 0 placements for 1"),
        (("conversions", 1, "id"), "x@1", "at conversions.1.id: 'x@1' stands for two things"),
        (("operators", 0, "lengths", "n"), "8 *", "at operators.0.lengths.n: '8 *' is no length"),
        (("conversions", 0, "bytes_backward"), "1//0", "at conversions.0.bytes_backward: '1//0'"),
        (("operators", 0, "inputs", 0), 7, "at operators.0.inputs.0: there is no such operand"),
        (("operators", 0, "skipped"), 0, "at operators.0.skipped: Input should be a valid boole"),
    ):
        lines = refused("mlp, tensor", path, value).splitlines()
        assert lines[0] == "this is not a plan"
        assert lines[1].startswith(f"  {reason}")
        assert lines[2] == "  hint: Plan.to_json writes one"


@pytest.mark.parametrize("given", [None, "llama"])
def test_what_is_no_graph_has_no_plan(given: Any) -> None:
    _, plan = SMALL["mlp, tensor"]()
    with pytest.raises(ds.PlanError) as caught:
        plan.for_graph(given)
    assert str(caught.value) == (
        f"this is not a graph\n  {given!r} is a {type(given).__name__}\n"
        "  hint: dimsolve.trace(model, args) returns one"
    )
