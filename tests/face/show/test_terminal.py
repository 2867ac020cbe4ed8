"""Printed with rich, an answer says what its text says, in colours, and nothing in it is markup."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

import dimsolve as ds
from dimsolve.show.terminal import annotation_text

MATMUL = "m k+, k+ n -> m n"


def printed(thing: Any, *, colour: bool = False) -> str:
    """What rich prints of it."""
    file = io.StringIO()
    Console(
        file=file, width=200, force_terminal=colour, color_system="standard" if colour else None
    ).print(thing)
    return file.getvalue()


def graph(name: str = "g") -> ds.Graph:
    with ds.Graph(name) as made:
        x, w = made.input("x", "n, 4", "float32"), made.input("w", "4, 6", "float32")
        made.output(made.call("torch.matmul", x, w))
    return made


def test_an_annotation_has_a_colour_for_each_identifier() -> None:
    text = annotation_text(ds.parse(MATMUL))
    styles = {text.plain[span.start : span.end].rstrip("+"): span.style for span in text.spans}
    assert text.plain == MATMUL
    assert len({styles[name] for name in "mkn"}) == 3
    assert printed(ds.parse("(h^ t)  64, ?, () -> * h^ t")) == "(h^ t) 64, ?, () -> * h^ t\n"


@pytest.mark.parametrize("arguments", [{"h": 3}, {}])
def test_a_solution_says_its_steps_outputs_and_conditions(arguments: dict[str, int]) -> None:
    solution = ds.infer("(h t) k -> h t k", ["8*s, k"], arguments=arguments)
    shown = printed(solution)
    for step in solution.trace():
        assert step.conclusion in shown and step.reason in shown
    assert all(condition in shown for condition in solution.conditions)
    assert str(solution.output_dims[0][1]) in shown  # type: ignore[index]


def test_a_legality_has_a_line_per_tensor() -> None:
    legality = ds.check(MATMUL, ["m, k", "k, n"], "k", 8)
    lines = [line.split() for line in printed(legality).splitlines()]
    assert ["input", "0", "m", "k+", "m,", "k", "S(1)", "m,", "k//8"] in lines
    assert ["output", "0", "m", "n", "m,", "n", "P(sum)", "m,", "n"] in lines
    assert lines[1][0] == "conditional" and legality.reason in printed(legality)


def test_counts_say_each_condition_once() -> None:
    lines = printed(ds.legal_parts("a -> a", ["8*s"], "a", up_to=12)).splitlines()
    assert [line.split() for line in lines[:2]] == [
        ["always", "1,", "2,", "4,", "8"],
        ["if", "3,", "6,", "12", "s", "%", "3", "==", "0"],
    ]


def test_a_proof_says_verdict_condition_and_counterexample() -> None:
    shown = printed(ds.prove("8*s % 3 == 0")).split()
    assert shown[0] == "refuted"
    assert shown[-3:] == ["s", "=", "1"]


def test_placements_have_a_line_per_rank() -> None:
    layout = ds.held((4, 6), ["R", "S(1)"], "dp=2, tp=2")
    shown = " ".join(printed(layout).split())
    assert all(" ".join(line.split()) in shown for line in str(layout).splitlines())


def test_graphs_and_plans_say_what_their_texts_say() -> None:
    from dimsolve.show.plan import summary

    made = graph()
    assert printed(made).rstrip() == str(made)
    plan = ds.plan(made, "dp=2, tp=2", "data+tensor")
    assert printed(plan).rstrip() == summary(plan).rstrip()


@pytest.mark.parametrize("name", ["[bold red]x[/]", "[/]", "a\x1b[31mb", "\u202eabc", ":smile:"])
def test_names_are_neither_markup_nor_escapes(name: str) -> None:
    made = graph(name)
    shown = name if name.isprintable() else ascii(name)[1:-1]
    for thing in (made, ds.plan(made, "tp=2", "data")):
        assert shown in printed(thing)
        assert "\x1b[31m" not in printed(thing)


def test_colours_are_those_of_the_terminal() -> None:
    assert "\x1b[1;34mm\x1b[0m" in printed(ds.parse(MATMUL), colour=True)
