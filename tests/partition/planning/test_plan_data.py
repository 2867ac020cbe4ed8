"""A plan is data: written and read back, told from other plans, evaluated at sizes."""

from __future__ import annotations

import json
from math import prod

import pytest
import torch

import dimsolve as ds
from dimsolve.exec.graph import Graph
from dimsolve.partition.plan import Plan

from .test_policies import two_linears


@pytest.fixture
def made() -> Plan:
    return ds.plan(two_linears(), {"dp": 2, "tp": 4})


def test_a_plan_is_read_back_as_it_was_written(made: Plan) -> None:
    again = ds.Plan.from_json(made.to_json())
    assert again == made
    assert again.to_json() == made.to_json()
    assert made.diff(again) == ""


def test_a_plan_knows_its_graph(made: Plan) -> None:
    again = ds.Plan.from_json(made.to_json())
    assert again.planned is None
    graph = two_linears()
    assert again.for_graph(graph).planned is graph
    with pytest.raises(ds.PlanError, match="the plan was made for another graph"):
        again.for_graph(two_linears(hidden=256))


def test_another_version_is_not_read(made: Plan) -> None:
    data = json.loads(made.to_json())
    data["version"] = 5
    with pytest.raises(ds.PlanError) as caught:
        ds.Plan.from_json(json.dumps(data))
    assert str(caught.value) == (
        "the plan has another version\n"
        "  its version is 5; this dimsolve reads versions 1, 2, 3 and 4\n"
        "  hint: make the plan anew: dimsolve.plan(graph, mesh, policy)"
    )


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}', "null", b"\xff"])
def test_what_is_no_plan_is_not_read(text: str | bytes) -> None:
    with pytest.raises(ds.PlanError):
        ds.Plan.from_json(text)


def test_an_unknown_field_is_not_read(made: Plan) -> None:
    data = json.loads(made.to_json())
    data["extra"] = 1
    with pytest.raises(ds.PlanError, match="at extra: Extra inputs are not permitted"):
        ds.Plan.from_json(json.dumps(data))


def test_differences_are_listed_a_line_each() -> None:
    graph = two_linears()
    two, four = ds.plan(graph, {"tp": 2}, "tensor"), ds.plan(graph, {"tp": 4}, "tensor")
    lines = two.diff(four).splitlines()
    assert lines[0] == "mesh tp: 2 => 4"
    assert "input up: S(0) (64, 64) => S(0) (32, 64)" in lines
    assert "operator linear: tp: n -> (batch, seq, 64) => tp: n -> (batch, seq, 32)" in lines
    whole = ds.plan(graph, {"tp": 2}, "replicate")
    assert "- conversion linear_1@1 P(sum) -> R" in two.diff(whole).splitlines()


def test_conditions_are_checked_at_sizes(made: Plan) -> None:
    made.check({"batch": 4, "seq": 3})
    with pytest.raises(ds.PlanError) as caught:
        made.check({"batch": 3, "seq": 3})
    assert str(caught.value) == (
        "the plan does not hold at these sizes\n"
        "  it needs batch % 2 == 0 (dp cuts dimension 0 of x), and batch = 3\n"
        "  hint: the plan serves all sizes with batch % 2 == 0"
    )


