"""What a plan costs: as an expression the same as at sizes, and by measured times where there are
some.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dimsolve as ds
from dimsolve.partition.cost import Rates
from dimsolve.partition.machine import timed_as
from dimsolve.partition.profiles import CollectiveTime, Device, OperatorTime, write
from dimsolve.solver.algebra.dims import evaluate
from dimsolve.solver.algebra.poly import symbol
from dimsolve.solver.symbolic import sympy_symbol
from tests.partition.planning.models import traced
from tests.partition.planning.test_policies import two_linears

SIZES = {"batch": 8, "seq": 16}


@settings(max_examples=200, deadline=None)
@given(*[st.integers(0, 10**15)] * 4, st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_rate_is_the_same_number_and_expression(
    first: int, second: int, least: int, start: int, a: int, b: int
) -> None:
    rates = Rates(first, second, least, start)
    formula = rates.formula(symbol("a"), symbol("b"))
    assert evaluate(formula, {"a": a, "b": b}) == rates.time(a, b)


@pytest.mark.parametrize("name", ["llama", "bert", "mixtral"])
@pytest.mark.parametrize("policy", ["data", "tensor", "tensor+sequence"])
def test_the_expression_is_the_cost_at_all_sizes(name: str, policy: str) -> None:
    graph, _, _, _ = traced(name)
    plan = ds.plan(graph, {"dp": 2, "tp": 2}, policy)
    formula = plan.cost().formula
    for batch, seq in ((4, 4), (8, 16), (64, 64), (4096, 32)):
        cost = plan.cost(batch=batch, seq=seq)
        assert evaluate(formula, {"batch": batch, "seq": seq}) == cost.picoseconds
        assert cost.formula == formula
        by_part = sum(cost.operators.values()) + sum(cost.collectives.values())
        assert by_part == pytest.approx(cost.seconds)
        assert sum(cost.places.values()) == pytest.approx(cost.seconds)
        assert sum(cost.axes.values()) == pytest.approx(cost.communication)


def test_the_expression_is_one_of_sympy() -> None:
    plan = ds.plan(two_linears(), {"tp": 2}, "tensor")
    values = {sympy_symbol(name): size for name, size in SIZES.items()}
    assert plan.cost().expression.subs(values) == plan.cost(SIZES).picoseconds


def test_unequal_parts_cost_what_the_longest_does() -> None:
    graph, _, _, _ = traced("odd_gpt2")
    plan = ds.plan(graph, {"tp": 2}, "tensor")
    assert plan.uneven
    cost = plan.cost(batch=4, seq=16)
    assert evaluate(plan.cost().formula, {"batch": 4, "seq": 16}) == cost.picoseconds


def test_a_cost_without_sizes_has_no_number() -> None:
    with pytest.raises(ds.PlanError) as found:
        _ = ds.plan(two_linears(), {"tp": 2}, "tensor").cost().seconds
    assert str(found.value) == (
        "a size is missing\n"
        "  this cost is an expression in batch, seq\n"
        '  hint: read .expression, or write plan.cost({"batch": 1, "seq": 1})'
    )


def test_a_mesh_of_symbols_has_no_expression() -> None:
    with pytest.raises(ds.PlanError) as found:
        ds.plan(two_linears(), {"tp": "n"}, "tensor").cost()
    assert found.value.diagnostic.reason == "the size of 'tp' is n"


def operator(key: str, forward: float, backward: float, **more: object) -> OperatorTime:
    fields: dict[str, Any] = {
        "device": "a", "dtype": "float64", "function": "linear", "lengths": "", "shapes": key,
        "key": key, "product": True, "work": 1000, "moved": 100, "passes": 3, "forward": forward,
        "backward": backward, "forward_spread": 0.0, "backward_spread": 0.0, "runs": 12, **more,
    }  # fmt: skip
    return OperatorTime(**fields)


def test_a_measured_time_counts_instead_of_a_modelled_one(tmp_path: Path) -> None:
    graph = two_linears()
    plan = ds.plan(graph, {"tp": 2}, "tensor")
    entry = next(each for each in plan.operators if each.node == "linear")
    lengths = {name: int(eval_at(text)) for name, text in entry.lengths.items()}
    key = timed_as("linear", lengths, entry.outputs[0].dtype)
    path = tmp_path / "profile.db"
    write(path, Device("a", 2, 1 << 30, "torch"), [operator(key, 1.0, 2.5)], LADDER)
    machine = ds.Machine.measured(path)
    cost = plan.cost(SIZES, machine=machine)
    own = {term.where: term for term in cost.terms}["linear"]
    assert own.measured and own.picoseconds == 3_500_000_000_000
    fitted = [term.measured for term in cost.terms if term.name == "all-reduce"]
    assert fitted and all(fitted)
    alike = [t for t in cost.terms if t.picoseconds == own.picoseconds]
    assert cost.measured == len(alike) + len(fitted)
    assert cost.measured + cost.modelled == sum(t.picoseconds != 0 for t in cost.terms)
    again = ds.Machine.model_validate_json(machine.model_dump_json())
    assert again == machine


def eval_at(text: str) -> int:
    from dimsolve.solver.shapes import dim_of_text

    return evaluate(dim_of_text(text), SIZES)


LADDER = [CollectiveTime("a", "all-reduce", 2, n, 1e-3 + n / 1e6, 0.0, 12) for n in (10, 100, 999)]


def test_a_search_with_measured_times_finds_what_its_plan_costs(tmp_path: Path) -> None:
    graph = two_linears()
    rows = {}
    for policy in ("data", "tensor", "replicate"):
        for entry in ds.plan(graph, {"tp": 2}, policy).operators:
            lengths = {name: eval_at(text) for name, text in entry.lengths.items()}
            key = timed_as(entry.name, lengths, entry.outputs[0].dtype)
            rows[key] = operator(key, len(rows) / 100 + 1e-3, 0.01)
    path = tmp_path / "profile.db"
    write(path, Device("a", 2, 1 << 30, "torch"), rows.values(), LADDER)
    machine = ds.Machine.measured(path)
    made = ds.plan(graph, {"tp": 2}, "auto", machine=machine, sizes=SIZES)
    assert made.search is not None and made.search.optimal
    assert made.cost().picoseconds == made.search.cost
    assert ds.verify(made).ok
    assert made.cost().measured > 0
    for policy in ("data", "tensor", "replicate"):
        other = ds.plan(graph, {"tp": 2}, policy).cost(SIZES, machine=machine)
        assert other.picoseconds >= made.search.cost
    assert ds.verify(ds.Plan.from_json(made.to_json()).for_graph(graph)).ok


def test_what_was_not_measured_follows_a_line_through_what_was(tmp_path: Path) -> None:
    path = tmp_path / "profile.db"
    rows = [
        operator(f"a{n}", forward=n / 1e9, backward=2 * n / 1e9, work=n, moved=1)
        for n in (10**4, 10**5, 10**6)
    ]
    write(path, Device("a", 2, 1 << 30, "torch"), rows, LADDER)
    machine = ds.Machine.measured(path)
    assert machine.flops["float64"] == pytest.approx(1e9)
    assert machine.links["all-reduce over 2"].bandwidth == pytest.approx(1e6)
    assert machine.links["all-reduce over 2"].latency == pytest.approx(1e-3)
    assert machine.inside == machine.links["all-reduce over 2"]
    assert machine.memory == 1 << 30 and machine.ranks_per_node == 2


def test_a_file_without_a_measured_machine_is_named(tmp_path: Path) -> None:
    with pytest.raises(ds.MachineError) as found:
        ds.Machine.measured("nothing.db")
    assert str(found.value) == (
        "this file holds no measured machine\n"
        "  nothing.db: there is no such file\n"
        "  hint: measure one: dimsolve profile model.py:tiny --mesh tp=2 --database FILE"
    )
    path = tmp_path / "two.db"
    for name in ("a", "b"):
        row = operator("k", 1.0, 1.0, device=name)
        write(path, Device(name, 2, 1, "torch"), [row], [])
    with pytest.raises(ds.MachineError, match="it has several devices: a; b"):
        ds.Machine.measured(path)
    assert ds.Machine.measured(path, "b").name == "measured: b"
    (tmp_path / "text.db").write_text("no database at all, but more than some bytes of text")
    with pytest.raises(ds.MachineError, match="file is not a database"):
        ds.Machine.measured(tmp_path / "text.db")
