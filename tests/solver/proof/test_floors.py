"""Law: a floor is written in a partial cell's atoms in finitely many steps, whatever leads it."""

from __future__ import annotations

import pytest

import dimsolve as ds


def test_a_floor_whose_two_forms_both_lead_down_is_written_as_it_is() -> None:
    given = ["(s//2)*s**2 - 2*(s//2)*s + s//2"]
    with pytest.raises(ds.ShapeError, match="these inputs can never match"):
        ds.infer("(a b b) -> 1 (b a)", given, arguments={"a": "6 - 2*s"})


def test_a_floor_by_a_length_that_facts_pin_down() -> None:
    shape = ["5 - s, ((s + 1)//2)*(6//(s - 1))"]
    solution = ds.infer("b (a b) -> a", shape, facts=["s % 2 == 0", "t == 2", "5 - s > t"])
    assert solution.conditions == ()
    point = dict.fromkeys(solution.outputs[0][0].free_symbols, 2)  # s is 2, so b is 3
    assert solution.outputs[0][0].subs(point) == 2


def test_a_fact_about_the_identifier_ends_too() -> None:
    shape = ["5 - s, ((s + 1)//2)*(6//(s - 1))"]
    facts = ["s % 2 == 0", "t == 2", "b > t"]
    for condition in ds.infer("b (a b) -> a", shape, facts=facts).conditions:
        assert ds.prove(condition, facts=["s == 2"]).verdict == "proved"