def test_one_plan_serves_all_sizes_that_its_conditions_allow(made: Plan) -> None:
    for batch, seq in ((2, 1), (8, 5), (30, 2)):
        made.check({"batch": batch, "seq": seq})
        traffic = made.communication({"batch": batch, "seq": seq})
        forward = next(t for t in traffic if (t.axis, t.direction) == ("tp", "forward"))
        # 2 (n - 1)/n of the bytes of (batch/2, seq, 64) in float64
        assert forward.bytes == 2 * 3 * (batch // 2) * seq * 64 * 8 // 4


def test_communication_is_counted_per_collective_axis_and_direction(made: Plan) -> None:
    traffic = [(t.collective, t.axis, t.direction, t.count) for t in made.communication(SIZES)]
    assert traffic == [
        ("all-gather", "dp", "forward", 1),  # the output, returned whole
        ("all-reduce", "tp", "forward", 1),  # down_proj
        ("all-reduce", "dp", "backward", 3),  # the gradients of three parameters
    ]


def test_the_gradient_of_an_input_is_summed_only_for_who_asks(made: Plan) -> None:
    (shared,) = [c for c in made.conversions if c.value == "x" and c.shared_gradient]
    assert (shared.backward, shared.backward_runs) == (["all-reduce"], "inputs")


SIZES = {"batch": 4, "seq": 6}


def test_memory_counts_what_a_rank_holds(made: Plan) -> None:
    memory = made.memory(SIZES)
    parameters = sum(prod(int(n or 0) for n in e.shape or ()) * 8 for e in made.parameters)
    assert parameters == (128 * 64 // 4 * 2 + 64) * 8
    assert memory.parameters == memory.gradients == parameters
    assert memory.optimizer == 2 * parameters + 4 * len(made.parameters)  # Adam counts its steps
    assert made.memory(SIZES, optimizer_states=1).optimizer == parameters
    # When the backward pass ends: what is given and what is returned, whole, (4, 6, 64), and the
    # gradients of two matrices (64, 32), copied into the memory in which they are summed over dp.
    assert memory.activations == (2 * 4 * 6 * 64 + 2 * 2 * 64 * 32) * 8


def test_a_size_that_is_missing_is_named(made: Plan) -> None:
    with pytest.raises(ds.PlanError) as caught:
        made.memory({"batch": 4})
    assert "needs a size for seq" in str(caught.value)


def test_the_table_tells_what_is_cut_and_communicated(made: Plan) -> None:
    lines = made.explain().splitlines()
    assert lines[0] == "mlp over dp=2, tp=4, policy data+tensor"
    assert lines[2:4] == ["needs", "  batch % 2 == 0  dp cuts dimension 0 of x"]
    assert any(" ".join(line.split()) == "parameter up 128, 64 R, S(0) 32, 64" for line in lines)
    assert any("linear_1@1" in line and "all-reduce | identity" in line for line in lines)


def test_conversions_stand_after_their_sources(made: Plan) -> None:
    known = {e.value for e in made.inputs} | {v.value for o in made.operators for v in o.outputs}
    for conversion in made.conversions:
        assert conversion.source in known
        known.add(conversion.id)
    for operator in made.operators:
        assert all(operand.source in known for operand in operator.operands)


def test_uses_with_one_need_share_one_conversion() -> None:
    """Three products of one value: its gradient is summed once."""
    with Graph() as g:
        x = g.input("x", "batch, 32", "float32")
        h = g.call("torch.tanh", x)
        weights = [g.parameter(f"w{i}", (64, 32)) for i in range(3)]
        g.output(*[g.call("torch.nn.functional.linear", h, w) for w in weights])
    made = ds.plan(g, {"tp": 2}, {"linear*": {"tp": "n"}})
    (shared,) = [c for c in made.conversions if c.shared_gradient]
    assert (shared.value, shared.uses) == ("tanh", ["linear:0", "linear_1:0", "linear_2:0"])


def test_a_value_needed_whole_in_two_ways_is_brought_together_once() -> None:
    """A partial sum that repeated work and divided work both use: one all-reduce forward."""
    with Graph() as g:
        x = g.input("x", "batch, 32", "float32")
        a = g.call("torch.nn.functional.linear", x, g.parameter("a", (16, 32)))
        n = g.call("torch.softmax", a, -1)
        b = g.call("torch.nn.functional.linear", a, g.parameter("b", (64, 16)))
        g.output(n, b)
    made = ds.plan(g, {"tp": 2}, {"linear": {"tp": "k"}, "linear_1": {"tp": "n"}})
    mine = [c for c in made.conversions if c.value == "linear"]
    assert [(c.forward, c.backward) for c in mine] == [
        (["all-reduce"], []),
        ([], ["all-reduce"]),
    ]
    assert mine[1].source == mine[0].id


def test_data_axes_cut_inputs_and_no_parameters() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))
    graph = ds.trace(model, kwargs={"input": torch.ones(4, 8)}, dynamic={"input": {0: "batch"}})
    meshes = [{"dp": 2}, {"tp": 2}, {"dp": 2, "tp": 2}, {"tp": 2, "dp": 2}]
    found = [ds.plan(graph, mesh).data_axes for mesh in meshes]
    assert found == [("dp",), (), ("dp",), ("dp",)]
    assert ds.plan(graph, {"a": 2, "b": 2}, "data").data_axes == ("a", "b")
    assert ds.plan(graph, {"dp": 2}, "replicate").data_axes == ()
